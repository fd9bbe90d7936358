"""The first page of a report of several documents: one table of all, by target and date.

A document has the title of its page there.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from penstock.bench.statistics.values import too_short_of, values_of
from penstock.files.documents import Shown
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.recorder_words import recorder_text
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Run, Verdict
from penstock.model.text import counted
from penstock.report.comparisons import answer_text, summary_text
from penstock.report.pages.page import Cell, Page, Section, State, Table
from penstock.report.rehearse.rehearsals import interval_text
from penstock.report.values import value_text
from penstock.report.verdicts import margin_text, sustained_text

_COLUMNS = ["target", "date", "what", "result", "metric", "document"]


def overview_page(documents: Mapping[str, Shown], pages: Sequence[Page]) -> Page:
    """`pages` are those of the documents, in their order."""
    rows = [
        row
        for (source, document), page in zip(documents.items(), pages, strict=True)
        for row in _rows(source, document, page)
    ]
    rows.sort(key=lambda row: (row[0].text, row[1].text))
    return Page(
        title=counted(len(pages), "document"),
        answer="",
        answer_state="",
        subtitle="Every document of this report, by target and date; their pages follow.",
        source=", ".join(documents),
        sections=[Section("", [Table("Documents by target and date", _COLUMNS, rows)])],
    )


def _rows(source: str, document: Shown, page: Page) -> Iterator[list[Cell]]:
    match document:
        case Run():
            state: State = "void" if document.validity == "invalid" else ""
            yield _row(
                [document.target, document.document.started, page.title],
                _of(document.validity, is_complete=_is_complete(document)),
                _metric([document]),
                source,
                state,
            )
        case Verdict():
            runs = [step.run for step in document.steps]
            where = [runs[0].target, runs[0].document.started] if runs else ["", ""]
            result = _of(page.answer, is_complete=document.problem is None)
            yield _row([*where, page.title], result, _sustained(document), source, page.answer_state)
        case Rehearsal():
            yield _row(
                [document.target, document.started, _rehearsed(document, page.title)],
                _of(page.answer, is_complete=document.problem is None),
                interval_text(document),
                source,
                page.answer_state,
            )
        case Campaign():
            yield from _campaign_rows(source, document, page.title)
        case Comparison():
            where = [f"{document.base.name}, {document.other.name}", document.other.first]
            yield _row(
                [*where, page.title],
                answer_text(document).capitalize(),
                summary_text(document),
                source,
                page.answer_state,
            )


def _row(what: Sequence[str], result: str, metric: str, source: str, state: State) -> list[Cell]:
    target, started, kind = what
    figure: State = "void" if state == "void" else ""
    return [
        Cell(target),
        Cell(started[:16].replace("T", " "), is_narrow=True),
        Cell(kind),
        Cell(result, state if state != "void" else "bad"),
        Cell(metric, figure),
        Cell(source),
    ]


def _of(result: str, *, is_complete: bool) -> str:
    return result if is_complete else f"{result}, incomplete"


def _is_complete(run: Run) -> bool:
    return not run.document.interrupted and run.document.problem is None


def _rehearsed(rehearsal: Rehearsal, title: str) -> str:
    """Returns the title with "(bszstd, 4 threads, pool 1 GiB; recorder.yaml)"."""
    parts = [recorder_text(rehearsal.configuration), rehearsal.configuration_file]
    recorder = "; ".join(part for part in parts if part)
    return title + (f" ({recorder})" if recorder else "")


def _sustained(verdict: Verdict) -> str:
    sustained = sustained_text(verdict) or "unknown"
    return sustained if verdict.margin is None else f"{sustained}; {margin_text(verdict.margin)}"


def _campaign_rows(source: str, campaign: Campaign, title: str) -> Iterator[list[Cell]]:
    """A row for each target; that of a campaign of an older version has none."""
    paths = {target.name: target.path for target in campaign.targets} or {"": ""}
    for name, path in paths.items():
        cases = {case.name for case in campaign.cases if case.target == name}
        runs = [each.run for each in campaign.runs if each.case in cases]
        sound = [run for run in runs if run.validity != "invalid"]
        result = counted(len(runs), "run")
        result += f", {len(runs) - len(sound)} invalid" if len(sound) < len(runs) else ""
        metric = _metric(sound) if len(cases) == 1 else counted(len(cases), "case")
        started = min((run.document.started for run in runs), default="")
        where = [path or (runs[0].target if runs else ""), started, title]
        yield _row(where, _of(result, is_complete=campaign.complete), metric, source, "")


def _metric(runs: Sequence[Run]) -> str:
    """The median of the most telling metric that all runs have."""
    values = [{k: v for k, v in values_of(run).items() if k not in too_short_of(run)} for run in runs]
    name = (
        next((name for name in values[0] if all(name in each for each in values)), None) if values else None
    )
    if name is None:
        return ""
    return f"{name} {value_text(median(each[name].value for each in values), values[0][name].unit)}"
