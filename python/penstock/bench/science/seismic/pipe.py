"""Traces in and out of files in large pieces, by threads of their own."""

import contextlib
import mmap
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy

from penstock.bench.science.seismic.segy import Rows, trace_bytes, trace_type
from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.direct import (
    DirectReader,
    DirectWriter,
    aligned,
    page_begin,
    page_end,
)
from penstock.model.errors import PenstockError

_PIECE = 8 << 20


class Traces:
    """A file of traces that begin at a byte of it."""

    def __init__(self, reader: DirectReader, path: Path, samples: int, begin: int) -> None:
        self._reader, self._path, self._begin = reader, path, begin
        self._type, self._bytes = trace_type(samples), trace_bytes(samples)
        self.count, rest = divmod(reader.size - begin, self._bytes)
        if rest or self.count < 0:
            raise PenstockError(
                f"{path} has {reader.size} bytes, which are not {begin} and whole traces of {self._bytes}",
                "check the storage",
            )

    def read(self, memory: mmap.mmap, first: int, count: int) -> Rows:
        """Rows that lie in `memory`, which must have room for them and two pages."""
        begin = self._begin + first * self._bytes
        end = begin + count * self._bytes
        at, size = page_begin(begin), page_end(end) - page_begin(begin)
        view = memoryview(memory)
        got = 0
        while got < size:
            piece = min(_PIECE, size - got)
            more = self._reader.read(view[got : got + piece], at + got)
            got += more
            if more < piece:
                break
        if at + got < end:
            raise PenstockError(
                f"{self._path} ends at byte {at + got}, before trace {first + count}", "check the storage"
            )
        return numpy.frombuffer(memory, self._type, count, begin - at)


def room_for(traces: int, samples: int) -> mmap.mmap:
    """Memory for a call of `Traces.read`."""
    return aligned(traces * trace_bytes(samples) + 2 * mmap.PAGESIZE)


@dataclass(frozen=True)
class _Piece:
    writer: DirectWriter
    memory: mmap.mmap
    size: int
    is_last: bool


class Output:
    """Files of traces, one after the other. A thread writes what is full, while rows are put into the next.

    Use as a context manager; leaving it waits for the thread. The next call raises its errors.
    """

    def __init__(self, samples: int, chunk_bytes: int, chunks: int, counts: Counts) -> None:
        self._type, self._bytes = trace_type(samples), trace_bytes(samples)
        self._counts = counts
        self._free: queue.Queue[mmap.mmap] = queue.Queue()
        for _ in range(chunks):
            self._free.put(aligned(chunk_bytes))
        self._full: queue.Queue[_Piece | None] = queue.Queue()
        self._failed: Future[None] = Future()
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()
        self._writer: DirectWriter | None = None
        self._memory: mmap.mmap | None = None
        self._filled = 0
        self.is_direct = True

    def begin(self, path: Path, header: bytes = b"") -> None:
        self._writer = DirectWriter(path, self._counts)
        self.is_direct &= self._writer.direct
        self._memory, self._filled = self._free.get(), len(header)
        self._memory[: len(header)] = header

    def room(self, count: int) -> Rows:
        """Up to `count` rows, at least one, to be filled; then call `filled`."""
        self._raise()
        assert self._memory is not None
        if len(self._memory) - self._filled < self._bytes:
            self._hand_over()
        possible = (len(self._memory) - self._filled) // self._bytes
        return numpy.frombuffer(self._memory, self._type, min(count, possible), self._filled)

    def filled(self, count: int) -> None:
        self._filled += count * self._bytes

    def end(self) -> None:
        """The file is complete; the thread makes it durable."""
        assert self._writer is not None
        assert self._memory is not None
        self._full.put(_Piece(self._writer, self._memory, self._filled, is_last=True))
        self._memory = None

    def wait(self) -> None:
        """Until all files that have ended are durable."""
        self._full.join()
        self._raise()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._full.put(None)
        self._thread.join()

    def _hand_over(self) -> None:
        """What does not fill a page goes to the begin of the next piece."""
        assert self._writer is not None
        assert self._memory is not None
        whole = page_begin(self._filled)
        rest = self._memory[whole : self._filled]
        self._full.put(_Piece(self._writer, self._memory, whole, is_last=False))
        self._memory, self._filled = self._free.get(), len(rest)
        self._memory[: len(rest)] = rest

    def _write_all(self) -> None:
        while (piece := self._full.get()) is not None:
            if not self._failed.done():
                self._write(piece)
            self._free.put(piece.memory)
            self._full.task_done()

    def _write(self, piece: _Piece) -> None:
        try:
            piece.writer.write(memoryview(piece.memory)[: piece.size])
            if piece.is_last:
                piece.writer.finish()
        except Exception as error:  # a thread that ended would be waited for
            self._failed.set_exception(error)
            with contextlib.suppress(PenstockError):
                piece.writer.close()

    def _raise(self) -> None:
        if self._failed.done():
            self._failed.result()


def raw(rows: Rows) -> numpy.typing.NDArray[Any]:
    """The same rows without fields, which numpy copies as they are."""
    return rows.view(f"V{rows.dtype.itemsize}")
