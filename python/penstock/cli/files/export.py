"""`penstock export`"""

import re
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json, warn
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.export.export import write_export
from penstock.files.export.plan import FRAMES_A_FILE, Reader, Stretch, plan_export
from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.model.text import harmless


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
            " support neither the chunks nor the codec of the recorded file.",
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
    if not dry_run:
        with progress() as view:
            write_export(plan, overwrite, lambda n, of: view.update("copying frames", n, of, f"{n} of {of}"))
    if json:
        print_json(plan)
        return
    for note in plan.notes:
        warn(f"note: {note}")
    for path in plan.writes:
        out().print(harmless(f"{'would write' if dry_run else 'wrote'} {path}"), markup=False, soft_wrap=True)


_STRETCH = re.compile(r"(\d*):(\d*)")


def _parsed_stretch(text: str | None) -> Stretch | None:
    if text is None:
        return None
    found = _STRETCH.fullmatch(text)
    if found is None:
        raise UsageError(f"--frames {text} is not FIRST:END", "give a half-open range: 0:1000, or :1000")
    first, end = (int(each) if each else None for each in found.groups())
    return first, end
