"""Real images for the simulator, read into one temporary array file."""

import bz2
import contextlib
import gzip
import logging
import tempfile
import typing
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fabio
import numpy
import numpy.typing
from numpy.lib.format import open_memmap

from penstock.files.aside import notify, run_aside, show_life
from penstock.files.images import hdf5_images, tiff_images
from penstock.model.errors import PenstockError, UsageError
from penstock.model.plans import ElementType
from penstock.model.units import human_bytes, human_size

_CBF = (".cbf", ".cbf.bz2", ".cbf.gz")
_TIFF = (".tif", ".tiff", ".tif.bz2", ".tif.gz")
_HDF5 = (".h5", ".hdf5", ".nxs")
SUFFIXES = (*_CBF, *_TIFF, ".edf", *_HDF5, ".npy")
_CBF_HEAD_BYTES = 1 << 18
_TYPES = typing.get_args(ElementType)
for _library in ("fabio", "tifffile"):  # what is wrong with an image is in the error
    logging.getLogger(_library).addHandler(logging.NullHandler())
OnImage = Callable[[int, int], None]
_Array = numpy.typing.NDArray[numpy.generic]


@dataclass(frozen=True)
class Replay:
    """Images ready to be sent: `path` is an array file of `frames` x `rows` x `columns`."""

    path: Path
    frames: int
    rows: int
    columns: int
    type: str

    @property
    def frame_bytes(self) -> int:
        return self.rows * self.columns * numpy.dtype(self.type).itemsize


