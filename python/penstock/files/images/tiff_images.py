"""Images in TIFF files: all of a stack, also of a BigTIFF."""

import bz2
import contextlib
import gzip
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fabio
import numpy
import numpy.typing
import tifffile

from penstock.model.errors import PenstockError
from penstock.model.text import counted

_Array = numpy.typing.NDArray[Any]
_OPENERS: dict[str, Callable[[Path], Any]] = {".bz2": bz2.BZ2File, ".gz": gzip.GzipFile}


def frame_count(path: Path) -> int:
    """Images in the file at `path`. Errors as of frames_in()."""
    with _opened(path) as file:
        return sum(_frames(series, path) for series in file.series)


def frames_in(path: Path) -> Iterator[_Array]:
    """The images one after the other. A PenstockError where the file cannot be read, or not all of it."""
    with _opened(path) as file:
        for number, series in enumerate(file.series):
            for index in range(_frames(series, path)):
                yield _frame(path, file, number, index)


def _frame(path: Path, file: tifffile.TiffFile, series_number: int, index: int) -> _Array:
    series: Any = file.series[series_number]
    try:
        if series.dataoffset is not None:  # one after the other, and as they are in memory
            size = math.prod(series.shape[-2:]) * series.dtype.itemsize
            kind = series.dtype.newbyteorder(file.byteorder)
            file.filehandle.seek(series.dataoffset + index * size)
            plain: _Array = numpy.frombuffer(file.filehandle.read(size), kind).reshape(series.shape[-2:])
            return plain
        if len(series.pages) == math.prod(series.shape[:-2]):
            pixels: _Array = series.pages[index].asarray()
            return pixels
        whole: _Array = series.asarray().reshape(-1, *series.shape[-2:])  # several in what TIFF has for one
        pixels = whole[index]
    except Exception as error:  # tifffile raises whatever its decoders raise
        return _by_fabio(path, file, error)
    return pixels


def _by_fabio(path: Path, file: tifffile.TiffFile, error: Exception) -> _Array:
    """Returns the only image, in a compression that tifffile lacks. fabio reads one image of a stack."""
    if "imagecodecs" not in str(error):
        raise PenstockError(f"{path} is corrupt or truncated", "copy it again, or remove it") from error
    page: Any = file.pages.first
    pixels: _Array | None = None
    if len(file.pages) == 1:
        with contextlib.suppress(Exception), fabio.open(str(path)) as image:  # the error below reports it
            pixels = image.data
    if pixels is None or pixels.dtype != page.dtype.newbyteorder("=") or pixels.shape != page.shape:
        compression = page.compression.name
        raise PenstockError(
            f"{path} has {counted(len(file.pages), 'image')} in TIFF compression"
            f" {compression}, which is not supported",
            "save them uncompressed, or with the compression deflate (ZIP)",
        ) from error
    return pixels


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tifffile.TiffFile]:
    opener = _OPENERS.get(path.suffix.lower())
    with contextlib.ExitStack() as stack:
        try:
            if opener is None:
                file = stack.enter_context(tifffile.TiffFile(path))
            else:
                with opener(path) as packed:
                    content = io.BytesIO(packed.read())
                file = stack.enter_context(tifffile.TiffFile(content, name=path.name))
            _ = file.series  # all that its headers say
        except Exception as error:  # tifffile raises whatever a damaged header leads to
            raise PenstockError(
                f"{path} is not a TIFF file, or it is corrupt",
                "copy it again, remove it, or name the files one by one",
            ) from error
        yield file


def _frames(series: tifffile.TiffPageSeries, path: Path) -> int:
    if series.ndim < 2 or series.axes[-2:] != "YX" or series.size == 0:
        raise PenstockError(
            f"{path} has images of the shape {series.shape} ({series.axes}); one value per pixel is required",
            "remove the file, or save each colour as an image",
        )
    return math.prod(series.shape[:-2])
