"""Sizes, rates and addresses as people write them."""

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

BANDWIDTH_MAX = 1e18
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[kKMGTP]i?B|B)?")
_DECIMAL = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY = {"KiB": 2**10, "kiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_UNITS = _DECIMAL | _BINARY
_SHOWN_BINARY, _SHOWN_DECIMAL = ("PiB", "TiB", "GiB", "MiB", "KiB"), ("PB", "TB", "GB", "MB", "kB", "B")
_BANDWIDTH = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]+)/s")
_BITS_AS_TC = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<prefix>[kmgt])bit(?:/s)?", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<prefix>[kmgt])bps", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_EXAMPLE_LENGTH_MAX = 6
_BITS = {
    prefix + name: 10**power
    for prefix, power in (("k", 3), ("M", 6), ("G", 9), ("T", 12))
    for name in ("b", "bit")
}


def parse_size(text: str) -> int:
    """Returns the bytes of "1 GiB", "8MiB", "1.5 GB" or "4096 B"; only 0 needs no unit.

    Raises ValueError with the reason.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a size; write for example 1 GiB, 8 MiB, 1.5 GB or 4096 B')
    if match["unit"] is None and match["number"].strip("0."):
        raise ValueError(
            f"{text.strip()} has no unit; write for example {_own(match['number'])} MB, or B for bytes"
        )
    try:
        count = Decimal(match["number"]) * _UNITS[match["unit"] or "B"]
    except InvalidOperation as error:
        raise ValueError(f'"{text}" is not a size: the number is too long') from error
    if count >= 2**63:
        raise ValueError(f'"{text}" is too large: sizes are below 8388608 TiB')
    if count != int(count):
        raise ValueError(f'"{text}" is {count.normalize():f} bytes; a size is a whole number of bytes')
    return int(count)


def parse_bandwidth(text: str) -> float:
    """Returns the bytes per second of "250 MB/s", "1.5 GiB/s" or, in bits, "100 Gb/s" or "100gbit".

    Raises ValueError with the reason.
    """
    if _PLAIN_NUMBER.fullmatch(text.strip()) and text.strip("0. "):
        raise ValueError(f"{text.strip()} has no unit; write for example {_own(text.strip())} GB/s")
    if match := _AMBIGUOUS.fullmatch(text.strip()):
        prefix = _prefix(match["prefix"])
        raise ValueError(
            f"{text.strip()} is ambiguous: tc(8) counts bytes, others count bits;"
            f" write {match['number']}{prefix}B/s for bytes or {match['number']}{prefix}b/s for bits"
        )
    if match := _BITS_AS_TC.fullmatch(text.strip()):
        text = f"{match['number']} {_prefix(match['prefix'])}bit/s"
    match = _BANDWIDTH.fullmatch(text.strip())
    unit = match["unit"] if match else ""
    if match is None or unit not in _UNITS | _BITS:
        raise ValueError(
            f'"{text}" is not a bandwidth; write for example 250 MB/s, 1.5 GiB/s, or 100 Gb/s for bits'
        )
    value = float(match["number"]) * (_UNITS[unit] if unit in _UNITS else _BITS[unit] / 8)
    if not value <= BANDWIDTH_MAX:
        raise ValueError(f'"{text}" is too large: bandwidths are at most {BANDWIDTH_MAX:g} B/s')
    return value


def _prefix(written: str) -> str:
    return "k" if written in ("k", "K") else written.upper()


def _own(number: str) -> str:
    """Returns the user's number for an example; 2 if it is long, as that of many bytes is."""
    return number if len(number) < _EXAMPLE_LENGTH_MAX else "2"


