"""`penstock report`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, reports_errors, require_new
from penstock.files.documents import Shown, read_shown
from penstock.files.space import write_document
from penstock.model.errors import UsageError

ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write a page about it into this file (HTML).")
]


@reports_errors
def report_command(
    documents: Annotated[
        list[Path],
        typer.Argument(help="Documents of runs, verdicts, campaigns and comparisons: --output of others."),
    ],
    output: Annotated[Path | None, typer.Option(help="Write one HTML page that needs no other file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the same as Markdown, without plots.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the values as CSV, a line for each run and value.")
    ] = None,
) -> None:
    """Make a page with tables and plots from documents of runs, verdicts, campaigns and comparisons.

    Nothing is measured. Figures of invalid runs are marked wherever they stand, and so are documents of
    measurements that were interrupted.
    """
    wanted = {"--output": output, "--markdown": markdown, "--csv": csv}
    if not any(wanted.values()):
        raise UsageError(
            "nothing says what is to be written", "add --output report.html, --markdown or --csv"
        )
    for option, path in wanted.items():
        require_new(path, option)
    named = [path.absolute() for path in wanted.values() if path is not None]
    if len(set(named)) < len(named):
        raise UsageError("two of --output, --markdown and --csv name one file", "name different files")
    # Loading what draws takes as long as the rest of a command.
    from penstock.report.write import report_texts  # noqa: PLC0415

    read: dict[str, Shown] = {str(path): read_shown(path) for path in documents}
    for path, text in report_texts(read, output, markdown, csv):
        write_document(path, text.rstrip("\n"))
        err().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
