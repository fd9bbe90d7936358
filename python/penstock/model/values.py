"""Batches of values, as they come over TCP and lie in journals (docs/reference/values.md). No I/O."""

from dataclasses import dataclass, field
from typing import Any

import cbor2
import numpy as np
import numpy.typing as npt

MESSAGE_BYTES_MAX = 4 << 20
NAME_BYTES_MAX = 255
CHANNELS_MAX = 100_000  # of a journal
VALUE_BYTES_MAX = 4096
UNITS_BYTES_MAX = 64
SEVERITY = ".SEVR"  # behind a channel's name: EPICS's field with the severity of its alarm
INVALID = 3
TYPES = {
    64: "u1", 69: "<u2", 70: "<u4", 71: "<u8",
    72: "i1", 77: "<i2", 78: "<i4", 79: "<i8",
    85: "<f4", 86: "<f8",
}  # fmt: skip
_SELF_DESCRIBED = b"\xd9\xd9\xf7"  # tag 55799: a decoder makes what is in it unchangeable, so it is taken off
_ARRAY = 40
_DIMENSIONS_MAX = 8

Array = npt.NDArray[Any]


class BatchError(ValueError):
    """Names the field and the value that are wrong."""


@dataclass(frozen=True)
class Group:
    """Rows of several channels at the same frames or times."""

    by: str  # "frame" or "time" (ns since 1970)
    index: npt.NDArray[np.int64]
    series: str | None
    columns: dict[str, Array]  # a row each; texts as UTF-8, dtype "S"


@dataclass(frozen=True)
class Batch:
    """`client` and `number` identify a batch, also if it is sent again."""

    client: str
    number: int
    groups: list[Group]
    units: dict[str, str] = field(default_factory=dict)  # of channels, if they were sent

    @property
    def values(self) -> int:
        return sum(len(group.index) * len(group.columns) for group in self.groups)


def parse_batch(text: bytes) -> Batch:
    """Returns the batch. Raises BatchError with the reason if these bytes are not a batch."""
    if len(text) > MESSAGE_BYTES_MAX:
        raise BatchError(
            f"the message has {len(text)} bytes, which exceeds the maximum of {MESSAGE_BYTES_MAX}"
        )
    try:
        fields = cbor2.loads(text.removeprefix(_SELF_DESCRIBED))
    except Exception as problem:  # whatever a decoder makes of hostile bytes
        raise BatchError(f"it is not CBOR: {problem!s:.200}") from problem
    if not isinstance(fields, dict) or fields.get("type") != "values":
        raise BatchError('it is not a map with type "values"')
    groups = fields.get("groups")
    if not isinstance(groups, list) or not groups:
        raise BatchError(f"groups is {_shown(groups)}, which is not a list of groups")
    return Batch(
        _name(fields.get("client"), "client"),
        _count(fields.get("batch"), "batch"),
        [_group(group, f"groups[{place}]") for place, group in enumerate(groups)],
        _units(fields.get("units", {})),
    )


