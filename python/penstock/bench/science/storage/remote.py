"""Files of a server: what all protocols have in common."""

import contextlib
import io
import os
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import IO, BinaryIO, cast

from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.positioned import PositionedReader
from penstock.bench.science.storage.server_errors import explained
from penstock.bench.science.storage.storage import Range, Storage
from penstock.model.errors import PenstockError

TIMEOUT_S = 30
"""for an answer of a server"""
_IN_MEMORY = 16 << 20


class RemoteStorage(Storage):
    """A directory on a server. Methods of a protocol may raise whatever its library raises."""

    @abstractmethod
    def _entries(self) -> dict[str, int | None]:
        """Size of each file by name; a directory has None. Empty if this directory does not exist."""

    @abstractmethod
    def _size(self, name: str) -> int: ...

    @abstractmethod
    def _fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of each range; several are one request where the protocol has that."""

    @abstractmethod
    def _store(self, name: str, source: IO[bytes], size: int) -> None:
        """Creates a file that has all bytes of `source`."""

    @abstractmethod
    def _delete(self, name: str) -> None: ...

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def _remove_folder(self) -> None: ...

    def names(self) -> list[str]:
        with self.named():
            return sorted(name for name, size in self._entries().items() if size is not None)

    def folders(self) -> list[str]:
        with self.named():
            return sorted(name for name, size in self._entries().items() if size is None)

    def size(self, name: str) -> int:
        with self.named(name):
            return self._size(name)

    def open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, _Reader(self, name))

    def create(self, name: str) -> BinaryIO:
        return cast(BinaryIO, _Writer(self, name))

    def remove(self, name: str) -> None:
        with self.named(name):
            self._delete(name)

    def make(self) -> None:
        with self.named():
            self._make()

    def remove_folder(self) -> None:
        with self.named():
            self._remove_folder()

    def forget(self, name: str) -> bool:  # noqa: ARG002
        return False

    def local_path(self, name: str) -> str | None:  # noqa: ARG002
        return None

    def fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """As the protocol's client does it, counted as one call."""
        begun = time.monotonic_ns()
        with self.named(name):
            found = self._fetch(name, ranges)
        for (start, stop), data in zip(ranges, found, strict=True):
            if len(data) != stop - start:
                raise PenstockError(
                    f"{self.place}/{name}: the server sent {len(data)} bytes of {stop - start} at {start}",
                    "check the server: it must support reads of parts",
                )
        size = sum(len(data) for data in found)
        self.counts.add(size, size, time.monotonic_ns() - begun)
        return found

    def send(self, name: str, source: IO[bytes], size: int) -> None:
        with self.named(name), self.counts.timed(size):
            self._store(name, cast(IO[bytes], _Watched(source, self.counts)), size)

    @contextlib.contextmanager
    def named(self, name: str = "") -> Iterator[None]:
        """Libraries have errors of many kinds: all are the storage's here."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            where = f"{self.place.rstrip('/')}/{name}".rstrip("/")
            found = explained(error, where.partition("://")[0])
            raise PenstockError(f"{where}: {found.said}", found.remedy) from error


class _Reader(PositionedReader):
    def __init__(self, storage: RemoteStorage, name: str) -> None:
        super().__init__()
        self._storage, self._name = storage, name
        self._size = storage.size(name)

    def _end(self) -> int:
        return self._size

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        stop = min(self._at + len(buffer), self._size)
        if stop <= self._at:
            return 0
        (data,) = self._storage.fetch(self._name, [(self._at, stop)])
        buffer[: len(data)] = data
        self._at = stop
        return len(data)

    def read_ranges(self, ranges: Sequence[Range]) -> list[bytes]:
        return self._storage.fetch(self._name, ranges)


class _Watched(io.RawIOBase):
    """A file that is sent: each read of it is work."""

    def __init__(self, source: IO[bytes], counts: Counts) -> None:
        super().__init__()
        self._source, self._counts = source, counts

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        piece = self._source.read(len(buffer))
        buffer[: len(piece)] = piece
        self._counts.step()
        return len(piece)


class _Writer(io.RawIOBase):
    """Keeps the bytes until it is closed: a server wants to know their number first."""

    def __init__(self, storage: RemoteStorage, name: str) -> None:
        super().__init__()
        self._storage, self._name, self._size = storage, name, 0
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview[int]") -> int:  # type: ignore[override]
        size = memoryview(data).nbytes
        self._kept.write(data)
        self._size += size
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._kept.seek(0)
            self._storage.send(self._name, cast(IO[bytes], self._kept), self._size)
        finally:
            self._kept.close()
            super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # what is not complete is not stored
            self._kept.close()
            super().close()
        self.close()
