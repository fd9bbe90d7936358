"""NTNDArrays as frames: everything in them is checked before it is believed.

The structure is that of the EPICS Normative Types; what areaDetector puts into it is read from ADCore's
converter (`ntndArrayConverter.cpp`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from penstock.client import Compressed
from penstock.client.pixels import TYPED_ARRAY, Image
from penstock.pva.attributes import attributes_of, time_stamps_of
from penstock.pva.codecs import Dtype, image_of, is_passed_on
from penstock.pva.errors import BadFrameError

# codec.parameters: pvData's ScalarType of the pixels, as released versions of ADCore write it …
_SCALAR_TYPES = ("bool", "int8", "int16", "int32", "int64",
                 "uint8", "uint16", "uint32", "uint64", "float32", "float64")  # fmt: skip
# … and NDDataType_t, as its converter for PVXS writes it. The size of an element distinguishes them, but 1.
_ND_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
_RGB1, _RGB3 = 2, 4
# Where the colours are in a shape [slowest … fastest].
_COLOUR_AXIS = {_RGB1: 2, 3: 1, _RGB3: 0}
_DIMENSION_FIELDS = ("size", "offset", "fullSize", "binning", "reverse")


@dataclass(frozen=True)
class Frame:
    """One image. `shape` is [rows, columns] or [planes, rows, columns]."""

    unique_id: int
    dtype: Dtype
    shape: tuple[int, ...]
    codec: str
    image: Image
    attributes: Mapping[str, Any]
    time_stamps: Mapping[str, int | float]
    dimensions: tuple[tuple[int, int, int, int, bool], ...] = ()
    colour_mode: int | None = None
    left_out: tuple[str, ...] = field(default=())  # attributes, with the reason

    @property
    def kind(self) -> tuple[Any, ...]:
        """What all frames of a series have in common."""
        return (self.dtype, self.shape, self.codec)

    @property
    def metadata(self) -> dict[str, Any]:
        """Of this frame, under the names that areaDetector's own files have."""
        return {**self.bare_metadata, **self.attributes}

    @cached_property
    def bare_metadata(self) -> dict[str, Any]:
        """Without the attributes."""
        return {"NDArrayUniqueId": self.unique_id, **self.time_stamps}

    @property
    def stamp(self) -> Hashable:
        """Returns the time that identifies a repeated frame among those of its number; None if unknown."""
        return _stamp_in(self.time_stamps)

    def geometry(self) -> list[dict[str, int | bool]]:
        """Returns the dimensions as the detector sends them: x first."""
        return [dict(zip(_DIMENSION_FIELDS, each, strict=True)) for each in self.dimensions]


def is_empty(value: Any) -> bool:
    """What a server shows before its first frame."""
    return value.get("value") is None or (not len(value.value) and not value.get("dimension"))


def _stamp_in(time_stamps: Mapping[str, int | float]) -> Hashable:
    """The first choice is EPICS's own time: the detector's may count from the beginning of each series."""
    epics = (time_stamps["NDArrayEpicsTSSec"], time_stamps["NDArrayEpicsTSnSec"])
    return epics if any(epics) else time_stamps["NDArrayTimeStamp"] or None


def stamp_of(value: Any) -> Hashable:
    """Returns Frame.stamp of an NTNDArray whose other fields may be corrupt; None if it is unreadable."""
    try:
        return _stamp_in(time_stamps_of(value))
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return None


def unique_id_of(value: Any) -> int | None:
    """From 0; None if the channel has no such field. Raises BadFrameError."""
    found = value.get("uniqueId")
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        raise BadFrameError("uniqueId", found, "expected a whole number")
    if found < 0:
        raise BadFrameError("uniqueId", found, "frames count from 0")
    return found


def read_frame(value: Any, frame_bytes_max: int, unique_id: int) -> Frame:
    """Returns the frame in an NTNDArray (a `p4p.Value`). Its pixels are not copied, so they keep the value's
    memory. `unique_id` is the frame's number.

    Raises BadFrameError with the field, the value and the number.
    """
    try:
        return _read(value, unique_id, frame_bytes_max)
    except BadFrameError as problem:
        problem.unique_id = unique_id
        raise
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as problem:
        # Text that is not UTF-8, or an unknown structure, raised by p4p.
        raise BadFrameError("value", type(problem).__name__, str(problem), unique_id) from problem


