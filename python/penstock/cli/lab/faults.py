"""`penstock lab fail`, `heal`, `slow` and `degrade`"""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock.bench.degraded.run import DegradedRequest, run_degraded
from penstock.cli.common import bandwidth_option, out, print_json, reports_errors, require_new
from penstock.cli.lab.names import Json, LabName, ServerNumber
from penstock.cli.lab.targets import enter_for
from penstock.cli.verbosity import progress, shows_progress
from penstock.lab.control import ask, state_of
from penstock.lab.place import place_of
from penstock.lab.request import LabState
from penstock.lab.storage import mount_of
from penstock.model import panels
from penstock.model.bench.degraded import Degraded
from penstock.model.errors import ExitCode, UsageError
from penstock.model.text import counted
from penstock.model.units import human_seconds


@reports_errors
def fail_command(
    name: LabName,
    server: ServerNumber,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask where data will be lost.", rich_help_panel=panels.RUN)
    ] = False,
) -> None:
    """Kill a server at once, as a crash does, or take its disk out. `penstock lab heal` brings it back."""
    state = state_of(place_of(name))
    what = "" if yes else _loss(state, server)
    if what:
        if not sys.stdin.isatty():
            raise UsageError(what, "--yes does it all the same")
        typer.confirm(f"{what}. Continue?", abort=True)
    ask(place_of(name), "fail", number=server)
    out().print(f"server {server} of {name} has failed; `penstock lab heal {name} {server}` brings it back")


def _loss(state: LabState, server: int) -> str:
    """Returns why clients lose data or service when the server fails; empty: they do not."""
    count = sum(node.name.startswith("server") for node in state.nodes)
    if not 1 <= server <= count:
        return ""  # the laboratory reports it
    if not state.failures_max:
        return f"{state.title} has no second copy of the data on server {server}; clients will fail or wait"
    others = [each for each in ask(place_of(state.name), "away")["away"] if each != server]
    if len(others) < state.failures_max:
        return ""
    return (
        f"{state.title} stays in service while at most {counted(state.failures_max, 'server')} of"
        f" {count} is away; away or not healed yet:"
        f" {', '.join(map(str, others))}; if server {server} fails too, clients will fail or wait"
    )


@reports_errors
def heal_command(name: LabName, server: ServerNumber) -> None:
    """Start a killed server again, put its disk back, or take the limits off a slow one."""
    ask(place_of(name), "heal", number=server)
    out().print(f"server {server} of {name} is up again", markup=False)


@reports_errors
def slow_command(
    name: LabName,
    server: ServerNumber,
    disk: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Hold its disk to this rate.", rich_help_panel=panels.LABORATORY),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Hold its link to this rate.", rich_help_panel=panels.LABORATORY),
    ] = None,
    stall: Annotated[
        bool, typer.Option("--stall", help="Stop all its processes.", rich_help_panel=panels.FAULTS)
    ] = False,
) -> None:
    """Slow a server's disk or link down, or stall it. `penstock lab heal` ends that."""
    if disk is None and link is None and not stall:
        raise UsageError("one of --disk, --link and --stall is required")
    ask(
        place_of(name),
        "slow",
        number=server,
        disk_bytes_per_s=None if disk is None else bandwidth_option(disk, "--disk"),
        link_bytes_per_s=None if link is None else bandwidth_option(link, "--link"),
        stalled=stall,
    )
    out().print(f"server {server} of {name} is slow; `penstock lab heal {name} {server}` ends that")


@reports_errors
@shows_progress
def degrade_command(
    name: LabName,
    server: ServerNumber,
    rate: Annotated[
        float, typer.Option(min=1, max=1e5, help="Frames per second.", rich_help_panel=panels.DETECTOR)
    ] = 50,
    rows: Annotated[
        int,
        typer.Option(min=1, max=1 << 16, help="Rows in pixels of 16 bits.", rich_help_panel=panels.DETECTOR),
    ] = 512,
    columns: Annotated[
        int, typer.Option(min=1, max=1 << 16, help="Columns in pixels.", rich_help_panel=panels.DETECTOR)
    ] = 512,
    seconds: Annotated[
        float, typer.Option(min=3, max=86400, help="Duration of the series.", rich_help_panel=panels.RUN)
    ] = 30,
    at: Annotated[
        float, typer.Option(min=1, help="Seconds until the server fails.", rich_help_panel=panels.FAULTS)
    ] = 10,
    away: Annotated[
        float,
        typer.Option(min=0, help="Seconds until the server is started again.", rich_help_panel=panels.FAULTS),
    ] = 10,
    stall: Annotated[
        bool,
        typer.Option(
            "--stall", help="Stop its processes instead of killing them.", rich_help_panel=panels.FAULTS
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the result (JSON) into this new file.", rich_help_panel=panels.OUTPUT
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Record a series while a server fails: dip, return of service, healing, frames lost or wrong.

    Exit code 1: a frame is missing, or differs from what was sent.
    """
    if at + away >= seconds:
        raise UsageError(
            f"--at {at:g} and --away {away:g} are not over within --seconds {seconds:g}", "raise --seconds"
        )
    require_new(output)
    state = state_of(place_of(name))
    if not state.mount:
        raise UsageError(f"{state.title} has no mount point, which a recorder needs")
    enter_for(state)
    mount_of(state)
    request = DegradedRequest(
        state, server, "stall" if stall else "fail", rate, rows, columns, seconds, at, away
    )
    with progress() as view:
        found = run_degraded(request, view.say)
    if output is not None:
        output.write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if json:
        print_json(found)
    else:
        _show_degraded(found)
    if found.missing or found.different or found.problem:
        raise typer.Exit(int(ExitCode.FAILED))


def _show_degraded(found: Degraded) -> None:
    console = out()
    lost = f"{found.missing} of {found.frames} frames are missing, {found.different} differ"
    console.print(
        lost if found.missing or found.different else f"all {found.frames} frames are in the file, and right"
    )
    table = Table(box=None, show_header=False)
    seconds = {
        "server failed": found.fault_s,
        "longest time without a written frame": found.dip_s,
        "end of that time": found.returned_s,
        "written as soon as before": found.caught_up_s,
        "server started again": found.heal_s,
        "all copies there again": found.healed_s,
    }
    since = {
        "server failed": "after the first frame",
        "end of that time": "after the failure",
        "written as soon as before": "after the failure",
        "server started again": "after the first frame",
        "all copies there again": "after the start",
    }
    for what, value in seconds.items():
        text = (
            "not in this series"
            if value is None
            else f"{human_seconds(value)} {since.get(what, '')}".rstrip()
        )
        table.add_row(what, text)
    table.add_row("frames per second before", f"{found.before_hz:.4g}")
    table.add_row("in the worst second", f"{found.lowest_hz:.4g}")
    console.print(table)
    if found.problem:
        console.print(f"problem: {found.problem}", markup=False)
