"""`penstock compare`"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from penstock.bench.compare.rehearsals import all_rehearsals, compare_rehearsals
from penstock.bench.compare.sets import RunSet, documents_in, read_sets
from penstock.bench.compare.storages import EXIT_CODES, compare
from penstock.bench.compare.targets import are_directories, is_target, newest_sets
from penstock.bench.compare.trend import WINDOW, trend
from penstock.cli.common import answers, out, print_json, require_new
from penstock.files.catalogue import Catalogue, default_path
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.bench.comparisons import Comparison, Trend
from penstock.model.bench.rehearsals import RehearsalComparison
from penstock.model.errors import UsageError
from penstock.model.text import counted
from penstock.report.comparisons import comparison_view
from penstock.report.rehearse.comparison import rehearsal_comparison_view
from penstock.report.trends import trend_view

_Found = Comparison | Trend | RehearsalComparison
_THRESHOLD = re.compile(r"(?P<number>[0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%")


@answers
def compare_command(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="DOCUMENT",
            help="Two documents, A and B, of runs, verdicts or campaigns; folders of them; two rehearsals; or"
            " two targets, whose newest measurements are looked up in the run index. With --trend: any number"
            " of documents.",
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
    json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Compare two verdicts, targets or sets of measurements: report whether B is better or worse than A.

    Every metric of every case is compared, together with the smallest change that the runs could detect. The
    false alarm rate is at most 5 %. Exit code 0: nothing is worse; 1: something is worse; 3: cannot tell;
    4: one set has no valid run; 5: the command failed.
    """
    require_new(output)
    share = _share(threshold)
    of_rehearsals = all_rehearsals(documents)
    if of_rehearsals:
        _require_no_runs_option(trend_=trend_, share=share, case=case or base_case)
        found: _Found = compare_rehearsals(documents, force=force)
    elif trend_:
        if base_case is not None or share:
            raise UsageError("--trend excludes --base-case and --threshold", "leave them out")
        sets = read_sets(_documents(documents))
        found = trend([each.only(case) for each in sets] if case else sets, window, force)
    else:
        base, other = _two(documents, case, base_case)
        found = compare(base, other, share, force)
    if output is not None:
        write_document(output, found.model_dump_json())
    if json:
        print_json(found)
    else:
        out().print(_view(found))
    raise typer.Exit(int(EXIT_CODES[found.answer]))


def _view(found: _Found) -> RenderableType:
    match found:
        case Comparison():
            return comparison_view(found)
        case Trend():
            return trend_view(found)
        case RehearsalComparison():
            return rehearsal_comparison_view(found)


def _require_no_runs_option(*, trend_: bool, share: float, case: str | None) -> None:
    """Raises UsageError with the option that rehearsals do not have."""
    given = {"--trend": trend_, "--threshold": bool(share), "--case": case is not None}
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise UsageError(f"rehearsals cannot be compared with {', '.join(names)}", "leave it out")


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
            "give two documents or targets; or many with --trend; or one with --base-case and --case",
        )
    targets = [path for path in both if is_target(path)]
    if targets and len(targets) < len(both) and not are_directories(both):
        raise _mixed(both, targets[0])
    base, other = newest_sets(both, Catalogue(default_path())) if targets else read_sets(both)
    wanted = base_case if base_case is not None else case
    chosen = (base.only(wanted) if wanted else base), (other.only(case) if case else other)
    if base.name != other.name or not wanted or not case:
        return chosen
    # Two cases of one document, whose name alone would not distinguish them.
    return replace(chosen[0], name=f"{base.name}: {wanted}"), replace(chosen[1], name=f"{base.name}: {case}")


def _mixed(paths: list[Path], target: Path) -> UsageError:
    document = next(path for path in paths if path != target)
    return UsageError(
        f"{target} is neither a document nor a folder of documents, but {document} is",
        "give two documents, or two targets of the run index",
    )
