"""From a document to a page."""

from collections.abc import Iterator, Sequence

from penstock.bench.judge.evidence import STEP_NAMES
from penstock.bench.judge.generator_checks import IN_TIME
from penstock.bench.judge.verdict import carries_bytes_per_s
from penstock.files.documents import Shown
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Answer, Run, Step, Verdict
from penstock.model.units import human_bytes, human_hz, human_number, human_rate, human_seconds
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
)
from penstock.report.pages.plots import search_plot
from penstock.report.pages.rehearsal import rehearsal_page
from penstock.report.verdicts import (
    bound_text,
    bracket_line,
    confidence_text,
    detectors_line,
    margin_line,
    outcome_text,
    storage_line,
    sustained_text,
    uncompressed_lines,
)

_ANSWER_STATE: dict[Answer, State] = {
    "yes": "good",
    "likely yes": "good",
    "cannot tell": "warning",
    "likely no": "bad",
    "no": "bad",
    "invalid": "void",
}
_OUTCOME_STATE: dict[str, State] = {
    "held": "good",
    "not held": "bad",
    "disturbed": "warning",
    "invalid": "void",
    "measured": "",
}


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
        case Rehearsal():
            return rehearsal_page(document, source)


def _run_page(run: Run, source: str) -> Page:
    is_void = run.validity == "invalid"
    what = "invalid: do not use its metrics" if is_void else run.validity
    return Page(
        title=f"Run of {run.workload} on {run.target}",
        answer="",
        answer_state="",
        subtitle=f"{storage_line(run.conditions)}; {run.document.started}; the run is {what}",
        source=source,
        banners=run_banners(run),
        sections=[
            Section(
                "Metrics",
                [figures_block(run, is_void=is_void), *plots_of(run, run.workload, is_void=is_void)],
                is_void,
            ),
            Section("Checks", [checks_block(run.checks)]),
            Section("Conditions", [pattern_block(run), conditions_block([run.conditions])]),
        ],
    )


def _verdict_page(verdict: Verdict, source: str) -> Page:
    runs = [step.run for step in verdict.steps]
    started = f"{runs[0].document.started[:16].replace('T', ' ')} UTC" if runs else ""
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
        answer=verdict.answer[:1].upper() + verdict.answer[1:] + confidence_text(verdict),
        answer_state=_ANSWER_STATE[verdict.answer],
        subtitle=f"{target}: {storage}; {started}{beside}",
        source=source,
        banners=_banners(verdict),
        sections=sections,
    )


def _banners(verdict: Verdict) -> list[Banner]:
    banners = [Banner("warning", f"Uncompressed: {text}.") for text in uncompressed_lines(verdict)]
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
        if verdict.search is None:
            how = "at maximum rate; no search found what is sustained"
            tiles.append(Tile("unpaced", human_rate(verdict.measured_bytes_per_s), how, state))
        else:
            how = bracket_line(verdict.search, verdict.steps)
            tiles.append(Tile("sustained", sustained_text(verdict) or "", how, state))
        good: State = "good" if verdict.margin >= 1 else "bad"
        tiles.append(Tile("margin", margin_line(verdict), f"{tiles[-1].label} over needed", state or good))
        tiles.append(Tile("equivalent detectors", detectors_line(verdict), "by bandwidth alone", state))
    if verdict.at_most_bytes_per_s is not None:
        bound = f"at most {human_rate(verdict.at_most_bytes_per_s)}"
        tiles.append(Tile("upper bound", bound, "unpaced, without other programs", state))
    if verdict.written_bytes:
        tiles.append(Tile("written", human_bytes(verdict.written_bytes), "in all, by all runs", state))
    lost: State = "good" if verdict.lost == 0 else "bad"
    tiles.append(Tile("frames lost", f"{verdict.lost} of {verdict.due}", bound_text(verdict), state or lost))
    return Tiles(tiles)


def _unmeasured_tile(verdict: Verdict, state: State) -> Tile:
    least, found = carries_bytes_per_s(verdict), verdict.unpaced_bytes_per_s
    unpaced = "" if found is None else f"; unpaced: {human_rate(found)}"
    if least is None:
        why = (
            "no valid run at the detector's rate"
            if verdict.answer == "invalid"
            else "no sustained rate was found"
        )
        return Tile("sustained", "unknown", why + unpaced, state or "warning")
    why = "the detector's rate was sustained; higher rates were not measured"
    return Tile("sustained", f"{human_rate(least)} or more", why + unpaced, state or "warning")


def _reasons(verdict: Verdict) -> list[Block]:
    advice = list(verdict.advice)
    if verdict.next_command:
        advice.append(f"to make the answer certain, run: {verdict.next_command}")
    found = {"Why": verdict.reasons, "What to do": advice, "Notes": verdict.notes}
    return [Lines(title, lines) for title, lines in found.items() if lines]


def _steps_table(steps: Sequence[Step]) -> Table:
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
    title = "Runs in order, with latencies (p50, p99, max) from the due time of a frame"
    limits = {getattr(step.run.document.plan.workload, "late_after_s", 0.0) for step in steps}
    if len(limits) == 1:
        title += f"; a frame is late after {human_seconds(limits.pop())}"
    return Table(title, columns, rows)


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
    title = title[:1].upper() + title[1:]
    is_void = step.outcome == "invalid"
    blocks: list[Block] = [
        figures_block(step.run, is_void=is_void),
        *plots_of(step.run, title, late_limit_s, is_void=is_void),
    ]
    handicaps = [] if is_void else list(_handicaps(step))
    return Section(title, [*([Lines("", handicaps)] if handicaps else []), *blocks], is_void)


def _handicaps(step: Step) -> Iterator[str]:
    """Checks that failed and do not make the run void, because they can only have made it worse."""
    is_no = step.outcome == "not held" and step.alone is not None and step.alone.certain
    if is_no:
        why = "which cannot make a no wrong: the storage alone would not have sustained the rate either"
    elif step.outcome == "held":
        why = "which cannot make a yes wrong: the rate was sustained in spite of it"
    else:
        why = "which can only have made the metrics worse"
    for check in step.run.checks:
        if check.outcome == "failed":
            what = "The generator was late" if check.name == IN_TIME else f'Check "{check.name}" failed'
            yield f"{what} ({check.actual}), {why}."


def _checks_sections(steps: list[Step]) -> list[Section]:
    """All checks of the steps at the detector's rate; of others what was not as it should be."""
    sections = []
    for number, step in enumerate(steps, 1):
        whole = step.kind in ("rate", "soak")
        checks = [check for check in step.run.checks if whole or check.outcome != "ok"]
        if checks:
            rate = f" at {human_hz(step.rate_hz)}" if step.kind == "search" else ""
            title = f"Checks: step {number}, {STEP_NAMES[step.kind]}{rate}"
            sections.append(Section(title, [checks_block(checks)]))
    return sections
