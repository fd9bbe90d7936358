"""`penstock export`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, inspects, out, print_json, warn
from penstock.files.export.export import write_export
from penstock.files.export.plan import FRAMES_A_FILE, Reader, plan_export
from penstock.model.text import harmless
from penstock.report.progress import ProgressView


@inspects
def export_command(
    file: Annotated[Path, typer.Argument(help="The recorded file.")],
    reader: Annotated[
        Reader,
        typer.Option(
            "--for",
            help="xds: the plug-ins durin and neggia, and other readers too. eiger: programs made for the"
            " files of DECTRIS' file writer.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="The master file; without it NAME_master.h5 beside the recorded one.")
    ] = None,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Write the frames once more, into files beside the master: for neggia, and where chunks or"
            " codec are not what the readers take.",
        ),
    ] = False,
    frames_per_file: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="In each file of --copy.")
    ] = FRAMES_A_FILE,
    single_dataset: Annotated[
        bool,
        typer.Option(
            "--single-dataset",
            help="With --for eiger: show all frames as the one dataset /entry/data/data instead of"
            " data_000001, …, for programs that look there. Needs HDF5 1.10.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be written, and write nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="What was written as JSON, for machines.")] = False,
) -> None:
    """Write a small master file with the names that other readers look for; frames stay where they are."""
    plan = plan_export(file, reader, output, copy, frames_per_file, single_dataset)
    if not dry_run:
        with ProgressView(err()) as view:
            write_export(plan, overwrite, lambda n, of: view.update("copying frames", n, of, f"{n} of {of}"))
    if json:
        print_json(plan)
        return
    for note in plan.notes:
        warn(f"note: {note}")
    for path in plan.writes:
        out().print(harmless(f"{'would write' if dry_run else 'wrote'} {path}"), markup=False, soft_wrap=True)
