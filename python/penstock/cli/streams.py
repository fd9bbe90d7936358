"""Standard output and standard error of the command: any text can be written, and errors have words.

A character that the encoding lacks is written in ASCII. Standard output that cannot be written is an
OutputError; standard error that cannot be written is given up, because what it shows stops no recording.

A write to a full pipe waits for its reader. While the command runs on, as it does when programs get its
signals, the write would begin again after each signal, and the command would never end. So a signal ends it.
"""

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import time
import unicodedata
from collections.abc import Iterator
from typing import IO

from penstock.model.errors import OutputError
from penstock.programs.signals import seconds_since_signal

_LOOKS_EVERY_S = 0.25
_PATIENCE_S = 1.0
# As much fits into a pipe that can be written to at all.
_PIECE_BYTES = select.PIPE_BUF
_IN_ASCII = "penstock-in-ascii"
_ASCII = str.maketrans(
    {"…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "µ": "u", "·": ".", "→": "->", "±": "+/-"}
    | {"≥": ">=", "≤": "<=", "≈": "~", "√": "sqrt ", "“": '"', "”": '"', "‘": "'", "’": "'", "•": "*"}
)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Handles characters that an encoding lacks: "µs" becomes "us", and "Å" becomes "A"."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_ASCII)
    letters = (unicodedata.normalize("NFKD", each).encode("ascii", "ignore").decode() for each in lacking)
    return "".join(letter or "?" for letter in letters), error.end


codecs.register_error(_IN_ASCII, _in_ascii)


class _Output(io.FileIO):
    """Writes all of a text, or raises an error once and writes nothing more."""

    def __init__(self, number: int, *, is_required: bool) -> None:
        """`is_required`: an error ends the command."""
        super().__init__(number, "w", closefd=False)
        self._is_required = is_required
        self._is_given_up = False

    def write(self, data: object) -> int:
        whole = memoryview(data).cast("B")  # type: ignore[arg-type]
        try:
            self._write_all(whole)
        except BrokenPipeError:
            self._is_given_up = True  # or the end of the stream would be another error
            raise
        except OSError as error:
            self._is_given_up = True
            if self._is_required:
                raise _output_error(error) from error
        return len(whole)

    def _write_all(self, left: memoryview) -> None:
        while left and not self._is_given_up:
            left = left[os.write(self.fileno(), left) :]


class _Pipe(_Output):
    """Waits for its reader until a signal came, and then briefly; what nobody reads is lost."""

    def _write_all(self, left: memoryview) -> None:
        while left and self._takes_more():
            left = left[os.write(self.fileno(), left[:_PIECE_BYTES]) :]

    def _takes_more(self) -> bool:
        since = time.monotonic()
        while not self._is_given_up and not select.select([], [self], [], _LOOKS_EVERY_S)[1]:
            waited_s = time.monotonic() - since
            self._is_given_up = min(waited_s, seconds_since_signal()) > _PATIENCE_S
        return not self._is_given_up


def encodable(text: str) -> str:
    """Returns a text that standard output can encode, for libraries that would choose another encoding."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, _IN_ASCII).decode(encoding)


def _output_error(error: OSError) -> OutputError:
    from penstock.model.problems import reason_of  # it loads pydantic

    return OutputError(
        f"standard output cannot be written: {reason_of(error)}", "redirect it to a file that can be written"
    )


@contextlib.contextmanager
def own_streams() -> Iterator[None]:
    """Within, standard output and standard error are as this module describes."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _own(sys.stdout, is_required=True), _own(sys.stderr, is_required=False)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, OutputError):
            flush_streams()
        sys.stdout, sys.stderr = before


def flush_streams() -> None:
    """Waits for the readers: otherwise Python does when it ends, and handles no signal then."""
    with contextlib.suppress(ValueError):  # one was closed
        sys.stdout.flush()
        sys.stderr.flush()


def _own(stream: IO[str], *, is_required: bool) -> IO[str]:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream.buffer, _Output):
        return stream
    try:
        stream.flush()
        number = stream.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):  # closed, or kept in memory
        return stream
    if stream.isatty():
        stream.reconfigure(errors=_IN_ASCII)
        return stream
    raw = (_Pipe if stat.S_ISFIFO(mode) else _Output)(number, is_required=is_required)
    # Without a buffer between them, whose lock no signal would interrupt.
    return io.TextIOWrapper(
        raw,
        encoding=stream.encoding,
        errors=_IN_ASCII,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
