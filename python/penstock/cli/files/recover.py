"""`penstock recover`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import inspects, out, print_json
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.aside import require_file
from penstock.files.naming import path_while_made
from penstock.files.writable import require_writable
from penstock.model import panels
from penstock.model.errors import ExitCode
from penstock.model.findings import is_clean


@inspects
@shows_progress
def recover_command(
    file: Annotated[Path, typer.Argument(readable=False, help="File of a recorder that was killed.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and exit.", rich_help_panel=panels.RUN)
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Rebuild the HDF5 structures from the segments even if they are readable. Masks and geometry"
            " that only the structures held are lost, and so is what other programs added to the file."
            " [default: rebuild only certainly corrupt structures]",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Recover the only copy of a finished file whose end is cut off: rebuild the HDF5 structures,"
            " and mark the frames that are cut off as lost. [default: reject a truncated file]",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    not_in_use: Annotated[
        bool,
        typer.Option(
            "--not-in-use",
            help="Recover an unfinished file of a file system without locks, where no one can see whether a"
            " recorder still writes it. Two writers destroy a file: be sure that none has it open, on any"
            " machine."
            " [default: reject it]",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Complete a file whose recorder was killed: every frame that reached storage becomes readable.

    Changes the file in place, and never writes to recorded frames. Rejects a file that another process has
    open, and a finished file that is shorter than it says, unless --salvage is given. Exit code 1: a part of
    the series is lost or corrupt; the rest is recovered.
    """
    is_removed = not dry_run and not file.exists() and path_while_made(file).is_file()
    if not is_removed:
        require_file(file)
        if not dry_run:
            require_writable(file)
    from penstock.programs.recover import recover
    from penstock.report.progress import show
    from penstock.report.tables import findings_text, recovery_lines

    with progress() as view:
        report = recover(
            file, dry_run, lambda event: show(view, event), view.say, rebuild, salvage, not_in_use
        )
    if json:
        print_json(report)
    else:
        if report.findings:
            out().print(findings_text(report.findings), soft_wrap=True, end="")
        for line in recovery_lines(report):
            out().print(line, markup=False, soft_wrap=True)
    if not is_clean(report.findings):
        raise typer.Exit(int(ExitCode.FAILED))
