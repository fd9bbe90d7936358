"""`penstock pva`"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.common import print_json, reports_errors, size_option
from penstock.cli.record.events import event_output
from penstock.cli.verbosity import progress, shows_progress
from penstock.model import panels
from penstock.model.configuration import read_token
from penstock.model.errors import PenstockError, UsageError
from penstock.model.overrides import pva_settings
from penstock.model.plans import Plan
from penstock.model.pva import PvaPlan, check_start
from penstock.model.yaml_file import read_yaml
from penstock.programs.pva import require_p4p, run_pva


@reports_errors
@shows_progress
def pva_command(
    channel: Annotated[str, typer.Argument(help="NTNDArray channel, for example 13SIM1:Pva1:Image.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Address of the recorder.", rich_help_panel=panels.CONNECTION
        ),
    ] = "tcp://127.0.0.1:9900",
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that the recorder requires; otherwise the variable PENSTOCK_TOKEN.",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of frames of a series. [default: until the channel ends it]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    series: Annotated[
        int,
        typer.Option(min=0, help="Exit after this many series; 0: no limit.", rich_help_panel=panels.SERIES),
    ] = 0,
    idle_end: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="End a series after this many seconds without a frame; 0: never. [default: 60]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    reconnect: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time in seconds that a series waits for a disconnected channel. [default: 60]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    first_id: Annotated[
        int | None,
        typer.Option(
            metavar="ID",
            help="uniqueId of frame 0. [default: that of the first frame]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            help="Frame that the channel already holds at each connection: skip or keep. [default: skip]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Template of series names with {channel}, {date}, {attribute}. [default: {channel}-{date}]",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    name_attribute: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Attribute for {attribute} in --name; a new series starts when its value changes.",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file with fields that the channel does not send, such as pixel_size_x.",
            rich_help_panel=panels.SERIES,
        ),
    ] = None,
    pipeline: Annotated[
        bool | None,
        typer.Option(
            "--pipeline/--no-pipeline",
            help="Use pvAccess flow control, which makes the server wait for this client. [default:"
            " no-pipeline]",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = None,
    queue: Annotated[
        int | None,
        typer.Option(
            metavar="FRAMES",
            help="Queue depth of pvAccess in frames. [default: 32]",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = None,
    reorder: Annotated[
        int | None,
        typer.Option(
            metavar="FRAMES",
            help="Maximum number of frames that wait for an earlier frame. [default: 16]",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for frames that are not acknowledged yet. [default: 1 GiB]",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and exit.", rich_help_panel=panels.RUN)
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print events as JSON lines.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Send the frames of an EPICS areaDetector to a recorder, from its pvAccess channel.

    `penstock record --pva` starts it together with a recorder. EPICS_PVA_ADDR_LIST and the other EPICS
    variables configure the search for servers. Stop it with SIGINT (Ctrl-C) or SIGTERM; the series is then
    complete.
    """
    given = pva_given(
        frames=frames,
        idle_end_s=idle_end,
        reconnect_s=reconnect,
        first_unique_id=first_id,
        initial=initial,
        name=name,
        name_attribute=name_attribute,
        start=None if start is None else read_start(start),
        pipeline=pipeline,
        queue_frames=queue,
        reorder_frames=reorder,
        buffer_bytes=None if buffer is None else size_option(buffer, "--buffer"),
    )
    settings = pva_settings(channel, given)
    plan = PvaPlan(
        **settings.model_dump(), to=to, token=read_token(token_file, os.environ), series_limit=series
    )
    if dry_run:
        print_json(plan.without_token())
        return
    require_p4p()
    with progress() as view:
        ended = run_pva(plan, event_output(view, json), view.say)
    problems = [f"{each.series_unique_id}: {each.problem}" for each in ended if each.problem]
    damaged = sum(each.damaged for each in ended)
    problems += [f"{damaged} corrupt frames"] if damaged else []
    if problems:
        raise PenstockError("; ".join(problems))


class _StartFile(Plan):
    """Any fields of a YAML file, to report errors with line numbers."""

    model_config = Plan.model_config | {"extra": "allow"}


def read_start(path: Path) -> dict[str, Any]:
    """Returns the fields of a file. Raises UsageError with file, field and value."""
    fields = read_yaml(path, _StartFile, "docs/how-to/record/record-from-epics.md").model_dump()
    try:
        check_start(fields)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", "see docs/how-to/record/record-from-epics.md") from error
    return fields


def pva_given(**options: Any) -> dict[str, Any]:
    """Returns the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
