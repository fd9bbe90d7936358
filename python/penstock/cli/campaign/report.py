"""`penstock report`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, reports_errors, require_new
from penstock.files.documents import Shown, read_shown
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.errors import UsageError

ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write a report (HTML) into this new file.",
        rich_help_panel=panels.OUTPUT,
    ),
]


@reports_errors
def report_command(
    documents: Annotated[
        list[Path],
        typer.Argument(
            help="Documents that other commands wrote with --output: runs, verdicts, campaigns, comparisons."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML page into this new file.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report as Markdown, without plots, into this new file."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the metrics as CSV, one line per run and metric, into this new file."
        ),
    ] = None,
) -> None:
    """Write a page with tables and plots of runs, verdicts, campaigns and comparisons.

    Nothing is measured. Metrics of invalid runs and interrupted measurements are marked.
    """
    wanted = {"--output": output, "--markdown": markdown, "--csv": csv}
    if not any(wanted.values()):
        raise UsageError(
            "no output given", "add --output report.html, --markdown report.md or --csv report.csv"
        )
    for option, path in wanted.items():
        require_new(path, option)
    named = [path.absolute() for path in wanted.values() if path is not None]
    if len(set(named)) < len(named):
        raise UsageError("two of --output, --markdown and --csv name the same file", "name different files")
    # Loading the plotting library takes as long as the rest of a command.
    from penstock.report.write import report_texts  # noqa: PLC0415

    read: dict[str, Shown] = {str(path): read_shown(path) for path in documents}
    for path, text in report_texts(read, output, markdown, csv):
        write_document(path, text.rstrip("\n"))
        err().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
