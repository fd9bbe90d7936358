"""The storage systems: one file each."""
