"""`penstock help`"""

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from penstock.cli.common import reports_errors
from penstock.cli.completion import commands
from penstock.model.errors import UsageError


@reports_errors
def help_command(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="Command, such as `record` or `bench frames`. [default: all commands]",
            autocompletion=commands,
        ),
    ] = None,
) -> None:
    """Show the help of a command."""
    there: Any = context.find_root()
    for name in command or []:
        known = getattr(there.command, "commands", {})
        if name not in known:
            raise _unknown(name, there.command_path, list(known))
        there = type(there)(known[name], info_name=name, parent=there, **known[name].context_settings)
    typer.echo(there.get_help())


def _unknown(name: str, path: str, known: list[str]) -> UsageError:
    close = get_close_matches(name, known, n=1)
    where = f"`{path}` has no command `{name}`"
    if close:
        return UsageError(where, f"did you mean `{path} {close[0]}`?")
    return UsageError(where, f"`{path} --help` lists its commands" if known else f"`{path} --help`")
