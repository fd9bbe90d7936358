"""Frames copied into files with an index that every reader knows: HDF5 1.8, a frame a chunk, bslz4."""

from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin
import numpy

from penstock.files.export.plan import BITSHUFFLE, Export, Part
from penstock.files.hdf5 import item_at, open_for_reading, set_text
from penstock.model.errors import PenstockError

Progress = Callable[[int, int], None]


def copy_part(export: Export, part: Part, into: Path, progress: Progress) -> None:
    """Writes one data file. Chunks that fit are copied as they are; other frames are encoded again.

    A missing frame gets the value that the recorded file reads there. PenstockError: a frame is unreadable.
    """
    with (
        open_for_reading(Path(export.source)) as source,
        h5py.File(into, "x", libver=("earliest", "v108")) as file,
    ):
        frames = item_at(source, export.dataset)
        entry = file.create_group("entry")
        data = entry.create_group("data")
        for group, nx_class in ((file, "NXroot"), (entry, "NXentry"), (data, "NXdata")):
            set_text(group, "NX_class", nx_class)
        set_text(file, "penstock_export", export.reader)
        set_text(data, "signal", "data")
        shape = (part.frames, export.rows, export.columns)
        copy = data.create_dataset(
            "data",
            shape,
            dtype=frames.dtype,
            chunks=(1, *shape[1:]),
            fillvalue=frames.fillvalue,
            **hdf5plugin.Bitshuffle(cname="lz4"),
        )
        mark_fill(copy)
        copy.attrs["image_nr_low"] = part.first_frame + 1
        copy.attrs["image_nr_high"] = part.first_frame + part.frames
        as_they_are = _has_same_chunks(frames, copy)
        for number in range(part.frames):
            recorded = export.first_frame + part.first_frame + number
            _copy_frame(frames, recorded, copy, number, as_they_are)
            progress(part.first_frame + number + 1, export.frames)


def mark_fill(frames: h5py.Dataset) -> None:
    """Names the value of pixels without data as viewers know it: they leave it out of their colour scale."""
    frames.attrs.create("_FillValue", frames.fillvalue, dtype=frames.dtype)


def _has_same_chunks(frames: h5py.Dataset, copy: h5py.Dataset) -> bool:
    """Whether a stored chunk of the one is one of the other, to the byte."""
    if frames.is_virtual or frames.chunks != copy.chunks or frames.dtype != copy.dtype:
        return False
    recorded, wanted = frames.id.get_create_plist(), copy.id.get_create_plist()
    if recorded.get_nfilters() != 1:
        return False
    number, _, values, _ = recorded.get_filter(0)
    _, _, others, _ = wanted.get_filter(0)
    # The first two are the version of the filter's code.
    return number == BITSHUFFLE and len(values) == len(others) and values[2:] == others[2:]


def _copy_frame(frames: h5py.Dataset, at: int, copy: h5py.Dataset, to: int, as_it_is: bool) -> None:
    try:
        if as_it_is and frames.id.get_chunk_info_by_coord((at, 0, 0)).byte_offset is not None:
            mask, chunk = frames.id.read_direct_chunk((at, 0, 0))
            copy.id.write_direct_chunk((to, 0, 0), chunk, mask)
        else:
            copy[to] = frames[numpy.unravel_index(at, frames.shape[:-2])]
    except OSError as error:
        raise PenstockError(
            f"frame {at} of {frames.name} cannot be read: {error}",
            "run `penstock check` on it; filters that hdf5plugin lacks are searched in HDF5_PLUGIN_PATH",
        ) from error
