"""Where the frames of an HDF5 file are, and how they are stored."""

from dataclasses import dataclass
from typing import Any

import h5py
import hdf5plugin
import numpy

from penstock.files.hdf5 import FILTER_NAMES
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of

_ENCODINGS = {(): "none", (1,): "deflate", (hdf5plugin.FILTERS["bshuf"],): "bslz4"}
_WITH_LZ4 = 2  # the filter's value that names its compressor
_READ_BY_HDF5 = "use --read h5py"
_NAMED_MAX = 8
PREFERRED = ("/entry/data/data", "/entry/instrument/detector/data")


@dataclass(frozen=True)
class Chunk:
    """The bytes of one frame in the file. `is_encoded`: the filter was applied to it."""

    offset: int
    size: int
    is_encoded: bool


@dataclass(frozen=True)
class ImageFile:
    """A dataset of frames."""

    path: str
    dataset: str
    frames: int
    shape: tuple[int, ...]
    type: "numpy.dtype[Any]"
    stored_bytes: int
    """of all frames"""

    @property
    def frame_bytes(self) -> int:
        return int(numpy.prod(self.shape)) * int(self.type.itemsize)


def open_images(path: str) -> h5py.File:
    """Raises UsageError with the file's name and the reason."""
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        # Errors of HDF5 itself have no number.
        why = reason_of(error) if error.errno else "it is not an HDF5 file, or it is damaged"
        raise UsageError(
            f"{path} cannot be opened as HDF5: {why}", "name a complete HDF5 file: --images"
        ) from error


def described(file: h5py.File, dataset: str | None) -> ImageFile:
    """Raises UsageError if there are no frames of integers, with the datasets of frames."""
    data = file.get(dataset) if dataset is not None else _largest(file)
    if not isinstance(data, h5py.Dataset) or data.ndim != 3:
        what = f"no dataset {dataset}" if dataset is not None else "no dataset"
        raise UsageError(f"{file.filename} has {what} of frames (three dimensions)", _remedy(file))
    if 0 in data.shape:
        raise UsageError(f"{file.filename}{data.name} has no frames", "name another dataset: --dataset")
    if data.dtype.kind not in "iu":
        raise UsageError(
            f"{file.filename}{data.name} has pixels of type {data.dtype}, which have no exact sum",
            "name a dataset of integer pixels: --dataset",
        )
    return ImageFile(
        path=str(file.filename),
        dataset=data.name,
        frames=int(data.shape[0]),
        shape=tuple(int(side) for side in data.shape[1:]),
        type=data.dtype,
        stored_bytes=int(data.id.get_storage_size()) or int(data.nbytes),  # a virtual one stores nothing
    )


def _largest(file: h5py.File) -> h5py.Dataset | None:
    for name in PREFERRED:
        if isinstance(data := file.get(name), h5py.Dataset) and data.ndim == 3:
            return data
    return max(_all_of_frames(file), key=lambda data: data.size, default=None)


def _remedy(file: h5py.File) -> str:
    """Names the datasets that are possible."""
    names = sorted(str(data.name) for data in _all_of_frames(file))
    if not names:
        return "name another file: --images"
    hidden = len(names) - _NAMED_MAX
    more = f" (and {hidden} more, which `penstock info --all` lists)" if hidden > 0 else ""
    return f"name one with three dimensions, --dataset: {', '.join(names[:_NAMED_MAX])}{more}"


def _all_of_frames(file: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []

    def look(_name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 3:
            found.append(item)

    file.visititems(look)
    return found


def encoding_of(data: h5py.Dataset) -> str:
    """none, deflate or bslz4. Raises PenstockError for what cannot be read outside HDF5, with the reason."""
    properties = data.id.get_create_plist()
    if data.is_virtual or properties.get_external_count():
        _refuse(data, "its frames are in other files")
    if data.chunks is not None and tuple(data.chunks) != (1, *data.shape[1:]):
        _refuse(data, f"its chunks {data.chunks} are not single frames")
    filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
    numbers = tuple(each[0] for each in filters)
    names = ", ".join(FILTER_NAMES.get(number, str(number)) for number in numbers)
    encoding = _ENCODINGS.get(numbers)
    if encoding is None:
        _refuse(data, f"its filters are {names}")
    if encoding == "bslz4" and _WITH_LZ4 not in filters[0][2][4:5]:
        _refuse(data, "its bitshuffle filter does not use LZ4")
    return str(encoding)


def chunks_of(data: h5py.Dataset, frames: int) -> list[Chunk]:
    """The first `frames` of them. Raises PenstockError if one was never written."""
    frame_bytes = int(numpy.prod(data.shape[1:])) * data.dtype.itemsize
    if data.chunks is None:
        begin = data.id.get_offset()
        if begin is None:
            _refuse(data, "no frame was written")
        return [Chunk(begin + number * frame_bytes, frame_bytes, False) for number in range(frames)]
    found: dict[int, Chunk] = {}
    is_plain = data.id.get_create_plist().get_nfilters() == 0

    def keep(info: Any) -> None:
        found[info.chunk_offset[0]] = Chunk(
            info.byte_offset, info.size, not is_plain and info.filter_mask == 0
        )

    data.id.chunk_iter(keep)
    missing = next((number for number in range(frames) if number not in found), None)
    if missing is not None:
        _refuse(data, f"frame {missing} was not written")
    return [found[number] for number in range(frames)]


def _refuse(data: h5py.Dataset, why: str) -> None:
    raise PenstockError(f"{data.file.filename}{data.name} cannot be read directly: {why}", _READ_BY_HDF5)
