"""Finds out what the data sheet of a storage says, each value with its source. Reads only."""
