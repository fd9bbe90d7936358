"""Lets uproot read through the counted storage."""

import queue
from collections.abc import Callable
from typing import Any

import uproot
from uproot.source.coalesce import coalesce_requests
from uproot.source.futures import TrivialExecutor, TrivialFuture

from penstock.bench.science.storage.storage import Range

Read = Callable[[list[Range]], list[bytes]]


class StoredSource(uproot.source.chunk.Source):  # type: ignore[misc]
    """Parts of a file. With vector reads, uproot merges neighbouring parts and requests many at once."""

    read: Read
    size: int
    vector_reads: bool

    def __init__(self, file_path: str, **_options: Any) -> None:
        super().__init__()
        self._file_path, self._num_bytes = file_path, self.size
        self._executor = TrivialExecutor()
        self._is_closed = False

    @property
    def closed(self) -> bool:
        return self._is_closed

    def __enter__(self) -> "StoredSource":
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True

    def chunk(self, start: int, stop: int) -> Any:
        (data,) = self._fetch([(start, min(stop, self.size))])
        return uproot.source.chunk.Chunk(self, start, stop, TrivialFuture(data))

    def chunks(self, ranges: list[Range], notifications: "queue.Queue[Any]") -> list[Any]:
        if self.vector_reads:
            found: list[Any] = coalesce_requests(
                ranges, lambda merged: TrivialFuture(self._fetch(merged)), self, notifications
            )
            return found
        chunks = []
        for start, stop in ranges:
            chunk = self.chunk(start, stop)
            notifications.put(chunk)
            chunks.append(chunk)
        return chunks

    def _fetch(self, ranges: list[Range]) -> list[bytes]:
        self._num_requests += 1
        self._num_requested_chunks += len(ranges)
        self._num_requested_bytes += sum(stop - start for start, stop in ranges)
        return type(self).read(ranges)


def source_of(read: Read, size: int, vector_reads: bool) -> type[StoredSource]:
    """What uproot takes as `handler`: it makes its sources itself."""
    return type(
        "FileSource",
        (StoredSource,),
        {"read": staticmethod(read), "size": size, "vector_reads": vector_reads},
    )
