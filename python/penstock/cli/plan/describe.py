"""`penstock describe`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import require_target, require_writable
from penstock.bench.run.local_speed import measure_device, measure_speeds, speed_request
from penstock.cli.bench.running import DryRun, Yes, may_go_on, telling
from penstock.cli.common import err, out, print_json, reports_errors, require_new, size_option
from penstock.files.sheet.devices import device_node
from penstock.files.sheet.sheet import data_sheet, drives_below
from penstock.files.sheet.system import System
from penstock.files.space import write_document
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.plan.datasheet import LocalSpeed
from penstock.report.datasheet import sheet_markdown, sheet_view, speed_plan_view
from penstock.report.progress import ProgressView


@reports_errors
def describe_command(
    path: Annotated[Path, typer.Argument(help="A folder on the storage.")],
    measure: Annotated[
        bool, typer.Option("--measure", help="Write, read and create files for a moment, in a new folder.")
    ] = False,
    devices: Annotated[
        bool, typer.Option("--devices", help="With --measure: read the drives below, never write them.")
    ] = False,
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="With --measure: written and read at most.")
    ] = "4GiB",
    files: Annotated[int, typer.Option(min=1, max=10**6, help="With --measure: so many are created.")] = 1000,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=600, help="With --measure: of writing, of reading, and a device.")
    ] = 10.0,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the sheet into this file, as Markdown.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON, with the source of each value.")] = False,
) -> None:
    """The data sheet of a storage, and of the machine in front of it, with hints at what costs speed.

    It reads what the kernel and the tools of file systems tell, and writes nothing, but for --measure. Exit
    code 5: a figure of --measure is invalid, and not to be used; the sheet is written all the same.
    """
    (require_writable if measure else require_target)(path)
    require_new(markdown, "--markdown")
    if devices and not measure:
        raise UsageError("--devices is a part of the measurement", "add --measure")
    speeds: list[LocalSpeed] = []
    if measure:
        request = speed_request(path, size_option(size, "--size"), files, seconds)
        nodes = _nodes(path) if devices else {}
        err().print(speed_plan_view(request, str(path), seconds, list(nodes)))
        if not dry_run:
            may_go_on(yes)
            with ProgressView(err()) as view:
                speeds = measure_speeds(path, request, telling(view))
            speeds += [measure_device(Path(node), number, seconds) for node, number in nodes.items()]
    if dry_run:
        return
    sheet = data_sheet(path).model_copy(update={"speeds": speeds})
    if markdown is not None:
        write_document(markdown, sheet_markdown(sheet))
    if json:
        print_json(sheet)
    else:
        out().print(sheet_view(sheet))
    if measure:
        _require_answer(speeds)


def _require_answer(speeds: list[LocalSpeed]) -> None:
    """A PenstockError (UNANSWERED) names the figures that are not to be used."""
    invalid = [speed.what for speed in speeds if speed.validity == "invalid"]
    if invalid or not speeds:
        raise PenstockError(
            f"no answer: invalid, and not to be used: {', '.join(invalid)}"
            if invalid
            else "no answer: nothing was measured to its end",
            "the doubts beside each figure say why; more --size, --files and --seconds measure for longer",
            ExitCode.UNANSWERED,
        )


def _nodes(path: Path) -> dict[str, str]:
    """Files in /dev of the drives below, with their numbers."""
    system = System()
    found = {device_node(system, drive): drive.number for drive in drives_below(path)}
    return {node: number for node, number in found.items() if node}
