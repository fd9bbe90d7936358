"""`penstock recover`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, inspects, out, print_json
from penstock.files.aside import require_file
from penstock.model.errors import ExitCode
from penstock.model.findings import is_clean
from penstock.programs.recover import recover
from penstock.report.progress import ProgressView, show
from penstock.report.tables import findings_text, recovery_lines


@inspects
def recover_command(
    file: Annotated[Path, typer.Argument(help="The file that a recorder left.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Make HDF5's structures anew from the segments, whatever can be read of them: masks and"
            " geometry that only they held are gone then. Without it that is done only for certain damage.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The report as JSON, for machines.")] = False,
) -> None:
    """Complete a file whose recorder was killed: every frame that reached storage becomes readable.

    Works in the file itself, and never writes to recorded frames. Refuses a file that another process
    has open. Ends with 1 also where a part of the series is not there or damaged, after doing what can be
    done without it.
    """
    require_file(file)
    with ProgressView(err()) as view:
        report = recover(file, dry_run, lambda event: show(view, event), view.say, rebuild)
    if json:
        print_json(report)
    else:
        if report.findings:
            out().print(findings_text(report.findings), soft_wrap=True, end="")
        for line in recovery_lines(report):
            out().print(line, markup=False, soft_wrap=True)
    if not is_clean(report.findings):
        raise typer.Exit(int(ExitCode.FAILED))
