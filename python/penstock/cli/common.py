"""What all commands share: consoles, errors, JSON output."""

import functools
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

import typer
from pydantic import BaseModel

from penstock.cli.lazy import unwrapped_width
from penstock.cli.streams import flush_streams
from penstock.model.errors import SYSTEM_ERRORS, ExitCode, PenstockError, UsageError
from penstock.model.problems import in_words, reason_of
from penstock.model.text import harmless
from penstock.model.units import parse_bandwidth, parse_size
from penstock.programs.signals import ending_like_ctrl_c, signal_of

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
R = TypeVar("R")


class _Unpadded:
    """A stream whose lines have no blanks at their ends: Rich pads the cells of tables."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_PADDING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_PADDING = re.compile(r" +(?=\n)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def out() -> "Console":
    """Returns the console for results. Unless it is a terminal, no line is wrapped or padded."""
    from penstock.cli.console import SafeConsole

    return SafeConsole(highlight=False, width=unwrapped_width(sys.stdout), file=_unpadded(sys.stdout))


def err() -> "Console":
    """Returns the console for progress, logs and errors, so that results can be piped. Lines as of `out`."""
    from penstock.cli.console import SafeConsole

    width = unwrapped_width(sys.stderr)
    return SafeConsole(stderr=True, highlight=False, width=width, file=_unpadded(sys.stderr))


def _unpadded(stream: IO[str]) -> IO[str]:
    return stream if stream.isatty() else cast("IO[str]", _Unpadded(stream))


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Makes a PenstockError a message and an exit code."""
    return _reporting(command, ExitCode.FAILED)


def inspects(command: Callable[P, R]) -> Callable[P, R]:
    """Does what `reports_errors` does for commands that read files: an interrupt exits with 130 or 143."""
    return _reporting(command, ExitCode.FAILED, of_signals=True)


def answers(command: Callable[P, R]) -> Callable[P, R]:
    """Does what `reports_errors` does for a command whose exit code 1 is an answer: it fails with 5."""
    return _reporting(command, ExitCode.UNANSWERED)


def _reporting(command: Callable[P, R], failed: ExitCode, of_signals: bool = False) -> Callable[P, R]:
    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            with ending_like_ctrl_c():
                try:
                    return command(*arguments, **options)
                finally:
                    flush_streams()
        except PenstockError as error:
            fail(error, _code_of(error, failed))
        except (KeyboardInterrupt, typer.Abort) as stop:
            code = ExitCode.of_signal(signal_of(stop)) if of_signals else failed
            fail(PenstockError("interrupted"), code)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the output is gone, and no error can be shown
            raise typer.Exit(int(failed)) from None
        except SYSTEM_ERRORS as error:
            in_our_words = in_words(error)
            fail(in_our_words, _code_of(in_our_words, failed))
        except typer.Exit:
            raise
        except Exception:
            if failed == ExitCode.FAILED:
                raise
            # Python's own exit code, 1, is an answer of this command.
            traceback.print_exc()
            raise typer.Exit(int(failed)) from None

    return run


def _code_of(error: PenstockError, failed: ExitCode) -> ExitCode:
    return failed if error.code == ExitCode.FAILED else error.code


def warn(text: str) -> None:
    """Prints a warning: the command continues."""
    err().print(harmless(text), markup=False, soft_wrap=True)


def fail(error: PenstockError, code: ExitCode | None = None) -> NoReturn:
    """Prints the error and exits with its code, or with `code`."""
    show_error(error)
    raise typer.Exit(int(error.code if code is None else code))


def show_error(error: PenstockError) -> None:
    """Prints the error and its remedy."""
    from rich.markup import escape

    console = err()
    console.print(f"[bold red]error:[/] {escape(harmless(error.message))}", soft_wrap=True)
    if error.remedy:
        console.print(f"[bold]what to do:[/] {escape(harmless(error.remedy))}", soft_wrap=True)


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """Prints one JSON document."""
    data = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    typer.echo(json.dumps(data, indent=2))


def print_json_line(value: BaseModel) -> None:
    """Prints one JSON document on one line, in ASCII as JSON escapes it, and flushes it."""
    text = value.model_dump_json()
    sys.stdout.write(_NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")
    sys.stdout.flush()


def size_option(text: str, name: str) -> int:
    """Returns the bytes of an option such as --pool 1GiB. Raises UsageError."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def bandwidth_option(text: str, name: str) -> float:
    """Returns the bytes per second of an option such as --link 25Gb/s. Raises UsageError."""
    try:
        found = parse_bandwidth(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if not found:
        raise UsageError(f"{name} is {text}; it must be greater than 0", "for example 25Gb/s")
    return found


def require_new(path: Path | None, option: str = "--output") -> None:
    """Raises UsageError if the file exists already or cannot be created. `option`: empty for an argument."""
    if path is None:
        return
    named = f"{option} {path}".strip()
    remedy = f"name a new file with {option}" if option else "give another name"
    if str(path) == "-":
        raise UsageError(f"{named} is not a file", remedy)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        path.unlink()  # whoever writes it creates it again, and no other one
    except FileExistsError:
        raise UsageError(f"{named} exists already and is not overwritten", remedy) from None
    except FileNotFoundError:
        folder = path.absolute().parent
        raise UsageError(
            f"{named}: the folder {folder} does not exist", "create it, or name another file"
        ) from None
    except OSError as error:
        raise UsageError(f"{named} cannot be created: {reason_of(error)}", remedy) from None
