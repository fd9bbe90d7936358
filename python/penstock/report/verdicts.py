"""Verdicts for people: the view on the terminal, and the words that all formats share."""

import math
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.bench.judge.evidence import STEP_NAMES, sustained_longer_hz
from penstock.bench.judge.verdict import carries_bytes_per_s, is_at_least, nothing_higher_was_tried
from penstock.bench.run.run import FramesRequest
from penstock.bench.run.second import Second
from penstock.bench.run.stages import VerdictRequest
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
from penstock.report.runs import image_text, loss_text, pattern_rows
from penstock.report.tables import fact_table

# A search that was completed ends this near.
_NARROW = 1.1
_OUTCOME_WORDS: dict[StepOutcome, str] = {"held": "sustained", "not held": "not sustained"}
_ANSWER_STYLE = {
    "yes": "bold green",
    "likely yes": "green",
    "cannot tell": "bold yellow",
    "likely no": "red",
    "no": "bold red",
    "invalid": "bold red",
}


def verdict_plan_rows(
    request: VerdictRequest,
    conditions: Conditions,
    target: str,
    second: Second | None = None,
) -> dict[str, str]:
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
    if conditions.memory:
        rows["answer"] = (
            f'no, or "cannot tell" at best: {conditions.memory}; name a directory on the storage to measure'
        )
    if request.typical_ratio is not None:
        rows["uncompressed"] = compression_text(request.typical_ratio, at_rate.rate_hz * at_rate.frame_bytes)
    rows["first"] = (
        f"unpaced, {human_seconds(request.full_speed_s)} or more, after preliminary runs; files take at most"
        f" {human_bytes(request.largest_unpaced.bytes)}"
    )
    rows["then"] = _planned(at_rate, f"{human_seconds(at_rate.frames / at_rate.rate_hz)} at its rate")
    if request.search_s:
        rows["search"] = _planned_search(request)
    if request.soak is not None:
        rows["soak"] = _planned(request.soak, f"{human_seconds(request.soak_s)} at the detector's rate")
    rows["writes in all"] = _written_in_all(request)
    most = f", up to {_rounded_up(request.within_s)} (--within)" if math.isfinite(request.within_s) else ""
    rows["takes"] = (
        f"about {_rounded_up(request.seconds_expected)}; longer if the storage is slower than the detector,"
        f" or if a disturbed run is repeated{most}"
    )
    deadline = {
        "deadline": f"a rate is not sustained if a frame is written more than"
        f" {human_seconds(request.late_limit_s)} after it was due"
    }
    return rows | pattern_rows(at_rate) | deadline | (second_rows(second) if second is not None else {})


def compression_text(ratio: float, bytes_per_s: float) -> str:
    """Returns what a detector that sends compressed frames needs, beside what it needs uncompressed."""
    return (
        f"{human_rate(bytes_per_s)} are needed without compression, but this detector sends compressed"
        f" frames: with the catalogue's typical ratio (--ratio {ratio:g}) it needs"
        f" {human_rate(bytes_per_s / ratio)}"
    )


def _rounded_up(seconds: float) -> str:
    """Returns whole seconds, or whole minutes from one minute."""
    return human_seconds(60 * math.ceil(seconds / 60) if seconds >= 60 else math.ceil(seconds))


def _planned(step: FramesRequest, how: str) -> str:
    frames, files = counted(step.frames, "frame"), counted(step.files, "file")
    ring = ", of which the newest stay" if step.ring_frames else ""
    return f"{frames}{ring}, {how}; at most {files}, {human_bytes(step.bytes)} at once"


def _written_in_all(request: VerdictRequest) -> str:
    """Returns what the steps write, whatever stays: it wears SSDs and fills snapshots."""
    seconds = math.ceil(request.seconds_at_storage_speed)
    return (
        f"{human_bytes(request.bytes_at_rate)} at the detector's rate, and as much as the storage takes in"
        f" about {seconds} s: {human_bytes(seconds * 1e9)} at 1 GB/s"
    )


