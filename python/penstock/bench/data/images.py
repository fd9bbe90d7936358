"""Frames as detectors' own servers write them: one CBF, TIFF or HDF5 file each.

A whole file is made once, by the libraries that read such files, as a template; the load generator gives each
frame pixels of its own in it. Which of its bytes are the pixels is looked up in the file that was made.

Of the user's images whole files are made, a few of them, and frames are these as they are, in turn: pixels
with noise in them would compress otherwise. Files that gzip compressed are written in turn as well.
"""

import gzip
import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy
import numpy.typing
from pydantic import BaseModel, ConfigDict, Field

from penstock.bench.data.own_images import Pixels, read_images, shape_of_images
from penstock.model.bench.load import FrameImage
from penstock.model.errors import UsageError

ImageFormat = Literal["cbf", "cbf.gz", "tiff", "hdf5"]
PixelType = Literal["uint8", "uint16", "uint32", "int16", "int32"]
_SUFFIXES: dict[ImageFormat, str] = {"cbf": "cbf", "cbf.gz": "cbf.gz", "tiff": "tif", "hdf5": "h5"}
_FRAME_BYTES_MAX = 4 << 30
_COMPRESSED_IMAGES = 4  # of made-up pixels; gzip takes most of a second for 6 million
_CBF_HEADER = (
    "# Detector: Penstock load generator\r\n# Pixel_size 172e-6 m x 172e-6 m\r\n"
    "# Silicon sensor, thickness 0.000320 m\r\n"
    "# Exposure_time 0.0400000 s\r\n# Exposure_period 0.0400000 s\r\n"
)


class ImageRequest(BaseModel):
    """What frames are."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    format: ImageFormat
    rows: int = Field(ge=1, le=1 << 20)
    columns: int = Field(ge=1, le=1 << 20)
    type: PixelType
    source: str = Field("", description="file or folder of the user's images; empty: pixels that are made up")


class Template(BaseModel):
    """A whole file, and where in it the pixels are; or several, of one size, that frames are as they are."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    data: bytes
    pixels_at: int
    pixels_bytes: int
    images: int = 1

    @property
    def frame_bytes(self) -> int:
        return len(self.data) // self.images


def own_images(format_: ImageFormat, source: Path) -> ImageRequest:
    """The user's images in that format. A UsageError where it does not hold them."""
    rows, columns, type_ = shape_of_images(source)
    if type_ not in get_args(PixelType):
        raise UsageError(
            f"image files of {type_} are not supported", f"one of {', '.join(get_args(PixelType))}"
        )
    return ImageRequest(format=format_, rows=rows, columns=columns, type=type_, source=str(source.resolve()))


@lru_cache(maxsize=1)
def make_template(image: ImageRequest) -> Template:
    """A UsageError where the format does not hold such frames."""
    if image.rows * image.columns * numpy.dtype(image.type).itemsize > _FRAME_BYTES_MAX:
        raise UsageError(f"frames of {image.rows} x {image.columns} are too large", "4 GiB at most")
    if image.source:
        return _whole_files(image.format, read_images(Path(image.source)))
    random = numpy.random.default_rng(1)
    if image.format == "cbf":
        return _cbf(image, _steps(image, random, 127))
    if image.format == "cbf.gz":
        images = (_pixels(image, _steps(image, random, 5)) for _ in range(_COMPRESSED_IMAGES))
        return _whole_files(image.format, images)
    # Random, so that they are found in the file.
    pixels = random.integers(0, 2**7, (image.rows, image.columns), dtype=image.type)
    data = _tiff(pixels) if image.format == "tiff" else _hdf5(pixels)
    return _found(data, pixels.tobytes(), image.format)


def _whole_files(format_: ImageFormat, images: Iterable[Pixels]) -> Template:
    """Of one size, that of the largest: readers of CBF do not look behind its end, nor do those of gzip."""
    write = {"cbf": _cbf_file, "cbf.gz": _gzip_of_cbf, "tiff": _tiff, "hdf5": _hdf5}[format_]
    files = [write(pixels) for pixels in images]
    size = max(map(len, files))
    data = b"".join(file.ljust(size, b"\0") for file in files)
    return Template(data=data, pixels_at=0, pixels_bytes=0, images=len(files))


