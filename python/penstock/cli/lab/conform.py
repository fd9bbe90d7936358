"""`penstock lab conform`"""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from penstock.cli.common import out, print_json, reports_errors
from penstock.cli.lab.names import Json, LabName
from penstock.cli.lab.targets import enter_for
from penstock.cli.verbosity import progress, shows_progress
from penstock.lab.conformance.run import conform
from penstock.lab.control import state_of
from penstock.lab.place import place_of
from penstock.model import panels
from penstock.model.errors import ExitCode


@reports_errors
@shows_progress
def conform_command(
    name: LabName,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK", help="Only this check. May be repeated.", rich_help_panel=panels.SELECTION
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table.", rich_help_panel=panels.OUTPUT)
    ] = False,
    json: Json = False,
) -> None:
    """Check what a file system promises: synced data, several writers, names, faults, a full system.

    Requires a laboratory with two clients. Kills servers and clients, and fills the system. Exit code 1: a
    promise is broken, or the system did not answer.
    """
    state = state_of(place_of(name))
    enter_for(state)
    found = []
    with progress() as view:
        for finding in conform(name, only or [], view.say):
            found.append(finding)
    if json:
        print_json([each.model_dump() for each in found])
    elif markdown:
        lines = [f"| {each.promise} | {each.outcome} | {each.detail} |" for each in found]
        print("\n".join([f"| {state.title} | outcome | measured |", "| --- | --- | --- |", *lines]))
    else:
        table = Table("promise", "outcome", "measured", box=None)
        for each in found:
            table.add_row(each.promise, each.outcome, escape(each.detail))
        out().print(table)
    if any(each.outcome in ("broken", "no answer") for each in found):
        raise typer.Exit(int(ExitCode.FAILED))
