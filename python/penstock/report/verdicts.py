"""Verdicts for people: the view on the terminal, and the words that all formats share."""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.bench.judge.doubts import BestCase
from penstock.bench.judge.reasons import STEP_NAMES
from penstock.bench.judge.verdict import (
    best_case_of,
    carries_bytes_per_s,
    is_at_least,
    nothing_higher_was_tried,
)
from penstock.bench.run.run import RATE_MAX_HZ, FramesRequest
from penstock.bench.run.second import Second
from penstock.bench.run.stages import FULL_SPEED_S, VerdictRequest
from penstock.model.bench.runs import Conditions, Search, Step, StepOutcome, Verdict
from penstock.model.text import counted
from penstock.model.units import (
    human_bytes,
    human_hz,
    human_number,
    human_percent,
    human_rate,
    human_seconds,
    human_size,
)
from penstock.report.interference import second_rows
from penstock.report.runs import image_text, pattern_rows
from penstock.report.tables import fact_table

_OUTCOME_WORDS: dict[StepOutcome, str] = {"held": "sustained", "not held": "not sustained"}
_ANSWER_STYLE = {"yes": "bold green", "no": "bold red", "cannot tell": "bold yellow", "invalid": "bold red"}


def verdict_plan_view(
    request: VerdictRequest,
    conditions: Conditions,
    target: str,
    fits_hz: float,
    second: Second | None = None,
) -> Table:
    """Returns the storage and the planned steps."""
    at_rate = request.at_rate
    rate = f"{human_hz(at_rate.rate_hz, 6)}, {human_rate(at_rate.rate_hz * at_rate.frame_bytes)}"
    frames = f"frames{image_text(at_rate)} of {human_size(at_rate.frame_bytes)}"
    rows = {
        "storage": storage_line(conditions),
        "free": human_bytes(conditions.free_bytes),
        "target": f"a new directory in {target}, removed afterwards",
        "detector": f"{request.detector}: {frames}, {rate}",
    }
    rows["first"] = _planned(at_rate, human_seconds(at_rate.frames / at_rate.rate_hz))
    longer = f"; repeated with more frames if it takes less than {human_seconds(FULL_SPEED_S)}"
    rows["then"] = _planned(request.full_speed, "unpaced") + longer
    if request.search_s:
        rows["search"] = _planned_search(request, fits_hz)
    if request.soak is not None:
        rows["soak"] = _planned(request.soak, f"{human_seconds(request.soak_s)} at the detector's rate")
    rows["takes"] = (
        f"about {_rounded_up(request.seconds_expected)}; longer if the storage is slower than the detector,"
        f" or if an invalid run is repeated"
    )
    return fact_table(rows | pattern_rows(at_rate) | (second_rows(second) if second is not None else {}))


def _rounded_up(seconds: float) -> str:
    """Returns whole seconds, or whole minutes from one minute."""
    return human_seconds(60 * math.ceil(seconds / 60) if seconds >= 60 else math.ceil(seconds))


def _planned(step: FramesRequest, how: str) -> str:
    frames, files = counted(step.frames, "frame"), counted(step.files, "file")
    return f"{frames}, {how}; {files}, {human_bytes(step.bytes)}"


def _planned_search(request: VerdictRequest, fits_hz: float) -> str:
    asked_hz = request.times_max * request.at_rate.rate_hz
    top_hz = min(asked_hz, fits_hz, RATE_MAX_HZ)
    limit = f"up to {human_hz(top_hz)}" + (", limited by the free space" if fits_hz < asked_hz else "")
    if top_hz <= 0:
        return "none: no step fits into the free space"
    largest = request.search_step(top_hz)
    return (
        f"{limit}; at most {human_seconds(request.search_s)} and {request.search_steps_max} steps of"
        f" {human_seconds(request.step_s)} or more; each writes at most {human_bytes(largest.bytes)}, removed"
        f" before the next"
    )


def storage_line(conditions: Conditions) -> str:
    """ "ext4 on /data, from /dev/sda1"."""
    if not conditions.file_system:
        return f"no storage, on {conditions.host}"
    source = f", from {conditions.mount_source}" if conditions.mount_source else ""
    return f"{conditions.file_system} on {conditions.mount}{source}"


def outcome_text(outcome: StepOutcome) -> str:
    """Returns the word for a step's outcome: documents have "held", people read "sustained"."""
    return _OUTCOME_WORDS.get(outcome, outcome)


