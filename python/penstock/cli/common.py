"""What all commands share: consoles, errors, JSON output."""

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape

from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.text import harmless
from penstock.model.units import parse_bandwidth, parse_size
from penstock.programs.signals import ending_like_ctrl_c, signal_of

P = ParamSpec("P")
R = TypeVar("R")


def out() -> Console:
    """For results."""
    return Console(highlight=False)


def err() -> Console:
    """For progress, logs and errors, so that results can be piped."""
    return Console(stderr=True, highlight=False)


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turns a PenstockError into a message and an exit code."""
    return _reporting(command, ExitCode.FAILED)


def inspects(command: Callable[P, R]) -> Callable[P, R]:
    """As `reports_errors`, of a command that reads files. Interrupted, it ends with 130 or 143."""
    return _reporting(command, ExitCode.FAILED, of_signals=True)


def answers(command: Callable[P, R]) -> Callable[P, R]:
    """As `reports_errors`, of a command whose exit code 1 is an answer: it fails with another one."""
    return _reporting(command, ExitCode.UNANSWERED)


def _reporting(command: Callable[P, R], failed: ExitCode, of_signals: bool = False) -> Callable[P, R]:
    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            with ending_like_ctrl_c():
                return command(*arguments, **options)
        except PenstockError as error:
            fail(error, failed if error.code == ExitCode.FAILED else error.code)
        except (KeyboardInterrupt, typer.Abort) as stop:
            code = ExitCode.of_signal(signal_of(stop)) if of_signals else failed
            fail(PenstockError("interrupted"), code)
        except BrokenPipeError:
            sys.stderr.close()  # whoever read the output is gone; there is nobody to tell
            raise typer.Exit(int(failed)) from None
        except typer.Exit:
            raise
        except Exception:
            if failed == ExitCode.FAILED:
                raise
            # As Python would tell it; its exit code 1 is an answer of this command.
            traceback.print_exc()
            raise typer.Exit(int(failed)) from None

    return run


def warn(text: str) -> None:
    """What does not keep a command from its work."""
    err().print(harmless(text), markup=False, soft_wrap=True)


def fail(error: PenstockError, code: ExitCode | None = None) -> NoReturn:
    """`code`: another one than the error's."""
    console = err()
    console.print(f"[bold red]error:[/] {escape(harmless(error.message))}", soft_wrap=True)
    if error.remedy:
        console.print(f"[bold]what to do:[/] {escape(harmless(error.remedy))}", soft_wrap=True)
    raise typer.Exit(int(error.code if code is None else code))


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """One JSON document, for machines."""
    data = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    typer.echo(json.dumps(data, indent=2))


def print_json_line(value: BaseModel) -> None:
    """One JSON document on one line, at once, for machines that follow."""
    sys.stdout.write(value.model_dump_json() + "\n")
    sys.stdout.flush()


def size_option(text: str, name: str) -> int:
    """The bytes of an option such as --pool 1GiB."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def bandwidth_option(text: str, name: str) -> float:
    """The bytes a second of an option such as --link 25Gb/s."""
    try:
        found = parse_bandwidth(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if not found:
        raise UsageError(f"{name}: {text} carries nothing", "give more than 0")
    return found


def require_new(path: Path | None, option: str = "--output") -> None:
    """Before anything is done: a UsageError where the file could not be written, or is there already."""
    if path is None:
        return
    folder = path.absolute().parent
    if os.path.lexists(path):
        raise UsageError(f"{option} {path} is there already", "name a new file")
    if not folder.is_dir():
        raise UsageError(f"{option} {path} is in a folder that is not there", "name a new file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path} is in a folder that you may not write into", "name another file")
