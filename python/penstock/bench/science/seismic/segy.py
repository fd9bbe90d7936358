"""SEG-Y revision 1, as far as a sort needs it: headers of the file, and traces as rows of an array.

Source: SEG-Y rev 1 data exchange format, SEG Technical Standards Committee, 2002.
"""

import hashlib
from typing import Any

import numpy
import numpy.typing

TEXT_BYTES, BINARY_BYTES, TRACE_HEADER_BYTES = 3200, 400, 240
DATA_AT = TEXT_BYTES + BINARY_BYTES
AS_RECORDED, BY_CDP = 1, 2
_IEEE_FLOAT = 5
_LIVE = 1
_INTERVAL_US = 2000
_MASK = (1 << 64) - 1

Rows = numpy.typing.NDArray[Any]
Keys = numpy.typing.NDArray[numpy.int64]

# Name, type and first byte of what is used of a trace's header, the first byte being 0.
_FIELDS = (
    ("trace", ">i4", 0),
    ("trace_in_file", ">i4", 4),
    ("shot", ">i4", 8),
    ("channel", ">i4", 12),
    ("cdp", ">i4", 20),
    ("kind", ">i2", 28),
    ("offset", ">i4", 36),
    ("samples_count", ">i2", 114),
    ("interval_us", ">i2", 116),
)


def trace_bytes(samples: int) -> int:
    return TRACE_HEADER_BYTES + 4 * samples


def trace_type(samples: int) -> numpy.dtype[Any]:
    """A trace: fields of its header, and its samples."""
    names, formats, offsets = zip(*_FIELDS, strict=True)
    return numpy.dtype(
        {
            "names": [*names, "samples"],
            "formats": [*formats, (">u4", (samples,))],
            "offsets": [*offsets, TRACE_HEADER_BYTES],
            "itemsize": trace_bytes(samples),
        }
    )


def fill_header(rows: Rows, samples: int) -> None:
    """What all traces have in common."""
    rows["kind"], rows["samples_count"], rows["interval_us"] = _LIVE, samples, _INTERVAL_US


def file_header(samples: int, order: int) -> bytes:
    """The textual and the binary header of a file. `order`: AS_RECORDED or BY_CDP."""
    lines = [f"C{number:2d} {text}".ljust(80) for number, text in enumerate(_lines(samples, order), 1)]
    binary = numpy.zeros(BINARY_BYTES, numpy.uint8)
    words = {16: _INTERVAL_US, 18: _INTERVAL_US, 20: samples, 22: samples, 24: _IEEE_FLOAT, 28: order}
    for at, word in (words | {54: 1, 300: 0x0100, 302: 1}).items():
        binary[at : at + 2] = numpy.frombuffer(word.to_bytes(2, "big"), numpy.uint8)
    return "".join(lines).encode("cp037") + binary.tobytes()


def _lines(samples: int, order: int) -> list[str]:
    what = "traces in the order of shots" if order == AS_RECORDED else "traces sorted by CDP and offset"
    used = ["Penstock: generated data for a benchmark, not a survey", what, f"{samples} samples in a trace"]
    return [*used, *[""] * (36 - len(used)), "", "", "SEG Y REV1", "END TEXTUAL HEADER"]


def keys_of(rows: Rows) -> Keys:
    """CDP and offset as one number, which sorts as they do: both are signed in 32 bits."""
    return (rows["cdp"].astype(numpy.int64) << 32) + (rows["offset"].astype(numpy.int64) + (1 << 31))


def key_text(key: int) -> str:
    return f"CDP {key >> 32}, offset {(key & 0xFFFFFFFF) - (1 << 31)}"


def hashes_of(rows: Rows) -> numpy.typing.NDArray[numpy.uint64]:
    """64 bits of each trace, header and samples."""
    size = rows.dtype.itemsize
    raw = rows.view(numpy.uint8).data
    digests = b"".join(
        hashlib.blake2b(raw[at : at + size], digest_size=8).digest()
        for at in range(0, len(rows) * size, size)
    )
    return numpy.frombuffer(digests, numpy.uint64)


def added(checksum: int, hashes: numpy.typing.NDArray[numpy.uint64]) -> int:
    """A checksum that does not depend on the order of traces: the sum of their hashes."""
    return (checksum + int(numpy.add.reduce(hashes, dtype=numpy.uint64, initial=0))) & _MASK
