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
from penstock.model.problems import reason_of, unwritten_remedy

# Of each version.
_BEGINNING = b'{"format":"penstock-'


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
                    f"{taken} exists already and is not overwritten",
                    "name a new file with --output, or continue it with --resume",
                )
        try:
            descriptor = _write(new, path, text, 0o666)
            try:
                give_name(new, path)
            except BaseException:
                os.close(descriptor)
                new.unlink()
                raise
        except OSError as error:
            raise PenstockError(
                f"{path} cannot be written: {reason_of(error)}",
                unwritten_remedy(error, "name another file"),
            ) from error
        return cls(path, descriptor)

    @classmethod
    def open(cls, path: Path) -> Self:
        """One that is there. A UsageError where another process has it."""
        whole = path.resolve()
        try:
            descriptor = os.open(whole, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be opened: {reason_of(error)}", "name the file that --output wrote"
            ) from error
        _claim(descriptor, path)
        try:
            _remove_left(_new_of(whole))
        except BaseException:
            os.close(descriptor)
            raise
        return cls(whole, descriptor)

    def read(self) -> bytes:
        return read_bytes(self._path)

    def write(self, text: str) -> None:
        """A PenstockError where that fails; the version of before stays then."""
        try:
            self._replace(_new_of(self._path), text)
        except OSError as error:
            raise PenstockError(
                f"{self._path} cannot be written: {reason_of(error)}", "earlier results are still in it"
            ) from error

    def _replace(self, new: Path, text: str) -> None:
        mode = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
        descriptor = _write(new, self._path, text, mode)
        try:
            self._require_own()
            new.replace(self._path)
        finally:
            # Ctrl-C may come when it has its name already.
            if _is_at(self._path, descriptor):
                self._descriptor, descriptor = descriptor, self._descriptor
            else:
                new.unlink(missing_ok=True)
            os.close(descriptor)

    def _require_own(self) -> None:
        """A PenstockError where somebody put another file in the place of the version of before."""
        if os.path.lexists(self._path) and not _is_at(self._path, self._descriptor):
            raise PenstockError(
                f"{self._path} is not the file that was written before; it is not changed",
                "earlier results are in the file that was moved away",
            )

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


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _new_of(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _remove_left(new: Path) -> None:
    """What a command that was killed had not finished. A UsageError where it is something else."""
    try:
        descriptor = os.open(new, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _in_the_way(new) from error
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        head = os.read(descriptor, len(_BEGINNING)) if is_file else b""
    finally:
        os.close(descriptor)
    if not head or not _BEGINNING.startswith(head):
        raise _in_the_way(new)
    new.unlink()


def _in_the_way(new: Path) -> UsageError:
    return UsageError(f"{new} exists and is not part of a document", "move it away")


def _write(new: Path, path: Path, text: str, mode: int) -> int:
    """A descriptor of the file `new`, claimed, with `text` on the storage: the next version of `path`."""
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
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
        raise UsageError(
            f"another command is writing {path}", "wait until it ends, or interrupt it"
        ) from error
    except OSError:
        pass  # a file system without locks
