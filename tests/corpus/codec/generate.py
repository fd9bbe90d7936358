"""Makes the golden chunks of this folder with independent writers of the same encodings.

Needs numpy, h5py and hdf5plugin. Each chunk is what HDF5 stored, filter and all; `manifest.txt` has
one line a chunk: encoding, element bytes, file of the raw pixels, file of the chunk. Files that exist
are kept for ever: a new version of a writer adds files under new names.
"""

import tempfile
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent

# Lengths that leave a short last block and some elements over.
COUNTS = {"uint8": 10007, "uint16": 9003, "uint32": 4109, "uint64": 2061}

WRITERS = {
    "bslz4-default": ("bslz4", dict(hdf5plugin.Bitshuffle())),
    "bslz4-512": ("bslz4", dict(hdf5plugin.Bitshuffle(nelems=512))),
    "bszstd-default": ("bszstd", dict(hdf5plugin.Bitshuffle(cname="zstd"))),
    "lz4-default": ("lz4", dict(hdf5plugin.LZ4())),
    "lz4-2048": ("lz4", dict(hdf5plugin.LZ4(nbytes=2048))),
    "zstd-3": ("zstd", dict(hdf5plugin.Zstd(clevel=3))),
    "deflate-6": ("deflate", {"compression": "gzip", "compression_opts": 6}),
}


def pixels(type_name: str) -> NDArray[np.generic]:
    """Background, a masked gap at the highest value and a few strong spots."""
    random = np.random.default_rng(20)
    count = COUNTS[type_name]
    frame = random.poisson(0.4, count).astype(type_name)
    frame[count // 3 : count // 3 + 700] = np.iinfo(type_name).max
    frame[random.integers(0, count, 20)] = random.integers(0, np.iinfo(type_name).max, 20, dtype=type_name)
    return frame


def stored_chunk(frame: NDArray[np.generic], options: dict[str, object]) -> bytes:
    """The bytes that HDF5 stores for a dataset of one chunk."""
    with tempfile.TemporaryDirectory() as folder, h5py.File(Path(folder) / "one.h5", "w") as file:
        dataset = file.create_dataset("frame", data=frame, chunks=frame.shape, **options)
        mask, chunk = dataset.id.read_direct_chunk((0,))
        if mask != 0:
            raise RuntimeError(f"a filter was skipped: {mask}")
        return bytes(chunk)


def main() -> None:
    """Writes the raw pixels, the chunks and the manifest."""
    lines = []
    for type_name in COUNTS:
        frame = pixels(type_name)
        raw_name = f"{type_name}.raw"
        (FOLDER / raw_name).write_bytes(frame.tobytes())
        for label, (encoding, options) in WRITERS.items():
            chunk_name = f"{type_name}-{label}.chunk"
            (FOLDER / chunk_name).write_bytes(stored_chunk(frame, options))
            lines.append(f"{encoding} {frame.dtype.itemsize} {raw_name} {chunk_name}\n")
    (FOLDER / "manifest.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
