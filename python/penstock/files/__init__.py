"""Reads image and HDF5 files: replay, what is in a file, NeXus structure, free space."""
