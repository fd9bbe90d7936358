"""How many times smaller images become, tried with HDF5's own filters."""

from pathlib import Path

import h5py
import hdf5plugin
import numpy

from penstock.model.plan.advice import Ratios

_TRIED = {
    "bslz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "bszstd": hdf5plugin.Bitshuffle(cname="zstd", clevel=1),
}


def measure_ratios(images: Path) -> Ratios:
    """Of the images in an array file (frames x rows x columns), in chunks of a frame, in memory."""
    frames = numpy.load(images, mmap_mode="r", allow_pickle=False)
    ratios: dict[str, float] = {}
    for name, codec in _TRIED.items():
        with h5py.File(name, "w", driver="core", backing_store=False) as file:
            data = file.create_dataset(
                "images", frames.shape, frames.dtype, chunks=(1, *frames.shape[1:]), **codec
            )
            for number, frame in enumerate(frames):
                data[number] = frame
            file.flush()
            ratios[name] = frames.nbytes / max(1, data.id.get_storage_size())
    return Ratios.model_validate({"by_codec": ratios, "images": len(frames)})
