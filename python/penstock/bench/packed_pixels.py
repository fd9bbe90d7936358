"""Gzip files in which two pixels take a byte, whatever that byte is (RFC 1951 and 1952).

Deflate lets a file say which bits stand for which byte. Here the differences of pixels from -7 to 7 have
codes of four bits each, so that any half of a byte but 0xF is one: the load generator can give each frame
random pixels of its own, and has to change nothing else but the checksum.
"""

import struct
import zlib

import numpy
import numpy.typing

_STORED_MAX = 0xFFFF
# The order in which Deflate has the lengths of the codes that say the lengths of codes.
_LENGTHS_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_LENGTHS = {0: 2, 4: 2, 5: 2, 18: 2}
_LENGTH_CODES = {0: "00", 4: "01", 5: "10", 18: "11"}
_END_CODE = "11111"  # of the block; the other code of five bits is that of 8, which no pixel has


def gzip_of_differences(
    head: bytes, steps: numpy.typing.NDArray[numpy.int8], tail: bytes
) -> tuple[bytes, int]:
    """The file of `head`, the bytes of `steps` (-7 to 7 each) and `tail`; and where its pixels begin.

    They are two in a byte, the first one in the lower half; a last one without a second follows them.
    """
    if max(len(head), len(tail)) > _STORED_MAX:
        raise ValueError("what is around the pixels is too long")
    pairs = len(steps) // 2
    codes = _codes(steps)
    start = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0" + _stored(head) + _bytes_of(_code_lengths())
    packed = (codes[: 2 * pairs : 2] | codes[1 : 2 * pairs : 2] << 4).astype(numpy.uint8).tobytes()
    odd = "".join(f"{code:04b}"[::-1] for code in codes[2 * pairs :])
    whole = b"".join((head, steps.tobytes(), tail))
    end = _bytes_of(odd + _END_CODE + "100") + _stored(tail)
    checksum = struct.pack("<II", zlib.crc32(whole), len(whole) & 0xFFFFFFFF)
    return start + packed + end + checksum, len(start)


def _codes(steps: numpy.typing.NDArray[numpy.int8]) -> numpy.typing.NDArray[numpy.uint8]:
    """By their bytes: 0 to 7 are the codes 0 to 7, -7 to -1 are 8 to 14; a code's first bit is the lowest."""
    table = numpy.zeros(256, numpy.uint8)
    for code, byte in enumerate([*range(8), *range(256 - 7, 256)]):
        table[byte] = int(f"{code:04b}"[::-1], 2)
    return table[steps.view(numpy.uint8)]


def _code_lengths() -> str:
    """The head of a block with codes of its own, as bits in their order. It has whole bytes."""
    said = [_number(0, 1), _number(2, 2), _number(0, 5), _number(0, 5), _number(len(_LENGTHS_ORDER) - 4, 4)]
    said += [_number(_LENGTHS.get(length, 0), 3) for length in _LENGTHS_ORDER]
    none = [(18, 138), (18, 102)]  # of 9 to 248
    for length, count in [*[(4, 1)] * 8, (5, 1), *none, *[(4, 1)] * 7, (5, 1), (0, 1)]:
        said.append(_LENGTH_CODES[length])
        if length == 18:
            said.append(_number(count - 11, 7))
    return "".join(said)


def _number(value: int, bits: int) -> str:
    """Its lowest bit comes first."""
    return f"{value:0{bits}b}"[::-1]


def _bytes_of(bits: str) -> bytes:
    """Eight bits each, the first one lowest; what is missing of the last byte are zeros."""
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


def _stored(data: bytes) -> bytes:
    """What follows the first byte of a block that is not packed."""
    return struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