def _planned_search(request: VerdictRequest) -> str:
    largest = request.search_step(request.top_hz)
    return (
        f"up to {human_hz(request.top_hz)}; at most {human_seconds(request.search_s)} and"
        f" {counted(request.search_steps_max, 'step')} of {human_seconds(request.step_s)} or"
        " more; each takes at most"
        f" {human_bytes(largest.bytes)}, removed before the next"
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
    if step.outcome == "disturbed" and step.alone is not None:
        share = step.alone.hindered_share
        excuse = f"other programs took {human_percent(share)} of the time of the writes" if share else ""
        why += f" ({step.alone.unknown or excuse or 'the storage alone would have sustained it'})"
    return f"{STEP_NAMES[step.kind]}{rate}: {what}{why}"


def bracket_line(search: Search, steps: Sequence[Step]) -> str:
    """`steps` are those of the verdict: "81.3 Hz sustained (2 runs), 84.9 Hz not sustained (2 runs)".

    A rate that a run outside the bracket sustained for longer follows.
    """
    longer_hz = sustained_longer_hz(steps)
    longer = f"; {human_hz(longer_hz)} sustained for longer" if longer_hz > (search.held_hz or 0) else ""
    return f"{_bracket_text(search, steps)}{longer}"


def _bracket_text(search: Search, steps: Sequence[Step]) -> str:
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
    higher = (step for step in steps if step.kind == "search" and step.rate_hz > (search.held_hz or 0))
    if any(step.outcome == "disturbed" for step in higher):
        return f"{held}, runs at higher rates were disturbed"
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
    if (sustained := sustained_text(verdict)) is not None and not is_unpaced_only(verdict):
        rows["sustained"] = sustained
    if verdict.margin is not None:
        rows["margin"] = margin_line(verdict)
        rows["equivalent detectors"] = detectors_line(verdict)
    if verdict.unpaced_bytes_per_s is not None:
        rows["unpaced"] = _unpaced_text(verdict, verdict.unpaced_bytes_per_s)
    if verdict.search is not None:
        rows["bracket"] = bracket_line(verdict.search, verdict.steps)
    if verdict.written_bytes:
        rows["written"] = f"{human_bytes(verdict.written_bytes)} in all, by all runs"
    if verdict.due:
        rows["lost frames"] = f"{verdict.lost} of {verdict.due} at the detector's rate; {bound_text(verdict)}"
        rows["late frames"] = late_text(verdict)
    return rows


def late_text(verdict: Verdict) -> str:
    """Returns "28 of 560, more than 62.5 ms after …"; empty if no frame was late at the detector's rate.

    A frame is late sooner than it is too late for the rate to be sustained.
    """
    runs = [step.run for step in verdict.steps if step.rate_hz == verdict.needed_hz]
    late = sum(run.frames.late for run in runs if run.frames is not None and run.validity != "invalid")
    limits = {getattr(run.document.plan.workload, "late_after_s", 0.0) for run in runs}
    if not late:
        return ""
    return (
        f"{late} of {verdict.due}, more than {human_seconds(max(limits))} after they were due; a rate is not"
        f" sustained from {human_seconds(verdict.late_limit_s)} on"
    )


def margin_line(verdict: Verdict) -> str:
    """Returns "factor 4.7", "factor 1 to 10", or "factor 1 or more (unpaced: factor 19)"."""
    return _multiple(verdict, verdict.margin or 0.0, human_number, "factor ")


def detectors_line(verdict: Verdict) -> str:
    """Returns the same as whole detectors."""
    # A rate that is a multiple, but for rounding, counts as one.
    return _multiple(verdict, verdict.margin or 0.0, lambda factor: str(math.floor(factor * (1 + 1e-9))), "")


def _multiple(verdict: Verdict, low: float, shown: Callable[[float], str], what: str) -> str:
    """Of what is needed: an interval where the search did not narrow it down."""
    needed, high = verdict.needed_bytes_per_s, verdict.less_than_bytes_per_s
    if verdict.search is None:
        return f"{what}{shown(low)} (unpaced; a search finds what is sustained)"
    if is_at_least(verdict):
        unpaced = verdict.unpaced_bytes_per_s
        beside = f" (unpaced: {what}{shown(unpaced / needed)})" if unpaced is not None else ""
        return f"{what}{shown(low)} or more{beside}"
    if high is None or high / needed <= low * _NARROW:
        return f"{what}{shown(low)}"
    below = shown(high / needed * (1 - 1e-6))  # which was not sustained
    return f"{what}{shown(low)} to {below}" if below != shown(low) else f"{what}{below}"


def is_unpaced_only(verdict: Verdict) -> bool:
    """Whether the metric is the throughput of the unpaced run, which no run at a rate confirmed."""
    return verdict.measured_bytes_per_s is not None and verdict.search is None


def sustained_text(verdict: Verdict) -> str | None:
    """Returns "at least 622 MB/s, less than 2.73 GB/s"; None if nothing was sustained."""
    found = verdict.measured_bytes_per_s
    if found is None:
        least = carries_bytes_per_s(verdict)
        return None if least is None else f"at least {human_rate(least)}; higher rates were not measured"
    if verdict.search is None:
        return f"{human_rate(found)}, unpaced"
    if verdict.less_than_bytes_per_s is not None:
        return f"at least {human_rate(found)}, less than {human_rate(verdict.less_than_bytes_per_s)}"
    return f"at least {human_rate(found)}"


def _unpaced_text(verdict: Verdict, unpaced: float) -> str:
    most = verdict.at_most_bytes_per_s
    bound = f"; at most {human_rate(most)} without other programs" if most is not None else ""
    return f"{human_rate(unpaced)}{bound}"


def margin_text(margin: float) -> str:
    """Returns "factor 4.7": what is sustained, divided by what is needed."""
    return f"factor {human_number(margin)}"


def bound_text(verdict: Verdict) -> str:
    return loss_text(verdict.lost, verdict.due, verdict.lost_share_bound_95)


def verdict_view(verdict: Verdict) -> RenderableType:
    """Returns the answer, then the metrics, the reasons and the advice."""
    answer = Text.assemble(
        f"Does it sustain the {verdict.detector}? ",
        (verdict.answer, _ANSWER_STYLE[verdict.answer]),
        confidence_text(verdict),
    )
    uncompressed = [Text(f"Uncompressed: {text}") for text in uncompressed_lines(verdict)]
    incomplete = [] if verdict.problem is None else [Text(f"INCOMPLETE: {verdict.problem}", style="bold red")]
    reasons = [Text("Why:"), *(Text(f"- {reason}") for reason in verdict.reasons)] if verdict.reasons else []
    advice = [Text("What to do:"), *(Text(f"- {line}") for line in verdict.advice)] if verdict.advice else []
    certain = (
        [Text("To make the answer certain, run:"), Text(f"  {verdict.next_command}")]
        if verdict.next_command
        else []
    )
    notes = [Text("Notes:"), *(Text(f"- {note}") for note in verdict.notes)] if verdict.notes else []
    parts: list[RenderableType] = [answer, *uncompressed, *incomplete, fact_table(verdict_rows(verdict))]
    for part in (reasons, advice, certain, notes):
        parts += [Text(), *part] if part else []
    return Group(*parts)


def uncompressed_lines(verdict: Verdict) -> list[str]:
    """Returns what compression changes, if frames of a detector that compresses were measured without it."""
    ratio = verdict.typical_ratio
    return [] if ratio is None else [compression_text(ratio, verdict.needed_bytes_per_s)]


def confidence_text(verdict: Verdict) -> str:
    """Returns " (95 % confidence)"; empty if the answer has none."""
    return f" ({human_percent(verdict.confidence)} confidence)" if verdict.confidence is not None else ""