def step_line(step: Step) -> str:
    """ "search at 81.3 Hz: not sustained: 3 of 813 frames were lost"."""
    if step.kind == "probe" and step.shortcomings:
        return f"{STEP_NAMES['full speed']}: {'; '.join(step.shortcomings)}"
    rate = f" at {human_hz(step.rate_hz)}" if step.kind == "search" else ""
    figures = step.run.frames
    throughput = human_rate(figures.carried_bytes_per_s) if figures is not None else "no metrics"
    what = throughput if step.outcome == "measured" else outcome_text(step.outcome)
    why = f": {'; '.join(step.shortcomings)}" if step.shortcomings else ""
    return f"{STEP_NAMES[step.kind]}{rate}: {what}{why}"


def bracket_line(search: Search, steps: Sequence[Step]) -> str:
    """`steps` are those of the verdict: "81.3 Hz sustained (2 runs), 84.9 Hz not sustained (2 runs)"."""
    held = "no rate was sustained"
    if search.held_hz is not None:
        held = f"{human_hz(search.held_hz)} sustained ({counted(search.held_runs, 'run')})"
    if search.not_held_hz is not None:
        held += f", {human_hz(search.not_held_hz)} not sustained ({counted(search.not_held_runs, 'run')})"
    if search.chance_hz:
        return f"{held}; {_rates(search.chance_hz)} in some runs only"
    if search.not_held_hz is not None:
        return held
    if nothing_higher_was_tried(search, steps):
        return f"{held}, higher rates were not tried"
    return f"{held}, higher rates had no valid run"


def _rates(rates_hz: list[float]) -> str:
    """ "81.3 Hz" or "81.3 to 84.9 Hz"."""
    low = human_number(rates_hz[0], 4)
    return f"{low} Hz" if len(rates_hz) == 1 else f"{low} to {human_hz(rates_hz[-1])}"


def verdict_rows(verdict: Verdict) -> dict[str, str]:
    """Returns the metrics of a verdict."""
    rows = {
        "needed": f"{human_rate(verdict.needed_bytes_per_s)} ({human_hz(verdict.needed_hz, 6)})",
        "background load": verdict.beside,
    }
    if verdict.measured_bytes_per_s is not None and verdict.margin is not None:
        how = "unpaced" if verdict.search is None else "at the highest sustained rate"
        least = "at least " if is_at_least(verdict) else ""
        rows["measured"] = f"{least}{human_rate(verdict.measured_bytes_per_s)}, {how}"
    elif (least_bytes_per_s := carries_bytes_per_s(verdict)) is not None:
        rows["measured"] = (
            f"at least {human_rate(least_bytes_per_s)}: the detector's rate was sustained; higher rates were"
            f" not measured"
        )
    if (best := best_case_of(verdict)) is not None:
        rows["best case"] = best_case_text(best)
    if verdict.search is not None:
        rows["bracket"] = bracket_line(verdict.search, verdict.steps)
    if verdict.margin is not None:
        more = " or more" if is_at_least(verdict) else ""
        rows["margin"] = f"{margin_text(verdict.margin)}{more}"
        rows["equivalent detectors"] = f"{verdict.detectors}{more}"
    rows["lost frames"] = f"{verdict.lost} of {verdict.due} at the detector's rate; {bound_text(verdict)}"
    return rows


def margin_text(margin: float) -> str:
    """Returns "+12.3 %", or "factor 37.1" if the storage sustains at least twice what is needed."""
    if margin >= 1:
        return f"factor {human_number(1 + margin)}"
    return human_percent(margin, sign="+")


def best_case_text(best: BestCase) -> str:
    """Returns "at most 6.1 MB/s, without other load on this machine"."""
    if best.bytes_per_s is None:
        return f"unknown: {best.unknown}"
    return f"at most {human_rate(best.bytes_per_s)}, without other load on this machine"


def bound_text(verdict: Verdict) -> str:
    bound = human_percent(verdict.lost_share_bound_95, 2)
    return f"loss rate below {bound} with 95 % confidence, if frames are lost independently"


def verdict_view(verdict: Verdict) -> RenderableType:
    """Returns the answer, then the reasons, then the advice, then the metrics."""
    answer = Text.assemble(
        f"Does it sustain the {verdict.detector}? ", (verdict.answer, _ANSWER_STYLE[verdict.answer])
    )
    incomplete = [] if verdict.problem is None else [Text(f"INCOMPLETE: {verdict.problem}", style="bold red")]
    reasons = [Text("Why:"), *(Text(f"- {reason}") for reason in verdict.reasons)] if verdict.reasons else []
    advice = [Text("What to do:"), *(Text(f"- {line}") for line in verdict.advice)] if verdict.advice else []
    return Group(answer, *incomplete, *reasons, *advice, Text(), fact_table(verdict_rows(verdict)))
