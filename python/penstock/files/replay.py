"""Real images for the simulator: read with fabio into one temporary array file."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fabio
import numpy
import numpy.typing
from numpy.lib.format import open_memmap

from penstock.model.errors import PenstockError, UsageError
from penstock.model.units import human_bytes, human_size

SUFFIXES = (
    ".cbf",
    ".cbf.bz2",
    ".cbf.gz",
    ".tif",
    ".tiff",
    ".tif.bz2",
    ".tif.gz",
    ".edf",
    ".h5",
    ".hdf5",
    ".nxs",
    ".npy",
)
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
    """The image files named, and those in the folders named, in the order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            # A pipe would be waited for.
            named = (child for child in path.rglob("*") if child.name.lower().endswith(SUFFIXES))
            found += sorted(child for child in named if child.is_file())
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"{path} is not there", "name image files, or a folder with images")
    if not found:
        raise UsageError(
            f"no images in {', '.join(map(str, paths))}",
            f"known are files that end with {', '.join(SUFFIXES)}",
        )
    return found


@contextlib.contextmanager
def replay_file(paths: list[Path], memory_bytes: int, frames_max: int, on_image: OnImage) -> Iterator[Replay]:
    """Reads at most `frames_max` images, in at most `memory_bytes`; the array file lives inside the block.

    All images have the shape and type of the first. `on_image` is told how many are read, and of how many.
    """
    files = image_files(paths)
    with tempfile.TemporaryDirectory(prefix="penstock-replay-") as folder:
        target = Path(folder) / "frames.npy"
        first = next(_images(files[:1]))
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
                    f"image {number} is {image.shape} {image.dtype}, not {first.shape} {first.dtype}",
                    "replay images of one shape and type at a time, that of the first",
                )
            frames[number] = image
            on_image(number + 1, count)
        frames.flush()
        rows, columns = first.shape
        yield Replay(target, count, rows, columns, first.dtype.name)


def _count(files: list[Path], limit: int) -> int:
    """How many images there are, counted no further than `limit`."""
    total = 0
    for path in files:
        total += _frames_in(path)
        if total >= limit:
            return limit
    return total


def _frames_in(path: Path) -> int:
    if path.name.lower().endswith((".cbf", ".cbf.bz2", ".cbf.gz")):
        return 1
    if path.suffix.lower() == ".npy":
        array = _load_npy(path)
        return 1 if array.ndim == 2 else int(array.shape[0])
    with _open(path) as series:
        return int(series.nframes)


def _load_npy(path: Path) -> _Array:
    try:
        array: _Array = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header is parsed as Python is, and fails as that does
        raise PenstockError(
            f"{path} cannot be read as an array: {error}", "save it with numpy.save"
        ) from error
    if array.ndim not in (2, 3) or array.size == 0:
        raise PenstockError(
            f"{path} has the shape {array.shape}",
            "an array of images is rows x columns or frames x rows x columns",
        )
    return array


@contextlib.contextmanager
def _open(path: Path) -> Iterator[fabio.fabioimage.FabioImage]:
    try:
        image = fabio.open(str(path))
    except Exception as error:  # fabio raises whatever its many format readers raise
        raise PenstockError(
            f"{path} cannot be read as an image: {error}", "remove it, or name the files one by one"
        ) from error
    try:
        yield image
    finally:
        with contextlib.suppress(Exception):  # not every format has something to close
            image.close()


def _images(files: list[Path]) -> Iterator[_Array]:
    for path in files:
        if path.suffix.lower() == ".npy":
            array = _load_npy(path)
            yield from ([array] if array.ndim == 2 else array)
            continue
        with _open(path) as series:
            for number in range(series.nframes):
                yield _frame(path, series, number)


def _frame(path: Path, series: fabio.fabioimage.FabioImage, number: int) -> _Array:
    try:
        data: _Array | None = series.data if series.nframes == 1 else series.getframe(number).data
    except (OSError, ValueError, EOFError) as error:
        raise PenstockError(f"image {number} of {path} cannot be read: {error}", "remove the file") from error
    if data is None or data.ndim != 2 or data.size == 0:
        raise PenstockError(f"image {number} of {path} is no two-dimensional image", "remove the file")
    return numpy.ascontiguousarray(data)
