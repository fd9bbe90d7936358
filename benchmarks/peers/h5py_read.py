"""Reads a file's frames with h5py, one after another or a region of all at once, and prints how long it
took as JSON.

The file's pages leave the page cache first, where the file system heeds the advice.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import h5py
import hdf5plugin  # noqa: F401
import numpy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", required=True)
    parser.add_argument("--dataset", default="/data")
    parser.add_argument("--pixels", type=int, help="only a square of so many rows, of all frames at once")
    options = parser.parse_args()
    handle = os.open(options.path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)
    started = time.monotonic()
    with h5py.File(options.path, locking=False) as file:
        data = file[options.dataset]
        if options.pixels:
            region = data[:, : options.pixels, : options.pixels]
            total = region.nbytes
        else:
            frame = numpy.empty(data.shape[1:], data.dtype)
            for number in range(data.shape[0]):
                data.read_direct(frame, numpy.s_[number])
            total = data.shape[0] * frame.nbytes
    print(json.dumps({"bytes": total, "seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main()
