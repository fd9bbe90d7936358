"""Reads HDF5 files in a child process with a deadline.

HDF5 may crash, hang or ask for absurd memory on a damaged file, and hears no signal while it does. In a
child this ends the child, and the command reports what happened. Ctrl-C and SIGTERM end the child at once.
"""

import contextlib
import ctypes
import faulthandler
import functools
import os
import pickle
import resource
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from penstock.files.naming import path_while_made
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import has_working_directory, in_words, no_working_directory
from penstock.model.text import one_short_line

P = ParamSpec("P")
R = TypeVar("R")

SILENCE_S = 30.0
"""The child is ended after this many seconds in which it reported nothing."""

_HEAD = struct.Struct("<cQ")  # kind of message, bytes that follow
_VALUE, _ERROR, _TOLD = b"v", b"e", b"t"
_MESSAGE_BYTES_MAX = 8 << 30
_LOOKS_EVERY_S = 0.25
_SHOWS_LIFE_EVERY_S = 1.0
_ENDS_WITHIN_S = 1.0
_PR_SET_PDEATHSIG = 1


class _Here:
    """What this process is: it opens files itself if it is a child of run_aside()."""

    may_read = False
    pipe: int | None = None
    wrote_at = 0.0


def require_file(path: Path) -> None:
    """A UsageError unless `path` is a file."""
    if not path.exists():
        if not path.is_absolute() and not has_working_directory():
            raise no_working_directory()
        made = path_while_made(path)
        what = f"{made.name} next to it is a file that a recorder makes now, or left without a frame"
        raise UsageError(f"{path} does not exist", what if made.is_file() else "check the path")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "name one file")
    if path.is_file() and not os.access(path, os.R_OK, effective_ids=True):
        raise UsageError(
            f"you have no permission to read {path}", "change its permissions, or run as another user"
        )
    if not path.is_file():  # of a pipe HDF5 would wait for somebody who writes
        raise UsageError(f"{path} is not a regular file", "name one")


def may_read_here() -> bool:
    """Whether this process may open files with HDF5 itself."""
    return _Here.may_read


@contextlib.contextmanager
def reading_here() -> Iterator[None]:
    """Lets this process open files itself: those that it made, as tests do."""
    before, _Here.may_read = _Here.may_read, True
    try:
        yield
    finally:
        _Here.may_read = before


