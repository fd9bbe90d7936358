"""`--quiet` and `--verbose` of the commands that show progress or print logs."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, cast

import typer

from penstock.cli.common import err, out, print_json
from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.programs.logs import LOGS

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.report.progress import ProgressView

P = ParamSpec("P")
R = TypeVar("R")

_QUIET = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print results, warnings and errors only, no progress.",
        rich_help_panel=panels.OUTPUT,
    ),
]
_VERBOSE = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print informational log messages and the native programs that are started, too.",
        rich_help_panel=panels.OUTPUT,
    ),
]


@dataclass
class _Verbosity:
    quiet: bool = False


_CHOSEN = _Verbosity()


def shows_progress(command: Callable[P, R]) -> Callable[P, R]:
    """Gives a command `--quiet` and `--verbose`. `progress` and `info` inside follow them."""

    @functools.wraps(command)
    def run(*arguments: Any, quiet: bool = False, verbose: bool = False, **options: Any) -> R:
        if quiet and verbose:
            raise UsageError("--quiet and --verbose exclude each other", "leave one of them out")
        _CHOSEN.quiet, LOGS.verbose = quiet, verbose
        return command(*arguments, **options)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", _QUIET), ("verbose", _VERBOSE))
    ]
    known = inspect.signature(command)
    shown = known.replace(parameters=[*known.parameters.values(), *added])
    run.__signature__ = shown  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{each.name: each.annotation for each in added}}
    return cast("Callable[P, R]", run)


def progress() -> "ProgressView":
    """Returns a view of progress on standard error, which shows only problems with `--quiet`."""
    from penstock.report.progress import ProgressView

    return ProgressView(err(), quiet=_CHOSEN.quiet)


def show_plan(rows: dict[str, str], *, dry_run: bool, json: bool) -> None:
    """Shows what a command will do: the answer of a dry run, perhaps as JSON; otherwise like `info`."""
    from penstock.report.tables import fact_table

    if dry_run and json:
        print_json({name: value for name, value in rows.items() if value})
    else:
        (out() if dry_run else info()).print(fact_table(rows))


def info() -> "Console":
    """Returns a console on standard error for what `--quiet` suppresses."""
    console = err()
    console.quiet = _CHOSEN.quiet
    return console