def image_files(paths: list[Path]) -> list[Path]:
    """The image files named, and those in the folders named, in the order of their names.

    FILE::/PATH names one dataset of an HDF5 file.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            # A pipe would be waited for.
            named = (child for child in path.rglob("*") if child.name.lower().endswith(SUFFIXES))
            found += sorted(child for child in named if child.is_file())
        elif hdf5_images.split_name(path)[0].is_file():
            found.append(path)
        else:
            raise UsageError(f"{path} does not exist", "name image files, or a folder with images")
    if not found:
        raise UsageError(
            f"no images in {', '.join(map(str, paths))}",
            f"supported are files that end with {', '.join(SUFFIXES)}",
        )
    return found


def _once(paths: list[Path]) -> list[Path]:
    """The files of image_files(), where folders are named without what other HDF5 files of these show."""
    files = image_files(paths)
    found_in_folders = [path for path in files if path not in paths and path.name.lower().endswith(_HDF5)]
    if len(found_in_folders) < 2:
        return files
    shown = hdf5_images.shown_by_others(found_in_folders)
    return [path for path in files if path not in shown] or files


@contextlib.contextmanager
def replay_file(paths: list[Path], memory_bytes: int, frames_max: int, on_image: OnImage) -> Iterator[Replay]:
    """Reads at most `frames_max` images, in at most `memory_bytes`; the array file lives inside the block.

    All images have the shape and type of the first. `on_image` gets the images read and their total.
    """
    named = image_files(paths)
    with tempfile.TemporaryDirectory(prefix="penstock-replay-") as folder:
        target = Path(folder) / "frames.npy"
        # Libraries hang and crash on damaged images.
        where = named[0] if len(named) == 1 else paths[0]
        yield run_aside(where, lambda: _read(paths, target, memory_bytes, frames_max), on_image)


def _read(paths: list[Path], target: Path, memory_bytes: int, frames_max: int) -> Replay:
    """Writes the array file; reports the number of images read and their total after each image."""
    files = _once(paths)
    first = next(_images(files[:1]), None)
    if first is None:
        raise PenstockError(f"{files[0]} has no images", "remove it, or name the files one by one")
    limit = min(frames_max, memory_bytes // first.nbytes)
    if limit < 1:
        raise UsageError(
            f"one image of {files[0]} is {human_bytes(first.nbytes)}, and --replay-memory"
            f" is {human_size(memory_bytes)}",
            "allow more with --replay-memory",
        )
    count = _count(files, limit)
    frames = open_memmap(target, mode="w+", dtype=first.dtype, shape=(count, *first.shape))
    for number, image in enumerate(_images(files)):
        if number == count:
            break
        if image.shape != first.shape or image.dtype != first.dtype:
            raise PenstockError(
                f"image {number} is {_shape_of(image)}, not {_shape_of(first)} as the first",
                "replay images of one shape and type, that of the first",
            )
        frames[number] = image
        notify(number + 1, count)
    rows, columns = first.shape
    return Replay(target, count, rows, columns, first.dtype.name)


def _shape_of(image: _Array) -> str:
    return f"{image.shape[0]} x {image.shape[1]} {image.dtype.name}"


def _count(files: list[Path], limit: int) -> int:
    """How many images there are, counted no further than `limit`."""
    total = 0
    for path in files:
        total += _frames_in(path)
        show_life()
        if total >= limit:
            return limit
    return total


def _frames_in(path: Path) -> int:
    name = path.name.lower()
    if name.endswith(_CBF):
        return 1
    if name.endswith(".npy"):
        array = _load_npy(path)
        return 1 if array.ndim == 2 else int(array.shape[0])
    if name.endswith(_TIFF):
        return tiff_images.frame_count(path)
    if _is_hdf5(path):
        return hdf5_images.frame_count(path)
    with _open(path) as series:
        return int(series.nframes)


def _is_hdf5(path: Path) -> bool:
    file, within = hdf5_images.split_name(path)
    return bool(within) or file.name.lower().endswith(_HDF5) or hdf5_images.is_hdf5(file)


def _load_npy(path: Path) -> _Array:
    try:
        array: _Array = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header is parsed as Python is, and fails as that does
        raise PenstockError(
            f"{path} is not a numpy array of numbers, or it is corrupt", "save it with numpy.save"
        ) from error
    if array.ndim not in (2, 3) or array.size == 0:
        raise PenstockError(
            f"{path} has the shape {array.shape}",
            "an array of images has the shape rows x columns or frames x rows x columns",
        )
    return array


def _plain_file(path: Path) -> Any:
    return path.open("rb")


def _require_binary_section(path: Path) -> None:
    """Of a CBF: without the mark of its pixels fabio reads on behind the end for ever."""
    opener: Callable[[Path], Any] = {".bz2": bz2.BZ2File, ".gz": gzip.GzipFile}.get(
        path.suffix.lower(), _plain_file
    )
    try:
        with opener(path) as file:
            head: bytes = file.read(_CBF_HEAD_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise PenstockError(f"{path} cannot be read, or is corrupt", "copy it again, or remove it") from error
    section = head.find(b"--CIF-BINARY-FORMAT-SECTION--")
    if section < 0 or b"\x0c\x1a\x04\xd5" not in head[section:]:
        raise PenstockError(
            f"{path} is not a CBF file, or it is corrupt: its header is incomplete",
            "copy it again, or remove it",
        )


@contextlib.contextmanager
def _open(path: Path) -> Iterator[fabio.fabioimage.FabioImage]:
    try:
        image = fabio.open(str(path))
    except Exception as error:  # fabio raises whatever its many format readers raise
        raise PenstockError(
            f"{path} is not an image in a supported format, or it is corrupt",
            "copy it again, remove it, or name the files one by one",
        ) from error
    try:
        yield image
    finally:
        with contextlib.suppress(Exception):  # not every format has something to close
            image.close()


def _images(files: list[Path]) -> Iterator[_Array]:
    for path in files:
        for number, image in enumerate(_images_of(path)):
            yield _plain(path, number, image)


def _images_of(path: Path) -> Iterator[_Array]:
    name = path.name.lower()
    if name.endswith(".npy"):
        array = _load_npy(path)
        yield from ([array] if array.ndim == 2 else array)
    elif name.endswith(_TIFF):
        yield from tiff_images.frames_in(path)
    elif _is_hdf5(path):
        yield from hdf5_images.frames_in(path)
    else:
        if name.endswith(_CBF):
            _require_binary_section(path)
        with _complaints() as complaints, _open(path) as series:
            for number in range(series.nframes):
                pixels = _frame(path, series, number)
                if complaints.any:
                    raise PenstockError(
                        f"image {number} of {path} is corrupt: its checksum or length is wrong",
                        "copy the file again, or remove it",
                    )
                yield pixels


class _Complaints(logging.Handler):
    """Whether fabio found a checksum or a length wrong: it logs that, and gives the pixels all the same."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.any = False

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        self.any = True


@contextlib.contextmanager
def _complaints() -> Iterator[_Complaints]:
    log, handler = logging.getLogger("fabio"), _Complaints()
    log.addHandler(handler)
    try:
        yield handler
    finally:
        log.removeHandler(handler)


def _frame(path: Path, series: fabio.fabioimage.FabioImage, number: int) -> _Array:
    try:
        data: _Array | None = series.data if series.nframes == 1 else series.getframe(number).data
    except Exception as error:  # as above
        raise PenstockError(
            f"image {number} of {path} cannot be read: the file is corrupt or truncated",
            "copy it again, or remove it",
        ) from error
    if data is None:
        raise PenstockError(f"image {number} of {path} is absent", "copy the file again, or remove it")
    return data


def _plain(path: Path, number: int, image: _Array) -> _Array:
    """In C order and little-endian. A PenstockError unless it is an image of a type that can be sent."""
    if image.ndim != 2 or image.size == 0:
        raise PenstockError(
            f"image {number} of {path} has the shape {image.shape}; images have rows and columns",
            "remove the file",
        )
    if image.dtype.name not in _TYPES:
        raise PenstockError(
            f"image {number} of {path} is of {image.dtype.name}; {', '.join(_TYPES)} can be sent",
            "convert the images, or remove the file",
        )
    return numpy.ascontiguousarray(image, dtype=image.dtype.newbyteorder("<"))
