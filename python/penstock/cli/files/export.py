"""`penstock export`"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import err, inspects, out, print_json, warn
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.export.damage import damage_of_copy
from penstock.files.export.export import write_export
from penstock.files.export.plan import FRAMES_A_FILE, Reader, Stretch, plan_export
from penstock.model import panels
from penstock.model.errors import ExitCode, UsageError
from penstock.model.text import harmless

if TYPE_CHECKING:
    from penstock.files.export.plan import Export
    from penstock.model.events import CheckReport
    from penstock.report.progress import ProgressView


@inspects
@shows_progress
def export_command(
    file: Annotated[Path, typer.Argument(readable=False, help="Recorded file.")],
    reader: Annotated[
        Reader,
        typer.Option(
            "--for",
            help="Reader: xds for XDS with the plug-ins durin or neggia, and others; eiger for programs that"
            " read files of the DECTRIS file writer.",
            rich_help_panel=panels.FILES,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Master file to create. [default: NAME_master.h5 next to the recorded file]",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy the frames into files next to the master file: required for neggia, and if readers"
            " support neither the chunks nor the codec of the recorded file. Checks the recorded file first;"
            " exit code 1: it is damaged, and so may be the copy.",
            rich_help_panel=panels.FILES,
        ),
    ] = False,
    frames: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:END",
            help="With --copy: frames to copy, as a half-open range. [default: all up to the last one that"
            " was received]",
            rich_help_panel=panels.FILES,
        ),
    ] = None,
    frames_per_file: Annotated[
        int,
        typer.Option(
            min=1, max=1_000_000, help="With --copy: number of frames per file.", rich_help_panel=panels.FILES
        ),
    ] = FRAMES_A_FILE,
    single_dataset: Annotated[
        bool,
        typer.Option(
            "--single-dataset",
            help="With --for eiger: present all frames as one dataset /entry/data/data instead of"
            " data_000001, …. Requires HDF5 1.10 in the reader.",
            rich_help_panel=panels.FILES,
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing export.", rich_help_panel=panels.OUTPUT)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be written, and exit.", rich_help_panel=panels.RUN),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the written files as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Write a small master file with the dataset names that other readers expect; frames are not copied."""
    stretch = _parsed_stretch(frames)
    plan = plan_export(file, reader, output, copy, frames_per_file, single_dataset, stretch)
    checked = None
    if not dry_run:
        with progress() as view:
            checked = _checked(file, view) if copy and _is_utf8(file) else None
            write_export(plan, overwrite, lambda n, of: view.update("copying frames", n, of, f"{n} of {of}"))
    if json:
        print_json(plan)
    else:
        for note in plan.notes:
            warn(f"note: {note}")
        for path in plan.writes:
            would = "would write" if dry_run else "wrote"
            out().print(harmless(f"{would} {path}"), markup=False, soft_wrap=True)
    if checked is not None:
        _report_damage(plan, checked)


def _is_utf8(path: Path) -> bool:
    """Whether native programs can read the file of that name."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(path.absolute()))


def _checked(file: Path, view: "ProgressView") -> "CheckReport":
    """What copies carry on without their checksums is compared with them before."""
    from penstock.programs.check import check_plan, check_to_the_end
    from penstock.report.progress import show

    return check_to_the_end(check_plan(file, None), lambda event: show(view, event), view.say)


def _report_damage(plan: "Export", checked: "CheckReport") -> None:
    """Names the damage of the recorded file, and exits with 1 if it may concern the copy."""
    from penstock.report.tables import findings_text

    if checked.ok:
        return
    errors = [finding for finding in checked.findings if finding.level == "error"]
    err().print(findings_text(errors), soft_wrap=True, end="")
    problem = damage_of_copy(plan, errors)
    if problem is None:
        warn(f"note: {plan.source} is damaged, but not in the copied frames")
        return
    warn(problem)
    raise typer.Exit(int(ExitCode.FAILED))


_STRETCH = re.compile(r"(\d*):(\d*)")


def _parsed_stretch(text: str | None) -> Stretch | None:
    if text is None:
        return None
    found = _STRETCH.fullmatch(text)
    if found is None:
        raise UsageError(f"--frames {text} is not FIRST:END", "give a half-open range: 0:1000, or :1000")
    first, end = (int(each) if each else None for each in found.groups())
    return first, end
