"""How many jobs may read while a detector is recorded: the first frame that is lost or late ends it."""