def _steps(
    image: ImageRequest, random: numpy.random.Generator, largest: int
) -> numpy.typing.NDArray[numpy.int8]:
    """Returns each pixel's difference to the one before. Up to 5 they take half a byte in a gzip file."""
    return random.integers(-largest, largest + 1, image.rows * image.columns, dtype=numpy.int8)


def _pixels(image: ImageRequest, steps: numpy.typing.NDArray[numpy.int8]) -> Pixels:
    if image.type != "int32":
        raise UsageError(
            f"CBF files of {image.type} are not supported", "--type int32 is what PILATUS writes"
        )
    return numpy.cumsum(steps, dtype=numpy.int64).astype(numpy.int32).reshape(image.rows, image.columns)


def _cbf(image: ImageRequest, steps: numpy.typing.NDArray[numpy.int8]) -> Template:
    """Pixels whose differences take a byte each, as those of weak diffraction do: a byte a pixel."""
    data = _cbf_file(_pixels(image, steps))
    # The digest is of the template's pixels: no reader asks for one, and a wrong one is worse than none.
    start = data.find(b"Content-MD5:")
    if start >= 0:
        data = data[:start] + data[data.index(b"\r\n", start) + 2 :]
    return _found(data, steps.tobytes(), "cbf")


def _gzip_of_cbf(pixels: Pixels) -> bytes:
    return gzip.compress(_cbf_file(pixels), mtime=0)


def _cbf_file(pixels: Pixels) -> bytes:
    from fabio.cbfimage import CbfImage  # noqa: PLC0415 - it takes a while to load

    if pixels.max() > numpy.iinfo(numpy.int32).max:
        raise UsageError(
            f"CBF files hold no pixel of {pixels.max()}",
            "use --format tiff or hdf5: CBF has signed 32-bit pixels",
        )
    header = {"_array_data.header_convention": '"PILATUS_1.2"', "_array_data.header_contents": _CBF_HEADER}
    return _written_by(CbfImage(data=pixels.astype(numpy.int32), header=header))


def _tiff(pixels: Pixels) -> bytes:
    from fabio.tifimage import TifImage  # noqa: PLC0415

    return _written_by(TifImage(data=pixels))


def _written_by(image: object) -> bytes:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "template"
        image.write(str(path))  # type: ignore[attr-defined]
        return path.read_bytes()


def _hdf5(pixels: Pixels) -> bytes:
    """One contiguous dataset in an NXdata group."""
    import h5py  # noqa: PLC0415

    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        entry = file.create_group("entry")
        data = entry.create_group("data")
        for group, kind in ((entry, "NXentry"), (data, "NXdata")):
            group.attrs["NX_class"] = kind
        file.attrs["default"], entry.attrs["default"], data.attrs["signal"] = "entry", "data", "data"
        data.create_dataset("data", data=pixels)
    return memory.getvalue()


def _found(data: bytes, pixels: bytes, what: str) -> Template:
    at = data.find(pixels)
    if at < 0:
        raise AssertionError(f"the pixels of a {what} template are not contiguous")
    return Template(data=data, pixels_at=at, pixels_bytes=len(pixels))


@contextmanager
def template_file(image: ImageRequest) -> Iterator[FrameImage]:
    """The template as a file, while it is needed, as the load generator's plan names it."""
    template = make_template(image)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / f"template.{_SUFFIXES[image.format]}"
        path.write_bytes(template.data)
        yield FrameImage(
            template=str(path),
            suffix=_SUFFIXES[image.format],
            pixels_at=template.pixels_at,
            pixels_bytes=template.pixels_bytes,
            differences=image.format == "cbf" and not image.source,
            images=template.images,
        )


def pixel_bytes(type_: PixelType) -> int:
    return numpy.dtype(type_).itemsize


def suffix_of(image: ImageRequest | None) -> str:
    return "bin" if image is None else _SUFFIXES[image.format]