def format_size(count: int) -> str:
    """The text with the fewest digits that parse_size reads as exactly `count`; of several, a binary one."""
    units = [each for each in (*_SHOWN_BINARY, *_SHOWN_DECIMAL) if count and count % _UNITS[each] == 0]
    unit = min(units or ["B"], key=lambda each: len(str(count // int(_UNITS[each]))))
    return f"{count // int(_UNITS[unit])} {unit}"


_NUMBER_MIN = 1e-9
_NUMBER_MAX = 1e15


def human_number(value: float, digits: int = 3, sign: str = "") -> str:
    """Returns it rounded to this number of digits, without an exponent from 1e-9 to 1e15: "12300", "0.0123".

    `sign` is "+" where a plus is to stand before what is not negative.
    """
    rounded = float(f"{value:.{digits}g}") + 0.0  # no minus before 0
    size = abs(rounded)
    if math.isnan(value):
        return "nan"  # which has no sign
    if not math.isfinite(value) or (size and not _NUMBER_MIN <= size < _NUMBER_MAX):
        return f"{value:{sign}.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{rounded:{sign}.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def human_percent(share: float, digits: int = 3, sign: str = "") -> str:
    """Rounded for people: "98.3 %", "12300 %", "0.00012 %"."""
    return f"{human_number(100 * share, digits, sign)} %"


def human_hz(rate_hz: float, digits: int = 4) -> str:
    """Returns a rounded rate with more digits than other units, to distinguish similar rates: "81.34 Hz"."""
    return f"{human_number(rate_hz, digits)} Hz"


def human_bytes(count: float, like: float | None = None) -> str:
    """Returns a rounded amount: "24.9 MB"; "inf B" and "nan B" for numbers that are not finite.

    `like`: another amount of the same table, whose unit is used.
    """
    known = count if like is None else like
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(known) >= _ROUNDED_UP * size:
            return f"{human_number(count / size)} {unit}"
    return f"{count:.0f} B"


# What is a thousand when it is rounded has the next unit.
_ROUNDED_UP = 0.9995
_BINARY_DIGITS_MAX = 4
_SECONDS_MAX = 1e9  # thirty years: nobody measured that
_MICROSECONDS_MAX = 100


def human_size(count: int) -> str:
    """A size that somebody chose, as it was written, mostly: "1 MiB", "2.5 MB"; else rounded."""
    if count < 0:
        return f"-{human_size(-count)}"
    decimal, binary = human_bytes(count), format_size(count)
    is_short = len(binary.partition(" ")[0]) <= _BINARY_DIGITS_MAX
    return binary if is_short and parse_size(decimal) != count else decimal


def size_within(count: int) -> str:
    """Returns the largest size of two digits within `count`: "6.5 GB"."""
    digits = max(0, len(str(count)) - 2)
    return human_bytes(count // 10**digits * 10**digits)


def size_at_least(count: int) -> str:
    """Returns the smallest size of three digits that is not below `count`: "125 MB"."""
    unit = 10 ** max(0, len(str(count)) - 3)
    return human_bytes(-(-count // unit) * unit)


def human_rate(bytes_per_s: float, like: float | None = None) -> str:
    """Returns a rounded rate: "622 MB/s". `like`: another rate, whose unit is used."""
    return f"{human_bytes(bytes_per_s, like)}/s"


def human_seconds(seconds: float) -> str:
    """Returns a rounded time: "12.3 s", "4.1 ms", "2 h 05 min"; "inf s" and "nan s" if it is not finite.

    Microseconds are shown below 100 µs only, so that times beside one another mostly have one unit.
    """
    if not math.isfinite(seconds) or abs(seconds) >= _SECONDS_MAX:
        return f"{human_number(seconds)} s"
    if seconds < 0:
        text = human_seconds(-seconds)
        return text if text == human_seconds(0) else f"-{text}"
    microseconds = round(seconds * 1e6)
    if microseconds < _MICROSECONDS_MAX:
        return f"{microseconds} µs" if microseconds else "0 s"
    if seconds < _ROUNDED_UP:
        return f"{human_number(seconds * 1e3)} ms"
    if seconds < 119.5:
        return f"{human_number(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


_SHARE = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)\s*(?P<percent>%)?")


def parse_share(text: str) -> float:
    """Returns 0.3 of "0.3" or "30 %". Raises ValueError."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a share; write for example 0.3 or 30%')
    return float(match["number"]) / (100 if match["percent"] else 1)


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "description": "size"}),
]
"""A number of bytes, or text with a unit."""


def _bandwidth(value: Any) -> Any:
    return parse_bandwidth(value) if isinstance(value, str) else value


Bandwidth = Annotated[
    float,
    BeforeValidator(_bandwidth),
    Field(gt=0, le=BANDWIDTH_MAX, allow_inf_nan=False),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "description": "bytes a second"}),
]
"""A number of bytes per second, or text with a unit."""


def with_unit_of_size(value: Any) -> Any:
    """Returns the value. Raises ValueError for a positive number: people write sizes with their unit."""
    return parse_size(str(value)) if _lacks_unit(value) else value


def _with_unit_of_bandwidth(value: Any) -> Any:
    return parse_bandwidth(str(value)) if _lacks_unit(value) else value


def _lacks_unit(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value < math.inf
        and _PLAIN_NUMBER.fullmatch(str(value)) is not None
    )


WrittenSize = Annotated[Size, BeforeValidator(with_unit_of_size)]
"""A size in a file that people write, in a field whose name has no unit: text with a unit, or 0."""

WrittenBandwidth = Annotated[Bandwidth, BeforeValidator(_with_unit_of_bandwidth)]
"""A bandwidth in a file that people write: text with a unit."""


def split_address(text: str, default_port: int) -> tuple[str, int]:
    """Host and port of "HOST:PORT", "HOST", ":PORT" or "[IPv6]:PORT"."""
    match = re.fullmatch(
        r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]\s]*))(?::(?P<port>[0-9]+))?", text.strip()
    )
    if match is None:
        raise ValueError(f'"{text}" is not an address; write HOST:PORT, for example 127.0.0.1:9900')
    port = int(match["port"]) if match["port"] else default_port
    if port > 65535:
        raise ValueError(f'"{text}" has port {port}; ports are 0 to 65535 (0 lets the system choose)')
    return match["v6"] or match["host"] or "127.0.0.1", port


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`; any name but localhost counts as reachable from outside."""
    return host in {"localhost", "::1"} or re.fullmatch(r"127\.[0-9]+\.[0-9]+\.[0-9]+", host) is not None
