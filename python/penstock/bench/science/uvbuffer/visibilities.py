"""The content of a file: a header, and visibilities that belong to no other file."""

import mmap
import struct
import time
import zlib
from dataclasses import dataclass

import numpy

from penstock.bench.science.storage.direct import PAGE, aligned

_HEADER = struct.Struct("<8sQQQQI")
_MAGIC = b"PENUVBUF"
_FILLED = _HEADER.size + 4
"""bytes of the first page that are not 0: header and its checksum"""
_ZEROS = bytes(PAGE - _FILLED)


@dataclass(frozen=True)
class Header:
    number: int
    written_ns: int
    """of the monotonic clock, when the write began"""


class Content:
    """Memory with the content of one file after the other."""

    def __init__(self, file_bytes: int, files: int, seed: int) -> None:
        self.memory = aligned(file_bytes)
        self._files = files
        pages = numpy.frombuffer(self.memory, numpy.uint64).reshape(-1, PAGE // 8)
        pages[:] = numpy.random.default_rng(seed).integers(0, 2**64, pages.shape, numpy.uint64)
        pages[0] = 0
        self._pages = pages[1:]

    def fill(self, number: int) -> memoryview:
        self._pages[:, 0] = number
        self._pages[:, 1] = numpy.arange(len(self._pages))
        view = memoryview(self.memory)
        snapshot, group = divmod(number, self._files)
        checksum = zlib.crc32(view[PAGE:])
        _HEADER.pack_into(view, 0, _MAGIC, snapshot, group, len(view), time.monotonic_ns(), checksum)
        struct.pack_into("<I", view, _HEADER.size, zlib.crc32(view[: _HEADER.size]))
        return view


def written_ns(memory: "mmap.mmap | memoryview") -> int:
    """When the write of a file began whose first page this is."""
    return int(_HEADER.unpack_from(memory)[4])


def problem_of(content: memoryview, number: int, files: int) -> str:
    """Returns what is wrong with the content of a file; "" for nothing."""
    magic, snapshot, group, size, _, checksum = _HEADER.unpack_from(content)
    (of_header,) = struct.unpack_from("<I", content, _HEADER.size)
    what = f"snapshot {number // files}, channels from {number % files * 10} on"
    is_filled = content[_FILLED:PAGE] != _ZEROS
    if magic != _MAGIC or of_header != zlib.crc32(content[: _HEADER.size]) or is_filled:
        return f"{what}: the header is wrong"
    if snapshot * files + group != number:
        return f"{what}: it has the content of snapshot {snapshot}, channels from {group * 10} on"
    if size != len(content) or checksum != zlib.crc32(content[PAGE:]):
        return f"{what}: the checksum of the visibilities is wrong"
    return ""