def _units(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or len(found) > CHANNELS_MAX:
        raise BatchError(f"units is {_shown(found)}, which is not a map of units")
    return {
        _name(name, "units: a channel's name"): _name(text, f"units[{name!r:.80}]", UNITS_BYTES_MAX)
        for name, text in found.items()
    }


def _group(group: Any, where: str) -> Group:
    if not isinstance(group, dict):
        raise BatchError(f"{where} is {_shown(group)}, which is not a map")
    if ("frame" in group) == ("time" in group):
        raise BatchError(f"{where} has {'both' if 'frame' in group else 'neither'} of frame and time")
    by = "frame" if "frame" in group else "time"
    index = _numbers(group[by], f"{where}.{by}")
    if index.ndim != 1 or index.dtype.kind not in "iu" or not len(index):
        raise BatchError(f"{where}.{by} is not a row of integers")
    if int(index.min()) < 0 or int(index.max()) >= 1 << 63:
        raise BatchError(
            f"{where}.{by} has {int(index.min())} to {int(index.max())}; 0 to 2^63-1 is possible"
        )
    series = group.get("series")
    columns = group.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise BatchError(f"{where}.columns is {_shown(columns)}, which is not a map of columns")
    found = {}
    for name, column in columns.items():
        _name(name, f"{where}.columns: a channel's name")
        found[name] = _column(column, f"{where}.columns[{name!r}]", len(index))
    return Group(
        by, index.astype(np.int64), None if series is None else _name(series, f"{where}.series"), found
    )


def _column(column: Any, where: str, rows: int) -> Array:
    if isinstance(column, list) and column and all(isinstance(value, str) for value in column):
        values = _texts(column, where)
    else:
        values = _numbers(column, where)
    if values.ndim == 0 or len(values) != rows:
        raise BatchError(f"{where} has {len(values) if values.ndim else 0} rows, but there are {rows}")
    size = values.nbytes // rows
    if size > VALUE_BYTES_MAX or size == 0:
        raise BatchError(f"{where} has {size} bytes a value; 1 to {VALUE_BYTES_MAX} are possible")
    return values


def _texts(column: list[str], where: str) -> Array:
    if any("\0" in value for value in column):
        raise BatchError(f"{where} has a text with a zero character")
    try:
        encoded = [value.encode() for value in column]
    except UnicodeEncodeError as problem:
        raise BatchError(f"{where} has text that is not Unicode") from problem
    longest = max(map(len, encoded))
    if longest > VALUE_BYTES_MAX:
        raise BatchError(f"{where} has a text of {longest} bytes; at most {VALUE_BYTES_MAX} are possible")
    if longest * len(encoded) > 4 * MESSAGE_BYTES_MAX:
        raise BatchError(f"{where} has texts of too different lengths; send fewer rows together")
    return np.array(encoded, dtype=f"S{max(1, longest)}")


def _numbers(value: Any, where: str) -> Array:
    """A typed array (RFC 8746), one with a shape, or a plain list of numbers."""
    if isinstance(value, cbor2.CBORTag) and value.tag == _ARRAY:
        return _shaped(value.value, where)
    if isinstance(value, cbor2.CBORTag):
        if value.tag not in TYPES or not isinstance(value.value, bytes):
            raise BatchError(f"{where} is tag {value.tag}; one of {', '.join(map(str, TYPES))} is possible")
        kind = np.dtype(TYPES[value.tag])
        if len(value.value) % kind.itemsize:
            raise BatchError(f"{where} has {len(value.value)} bytes, which are no {kind.name} numbers")
        return np.frombuffer(value.value, kind)
    if isinstance(value, list) and all(isinstance(number, int | float) for number in value):
        integers = all(isinstance(number, int) for number in value)
        try:
            return np.array(value, dtype=np.int64 if integers else np.float64)
        except OverflowError as problem:
            raise BatchError(f"{where} has a number beyond 64 bits") from problem
    raise BatchError(f"{where} is {_shown(value)}, which is not a column of numbers or text")


def _shaped(value: Any, where: str) -> Array:
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[0], list | tuple):
        raise BatchError(f"{where} is not an array with a shape")
    shape, flat = value[0], _numbers(value[1], where) if not _is_shaped(value[1]) else None
    if flat is None or not 1 <= len(shape) <= _DIMENSIONS_MAX:
        raise BatchError(f"{where} has {len(shape)} dimensions; 1 to {_DIMENSIONS_MAX} are possible")
    product = 1
    for length in shape:
        product *= _count(length, f"{where}: a length")
    if product != flat.size:
        raise BatchError(f"{where} has the shape {_shown(shape)} and {flat.size} numbers")
    return flat.reshape(shape)


def _is_shaped(value: Any) -> bool:
    return isinstance(value, cbor2.CBORTag) and value.tag == _ARRAY


def _name(value: Any, what: str, bytes_max: int = NAME_BYTES_MAX) -> str:
    if not isinstance(value, str) or not value:
        raise BatchError(f"{what} is {_shown(value)}, which is not a name")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as problem:
        raise BatchError(f"{what} is not Unicode") from problem
    if size > bytes_max:
        raise BatchError(f"{what} has {size} bytes; at most {bytes_max} are possible")
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in value):
        raise BatchError(f"{what} is {_shown(value)}, which has control characters")
    return value


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise BatchError(f"{what} is {_shown(value)}, which is not a count")
    return value


def _shown(value: Any) -> str:
    """Short, whatever it is: a repr of something large is never made."""
    if isinstance(value, str | bytes):
        return repr(value[:64])
    if isinstance(value, int | float) and not (isinstance(value, int) and abs(value) >> 64):
        return repr(value)
    return "nothing" if value is None else f"a {type(value).__name__}"
