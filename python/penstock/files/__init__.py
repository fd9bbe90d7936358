"""Reads image and HDF5 files: replay, what is in a file, NeXus structure, free space."""

import os

# Places where HDF5 looks for the files that a file names before it looks beside it. What is there is not
# looked at beforehand, and a file is the same for whoever reads it. HDF5 asks for them when it is loaded.
for _prefix in ("HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX", "HDF5_EXTFILE_PREFIX"):
    os.environ.pop(_prefix, None)
