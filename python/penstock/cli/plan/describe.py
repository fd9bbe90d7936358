"""`penstock describe`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import require_target, require_writable
from penstock.bench.run.local_speed import measure_device, measure_speeds, speed_request
from penstock.cli.bench.running import DryRun, Yes, may_go_on, telling
from penstock.cli.common import out, print_json, reports_errors, require_new, size_option
from penstock.cli.documents import written_first
from penstock.cli.verbosity import progress, show_plan, shows_progress
from penstock.files.sheet.devices import device_node
from penstock.files.sheet.sheet import data_sheet, drives_below
from penstock.files.sheet.system import System
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.plan.datasheet import LocalSpeed
from penstock.report.datasheet import sheet_markdown, sheet_view, speed_plan_rows

_SIZE, _FILES, _SECONDS = "4GiB", 1000, 10.0


@reports_errors
@shows_progress
def describe_command(
    path: Annotated[Path, typer.Argument(help="Folder on the storage.")],
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure as well: write, read and create files in a new directory, which is removed at the"
            " end.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = False,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices",
            help="With --measure: also read the drives below the file system, without writing to them.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = False,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With --measure: maximum number of bytes to write and read. [default: 4GiB]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    files: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10**6,
            help="With --measure: number of files to create. [default: 1000]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=600,
            help="With --measure: duration in seconds of writing, of reading, and of each drive."
            " [default: 10]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the data sheet as Markdown into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON, with the source of each value.", rich_help_panel=panels.OUTPUT
        ),
    ] = False,
) -> None:
    """Show the data sheet of a storage and of this machine, with hints about settings that cost speed.

    Reads what the kernel and the tools of file systems report. Writes nothing except with --measure. Exit
    code 5: a measurement is invalid, do not use its metric; the data sheet is written nevertheless.
    """
    if measure:
        require_writable(path)
    else:
        require_target(path, "to describe")
    require_new(markdown, "--markdown")
    given = {"--devices": devices or None, "--size": size, "--files": files, "--seconds": seconds}
    useless = [option for option, value in given.items() if value is not None]
    if useless and not measure:
        raise UsageError(f"{useless[0]} requires --measure", f"add --measure, or leave out {useless[0]}")
    seconds = _SECONDS if seconds is None else seconds
    speeds: list[LocalSpeed] = []
    if measure:
        request = speed_request(path, size_option(size or _SIZE, "--size"), files or _FILES, seconds)
        nodes = _nodes(path) if devices else {}
        show_plan(speed_plan_rows(request, str(path), seconds, list(nodes)), dry_run=dry_run, json=json)
        if not dry_run:
            may_go_on(yes)
            with progress() as view:
                speeds = measure_speeds(path, request, telling(view))
            speeds += [measure_device(Path(node), number, seconds) for node, number in nodes.items()]
    if dry_run:
        return
    sheet = data_sheet(path).model_copy(update={"speeds": speeds})
    with written_first(lambda: None if markdown is None else write_document(markdown, sheet_markdown(sheet))):
        if json:
            print_json(sheet)
        else:
            out().print(sheet_view(sheet))
    if measure:
        _require_answer(speeds)


def _require_answer(speeds: list[LocalSpeed]) -> None:
    """Raises PenstockError (UNANSWERED) with the names of invalid metrics."""
    invalid = [speed.what for speed in speeds if speed.validity == "invalid"]
    if invalid or not speeds:
        raise PenstockError(
            f"no answer: these measurements are invalid: {', '.join(invalid)}"
            if invalid
            else "no answer: no measurement was completed",
            "the caveats of each metric give the reason; increase --size, --files or --seconds to measure"
            " longer",
            ExitCode.UNANSWERED,
        )


def _nodes(path: Path) -> dict[str, str]:
    """Returns the device files of the drives below the path, with their numbers."""
    system = System()
    found = {device_node(system, drive): drive.number for drive in drives_below(path)}
    return {node: number for node, number in found.items() if node}
