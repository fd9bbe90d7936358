"""Whether frames that a storage accepted are in it, byte for byte, after its servers failed.

A second implementation of native/load/workloads/content.cpp, which wrote them.
"""

import contextlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy
import numpy.typing

from penstock.model.bench.load import FramesWorkload, LoadDocument, LoadPlan
from penstock.model.bench.runs import StoredFrames

Bytes = numpy.typing.NDArray[numpy.uint8]
Words = numpy.typing.NDArray[numpy.uint64]
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_SECTOR, _WORD, _GROUND_MIN = 512, 8, 16 << 20
_OF_THE_PATTERN, _OF_THE_STAMPS = 1, 2


def stored_frames(document: LoadDocument, folder: Path) -> StoredFrames | None:
    """Reads all frames through `folder`; None where what was written is not known here.

    Of zeros it cannot be known: a hole that a failed server left reads as zeros, too.
    """
    plan, counts = document.plan, document.frames
    workload = plan.workload
    if not isinstance(workload, FramesWorkload) or counts is None or workload.image is not None:
        return None
    if plan.content != "random" or workload.ring_frames:
        return None
    content = _Content(plan, counts.stored_bytes_each, workload.frames)
    right = sum(
        content.right_blocks(folder / f"{plan.prefix}{number:09d}.bin", number) for number in _files(document)
    )
    return StoredFrames(written=counts.written, wrong=max(0, counts.written - right))


def _files(document: LoadDocument) -> Iterator[int]:
    workload = document.plan.workload
    assert isinstance(workload, FramesWorkload)
    if workload.layout == "file_a_writer":
        ranks = document.job.ranks if document.job is not None else 1
        yield from range(workload.writers * ranks)
    elif document.records is None:
        yield from range(workload.frames)
    else:
        yield from (number for number, done in enumerate(document.records.done_ns) if done >= 0)


class _Content:
    """The bytes of each block of a run's files."""

    def __init__(self, plan: LoadPlan, block_bytes: int, blocks: int) -> None:
        self._seed, self._block = plan.seed, block_bytes
        self._blocks = min(max(blocks, 1), -(-_GROUND_MIN // block_bytes))

    def right_blocks(self, path: Path, file: int) -> int:
        """Number of blocks that the file has as they were written; it may have more at its end."""
        right = 0
        with contextlib.suppress(OSError), path.open("rb", buffering=0) as opened:
            # What this machine remembers of the file says nothing about the storage.
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while len(found := _read(opened.fileno(), self._block)) == self._block:
                offset = opened.tell() - self._block
                right += bool(numpy.array_equal(found, self._bytes_of(file, offset)))
        return right

    def _bytes_of(self, file: int, offset: int) -> Bytes:
        place = (offset // self._block + file) % self._blocks * self._block
        block = self._ground[place : place + self._block].copy()
        starts = numpy.arange(0, self._block - _WORD + 1, _SECTOR)
        stamps = _numbers(_key(self._seed, _OF_THE_STAMPS, file), offset // _SECTOR, len(starts))
        block[starts[:, None] + numpy.arange(_WORD)] = stamps.view(numpy.uint8).reshape(-1, _WORD)
        return block

    @cached_property
    def _ground(self) -> Bytes:
        size = self._blocks * self._block
        words, rest = divmod(size, _WORD)
        numbers = _numbers(_key(self._seed, _OF_THE_PATTERN), 0, words + rest)
        tail = (numbers[words:] & numpy.uint64(0xFF)).astype(numpy.uint8)
        return numpy.concatenate((numbers[:words].view(numpy.uint8), tail))


def _read(descriptor: int, size: int) -> Bytes:
    """Up to `size` bytes; fewer at the end of the file."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return numpy.frombuffer(b"".join(parts), numpy.uint8)


def _mix(bits: int) -> int:
    """The finalizer of splitmix64, as native/base/random.hpp has it."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
    return bits ^ (bits >> 31)


def _key(*names: int) -> int:
    key = 0
    for name in names:
        key = _mix(key + _STEP & _MASK) ^ _mix(name + 2 * _STEP & _MASK)
    return _mix(key)


def _numbers(key: int, first: int, count: int) -> Words:
    """`count` numbers of the stream `key`, little-endian."""
    step, index = numpy.uint64(_STEP), numpy.arange(first + 1, first + count + 1, dtype=numpy.uint64)
    bits = numpy.uint64(key) + index * step
    bits = (bits ^ (bits >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> numpy.uint64(31))).astype("<u8")
