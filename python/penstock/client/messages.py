"""The messages start, image and end (docs/reference/stream-v2.md) as CBOR, with the pixels apart."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import cbor2
import numpy as np

from penstock.client.crc32c import BLOCK, crc32c, patched
from penstock.client.errors import FrameError
from penstock.client.pixels import TYPED_ARRAY, FrameSpec
from penstock.client.wire import MESSAGE_BYTES_MAX, self_described

_ARRAY, _COMPRESSED = 40, 56500
_CHECKSUMS_KEPT = 256
# Fields of start that have an argument of their own.
OWN_FIELDS = {
    "type": "no argument",
    "series_id": "series_id",
    "series_unique_id": "name",
    "channels": "channels",
    "image_dtype": "dtype",
    "image_size_x": "shape",
    "image_size_y": "shape",
    "image_size_z": "shape",
    "number_of_images": "frames",
    "arm_date": "no argument",
    "user_data": "user_data and element",
}


# Other fields of start that the recorder understands (docs/reference/stream-v2.md).
_KNOWN_FIELDS = (
    "beam_center_x", "beam_center_y", "count_time", "frame_time", "countrate_correction_enabled",
    "countrate_correction_lookup_table", "detector_description", "detector_serial_number",
    "detector_translation", "flatfield", "flatfield_enabled", "goniometer", "incident_energy",
    "incident_wavelength", "pixel_mask", "pixel_mask_enabled", "pixel_size_x", "pixel_size_y",
    "saturation_value", "sensor_material", "sensor_thickness", "threshold_energy",
    "virtual_pixel_interpolation_enabled",
)  # fmt: skip
_SIMILAR = 0.85


def _plain(encoder: cbor2.CBOREncoder, value: object) -> None:
    """Of numpy's scalars and arrays, in metadata: numbers and lists."""
    if not isinstance(value, np.generic | np.ndarray):
        raise FrameError(f"metadata has a {type(value).__name__}, which cannot be sent in a message")
    encoder.encode(value.tolist())


def typed(array: np.ndarray[Any, Any]) -> Any:
    """An array of a start message (a mask, a flat field, a table), with its pixels in it."""
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    tag = TYPED_ARRAY.get(array.dtype.name)
    if tag is None:
        raise FrameError(
            f"metadata has an array of {array.dtype}; one of {', '.join(TYPED_ARRAY)} is possible"
        )
    data = cbor2.CBORTag(tag, array.astype(array.dtype.newbyteorder("<")).tobytes())
    return data if array.ndim == 1 else cbor2.CBORTag(_ARRAY, [list(array.shape), data])


def _start_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return typed(value)
    if isinstance(value, Mapping):
        return {str(key): _start_value(entry) for key, entry in value.items()}
    return value


def user_data_of(
    user_data: Mapping[str, Any] | None, element: tuple[int, int, int] | None
) -> dict[str, Any] | None:
    """With the element where the recorder looks for it: `element` is rows, columns and number. What
    `user_data` says there of gaps stays.
    """
    if element is None:
        return None if user_data is None else dict(user_data)
    rows, columns, number = element
    for part in element:
        if isinstance(part, bool) or not isinstance(part, int) or part < 0:
            raise FrameError(
                f"element {element!r}: {part!r} is not an integer of at least 0;"
                " expected rows, columns and number"
            )
    if not 0 <= number < rows * columns:
        raise FrameError(
            f"element {number} of a grid of {rows} × {columns}; 0 to {rows * columns - 1} is possible"
        )
    place = {"grid": [rows, columns], "number": number}
    given = dict(user_data or {})
    own = dict(given.get("penstock") or {})
    return given | {"penstock": own | {"element": dict(own.get("element") or {}) | place}}


def start(
    *,
    series_id: int,
    name: str,
    spec: FrameSpec,
    channels: tuple[str, ...],
    frames: int | None,
    date: str,
    metadata: Mapping[str, Any],
    user_data: Mapping[str, Any] | None,
) -> bytes:
    for field in metadata:
        if field in OWN_FIELDS:
            raise FrameError(f"metadata sets {field}, which is for {OWN_FIELDS[field]} of the series")
        near = [] if field in _KNOWN_FIELDS else get_close_matches(field.lower(), _KNOWN_FIELDS, 1, _SIMILAR)
        if near:
            warnings.warn(
                f'metadata: "{field}" is not a field of the start message; did you mean "{near[0]}"?',
                stacklevel=4,
            )
    sizes = dict(zip(("image_size_x", "image_size_y", "image_size_z"), reversed(spec.shape), strict=False))
    fields = {
        "type": "start",
        "series_id": series_id,
        "series_unique_id": name,
        "arm_date": date,
        "channels": list(channels),
        "image_dtype": spec.dtype.name,
        **sizes,
        **({} if frames is None else {"number_of_images": frames}),
        **{field: _start_value(value) for field, value in metadata.items()},
        **({} if user_data is None else {"user_data": user_data}),
    }
    return b"\xd9\xd9\xf7" + _dumps(fields)


