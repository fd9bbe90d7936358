"""CRC-32C (RFC 3720) of short messages, without a compiled module.

The register after a message is the exclusive or of what each byte adds at its distance from the end. numpy
looks all of them up at once, which takes microseconds where a loop over bytes would take tens of them.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78
BLOCK = 512  # bytes that are looked up at once


@cache
def _tables() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp]]:
    """At [256 * k + b] what byte b adds where k bytes follow it; and where those rows begin."""
    step = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        step = np.where(step & 1, (step >> 1) ^ np.uint32(_POLYNOMIAL), step >> 1).astype(np.uint32)
    rows = np.empty((BLOCK, 256), np.uint32)
    rows[0] = step
    for distance in range(1, BLOCK):
        rows[distance] = (rows[distance - 1] >> 8) ^ step[rows[distance - 1] & 0xFF]
    return rows.reshape(-1), np.arange(BLOCK - 1, -1, -1, dtype=np.intp) * 256


def crc32c(data: bytes) -> int:
    """Of no bytes it is 0, of b"123456789" it is 0xe3069283."""
    table, starts = _tables()
    state = 0xFFFFFFFF
    for begin in range(0, len(data), BLOCK):
        piece = data[begin : begin + BLOCK]
        # The register so far stands before the first four bytes; of a shorter piece some of it is left over.
        size = len(piece)
        mixed = int.from_bytes(piece[:4], "little") ^ state
        first = (mixed & 0xFFFFFFFF).to_bytes(4, "little")[:size]
        places = np.frombuffer(first + piece[4:], np.uint8) + starts[BLOCK - size :]
        rest = state >> (8 * size) if size < 4 else 0
        state = int(np.bitwise_xor.reduce(table.take(places))) ^ rest
    return state ^ 0xFFFFFFFF


@cache
def _added_by(followed_by: int) -> list[int]:
    """Returns the contribution of each byte that is followed by this many bytes."""
    values: list[int] = _tables()[0][256 * followed_by : 256 * (followed_by + 1)].tolist()
    return values


def patched(crc: int, size: int, at: int, number: int) -> int:
    """The checksum of `size` bytes, at most BLOCK, with the little-endian `number` at `at`.

    `crc` is that with zeros there: the parts of a sum add up.
    """
    while number:
        crc ^= _added_by(size - 1 - at)[number & 0xFF]
        number >>= 8
        at += 1
    return crc
