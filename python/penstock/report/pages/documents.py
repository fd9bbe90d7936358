"""From a document to a page."""

from collections.abc import Iterable

from penstock.bench.judge.doubts import BestCase
from penstock.bench.judge.reasons import STEP_NAMES
from penstock.bench.judge.verdict import best_case_of, carries_bytes_per_s, is_at_least
from penstock.files.documents import Shown
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.runs import Answer, Run, Step, Verdict
from penstock.model.units import human_hz, human_number, human_rate, human_seconds
from penstock.report.pages.campaign import campaign_page
from penstock.report.pages.comparison import comparison_page
from penstock.report.pages.page import Banner, Block, Cell, Lines, Page, Section, State, Table, Tile, Tiles
from penstock.report.pages.parts import (
    checks_block,
    conditions_block,
    figures_block,
    milliseconds,
    pattern_block,
    plots_of,
    run_banners,
    run_section,
)
from penstock.report.pages.plots import search_plot
from penstock.report.verdicts import bound_text, bracket_line, margin_text, outcome_text, storage_line

_ANSWER_STATE: dict[Answer, State] = {"yes": "good", "no": "bad", "cannot tell": "warning", "invalid": "void"}
_OUTCOME_STATE: dict[str, State] = {"held": "good", "not held": "bad", "invalid": "void", "measured": ""}


def page_of(document: Shown, source: str) -> Page:
    """`source` names the file that it was read from."""
    match document:
        case Verdict():
            return _verdict_page(document, source)
        case Campaign():
            return campaign_page(document, source)
        case Run():
            return _run_page(document, source)
        case Comparison():
            return comparison_page(document, source)


def _run_page(run: Run, source: str) -> Page:
    what = "invalid: do not use its metrics" if run.validity == "invalid" else run.validity
    return Page(
        title=f"Run of {run.workload} on {run.target}",
        answer="",
        answer_state="",
        subtitle=f"{storage_line(run.conditions)}; {run.document.started}; the run is {what}",
        source=source,
        banners=run_banners(run),
        sections=[
            Section("Metrics", [figures_block(run), *plots_of(run, run.workload)], run.validity == "invalid"),
            Section("Checks", [checks_block(run.checks)]),
            Section("Conditions", [pattern_block(run), conditions_block([run.conditions])]),
        ],
    )


def _verdict_page(verdict: Verdict, source: str) -> Page:
    runs = [step.run for step in verdict.steps]
    started = runs[0].document.started if runs else ""
    storage = storage_line(runs[0].conditions) if runs else "no measurement"
    target = runs[0].target if runs else ""
    beside = f"; with background load {verdict.beside}" if verdict.beside else ""
    sections = [
        Section("", [_tiles(verdict), *_reasons(verdict)]),
        Section("Steps", [_steps_table(verdict.steps)]),
        *_search_section(verdict),
        *(_step_section(step, verdict.late_limit_s) for step in _telling(verdict)),
        *_checks_sections(verdict.steps),
    ]
    if runs:
        conditions = conditions_block([run.conditions for run in runs])
        sections.append(Section("Conditions", [pattern_block(runs[0]), conditions]))
    return Page(
        title=f"Does this storage sustain the {verdict.detector}?",
        answer=verdict.answer[:1].upper() + verdict.answer[1:],
        answer_state=_ANSWER_STATE[verdict.answer],
        subtitle=f"{target}: {storage}; {started}{beside}",
        source=source,
        banners=_banners(verdict),
        sections=sections,
    )


def _banners(verdict: Verdict) -> list[Banner]:
    banners = []
    if verdict.problem is not None:
        banners.append(
            Banner("bad", f"Incomplete: {verdict.problem}. The results cover the time until then.")
        )
    if verdict.answer == "invalid":
        banners.append(Banner("void", "The measurement is invalid: do not use its metrics."))
    return banners


def _tiles(verdict: Verdict) -> Tiles:
    state: State = "void" if verdict.answer == "invalid" else ""
    tiles = [
        Tile(
            "needed",
            human_rate(verdict.needed_bytes_per_s),
            f"{human_number(verdict.needed_hz, 6)} frames/s",
        )
    ]
    if verdict.measured_bytes_per_s is None or verdict.margin is None:
        tiles.append(_unmeasured_tile(verdict, state))
    else:
        how = bracket_line(verdict.search, verdict.steps) if verdict.search is not None else "unpaced"
        more = " or more" if is_at_least(verdict) else ""
        tiles.append(Tile("measured", f"{human_rate(verdict.measured_bytes_per_s)}{more}", how, state))
        good: State = "good" if verdict.margin >= 0 else "bad"
        margin = f"{margin_text(verdict.margin)}{more}"
        tiles.append(Tile("margin", margin, "measured over needed", state or good))
        tiles.append(Tile("equivalent detectors", f"{verdict.detectors}{more}", "by bandwidth alone", state))
    if (best := best_case_of(verdict)) is not None:
        tiles.append(_best_case_tile(best, state))
    lost: State = "good" if verdict.lost == 0 else "bad"
    tiles.append(Tile("frames lost", f"{verdict.lost} of {verdict.due}", bound_text(verdict), state or lost))
    return Tiles(tiles)


