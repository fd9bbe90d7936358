"""Can this storage take this detector? `judge` looks at nothing but what was measured."""

import math
from collections.abc import Iterator, Sequence

from penstock.bench.judge.checks import CEILING_FACTOR, is_no_space
from penstock.bench.judge.doubts import BestCase, best_case
from penstock.bench.judge.reasons import STEP_NAMES, Measured, advice_of, answer_of, frame_counts
from penstock.bench.judge.search import RUNS_OF_AN_END
from penstock.bench.statistics.quantiles import share_bound
from penstock.model.bench.runs import Run, Search, Step, Verdict
from penstock.model.errors import ExitCode

EXIT_CODES = {
    "yes": ExitCode.FINE,
    "no": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}


def exit_code_of(verdict: Verdict) -> ExitCode:
    """Storage that was full before anything was measured gives no answer."""
    if verdict.answer == "invalid" and is_no_space(verdict.problem or ""):
        return ExitCode.UNANSWERED
    return EXIT_CODES[verdict.answer]


def judge(measured: Measured) -> Verdict:
    needed, found = measured.needed_bytes_per_s, measured.bytes_per_s
    margin = None if found is None else found / needed - 1
    due, lost = frame_counts(measured.at_rate)
    answer, reasons = answer_of(measured, margin, lost)
    return Verdict(
        detector=measured.detector,
        beside=measured.beside,
        answer=answer,
        reasons=[reason.text for reason in reasons],
        # First what is to be done about that which decided.
        advice=[
            _with_steps(advice, measured.steps)
            for advice in dict.fromkeys([*(r.advice for r in reasons if r.advice), *_advice(measured)])
        ],
        problem=measured.problem,
        needed_hz=measured.needed_hz,
        needed_bytes_per_s=needed,
        late_limit_s=measured.late_limit_s,
        measured_bytes_per_s=found,
        margin=margin,
        # A rate that is a multiple, but for rounding, counts as one.
        detectors=None if found is None else math.floor(found / needed * (1 + 1e-9)),
        lost=lost,
        due=due,
        lost_share_bound_95=share_bound(lost, due) if due else 1.0,
        search=measured.search,
        steps=list(measured.steps),
    )


def _with_steps(advice: str, steps: Sequence[Step]) -> str:
    """With the steps whose checks give it, if any do: "machine quiet: stop other programs (soak)"."""
    names = [
        STEP_NAMES[step.kind]
        for step in steps
        if step.kind != "probe"
        and any(check.outcome != "ok" and advice_of(check) == advice for check in step.run.checks)
    ]
    return f"{advice} ({', '.join(dict.fromkeys(names))})" if names else advice


def is_at_least(verdict: Verdict) -> bool:
    """Whether nothing that was tried was too much for the storage: it carries what was measured, or more."""
    search = verdict.search
    if search is not None:
        return search.held_hz is not None and search.not_held_hz is None and not search.chance_hz
    at_rate = next((s for s in verdict.steps if s.kind == "rate" and s.outcome != "invalid"), None)
    full = next((step for step in verdict.steps if step.kind == "full speed"), None)
    return full is not None and at_rate is not None and _generator_limited(full.run, at_rate.run.ceiling_hz)


def carries_bytes_per_s(verdict: Verdict) -> float | None:
    """At least, where no more was measured than that the detector's own rate held; else None."""
    at_rate = [
        step
        for step in verdict.steps
        if step.kind in ("rate", "soak") or (step.kind == "search" and step.rate_hz == verdict.needed_hz)
    ]
    outcomes = {step.outcome for step in at_rate} - {"invalid"}
    unmeasured = verdict.measured_bytes_per_s is None
    return verdict.needed_bytes_per_s if unmeasured and outcomes == {"held"} else None


def best_case_of(verdict: Verdict) -> BestCase | None:
    """Of the runs at the detector's rate that lost frames on a busy machine, the best one; None: no such run.

    None, too, where frames were lost beyond doubt in another one: nothing explains these.
    """
    losers = [
        step
        for step in verdict.steps
        if step.rate_hz == verdict.needed_hz
        and step.kind in ("rate", "search", "soak")
        and step.outcome != "invalid"
        and frame_counts([step])[1]
    ]
    cases = [best_case(step.run) for step in losers]
    found = [case for case in cases if case is not None]
    if len(found) < len(cases):
        return None
    return max(found, key=lambda case: case.bytes_per_s or 0.0, default=None)


def nothing_higher_was_tried(search: Search, steps: Sequence[Step]) -> bool:
    """Than the highest rate that held."""
    held_hz = search.held_hz
    return held_hz is not None and not any(s.kind == "search" and s.rate_hz > held_hz for s in steps)


def _advice(measured: Measured) -> Iterator[str]:
    for step in measured.steps:
        if step.kind == "probe":  # a longer run replaced it
            continue
        yield from (advice_of(check) for check in step.run.checks if check.outcome != "ok" and check.advice)
    full = measured.full_speed
    at_rate = measured.sound("rate")
    if full is not None and at_rate and _generator_limited(full.run, at_rate[0].run.ceiling_hz):
        yield "increase --writers: the measured rate is close to the generator's limit, not the storage's"
    search = measured.search
    if search is None:
        return
    held_top = search.not_held_hz is None and search.held_hz is not None and search.held_hz >= search.top_hz
    if search.ended == "top" or (held_top and search.ended in ("time", "steps")):
        how = "free space on the target" if search.top_reason == "space" else "increase --search-max"
        if search.ended != "top":
            how += " and increase --search-time"
        yield f"{how}: the highest rate tried was sustained, so the storage may sustain more"
    elif search.ended in ("time", "steps"):
        yield "increase --search-time: the search ended before its bracket was narrow and repeated"
    elif search.ended == "invalid":
        yield "rerun on an idle machine: the search ended at invalid runs, above the highest valid rate"
    elif search.ended == "chance":
        yield (
            "rely on the lower endpoint of the bracket, and check what else uses this storage: rates within"
            " the bracket were sustained in one run and not in another"
        )
    if search.ended not in ("time", "steps") and _has_single_run(search):
        yield "rerun to confirm: one bracket endpoint rests on a single run"


def _has_single_run(search: Search) -> bool:
    ends = ((search.held_hz, search.held_runs), (search.not_held_hz, search.not_held_runs))
    return any(rate is not None and runs < RUNS_OF_AN_END for rate, runs in ends)


def _generator_limited(full: Run, ceiling_hz: float | None) -> bool:
    """Frames went nearly as fast as they do without any storage."""
    seconds = full.document.seconds.completed if full.document.seconds else None
    if full.frames is None or not seconds or ceiling_hz is None:
        return False
    return full.frames.written / seconds * CEILING_FACTOR > ceiling_hz
