"""Peer: chunks through h5py's write_direct_chunk, in one thread, as fast as h5py can.

The dataset is as large from the start as it will be, so that the loop holds nothing but the writes;
its first dimension is unlimited, as a recorder's has to be. Prints a line and waits for one once its
memory is filled; prints one JSON document at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import h5py
import numpy as np

PAGE = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--chunk-bytes", type=int, required=True)
    parser.add_argument("--total-bytes", type=int, required=True)
    parser.add_argument("--ring-bytes", type=int, default=256 << 20)
    options = parser.parse_args()

    size = options.chunk_bytes
    count = options.total_bytes // size
    step = -(-size // PAGE) * PAGE
    places = max(2, options.ring_bytes // step)
    words = np.random.default_rng(1).integers(0, 2**64, places * step // 8, dtype=np.uint64)
    ring = memoryview(words).cast("B")
    sources = [ring[place * step : place * step + size] for place in range(places)]

    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    with h5py.File(options.path, "w", libver=("v110", "v110")) as file:
        dataset = file.create_dataset(
            "data", shape=(count, size), maxshape=(None, size), chunks=(1, size), dtype="u1"
        )
        write = dataset.id.write_direct_chunk
        for index in range(count):
            write((index, 0), sources[index % places])
    handle = os.open(options.path, os.O_RDWR)
    os.fsync(handle)
    os.close(handle)
    seconds = time.monotonic() - begin
    print(json.dumps({"seconds": seconds, "bytes": count * size}))


if __name__ == "__main__":
    main()
