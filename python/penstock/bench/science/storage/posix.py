"""Files of a mounted file system, through the kernel, without a buffer of Python's."""

import contextlib
import io
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.positioned import PositionedReader
from penstock.bench.science.storage.storage import Range, Storage
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PenstockError(f"{path}: {reason_of(error)}", "check the storage") from error


class _Reader(PositionedReader):
    def __init__(self, path: Path, counts: Counts) -> None:
        super().__init__()
        self._path, self._counts = path, counts
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def _end(self) -> int:
        return os.fstat(self._descriptor).st_size

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        begun = time.monotonic_ns()
        with _named(self._path):
            got = os.preadv(self._descriptor, [buffer], self._at)
        self._counts.add(len(buffer), got, time.monotonic_ns() - begun)
        self._at += got
        return got

    def read_ranges(self, ranges: Sequence[Range]) -> list[bytes]:
        found = []
        for start, stop in ranges:
            begun = time.monotonic_ns()
            with _named(self._path):
                data = os.pread(self._descriptor, stop - start, start)
            if len(data) != stop - start:
                raise PenstockError(
                    f"{self._path} has {len(data)} bytes of {stop - start} at offset {start}",
                    "check the storage",
                )
            self._counts.add(stop - start, len(data), time.monotonic_ns() - begun)
            found.append(data)
        return found

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _Writer(io.RawIOBase):
    def __init__(self, path: Path, counts: Counts) -> None:
        super().__init__()
        self._path, self._counts = path, counts
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o666)

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview[int]") -> int:  # type: ignore[override]
        rest, size = memoryview(data).cast("B"), memoryview(data).nbytes
        with _named(self._path), self._counts.timed(size):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            with _named(self._path), self._counts.syncing():
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)
            super().close()


class PosixStorage(Storage):
    """A directory of a mounted file system."""

    def __init__(self, place: Path) -> None:
        super().__init__(str(place))
        self._folder = place

    def names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        with _named(self._folder):
            return sorted(entry.name for entry in os.scandir(self._folder) if entry.is_file())

    def size(self, name: str) -> int:
        with _named(self._folder / name):
            return (self._folder / name).stat().st_size

    def open(self, name: str) -> BinaryIO:
        with _named(self._folder / name):
            return cast(BinaryIO, _Reader(self._folder / name, self.counts))

    def create(self, name: str) -> BinaryIO:
        with _named(self._folder / name):
            return cast(BinaryIO, _Writer(self._folder / name, self.counts))

    def remove(self, name: str) -> None:
        with _named(self._folder / name):
            (self._folder / name).unlink(missing_ok=True)

    def make(self) -> None:
        with _named(self._folder):
            self._folder.mkdir(exist_ok=True)

    def folders(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        with _named(self._folder):
            found = [entry.name for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)]
        return sorted(found)

    def remove_folder(self) -> None:
        with _named(self._folder):
            self._folder.rmdir()

    def forget(self, name: str) -> bool:
        """Only clean pages of a file that no one has mapped are dropped; POSIX_FADV_DONTNEED, fadvise(2)."""
        with _named(self._folder / name):
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
        return True

    def local_path(self, name: str) -> str | None:
        return str(self._folder / name)
