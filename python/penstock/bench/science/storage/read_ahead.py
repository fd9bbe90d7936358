"""Read-ahead by the client: what is fetched is kept until something else is."""

from collections.abc import Sequence
from typing import BinaryIO

from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.storage import Range, read_ranges


class ReadAhead:
    """Parts of a file. At least `ahead` bytes are fetched at once, and one such block is kept."""

    def __init__(self, file: BinaryIO, size: int, ahead: int, counts: Counts) -> None:
        self._file, self._size, self._ahead, self._counts = file, size, ahead, counts
        self._start, self._block = 0, b""

    def read_ranges(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self._read(start, stop) for start, stop in ranges]

    def _read(self, start: int, stop: int) -> bytes:
        is_there = self._start <= start and stop <= self._start + len(self._block)
        fetched = 0
        if not is_there:
            end = max(stop, min(start + self._ahead, self._size))
            (self._block,) = read_ranges(self._file, [(start, end)])
            self._start, fetched = start, end - start
        # The fetch has counted all of the block as asked for.
        self._counts.ask(stop - start - fetched)
        return self._block[start - self._start : stop - self._start]
