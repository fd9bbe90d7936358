"""Record detectors into NeXus HDF5 files at the speed of the storage."""

__version__ = "0.1.0"