def end(series_id: int, name: str, *, sole: bool = False) -> bytes:
    fields: dict[str, Any] = {"type": "end", "series_id": series_id, "series_unique_id": name}
    return self_described(fields | ({"sole": True} if sole else {}))


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def nanoseconds(moment: datetime.datetime) -> int:
    """Since 1970, without the rounding of a float."""
    return (
        (moment - datetime.datetime.fromtimestamp(0, datetime.UTC))
        // datetime.timedelta(microseconds=1)
        * 1000
    )


def _dumps(value: Any) -> bytes:
    try:
        return cbor2.dumps(value, default=_plain)
    except FrameError:
        raise
    except Exception as problem:  # of the encoder
        raise FrameError(f"metadata cannot be sent: {problem}") from problem


class ImageMessages:
    """Image messages of one series. What does not change from frame to frame is encoded once."""

    def __init__(self, series_id: int, name: str, spec: FrameSpec, date: str) -> None:
        self._spec = spec
        self._first = b"".join(
            cbor2.dumps(item)
            for item in ("type", "image", "series_id", series_id, "series_unique_id", name, "image_id")
        )
        self._date = cbor2.dumps("series_date") + cbor2.dumps(date)
        self._bare = b"\xd9\xd9\xf7\xa5" + self._first
        self._plain_data: dict[tuple[tuple[str, tuple[str, int]], ...], bytes] = {}
        self._checksums: dict[tuple[int, bytes], int] = {}  # of plain images, with zeros for the number

    def encode(
        self,
        number: int,
        data: Mapping[str, tuple[str, int]],
        metadata: Mapping[str, Any] | None,
        times: Mapping[str, int],
    ) -> tuple[bytes, int]:
        """`data` has for each channel its encoding ("" for plain pixels) and its bytes, in the order of the
        pixels; `times` are nanoseconds. The message and its checksum."""
        image_id, pixels = cbor2.dumps(number), self._data(data)
        if metadata is None and not times:
            message = self._bare + image_id + pixels
            return message, self._checksum(message, image_id, pixels)
        entries = 5 + (metadata is not None) + (1 + len(times) if times else 0)
        parts = [b"\xd9\xd9\xf7", bytes([0xA0 + entries]), self._first, image_id, pixels]
        if times:
            parts.append(self._date)
            for key, nanoseconds in times.items():
                if not isinstance(nanoseconds, int | np.integer) or nanoseconds < 0:
                    raise FrameError(
                        f"{key} is {nanoseconds!r}; nanoseconds from 0 are expected, as an integer"
                    )
                parts.append(cbor2.dumps(key) + cbor2.dumps([int(nanoseconds), 1_000_000_000]))
        if metadata is not None:
            parts.append(cbor2.dumps("user_data") + _dumps(dict(metadata)))
        message = b"".join(parts)
        if len(message) > MESSAGE_BYTES_MAX:
            raise FrameError(
                f"frame {number}: {len(message)} bytes of metadata; at most {MESSAGE_BYTES_MAX} fit"
            )
        return message, crc32c(message)

    def damaged(self, number: int, why: str) -> tuple[bytes, int]:
        """Of a frame that has no pixels; the message and its checksum."""
        message = self._bare + cbor2.dumps(number) + cbor2.dumps("damaged") + _dumps(why)
        return message, crc32c(message)

    def _checksum(self, message: bytes, number: bytes, data: bytes) -> int:
        """Where only the number differs from other frames' messages, only that is summed."""
        place = len(self._bare)
        digits = int.from_bytes(number, "little")
        known = self._checksums.get((len(number), data))
        if known is not None:
            return patched(known, len(message), place, digits)
        crc = crc32c(message)
        if len(self._checksums) < _CHECKSUMS_KEPT and len(message) <= BLOCK:
            self._checksums[len(number), data] = patched(crc, len(message), place, digits)
        return crc

    def _data(self, data: Mapping[str, tuple[str, int]]) -> bytes:
        key = tuple(data.items())
        known = self._plain_data.get(key)
        if known is not None:
            return known
        channels, offset = {}, 0
        shape, tag = list(self._spec.shape), TYPED_ARRAY[self._spec.dtype.name]
        for name, (encoding, size) in data.items():
            place: Any = [offset, size]
            if encoding:
                place = cbor2.CBORTag(_COMPRESSED, [encoding, self._spec.dtype.itemsize, place])
            channels[name] = cbor2.CBORTag(_ARRAY, [shape, cbor2.CBORTag(tag, place)])
            offset += size
        encoded = cbor2.dumps("data") + cbor2.dumps(channels)
        if not any(encoding for encoding, _ in data.values()):
            self._plain_data[key] = encoded
        return encoded
