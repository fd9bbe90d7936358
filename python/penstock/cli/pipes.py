"""Standard output and standard error that are pipes: a signal ends a command though nobody reads them.

A write to a full pipe waits for its reader. While the command runs on, as it does when programs get its
signals, the write would begin again after each signal, and the command would never end.
"""

import contextlib
import io
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from typing import IO

from penstock.programs.signals import seconds_since_signal

_LOOKS_EVERY_S = 0.25
_PATIENCE_S = 1.0
# As much fits into a pipe that can be written to at all.
_PIECE_BYTES = select.PIPE_BUF


class _Pipe(io.FileIO):
    """Waits for its reader until a signal came, and then briefly; what nobody reads is lost."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_given_up = False

    def write(self, data: object) -> int:
        left = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(left)
        while left and self._takes_more():
            try:
                left = left[os.write(self.fileno(), left[:_PIECE_BYTES]) :]
            except BrokenPipeError:
                self._is_given_up = True  # or the end of the stream would be another error
                raise
        return size

    def _takes_more(self) -> bool:
        since = time.monotonic()
        while not self._is_given_up and not select.select([], [self], [], _LOOKS_EVERY_S)[1]:
            waited_s = time.monotonic() - since
            self._is_given_up = min(waited_s, seconds_since_signal()) > _PATIENCE_S
        return not self._is_given_up


@contextlib.contextmanager
def heard_pipes() -> Iterator[None]:
    """Within, a signal ends writes to pipes."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _heard(sys.stdout), _heard(sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            flush_pipes()
        sys.stdout, sys.stderr = before


def flush_pipes() -> None:
    """Waits for the readers: otherwise Python does when it ends, and hears no signal then."""
    with contextlib.suppress(ValueError):  # one was closed
        sys.stdout.flush()
        sys.stderr.flush()


def _heard(stream: IO[str]) -> IO[str]:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        stream.flush()
        number = stream.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
    except (OSError, ValueError):  # closed, or kept in memory
        return stream
    if not is_pipe:
        return stream
    # Without a buffer between them, whose lock no signal would interrupt.
    return io.TextIOWrapper(
        _Pipe(number),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
