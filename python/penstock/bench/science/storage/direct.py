"""Large reads and writes around the page cache, where the file system can do that.

Direct I/O moves whole pages between storage and memory that begins at a page: `aligned` has such memory.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from penstock.bench.science.storage.counts import Counts
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of

PAGE = 4096


def page_begin(offset: int) -> int:
    return offset // PAGE * PAGE


def page_end(offset: int) -> int:
    return -(-offset // PAGE) * PAGE


def aligned(size: int) -> mmap.mmap:
    """Memory that begins at a page; it takes room when it is first written to."""
    return mmap.mmap(-1, page_end(max(1, size)))


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PenstockError(f"{path}: {reason_of(error)}", "check the storage") from error


def _opened(path: Path, flags: int) -> tuple[int, bool]:
    """Returns the descriptor, and whether it is direct: memory file systems and some others refuse that."""
    try:
        return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC, 0o666), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # One that refuses has made the file first.
    return os.open(path, (flags & ~os.O_EXCL) | os.O_CLOEXEC, 0o666), False


class _File:
    def __init__(self, path: Path, flags: int, counts: Counts) -> None:
        self._path, self._counts = path, counts
        with _named(path):
            self._descriptor, self.direct = _opened(path, flags)

    def close(self) -> None:
        """Raises PenstockError: some file systems report only then that there is no room."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with _named(self._path):
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DirectReader(_File):
    """Several threads may read."""

    def __init__(self, path: Path, counts: Counts) -> None:
        super().__init__(path, os.O_RDONLY, counts)
        if not self.direct:
            with _named(path):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    @property
    def size(self) -> int:
        with _named(self._path):
            return os.fstat(self._descriptor).st_size

    def read(self, buffer: memoryview, offset: int) -> int:
        """Fills the buffer from a page on; returns fewer bytes only at the end of the file."""
        got = 0
        while got < len(buffer):
            begun = time.monotonic_ns()
            with _named(self._path):
                more = os.preadv(self._descriptor, [buffer[got:]], offset + got)
            self._counts.add(len(buffer) - got, more, time.monotonic_ns() - begun)
            got += more
            if more == 0 or (self.direct and more % PAGE):
                break
        if not self.direct:
            with _named(self._path):
                os.posix_fadvise(self._descriptor, offset, got, os.POSIX_FADV_DONTNEED)
        return got


class DirectWriter(_File):
    """A new file, written from begin to end by one thread. `finish` makes it durable."""

    def __init__(self, path: Path, counts: Counts) -> None:
        super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, counts)
        self._at = 0

    def write(self, data: memoryview) -> None:
        """Whole pages, from a page on; what is less is the file's end."""
        if self.direct and len(data) % PAGE:
            whole = page_begin(len(data))
            self._put(data[:whole])
            self._through_the_cache()
            self._put(data[whole:])
        else:
            self._put(data)

    def finish(self) -> None:
        with _named(self._path), self._counts.syncing():
            os.fsync(self._descriptor)
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self.close()

    def _put(self, data: memoryview) -> None:
        while data:
            begun = time.monotonic_ns()
            with _named(self._path):
                put = os.pwrite(self._descriptor, data, self._at)
            self._counts.add(put, put, time.monotonic_ns() - begun)
            self._at += put
            data = data[put:]

    def _through_the_cache(self) -> None:
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