def _best_case_tile(best: BestCase, state: State) -> Tile:
    """Returns the most that the storage would have sustained on an idle machine."""
    if best.bytes_per_s is None:
        return Tile("best case", "unknown", best.unknown, state or "warning")
    note = "without other load on this machine"
    return Tile("best case", f"at most {human_rate(best.bytes_per_s)}", note, state)


def _unmeasured_tile(verdict: Verdict, state: State) -> Tile:
    least = carries_bytes_per_s(verdict)
    if least is None:
        why = (
            "no valid run at the detector's rate"
            if verdict.answer == "invalid"
            else "no sustained rate was found"
        )
        return Tile("measured", "unknown", why, state or "warning")
    why = "the detector's rate was sustained; higher rates were not measured"
    return Tile("measured", f"{human_rate(least)} or more", why, state or "warning")


def _reasons(verdict: Verdict) -> list[Block]:
    found = [Lines("Why", verdict.reasons)] if verdict.reasons else []
    return [*found, *([Lines("What to do", verdict.advice)] if verdict.advice else [])]


def _steps_table(steps: Iterable[Step]) -> Table:
    columns = [
        "step",
        "rate",
        "throughput",
        "lost",
        "late",
        "p50",
        "p99",
        "max",
        "stall",
        "outcome",
        "why",
    ]
    rows = [_step_row(number, step) for number, step in enumerate(steps, 1)]
    return Table("Runs in order, with latencies (p50, p99, max) from the due time of a frame", columns, rows)


def _step_row(number: int, step: Step) -> list[Cell]:
    state: State = "void" if step.outcome == "invalid" else ""
    colour = "bad" if step.outcome == "invalid" else _OUTCOME_STATE[step.outcome]
    outcome = Cell(outcome_text(step.outcome), colour)
    rate = human_hz(step.rate_hz) if step.rate_hz else "–"
    figures = step.run.frames
    texts = [""] * 7
    if figures is not None:
        texts = [
            human_rate(figures.carried_bytes_per_s),
            f"{figures.due - figures.written} of {figures.due}",
            str(figures.late),
            milliseconds(figures.latency_ms.p50),
            milliseconds(figures.latency_ms.p99),
            milliseconds(figures.latency_ms.max),
            human_seconds(figures.stall_s),
        ]
    numbers = [Cell(text, state, is_narrow=True) for text in [rate, *texts]]
    return [
        Cell(f"{number}: {STEP_NAMES[step.kind]}", is_narrow=True),
        *numbers,
        outcome,
        Cell("; ".join(step.shortcomings)),
    ]


def _search_section(verdict: Verdict) -> list[Section]:
    plot = search_plot(verdict)
    if verdict.search is None or plot is None:
        return []
    lines = [
        f"{bracket_line(verdict.search, verdict.steps)}. Near the limit, chance decides whether a rate is"
        " sustained: both endpoints are repeated, and rates with mixed outcomes lie within the bracket.",
        "A rate is sustained if no frame is lost, none is written more than"
        f" {human_seconds(verdict.late_limit_s)} after its due time, and the backlog does not grow. Late"
        " frames are counted, but do not change the outcome.",
    ]
    return [Section("Search", [plot, Lines("", lines)])]


def _telling(verdict: Verdict) -> list[Step]:
    """The steps that are shown in full: those at the detector's rate, and both ends of the bracket."""
    search = verdict.search
    ends = () if search is None else (search.held_hz, search.not_held_hz)
    return [
        step
        for step in verdict.steps
        if step.kind in ("rate", "soak") or (step.kind == "search" and step.rate_hz in ends)
    ]


def _step_section(step: Step, late_limit_s: float) -> Section:
    name = STEP_NAMES[step.kind]
    title = f"{name}, {human_hz(step.rate_hz)}: {outcome_text(step.outcome)}"
    return run_section(step.run, title[:1].upper() + title[1:], late_limit_s)


def _checks_sections(steps: list[Step]) -> list[Section]:
    """All checks of the steps at the detector's rate; of others what was not as it should be."""
    sections = []
    for step in steps:
        whole = step.kind in ("rate", "soak")
        checks = [check for check in step.run.checks if whole or check.outcome != "ok"]
        if checks:
            rate = f" at {human_hz(step.rate_hz)}" if step.kind == "search" else ""
            sections.append(Section(f"Checks: {STEP_NAMES[step.kind]}{rate}", [checks_block(checks)]))
    return sections
