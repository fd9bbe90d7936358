"""Jobs that process the frames of one HDF5 file at the same time."""
