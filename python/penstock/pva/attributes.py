"""NDAttributes and time stamps as per-frame metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

# Of the recorder (docs/reference/stream-v2.md), with room for the time stamps.
_ATTRIBUTES_MAX = 1000
_NAME_BYTES_MAX = 256
_VALUE_BYTES_MAX = 64 << 10
# From 1970 to 1990: NTNDArrays count from the one, areaDetector's files from the other.
_EPICS_EPOCH_S = 631_152_000


def attributes_of(value: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """By name, and those that are left out, with the reason. What has no value does not exist."""
    found: dict[str, Any] = {}
    left_out: list[str] = []
    entries = value.get("attribute") or []
    for entry in entries[:_ATTRIBUTES_MAX]:
        name, content = _name(entry.get("name")), _content(entry.get("value"))
        problem = _problem(name, content)
        if problem:
            left_out.append(f"{name!r:.80}: {problem}")
        elif content is not None:
            found[name] = content
    if len(entries) > _ATTRIBUTES_MAX:
        left_out.append(f"{len(entries) - _ATTRIBUTES_MAX} beyond {_ATTRIBUTES_MAX}")
    return found, tuple(left_out)


def _name(name: Any) -> str:
    """A column's name in the file has neither slashes nor control characters, nor a dot in front."""
    text = "".join("_" if char == "/" or not char.isprintable() else char for char in str(name or ""))
    return "_" + text[1:] if text.startswith(".") else text


def _problem(name: str, content: Any) -> str:
    if not name:
        return "it has no name"
    size = len(name.encode("utf-8", "replace"))
    if size > _NAME_BYTES_MAX:
        return f"a name of {size} bytes"
    size = (
        content.nbytes if isinstance(content, np.ndarray) else len(content) if isinstance(content, str) else 0
    )
    return (
        f"a value of {size} bytes, which exceeds the maximum of {_VALUE_BYTES_MAX}"
        if size > _VALUE_BYTES_MAX
        else ""
    )


def _content(value: Any) -> Any:
    """Numbers, texts and arrays as they are; of a structure (an NTScalar, say) its value."""
    if isinstance(value, list):
        return str([_content(each) for each in value[:1024]])
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic):
        return value
    inner = value.get("value") if hasattr(value, "get") else None
    return inner if isinstance(inner, bool | int | float | str | np.ndarray) else str(value)


def time_stamps_of(value: Any) -> dict[str, int | float]:
    """Under the names, and with the epoch (1990), that areaDetector's own files have."""
    seconds, nanoseconds = _stamp(value.get("timeStamp"))
    of_data = _stamp(value.get("dataTimeStamp"))
    return {
        "NDArrayTimeStamp": of_data[0] + of_data[1] * 1e-9,
        "NDArrayEpicsTSSec": seconds,
        "NDArrayEpicsTSnSec": nanoseconds,
    }


def _stamp(stamp: Any) -> tuple[int, int]:
    """Returns seconds since 1990 and nanoseconds; 0 if not sent."""
    if stamp is None:
        return 0, 0
    seconds, nanoseconds = int(stamp.get("secondsPastEpoch", 0)), int(stamp.get("nanoseconds", 0))
    return (seconds - _EPICS_EPOCH_S, nanoseconds) if seconds or nanoseconds else (0, 0)
