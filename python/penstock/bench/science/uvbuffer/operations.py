"""What writers, readers and the deleter ask of the file system."""

import contextlib
import errno
import fcntl
import os
from pathlib import Path

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


class Operations:
    """Names are those of files in a directory. A file is locked while it is written: closing is the signal.

    Raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.is_direct = True
        self.has_locks = True

    def create(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = self._opened(name, flags)
        self._lock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> None:
        at = 0
        while at < len(data):
            at += os.pwrite(descriptor, data[at:], at)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def open(self, name: str, size: int) -> int | None:
        """Returns None for a file that is not there, or that its writer has not closed."""
        try:
            descriptor = self._opened(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        if os.fstat(descriptor).st_size == size and self._lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return descriptor
        os.close(descriptor)
        return None

    def read(self, descriptor: int, buffer: memoryview) -> int:
        got = 0
        while got < len(buffer):
            more = os.preadv(descriptor, [buffer[got:]], got)
            if more == 0:
                break
            got += more
        if not self.is_direct:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return got

    def delete(self, name: str) -> bool:
        """Returns whether the file was there."""
        try:
            os.remove(f"{self._folder}/{name}")  # noqa: PTH107 - it is timed
        except FileNotFoundError:
            return False
        return True

    def count(self) -> int:
        """Files in the directory, as consumers list it."""
        with contextlib.closing(os.scandir(self._folder)) as entries:
            return sum(entry.name.startswith("uv-") for entry in entries)

    def _opened(self, name: str, flags: int) -> int:
        path = f"{self._folder}/{name}"
        if self.is_direct:
            try:
                return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            self.is_direct = False
            flags &= ~os.O_EXCL  # it has been made
        return os.open(path, flags | os.O_CLOEXEC, 0o666)

    def _lock(self, descriptor: int, how: int) -> bool:
        """Returns False while another one has it. Without locks the size alone decides."""
        if self.has_locks:
            try:
                fcntl.flock(descriptor, how)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                self.has_locks = False
        return True
