"""A reader that follows a growing file: new frames as they come, then again from the start.

Prints a line when it is ready, opens the file as soon as it can be opened, and reads until a line comes on
its standard input; then it prints how many frames it read.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from pathlib import Path

os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"  # else the writer, which makes the file anew, meets our lock

import h5py
import hdf5plugin  # noqa: F401  registers the filters


def asked_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def follow(path: Path) -> int:
    read = 0
    with h5py.File(path, "r", swmr=True) as file:
        data = file["/data"]
        position = 0
        while not asked_to_stop():
            if position >= data.shape[0]:
                data.refresh()
                if position >= data.shape[0]:
                    position = 0
                if data.shape[0] == 0:
                    time.sleep(0.01)
                    continue
            read += data[position].size > 0
            position += 1
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True)
    path = parser.parse_args().path
    print("ready", flush=True)
    read = 0
    while read == 0 and not asked_to_stop():
        try:
            read = follow(path)
        except (OSError, KeyError):  # not there yet, or not open for readers yet
            time.sleep(0.01)
    print(read, flush=True)


if __name__ == "__main__":
    main()
