"""Peer: bitshuffle-LZ4 by the `bitshuffle` package, or by HDF5 with hdf5plugin's filter in memory.

Times whole passes over the frames of a raw file, in one thread; everything has run once before the
clock starts. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import bitshuffle
import h5py
import hdf5plugin
import numpy as np


def package_pass(frames: np.ndarray, mode: str) -> Callable[[], None]:
    encoded = [bitshuffle.compress_lz4(frame) for frame in frames]

    def compress() -> None:
        for frame in frames:
            bitshuffle.compress_lz4(frame)

    def decompress() -> None:
        for blob, frame in zip(encoded, frames, strict=True):
            bitshuffle.decompress_lz4(blob, frame.shape, frame.dtype)

    return compress if mode == "compress" else decompress


def filter_pass(frames: np.ndarray, mode: str) -> Callable[[], None]:
    # The file never leaves memory. The chunk cache is off: each access goes through the filter.
    file = h5py.File("memory.h5", "w", driver="core", backing_store=False, rdcc_nbytes=0)
    data = file.create_dataset(
        "data", frames.shape, frames.dtype, chunks=(1, *frames.shape[1:]), **hdf5plugin.Bitshuffle()
    )
    for index, frame in enumerate(frames):
        data[index] = frame
    into = np.empty_like(frames[0])

    def compress() -> None:
        for index, frame in enumerate(frames):
            data[index] = frame

    def decompress() -> None:
        for index in range(len(frames)):
            data.read_direct(into, np.s_[index])

    return compress if mode == "compress" else decompress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--type", required=True, help="as numpy names it")
    parser.add_argument("--frame-elements", type=int, required=True)
    parser.add_argument("--with", dest="by", choices=("bitshuffle", "hdf5plugin"), required=True)
    parser.add_argument("--mode", choices=("compress", "decompress"), required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1)
    options = parser.parse_args()

    frames = np.fromfile(options.raw, dtype=options.type).reshape(-1, options.frame_elements)
    one_pass = (package_pass if options.by == "bitshuffle" else filter_pass)(frames, options.mode)
    one_pass()
    seconds = []
    for _ in range(options.repeat):
        begin = time.perf_counter()
        for _ in range(options.passes):
            one_pass()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "bytes_per_repetition": frames.nbytes * options.passes}))


if __name__ == "__main__":
    main()
