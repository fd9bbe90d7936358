"""Reports of more than one rehearsal."""
