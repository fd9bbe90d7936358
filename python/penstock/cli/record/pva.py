"""`penstock pva`"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.common import err, print_json, print_json_line, reports_errors, size_option
from penstock.model.configuration import read_token
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import Event
from penstock.model.overrides import pva_settings
from penstock.model.plans import Plan
from penstock.model.pva import PvaPlan, check_start
from penstock.model.yaml_file import read_yaml
from penstock.programs.pva import require_p4p, run_pva
from penstock.report.progress import ProgressView, show


@reports_errors
def pva_command(
    channel: Annotated[str, typer.Argument(help="The NTNDArray channel, for example 13SIM1:Pva1:Image.")],
    to: Annotated[
        str, typer.Option(metavar="tcp://HOST:PORT", help="The recorder.")
    ] = "tcp://127.0.0.1:9900",
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token of the recorder; otherwise the variable PENSTOCK_TOKEN."),
    ] = None,
    frames: Annotated[
        int | None, typer.Option(metavar="N", help="Frames of a series. [default: open end]")
    ] = None,
    series: Annotated[int, typer.Option(min=0, help="End after so many series; 0 goes on.")] = 0,
    idle_end: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="A series ends after so long without a frame; 0: never. [default: 60]"
        ),
    ] = None,
    reconnect: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="A series waits so long for a disconnected channel. [default: 60]"
        ),
    ] = None,
    first_id: Annotated[
        int | None,
        typer.Option(metavar="ID", help="The uniqueId of frame 0. [default: the first that comes]"),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            help="skip or keep what the channel has when it is connected, also again. [default: skip]"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Names series: {channel}, {date}, {attribute}. [default: {channel}-{date}]",
        ),
    ] = None,
    name_attribute: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The attribute in --name; where it changes a series begins."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML with what the channel does not tell, as pixel_size_x."),
    ] = None,
    pipeline: Annotated[
        bool | None,
        typer.Option(
            "--pipeline/--no-pipeline", help="Let the server wait for this client. [default: no-pipeline]"
        ),
    ] = None,
    queue: Annotated[
        int | None, typer.Option(metavar="FRAMES", help="Frames that pvAccess holds. [default: 32]")
    ] = None,
    reorder: Annotated[
        int | None,
        typer.Option(metavar="FRAMES", help="Frames that wait for one before them. [default: 16]"),
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory for frames that are not acknowledged. [default: 1 GiB]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Events as JSON lines.")] = False,
) -> None:
    """Send the frames of an EPICS areaDetector to a recorder, from its pvAccess channel.

    `penstock record --pva` starts this beside a recorder. Servers are looked for as EPICS does it: by
    EPICS_PVA_ADDR_LIST and its sisters. Ends with SIGINT (Ctrl-C) or SIGTERM: the series is then complete.
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
    with ProgressView(err()) as view:

        def on_event(event: Event) -> None:
            if json:
                print_json_line(event)
            else:
                show(view, event)

        ended = run_pva(plan, on_event, view.say)
    problems = [f"{each.series_unique_id}: {each.problem}" for each in ended if each.problem]
    damaged = sum(each.damaged for each in ended)
    problems += [f"{damaged} frames are damaged"] if damaged else []
    if problems:
        raise PenstockError("; ".join(problems))


class _StartFile(Plan):
    """Only to be read as YAML with lines in its errors."""

    model_config = Plan.model_config | {"extra": "allow"}


def read_start(path: Path) -> dict[str, Any]:
    """The fields in a file. A UsageError names the file, the field and the value."""
    fields = read_yaml(path, _StartFile, "docs/how-to/record/record-from-epics.md").model_dump()
    try:
        check_start(fields)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", "see docs/how-to/record/record-from-epics.md") from error
    return fields


def pva_given(**options: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}
