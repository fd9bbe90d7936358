"""The frames of an HDF5 file by number, with their mask: of one channel, in one or several datasets."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy
import numpy.typing

from penstock.files.hdf5 import (
    attribute_of,
    file_behind,
    from_mapping,
    item_at,
    lies_elsewhere,
    may_be_read,
    value_of,
)
from penstock.files.images import hdf5_images
from penstock.files.inspect import end_time_place, joined_entries, main_dataset
from penstock.files.members import completion_of, source_of, why_unreadable
from penstock.files.missing import REASONS
from penstock.files.timing import LEDGER
from penstock.files.tree import items_of
from penstock.model.errors import PenstockError, UsageError

Pixels = numpy.typing.NDArray[Any]
Flags = numpy.typing.NDArray[numpy.bool_]

_KEPT = "/entry/penstock"
_DETECTOR = "/entry/instrument/detector"
_BLOCK_BYTES_MAX = 256 << 20
# More than a frame of any detector has: one is read at once. Larger images take no more memory.
TILE_PIXELS_MAX = 24 << 20


@dataclass(frozen=True)
class Region:
    """Pixels of a frame: half-open ranges of rows and columns."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    @property
    def slices(self) -> tuple[slice, slice]:
        return slice(*self.rows), slice(*self.columns)


def tiles_of(region: Region) -> list[Region]:
    """Returns parts of a region in the order of its pixels, each of at most TILE_PIXELS_MAX."""
    (first_row, end_row), (first_column, end_column) = region.rows, region.columns
    width = min(end_column - first_column, TILE_PIXELS_MAX)
    height = TILE_PIXELS_MAX // width if width == end_column - first_column else 1
    return [
        Region((row, min(row + height, end_row)), (column, min(column + width, end_column)))
        for row in range(first_row, end_row, height)
        for column in range(first_column, end_column, width)
    ]


class Frames:
    """The frames of the file that is open as `file`; to be used while it is open.

    They are numbered from 0 through all datasets of a master file; those of a scan point by point.
    UsageError: the file has no such channel. PenstockError: it has no frames, or frames that are not opened.
    """

    def __init__(self, file: h5py.File, path: Path, within: str = "", channel: str | None = None) -> None:
        self._file, self._path = file, path
        self._datasets = _datasets_of(file, path, within, channel)
        first = self._datasets[0]
        self.name, self.dtype = str(first.name), first.dtype
        self.channel = attribute_of(first, "channel")
        self.rows, self.columns = first.shape[-2:]
        if {dataset.shape[-2:] for dataset in self._datasets} != {(self.rows, self.columns)}:
            raise PenstockError(
                f"{path} has frames of different shapes", f"name one dataset: {path}::{self.name}"
            )
        counts = [math.prod(dataset.shape[:-2]) for dataset in self._datasets]
        self._ends = list(itertools.accumulate(counts))
        self.count = self._ends[-1]
        self._absent = [_absent_files(dataset) for dataset in self._datasets]
        self._block: tuple[tuple[int, int, Region], Pixels] | None = None

    @property
    def completion(self) -> str:
        """How to get frames that this file does not show yet; "" if its series has ended."""
        if not isinstance(item_at(self._file, _KEPT), h5py.Group):
            return ""
        ended = value_of(self._file, end_time_place(self._file)) is not None
        return "" if ended else completion_of(self._file, self._path)

    @property
    def everything(self) -> Region:
        return Region((0, self.rows), (0, self.columns))

    def read(self, number: int, region: Region) -> tuple[Pixels, Flags] | None:
        """Returns the pixels of a frame, and which of them have a value; None if the frame is missing.

        PenstockError: its chunk is corrupt, or its filter is not installed.
        """
        which = next(i for i, end in enumerate(self._ends) if number < end)
        index = number - (self._ends[which - 1] if which else 0)
        dataset = self._datasets[which]
        if any(first <= index <= last for first, last in self._absent[which]):
            return None
        try:
            if not _is_stored(dataset, index):
                return None
            pixels = self._pixels(which, index, region)
            valid = has_value(dataset, pixels)
            if not valid.any() and not self._has_values(which, index):
                return None
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise self._unreadable(dataset, index, error) from error
        return pixels, valid

    def _unreadable(self, dataset: h5py.Dataset, index: int, error: Exception) -> PenstockError:
        source = source_of(dataset, index)
        if source is None:
            return hdf5_images.unreadable(dataset, self._path, index, error)
        file, frames = source
        has = f"frames {frames.start} to {frames.stop - 1}"
        if why := why_unreadable(file):
            return PenstockError(f"frame {index} cannot be read: {why}; it has {has}", why.remedy)
        corrupt = hdf5_images.unreadable(dataset, self._path, index, error)
        return PenstockError(f"{corrupt}; it is in {file.name}, which has {has}", corrupt.remedy)

    def _has_values(self, which: int, index: int) -> bool:
        dataset = self._datasets[which]
        parts = tiles_of(self.everything)
        return any(has_value(dataset, self._pixels(which, index, part)).any() for part in parts)

    def _pixels(self, which: int, index: int, region: Region) -> Pixels:
        """With the other frames of its chunk, which are probably read next."""
        dataset = self._datasets[which]
        if dataset.ndim != 3:
            at = numpy.unravel_index(index, dataset.shape[:-2]) if dataset.ndim > 2 else ()
            alone: Pixels = dataset[(*at, *region.slices)]
            return alone
        together = dataset.chunks[0] if dataset.chunks else 1
        if together * math.prod(region.shape) * dataset.dtype.itemsize > _BLOCK_BYTES_MAX:
            together = 1
        first = index - index % together
        key = (which, first, region)
        if self._block is None or self._block[0] != key:
            self._block = None  # before the next one is read
            self._block = key, dataset[(slice(first, first + together), *region.slices)]
        pixels: Pixels = self._block[1][index - first]
        return pixels

    def why_missing(self, number: int) -> str:
        """Returns "damaged", "dropped", "lost" or "partial" if the frame accounting has a reason, else ""."""
        ledger = item_at(self._file, LEDGER)
        places = item_at(self._file, f"{_KEPT}/place")
        if not isinstance(ledger, h5py.Dataset) or lies_elsewhere(ledger) or places is not None:
            return ""
        if ledger.ndim != 1 or number >= ledger.shape[0] or attribute_of(ledger, "received") is None:
            return ""
        state = int(ledger[number])
        return next((name for name, value in REASONS.items() if value == state), "")

    def masked(self, region: Region) -> Flags | None:
        """Returns which pixels the detector's mask excludes; None if the file has no mask of this channel."""
        for mask in self._masks():
            if not isinstance(mask, h5py.Dataset) or mask.shape != (self.rows, self.columns):
                continue
            if mask.dtype.kind in "uib" and may_be_read(mask):
                return numpy.asarray(mask[region.slices] != 0)
        return None

    def _masks(self) -> Iterator[Any]:
        """Where the mask may be: at its usual places, or anywhere under its name, as a layout says."""
        channels = value_of(self._file, f"{_KEPT}/channels")
        name = "pixel_mask"
        if isinstance(channels, list) and self.channel in channels[1:]:
            name += "_" + "".join(c if c.isalnum() or c in "_-" else "_" for c in str(self.channel))
        yield item_at(self._file, f"{_DETECTOR}/{name}")
        yield item_at(self._file, f"{_DETECTOR}/detectorSpecific/{name}")
        yield from (item for parts, item in items_of(self._file) if parts[-1] == name)


