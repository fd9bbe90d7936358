"""Constants of a layout: numbers, texts and truth values, with the type that they get in the file."""

import math
from collections.abc import Sequence
from typing import Any, get_args

from penstock.model.layout.nodes import Constant
from penstock.model.plans import ElementType

TYPES = ("text", "bool", *get_args(ElementType))
_COUNT_MAX = 65536
_TEXT_BYTES_MAX = 65536


def constant_of(value: Any, kind: str | None = None) -> Constant:
    """Whole numbers are int64, others float64, unless `kind` says otherwise. Raises ValueError."""
    if kind is not None and kind not in TYPES:
        raise ValueError(f'the type "{kind}" is unknown; expected {", ".join(TYPES)}')
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ValueError("the list is empty")
    if len(items) > _COUNT_MAX:
        raise ValueError(f"it has {len(items)} values, which exceeds the maximum of {_COUNT_MAX}")
    kind = kind or _type_of(items)
    if kind == "bool" and isinstance(value, list):
        raise ValueError("lists of truth values are not supported; use int8")
    checked = [_checked(item, kind) for item in items]
    return Constant(kind, checked if isinstance(value, list) else checked[0])


def _type_of(items: Sequence[Any]) -> str:
    if all(isinstance(item, bool) for item in items):
        return "bool"
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return "int64"
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        return "float64"
    if all(isinstance(item, str) for item in items):
        return "text"
    raise ValueError("its values have different types")


def _checked(item: Any, kind: str) -> bool | int | float | str:
    if kind == "text":
        return _text(item)
    if kind == "bool":
        if isinstance(item, bool):
            return item
        raise ValueError(f"{item!r} is neither true nor false")
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise ValueError(f"{item!r} is not a number")
    if kind.startswith("float"):
        return _real(float(item), kind)
    if not isinstance(item, int) or not _fits(item, kind):
        raise ValueError(f"{item!r} does not fit {kind}")
    return item


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{item!r} is not text; put it in quotes")
    if "\0" in item or any(0xD800 <= ord(letter) <= 0xDFFF for letter in item):
        raise ValueError("the text has a character that HDF5 cannot store")
    if len(item.encode()) > _TEXT_BYTES_MAX:
        raise ValueError(f"the text is longer than {_TEXT_BYTES_MAX} bytes")
    return item


def _real(number: float, kind: str) -> float:
    if not math.isfinite(number) or (kind == "float32" and abs(number) > 3.4028234663852886e38):
        raise ValueError(f"{number!r} does not fit {kind}")
    return number


def _fits(number: int, kind: str) -> bool:
    bits = int(kind.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return bool(low <= number < high)
