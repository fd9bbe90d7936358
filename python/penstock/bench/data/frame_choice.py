"""What a frame is: plain bytes, or a file that image readers open."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from penstock.bench.data.images import ImageRequest, PixelType, make_template, own_images, pixel_bytes
from penstock.model.bench.load import Layout
from penstock.model.errors import UsageError
from penstock.model.units import format_size

FrameFormat = Literal["raw", "cbf", "cbf.gz", "tiff", "hdf5"]
_TYPE: PixelType = "int32"


def rows_and_columns(shape: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,7})x([0-9]{1,7})", shape)
    rows, columns = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= rows <= 1 << 20 and 1 <= columns <= 1 << 20):
        raise UsageError(
            f"--shape {shape} is not possible", "write two numbers from 1 to 1048576, such as 2527x2463"
        )
    return rows, columns


def check_layout(layout: Layout, format_: FrameFormat, rename: bool) -> None:
    if layout == "file_a_writer" and (rename or format_ != "raw"):
        raise UsageError("--layout file_a_writer requires raw frames", "leave out --format and --rename")


def image_request(
    shape: str | None, type_: str | None, format_: FrameFormat, source: Path | None = None
) -> ImageRequest | None:
    """None for plain bytes. `type_`: None for int32. `source`: images of the user.

    A UsageError where the format holds no such frames.
    """
    if format_ == "raw":
        return None
    if source is not None:
        return own_images(format_, source)
    if shape is None:
        raise UsageError(f"--format {format_} needs --shape", "for example --shape 2527x2463")
    type_ = type_ or _TYPE
    if type_ not in get_args(PixelType):
        raise UsageError(
            f"image files of {type_} are not supported", f"one of {', '.join(get_args(PixelType))}"
        )
    rows, columns = rows_and_columns(shape)
    return ImageRequest.model_validate({"format": format_, "rows": rows, "columns": columns, "type": type_})


def frame_bytes_of(
    size: int | None, shape: str | None, type_: PixelType | None, image: ImageRequest | None
) -> int:
    """What a frame takes as a file. `type_`: None for int32."""
    if image is not None and image.source:
        if size is not None:
            raise UsageError(
                f"--frame-size {format_size(size).replace(' ', '')} with images of your own",
                "leave it out: the images define it",
            )
        return make_template(image).frame_bytes
    if image is not None:
        return _bytes_of_made(image)
    if (size is None) == (shape is None):
        raise UsageError("exactly one of --frame-size and --shape is required", "give one of them")
    if size is not None:
        if type_ is not None:
            raise UsageError(
                f"--type {type_} with --frame-size {format_size(size).replace(' ', '')}",
                "--type requires --shape",
            )
        return size
    rows, columns = rows_and_columns(shape or "")
    return rows * columns * pixel_bytes(type_ or _TYPE)


@lru_cache(maxsize=64)
def _bytes_of_made(image: ImageRequest) -> int:
    """Returns a size that takes `make_template` up to a second, which keeps only the last image in memory."""
    return make_template(image).frame_bytes
