"""`penstock compare`"""

import re
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.compare.sets import RunSet, documents_in, read_sets
from penstock.bench.compare.storages import EXIT_CODES, compare
from penstock.bench.compare.trend import WINDOW, trend
from penstock.cli.bench.running import Json
from penstock.cli.common import answers, out, print_json, require_new
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.bench.comparisons import Comparison, Trend
from penstock.model.errors import UsageError
from penstock.model.text import counted
from penstock.report.comparisons import comparison_view, trend_view

_THRESHOLD = re.compile(r"(?P<number>[0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%")


@answers
def compare_command(
    documents: Annotated[
        list[Path],
        typer.Argument(
            help="Documents A and B of runs, verdicts or campaigns, or folders of them. With --trend: any"
            " number."
        ),
    ],
    threshold: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Smallest relevant change in percent, 0% to 100%, such as 5%.",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = "0%",
    case: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Case to compare; with --base-case, the case of B. [default: all cases]",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = None,
    base_case: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Case of A to compare with --case of B. [default: the same case]",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = None,
    trend_: Annotated[
        bool,
        typer.Option(
            "--trend",
            help="Follow each metric through many documents, or through those of one folder.",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = False,
    window: Annotated[
        int,
        typer.Option(
            min=3,
            max=1000,
            help="With --trend: number of preceding documents with which each one is compared.",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = WINDOW,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compare even if the two sets measured different workloads.",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the comparison (JSON) into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compare two sets of measurements: report whether B is better, worse, or not distinguishable from A.

    Every metric of every case is compared, together with the smallest change that the runs could detect. The
    false alarm rate is at most 5 %. Exit code 0: nothing is worse; 1: something is worse; 3: cannot tell;
    4: one set has no valid run; 5: the command failed.
    """
    require_new(output)
    share = _share(threshold)
    if trend_:
        if base_case is not None or share:
            raise UsageError("--trend excludes --base-case and --threshold", "leave them out")
        sets = read_sets(_documents(documents))
        found: Comparison | Trend = trend([each.only(case) for each in sets] if case else sets, window, force)
    else:
        base, other = _two(documents, case, base_case)
        found = compare(base, other, share, force)
    if output is not None:
        write_document(output, found.model_dump_json())
    if json:
        print_json(found)
    else:
        out().print(comparison_view(found) if isinstance(found, Comparison) else trend_view(found))
    raise typer.Exit(int(EXIT_CODES[found.answer]))


def _share(text: str) -> float:
    match = _THRESHOLD.fullmatch(text.strip())
    if match is None or float(match["number"]) > 100:
        raise UsageError(
            f'--threshold "{text}" is not a percentage from 0% to 100%', "write for example 5% or 2.5%"
        )
    return float(match["number"]) / 100


def _documents(paths: list[Path]) -> list[Path]:
    """Returns the documents; for one folder those in it."""
    return documents_in(paths[0]) if len(paths) == 1 and paths[0].is_dir() else paths


def _two(paths: list[Path], case: str | None, base_case: str | None) -> tuple[RunSet, RunSet]:
    """Returns A and B. To compare two cases of one document, it may be given once."""
    both = paths * 2 if len(paths) == 1 and base_case and case and base_case != case else paths
    if len(both) != 2:
        raise UsageError(
            f"{counted(len(paths), 'document')} given; two are required, A and B",
            "give two documents; or many with --trend; or one with --base-case and --case",
        )
    base, other = read_sets(both)
    wanted = base_case if base_case is not None else case
    return (base.only(wanted) if wanted else base), (other.only(case) if case else other)
