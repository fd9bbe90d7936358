"""A document that is written again and again while it grows, and is whole at any moment."""

import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.files.documents import read_bytes
from penstock.files.naming import give_name
from penstock.model.errors import PenstockError, UsageError


class GrowingDocument:
    """Each version is a new file that takes the old one's place. One process at a time has it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Of a descriptor that this process has claimed."""
        self._path, self._descriptor = path, descriptor

    @classmethod
    def create(cls, path: Path, text: str) -> Self:
        """With its first version. A UsageError where something is there: nothing is overwritten."""
        new = _new_of(path)
        for taken in (path, new):
            if os.path.lexists(taken):
                raise UsageError(
                    f"{taken} is there already", "name a new file, or --resume where one was left"
                )
        try:
            descriptor = _write(new, path, text, os.O_EXCL, 0o666)
            try:
                give_name(new, path)
            except BaseException:
                os.close(descriptor)
                new.unlink()
                raise
        except OSError as error:
            raise PenstockError(f"{path} cannot be written: {error.strerror}", "name another file") from error
        return cls(path, descriptor)

    @classmethod
    def open(cls, path: Path) -> Self:
        """One that is there. A UsageError where another process has it."""
        whole = path.resolve()
        try:
            descriptor = os.open(whole, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be opened: {error.strerror}", "name the --output of before"
            ) from error
        _claim(descriptor, path)
        return cls(whole, descriptor)

    def read(self) -> bytes:
        return read_bytes(self._path)

    def write(self, text: str) -> None:
        """A PenstockError where that fails; the version of before stays then."""
        new = _new_of(self._path)
        try:
            mode = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
            descriptor = _write(new, self._path, text, os.O_TRUNC, mode)
            new.replace(self._path)
        except OSError as error:
            raise PenstockError(
                f"{self._path} cannot be written: {error.strerror}", "what was measured before is in it still"
            ) from error
        os.close(self._descriptor)
        self._descriptor = descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _new_of(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _write(new: Path, path: Path, text: str, flag: int, mode: int) -> int:
    """A descriptor of the file `new`, claimed, with `text` on the storage: the next version of `path`."""
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flag, mode)
    _claim(descriptor, path)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file:
            file.write(text + "\n")
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        new.unlink(missing_ok=True)
        raise
    return descriptor


def _claim(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"another command is writing {path}", "wait for its end, or interrupt it") from error
    except OSError:
        pass  # a file system without locks