def aside(reader: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Makes a function read the file that its first argument names in a child process."""

    @functools.wraps(reader)
    def read(path: Path, *arguments: P.args, **options: P.kwargs) -> R:
        return run_aside(path, lambda: reader(path, *arguments, **options))

    return read  # type: ignore[return-value]  # whoever names `path` names it so


def run_aside(
    path: Path,
    work: Callable[[], R],
    on_reported: Callable[..., object] | None = None,
    silence_s: float | None = None,
) -> R:
    """Returns what `work` returns in a child process.

    `on_reported` gets what `work` passes to notify(). Raises the PenstockError of `work`, or one about
    `path` if the child crashed, raised anything else, or reported nothing for `silence_s` seconds.
    """
    if _Here.may_read:
        return work()
    receiving, sending = os.pipe()
    parent, child, status = os.getpid(), -1, None
    try:
        with warnings.catch_warnings():
            # Other threads of a command draw progress; the child takes none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _work_as_child(work, sending, parent)
        os.close(sending)
        outcome = _outcome(path, receiving, SILENCE_S if silence_s is None else silence_s, on_reported)
        status = _reaped(child)
    finally:
        if os.getpid() != parent:
            os._exit(1)
        os.close(receiving)
        if child > 0 and status is None:
            _end(child)
    if outcome is None:
        raise PenstockError(f"{path} cannot be read: {_how_it_ended(status)}", _remedy(path))
    kind, value = outcome
    if kind == _ERROR:
        raise value
    return value  # type: ignore[no-any-return]


def notify(*values: object) -> None:
    """From `work` to `on_told`. The deadline starts again."""
    if _Here.pipe is not None:
        _write(_Here.pipe, _TOLD, values)


def show_life() -> None:
    """Starts the deadline again; to be called in long loops."""
    if _Here.pipe is not None and time.monotonic() - _Here.wrote_at > _SHOWS_LIFE_EVERY_S:
        notify()


def _work_as_child(work: Callable[[], Any], pipe: int, parent: int) -> NoReturn:
    """Its exit code is 0 if it wrote an outcome."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _limit()
    _Here.may_read, _Here.pipe, _Here.wrote_at = True, pipe, time.monotonic()
    try:
        kind, value = _VALUE, work()
    except PenstockError as error:
        kind, value = _ERROR, error
    except MemoryError:
        kind, value = _ERROR, MemoryError()
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # of the system, not of HDF5
            _write(pipe, _ERROR, in_words(error))
            os._exit(0)
        text = one_short_line(f"{error}") or type(error).__name__
        kind, value = _ERROR, RuntimeError(text, traceback.format_exc())
    _write(pipe, kind, value)
    os._exit(0)


def _limit() -> None:
    """No core files, no words of a crashing C library, and no more memory than the machine has."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    with contextlib.suppress(OSError, ValueError):
        page = os.sysconf("SC_PAGE_SIZE")
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * page
        most = used + os.sysconf("SC_PHYS_PAGES") * page
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _write(pipe: int, kind: bytes, value: object) -> None:
    content = pickle.dumps(value)
    data = memoryview(_HEAD.pack(kind, len(content)) + content)
    while data:
        data = data[os.write(pipe, data) :]
    _Here.wrote_at = time.monotonic()


def _outcome(
    path: Path, pipe: int, silence_s: float, on_reported: Callable[..., object] | None
) -> tuple[bytes, Any] | None:
    """What the child sent as its last message; None if it ended without one."""
    while True:
        head = _exactly(path, pipe, _HEAD.size, silence_s)
        if head is None:
            return None
        kind, size = _HEAD.unpack(head)
        content = _exactly(path, pipe, size, silence_s) if size <= _MESSAGE_BYTES_MAX else None
        if content is None:
            return None
        try:
            value = pickle.loads(content)
        except Exception:  # a child that crashes may write anything
            return None
        if kind == _TOLD:
            if on_reported is not None and value:
                on_reported(*value)
            continue
        return kind, _explained(path, value) if kind == _ERROR else value


def _exactly(path: Path, pipe: int, size: int, silence_s: float) -> bytearray | None:
    """None if the child ended before."""
    data = bytearray()
    until = time.monotonic() + silence_s
    while len(data) < size:
        # Short waits: Python runs a signal's handler in its main thread, when that is awake.
        if not select.select([pipe], [], [], _LOOKS_EVERY_S)[0]:
            if time.monotonic() > until:
                raise PenstockError(
                    f"{path} cannot be read: HDF5 reported nothing for {silence_s:g} s and was ended",
                    f"the file is corrupt, or its storage stalls: {_remedy(path)}",
                )
            continue
        piece = os.read(pipe, min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
        until = time.monotonic() + silence_s
    return data


def _explained(path: Path, error: Exception) -> PenstockError:
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, MemoryError):
        return PenstockError(f"{path} cannot be read: it requires more memory than available", _remedy(path))
    text, trace = error.args
    in_words = PenstockError(f"{path} cannot be read: {text}", _remedy(path))
    in_words.add_note(trace)
    return in_words


def _remedy(path: Path) -> str:
    return f"`penstock check {path}` reports what is wrong with it"


def _reaped(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end(child: int) -> None:
    """One that a stalled storage holds inside the kernel ends later; nobody waits for that."""
    os.kill(child, signal.SIGKILL)
    until = time.monotonic() + _ENDS_WITHIN_S
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.005)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"HDF5 crashed on it ({signal.Signals(-code).name})"
    return f"the process that read it ended with exit code {code}"
