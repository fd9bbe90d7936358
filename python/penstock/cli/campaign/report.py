"""`penstock report`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import err, reports_errors, require_new, warn
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


# Other endings are possible with each option.
_OPTIONS = {".html": "--output", ".htm": "--output", ".md": "--markdown", ".csv": "--csv"}
_FORMATS = {"--output": "HTML", "--markdown": "Markdown", "--csv": "CSV"}


def _require_ending(path: Path | None, option: str) -> None:
    """Raises UsageError if the name of the file is that of another format."""
    if path is None:
        return
    meant = _OPTIONS.get(path.suffix.lower(), option)
    if meant != option:
        raise UsageError(
            f"{option} {path} writes {_FORMATS[option]}, but the name is that of a file of {_FORMATS[meant]}",
            f"use {meant} {path}",
        )


@reports_errors
def report_command(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="DOCUMENT",
            help="Documents that other commands wrote with --output: runs, verdicts, rehearsals, campaigns,"
            " comparisons.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a self-contained HTML page into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the report as Markdown, without plots, into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the metrics as CSV, one line per run and metric, into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
) -> None:
    """Write a page with tables and plots of runs, verdicts, rehearsals, campaigns and comparisons.

    Nothing is measured. Metrics of invalid runs and interrupted measurements are marked.
    """
    wanted = {"--output": output, "--markdown": markdown, "--csv": csv}
    if not any(wanted.values()):
        raise UsageError(
            "no output given", "add --output report.html, --markdown report.md or --csv report.csv"
        )
    for option, path in wanted.items():
        _require_ending(path, option)
        require_new(path, option)
    named = [path.absolute() for path in wanted.values() if path is not None]
    if len(set(named)) < len(named):
        raise UsageError("two of --output, --markdown and --csv name the same file", "name different files")
    # Loading the plotting library takes as long as the rest of a command.
    from penstock.report.write import report_texts, without_runs

    read: dict[str, Shown] = {str(path): read_shown(path) for path in documents}
    if csv is not None:
        for name in without_runs(read):
            warn(f"warning: {name} has no runs, so {csv} has no line of it")
    for path, text in report_texts(read, output, markdown, csv):
        write_document(path, text.rstrip("\n"))
        err().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