def _read(value: Any, unique_id: int, frame_bytes_max: int) -> Frame:
    codec = _codec_name(value)
    pixels = value.get("value")
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 1:
        raise BadFrameError("value", pixels, "expected an array of numbers")
    if pixels.dtype == np.bool_:
        pixels = pixels.view(np.uint8)
    dimensions = _dimensions(value)
    shape = tuple(size for size, *_ in reversed(dimensions))
    dtype = _dtype_of(value, pixels, codec, math.prod(shape))
    raw_bytes = math.prod(shape) * dtype.itemsize
    if raw_bytes > frame_bytes_max:
        raise BadFrameError(
            "dimension", list(reversed(shape)), f"{raw_bytes} bytes; the maximum is {frame_bytes_max}"
        )
    attributes, left_out = attributes_of(value)
    colour_mode = attributes.get("ColorMode")
    axis = _COLOUR_AXIS.get(colour_mode, 0) if len(shape) == 3 and isinstance(colour_mode, int) else 0
    image: Image
    if codec:
        if axis and is_passed_on(codec):
            raise BadFrameError(
                "ColorMode",
                colour_mode,
                f"compressed ({codec}) the colours of a pixel cannot be separated; use RGB3, or no codec",
            )
        image = image_of(codec, _payload(value, pixels), dtype, shape)
    else:
        image = _plain(pixels, shape)
    if axis and not isinstance(image, Compressed):
        image = np.ascontiguousarray(np.moveaxis(image, axis, 0))
        shape = image.shape
    return Frame(
        unique_id=unique_id,
        dtype=dtype,
        shape=shape if len(shape) > 1 else (1, *shape),
        codec=codec,
        image=image if isinstance(image, Compressed) or image.ndim > 1 else image.reshape(1, -1),
        attributes=attributes,
        time_stamps=time_stamps_of(value),
        dimensions=dimensions,
        colour_mode=colour_mode if isinstance(colour_mode, int) else None,
        left_out=left_out,
    )


def _codec_name(value: Any) -> str:
    codec = value.get("codec")
    name = codec.get("name", "") if codec is not None and hasattr(codec, "get") else ""
    if not isinstance(name, str):
        raise BadFrameError("codec.name", name, "expected text")
    return name


def _dimensions(value: Any) -> tuple[tuple[int, int, int, int, bool], ...]:
    found = value.get("dimension") or []
    if not 1 <= len(found) <= 3:
        raise BadFrameError("dimension", f"{len(found)} entries", "expected 1 to 3 dimensions")
    entries = []
    for place, each in enumerate(found):
        size = each.get("size")
        if not isinstance(size, int) or not 1 <= size < 2**31:
            raise BadFrameError(f"dimension[{place}].size", size, "expected a number of at least 1")
        entries.append(
            (
                size,
                int(each.get("offset", 0)),
                int(each.get("fullSize", size)),
                int(each.get("binning", 1)),
                bool(each.get("reverse", False)),
            )
        )
    return tuple(entries)


def _dtype_of(value: Any, pixels: np.ndarray[Any, Any], codec: str, elements: int) -> Dtype:
    """Of the pixels when they are expanded."""
    dtype: Dtype
    if not codec:
        dtype = pixels.dtype
    else:
        dtype = _compressed_dtype(value, pixels, elements)
        size = value.get("uncompressedSize")
        if size and size != elements * dtype.itemsize:
            raise BadFrameError(
                "uncompressedSize", size, f"the dimensions require {elements} elements of {dtype.name}"
            )
    if dtype.name not in TYPED_ARRAY:
        raise BadFrameError("value", dtype.name, f"one of {', '.join(TYPED_ARRAY)} is expected")
    return dtype


def _compressed_dtype(value: Any, pixels: np.ndarray[Any, Any], elements: int) -> Dtype:
    if pixels.dtype.itemsize > 1:  # ADCore's converter for PVXS keeps the field of the uncompressed type
        same: Dtype = pixels.dtype
        return same
    number = value.codec.get("parameters")
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadFrameError("codec.parameters", number, "expected the number of a type")
    size = value.get("uncompressedSize") or 0
    found: list[Dtype] = [
        np.dtype(names[number])
        for names in (_SCALAR_TYPES, _ND_TYPES)
        if 0 <= number < len(names) and names[number] != "bool"
    ]
    fitting = [dtype for dtype in found if dtype.itemsize * elements == size]
    if not found:
        raise BadFrameError("codec.parameters", number, "this type is unknown")
    chosen: Dtype = (fitting or found)[0]
    return chosen


def _payload(value: Any, pixels: np.ndarray[Any, Any]) -> memoryview:
    size = value.get("compressedSize")
    if not isinstance(size, int) or not 1 <= size <= pixels.nbytes:
        raise BadFrameError("compressedSize", size, f"the value has {pixels.nbytes} bytes")
    return pixels.data.cast("B")[:size]


def _plain(pixels: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if pixels.size != math.prod(shape):
        raise BadFrameError(
            "dimension",
            list(reversed(shape)),
            f"{math.prod(shape)} elements, and the value has {pixels.size}",
        )
    return pixels.reshape(shape)
