"""Names of files and parts that a run and its jobs share."""

from penstock.bench.data.folder import FileSet

FRAMES_FILE, TRUTH_FILE = 0, 1
FILES = FileSet(prefix="images-", count=2, suffix="h5")
"""of the data set: frames, and the truth about them"""
VERSION = 2
"""of frames and truth: with another one, data sets are made anew"""
TRUTH = FileSet(prefix="truth-", count=1, suffix="h5")
"""of a run with a user's file"""
LOOKS_AGAIN_S = 20.0
"""after the measured time, at most"""
THRESHOLD = 100
"""counts of a spot"""

OWN_LIBRARY = "libpenstock_decode.so"
"""Penstock's decoders"""
READING = "storage and decompression"
"""time of HDF5's calls, in which the two cannot be told apart"""
STORAGE, DECOMPRESSION, COMPUTING, WAITING = "storage", "decompression", "computing", "waiting for a frame"
PARTS = (STORAGE, DECOMPRESSION, READING, COMPUTING)


def file_name(number: int, files: FileSet = FILES) -> str:
    return f"{files.prefix}{number:09d}.{files.suffix}"


PROCESSOR = "processor time of a frame"


_HERE = "penstock.bench.science.imaging"
MAKE, REFER, PROCESS = f"{_HERE}.making:make", f"{_HERE}.making:refer", f"{_HERE}.work:process"
"""functions of jobs, which import the libraries"""
