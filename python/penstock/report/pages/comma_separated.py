"""Metrics of documents as CSV: one line for each run and metric, and one for each run that failed."""

import csv
import io
from collections.abc import Collection, Iterator

from penstock.bench.statistics.values import Reading, derived_of, too_short_of, values_of
from penstock.files.documents import Document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run, Verdict
from penstock.report.metadata import TOO_SHORT
from penstock.report.printable import printable
from penstock.report.verdicts import outcome_text

COLUMNS = (
    "document",
    "kind",
    "name",
    "part",
    "block",
    "rate_hz",
    "outcome",
    "validity",
    "incomplete",
    "metric",
    "value",
    "unit",
    "better",
    "started",
    "target",
    "host",
    "file_system",
)


def csv_of(documents: dict[str, Document]) -> str:
    """By the name of the file that each was read from. Numbers are exact, in the unit beside them."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(COLUMNS)
    for source, document in documents.items():
        writer.writerows([_plain(source), *map(_plain, line)] for line in _lines(document))
    return written.getvalue()


def _plain(value: str | float | int | bool) -> str | float | int:
    """Spreadsheets take a text that begins with one of these marks for a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


_Line = list[str | float | int | bool]


def _lines(document: Document) -> Iterator[_Line]:
    match document:
        case Run():
            yield from _run_lines(["run", document.workload, "", "", _rate_of(document), ""], document)
        case Verdict():
            for step in document.steps:
                place: _Line = [
                    "verdict",
                    document.detector,
                    step.kind,
                    "",
                    step.rate_hz,
                    outcome_text(step.outcome),
                ]
                yield from _run_lines(place, step.run, document.problem is not None)
        case Campaign():
            shown = {name for view in document.views for name in view.shown_values}
            for each in document.runs:
                place = ["campaign", document.name, each.case, each.block, _rate_of(each.run), ""]
                yield from _run_lines(place, each.run, not document.complete)
                yield from _derived_lines(place, each.run, not document.complete, shown)
            paths = {
                case.name: target.path
                for case in document.cases
                for target in document.targets
                if target.name == case.target
            }
            for failure in document.failures:
                outcome = f"failed: {failure.problem}"
                place = ["campaign", document.name, failure.case, failure.block, "", outcome]
                yield [*place, "", True, "", "", "", "", failure.when, paths.get(failure.case, ""), "", ""]


def _rate_of(run: Run) -> float:
    return run.frames.needed_hz if run.frames is not None else 0.0


def _run_lines(place: _Line, run: Run, incomplete: bool = False) -> Iterator[_Line]:
    short = too_short_of(run)
    for name, value in values_of(run).items():
        reported: _Line = [*place[:-1], TOO_SHORT] if name in short else place
        yield _line(reported, run, incomplete, name, value, value.better)
    for name in sorted(short - set(values_of(run))):
        yield _line([*place[:-1], TOO_SHORT], run, incomplete, name, None, "")


def _derived_lines(place: _Line, run: Run, incomplete: bool, names: Collection[str]) -> Iterator[_Line]:
    """What tables and plots of the campaign show beside its values."""
    for name, reading in derived_of(run).items():
        if name in names:
            yield _line(place, run, incomplete, name, reading, "")


def _line(place: _Line, run: Run, incomplete: bool, name: str, reading: Reading | None, better: str) -> _Line:
    """Without a metric there is no number; `outcome` gives the reason."""
    incomplete = incomplete or run.document.interrupted or run.document.problem is not None
    where = [run.document.started, run.target, run.conditions.host, run.conditions.file_system]
    figure: _Line = ["", ""] if reading is None else [reading.value, reading.unit]
    return [*place, run.validity, incomplete, name, *figure, better, *where]