def has_value(dataset: h5py.Dataset, pixels: Pixels) -> Flags:
    """Returns which pixels have a value.

    Without one are `_FillValue`, NaN, infinite values, and the two integers by which detectors mark gaps and
    defective pixels: the highest two of an unsigned type, -1 and -2 of a signed one.
    """
    if pixels.dtype.kind == "f":
        found = numpy.isfinite(pixels)
    else:
        highest = numpy.array(-1, numpy.int64).astype(pixels.dtype)
        found = (pixels | 1) != highest
    fill = attribute_of(dataset, "_FillValue")
    if isinstance(fill, list) and len(fill) == 1:
        fill = fill[0]
    if isinstance(fill, int | float) and not isinstance(fill, bool) and math.isfinite(fill):
        found &= pixels != fill
    return numpy.asarray(found)


def _datasets_of(file: h5py.File, path: Path, within: str, channel: str | None) -> list[h5py.Dataset]:
    if joined_entries(file):
        raise UsageError(f"{path} links to several series", "name the file of one of them")
    if within or not isinstance(item_at(file, _KEPT), h5py.Group):
        if channel is not None:
            raise UsageError(f"--channel {channel}: {path} has no channels", "leave it out")
        found = hdf5_images.datasets_of(file, path, within)
    else:
        found = [_of_channel(file, path, channel)]
    for dataset in found:
        if dataset.ndim < 2 or dataset.size == 0 or dataset.dtype.kind not in "iuf":
            raise PenstockError(f"{path} has no frames yet", f"`penstock info {path}` shows its contents")
        hdf5_images.require_frame_size(dataset, path)
        if not may_be_read(dataset):
            raise hdf5_images.not_opened(dataset, path)
    return found


def _of_channel(file: h5py.File, path: Path, channel: str | None) -> h5py.Dataset:
    main = main_dataset(file)
    if main is None:
        raise PenstockError(f"{path} has no frames yet", f"`penstock info {path}` shows its contents")
    if channel is None or attribute_of(main, "channel") == channel:
        return main
    known: list[str] = []
    for _, item in items_of(file):
        name = attribute_of(item, "channel")
        if isinstance(item, h5py.Dataset) and isinstance(name, str) and item.shape == main.shape:
            known.append(name)
            if name == channel:
                return item
    names = ", ".join(sorted(set(known))) or "none"
    raise UsageError(f"--channel {channel}: {path} has no such channel", f"it has {names}")


def _is_stored(dataset: h5py.Dataset, index: int) -> bool:
    """Whether a chunk of the frame is in the file. Of a virtual dataset its sources decide."""
    if dataset.is_virtual or dataset.chunks is None:
        return True
    at = numpy.unravel_index(index, dataset.shape[:-2]) if dataset.ndim > 2 else ()
    corner = [int(place) // length * length for place, length in zip(at, dataset.chunks, strict=False)]
    tiles = (range(0, side, step) for side, step in zip(dataset.shape[-2:], dataset.chunks[-2:], strict=True))
    return any(
        dataset.id.get_chunk_info_by_coord((*corner, *tile)).byte_offset is not None
        for tile in itertools.product(*tiles)
    )


def _absent_files(dataset: h5py.Dataset) -> list[tuple[int, int]]:
    """Returns the first and last frame of each part of a virtual dataset whose file does not exist."""
    if not dataset.is_virtual or dataset.ndim != 3:
        return []
    path = Path(dataset.file.filename)
    # A pattern is as long as there are files.
    sources = [each for each in dataset.virtual_sources() if "%b" not in each.file_name.replace("%%", "")]
    there = {
        name: name == "." or file_behind(path, from_mapping(name))[0] is not None
        for name in {source.file_name for source in sources}
    }
    bounds = [source.vspace.get_select_bounds() for source in sources if not there[source.file_name]]
    return [(int(first[0]), int(last[0])) for first, last in bounds]
