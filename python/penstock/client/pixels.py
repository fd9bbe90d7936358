"""Pixels as they are sent: arrays where they lie, or bytes that are compressed already."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.client.errors import FrameError

# Tags of RFC 8746, little-endian.
TYPED_ARRAY = {
    "uint8": 64,
    "uint16": 69,
    "uint32": 70,
    "uint64": 71,
    "int8": 72,
    "int16": 77,
    "int32": 78,
    "int64": 79,
    "float32": 85,
    "float64": 86,
}
ENCODINGS = ("bslz4", "bszstd", "lz4")

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Compressed:
    """Pixels of one channel that are compressed already; the recorder stores the bytes as they are.

    `encoding` is `bslz4` or `bszstd` (as HDF5 filter 32008 stores them, with its header of 12 bytes) or `lz4`
    (filter 32004). `data` is not copied: it must stay as it is until the frame is acknowledged.
    """

    data: bytes | bytearray | memoryview
    encoding: str = "bslz4"

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise FrameError(f"the encoding {self.encoding!r} is not one of {', '.join(ENCODINGS)}")


Image = Array | Compressed


@dataclass(frozen=True)
class FrameSpec:
    """What each channel of each frame is."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def spec_of(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> FrameSpec:
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError) as problem:
        raise FrameError(f"dtype: {dtype!r} is not supported; use {', '.join(TYPED_ARRAY)}") from problem
    if kind.name not in TYPED_ARRAY:
        raise FrameError(f"dtype: {kind} is not supported; use {', '.join(TYPED_ARRAY)}")
    if len(shape) not in (2, 3) or any(int(size) < 1 for size in shape):
        raise FrameError(f"shape is {shape}; (rows, columns) or (planes, rows, columns) is expected")
    return FrameSpec(kind.newbyteorder("<"), tuple(int(size) for size in shape))


def view_of(image: Image, spec: FrameSpec, channel: str, *, copy: bool) -> memoryview:
    """The bytes that are sent. Of a C-contiguous little-endian array they are its own, unless `copy`."""
    if isinstance(image, Compressed):
        raw = memoryview(image.data)
        if not raw.c_contiguous or raw.nbytes == 0:
            raise FrameError(
                f"channel {channel!r}: compressed pixels are {raw.nbytes} bytes, or not contiguous"
            )
        return memoryview(bytes(raw)) if copy else raw.cast("B")
    array = np.asarray(image)
    if array.shape != spec.shape:
        raise FrameError(
            f"channel {channel!r}: the image has the shape {array.shape} instead of {spec.shape}"
        )
    as_it_is_sent = array.dtype == spec.dtype
    if not as_it_is_sent and array.dtype.newbyteorder("<") != spec.dtype:
        raise FrameError(
            f"channel {channel!r}: the image is {array.dtype.name} instead of {spec.dtype.name}; "
            "convert it with astype()"
        )
    if copy:
        array = array.astype(spec.dtype, order="C", copy=True)
    elif not as_it_is_sent or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array, spec.dtype)
    return array.data.cast("B")


def by_channel(image: Image | Mapping[str, Image], channels: tuple[str, ...]) -> Mapping[str, Image]:
    # Most images are arrays: whether something is a Mapping takes longer to find out.
    if not isinstance(image, np.ndarray) and isinstance(image, Mapping):
        unknown = [name for name in image if name not in channels]
        if unknown or not image:
            raise FrameError(f"the image has the channels {list(image)}; the series has {list(channels)}")
        return image
    if len(channels) != 1:
        raise FrameError(f"the series has the channels {list(channels)}: send a dict from channel to image")
    return {channels[0]: image}
