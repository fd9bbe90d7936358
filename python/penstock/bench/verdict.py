"""Can this storage take this detector? `judge` looks at nothing but what was measured."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.bench.checks import CEILING_FACTOR, LONG_ENOUGH
from penstock.bench.doubts import doubts, far_too_slow
from penstock.bench.search import RUNS_OF_AN_END, WIDTH
from penstock.bench.statistics import share_bound
from penstock.model.errors import ExitCode
from penstock.model.runs import Answer, Run, Search, Step, Verdict

EXIT_CODES = {
    "yes": ExitCode.FINE,
    "no": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}


@dataclass(frozen=True)
class Measured:
    """All that a verdict follows from. The first of `steps` is at the detector's rate."""

    detector: str
    needed_hz: float
    frame_bytes: int
    late_limit_s: float
    searches: bool
    """whether a search was asked for; without one the run as fast as it went tells what is left"""
    steps: Sequence[Step]
    search: Search | None = None
    problem: str | None = None
    beside: str = ""

    @property
    def needed_bytes_per_s(self) -> float:
        return self.needed_hz * self.frame_bytes

    def sound(self, *kinds: str) -> list[Step]:
        return [step for step in self.steps if step.kind in kinds and step.outcome != "invalid"]

    @property
    def at_rate(self) -> list[Step]:
        """At the detector's rate, and not invalid: the search may come to it once more."""
        sound = self.sound("rate", "search", "soak")
        return [step for step in sound if step.kind != "search" or step.rate_hz == self.needed_hz]

    @property
    def full_speed(self) -> Step | None:
        """The run as fast as it went."""
        return next((step for step in self.steps if step.kind == "full speed"), None)

    @property
    def full_speed_bytes_per_s(self) -> float | None:
        full = self.full_speed
        if full is None or full.run.frames is None or full.outcome == "invalid":
            return None
        return full.run.frames.carried_bytes_per_s

    @property
    def bytes_per_s(self) -> float | None:
        """What the storage carries at most, as far as that was measured."""
        if not self.searches:
            return self.full_speed_bytes_per_s
        held_hz = self.search.held_hz if self.search is not None else None
        return None if held_hz is None else held_hz * self.frame_bytes


def judge(measured: Measured) -> Verdict:
    needed, found = measured.needed_bytes_per_s, measured.bytes_per_s
    margin = None if found is None else found / needed - 1
    due, lost = _counts(measured.at_rate)
    answer, reasons = _answer(measured, margin, lost)
    return Verdict(
        detector=measured.detector,
        beside=measured.beside,
        answer=answer,
        reasons=reasons,
        advice=list(dict.fromkeys(_advice(measured))),
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


def _counts(steps: Iterable[Step]) -> tuple[int, int]:
    """Frames due, and lost."""
    figures = [step.run.frames for step in steps if step.run.frames is not None]
    due = sum(each.due for each in figures)
    return due, due - sum(each.written for each in figures)


def is_at_least(verdict: Verdict) -> bool:
    """Whether nothing that was tried was too much for the storage: it carries what was measured, or more."""
    search = verdict.search
    if search is not None:
        return search.held_hz is not None and search.not_held_hz is None and not search.chance_hz
    at_rate = next((s for s in verdict.steps if s.kind == "rate" and s.outcome != "invalid"), None)
    full = next((step for step in verdict.steps if step.kind == "full speed"), None)
    return full is not None and at_rate is not None and _generator_limited(full.run, at_rate.run.ceiling_hz)


def _advice(measured: Measured) -> Iterator[str]:
    for step in measured.steps:
        if step.kind == "probe":  # a longer run took its place
            continue
        yield from (check.advice for check in step.run.checks if check.outcome != "ok" and check.advice)
    full = measured.full_speed
    at_rate = measured.sound("rate")
    if full is not None and at_rate and _generator_limited(full.run, at_rate[0].run.ceiling_hz):
        yield "what was measured is near what the generator can do: the storage carries at least that"
    search = measured.search
    if search is None:
        return
    if search.ended == "top":
        why = "with more free space" if search.top_reason == "space" else "with a larger --search-to"
        yield f"the highest rate that was tried held: the storage may carry more, which shows {why}"
    elif search.ended in ("time", "steps"):
        yield "the search ended before its bracket was narrow, and its ends repeated: more --search-time"
    elif search.ended == "invalid":
        yield "the search ended at rates whose runs were invalid: the storage carries at least what held"
    elif search.ended == "chance":
        yield (
            "rates between the ends of the bracket held in one run and not in another: count on the lower"
            " end, and look for what else uses this storage"
        )
    if search.ended not in ("time", "steps") and _has_single_run(search):
        yield "an end of the bracket is a single run, as it could not be repeated: run again"


def _has_single_run(search: Search) -> bool:
    ends = ((search.held_hz, search.held_runs), (search.not_held_hz, search.not_held_runs))
    return any(rate is not None and runs < RUNS_OF_AN_END for rate, runs in ends)


def _generator_limited(full: Run, ceiling_hz: float | None) -> bool:
    """Frames went nearly as fast as they do without any storage."""
    seconds = full.document.seconds.completed if full.document.seconds else None
    if full.frames is None or not seconds or ceiling_hz is None:
        return False
    return full.frames.written / seconds * CEILING_FACTOR > ceiling_hz


def _answer(measured: Measured, margin: float | None, lost: int) -> tuple[Answer, list[str]]:
    """What a condition may have made too good is no yes; what it may have made too bad is no no."""
    at_rate = measured.at_rate
    if not any(step.kind in ("rate", "soak") for step in at_rate):
        void = [step.shortcomings for step in measured.steps if step.kind == "rate"]
        return "invalid", void[-1] if void else ["nothing was measured at the detector's rate"]
    if lost > 0:
        return _of_losers([step for step in at_rate if _counts([step])[1]])
    found = [f"{_name(step)}: none of {_counts([step])[0]} frames was lost" for step in at_rate]
    why_not = list(dict.fromkeys(_yes_doubts(measured, margin)))
    return ("cannot tell", [*found, *why_not]) if why_not else ("yes", found)


def _of_losers(losers: Sequence[Step]) -> tuple[Answer, list[str]]:
    """One run that lost frames beyond doubt is enough."""
    found = [f"{_name(step)}: {step.shortcomings[0]}" for step in losers]
    doubtful = [list(doubts(step.run, "worse")) for step in losers]
    if not all(doubtful):
        return "no", found
    if far := [f"{_name(step)}: {why}" for step in losers if (why := far_too_slow(step.run))]:
        return "no", [*found, *far]
    return "cannot tell", [*found, *dict.fromkeys(doubt for each in doubtful for doubt in each)]


def _name(step: Step) -> str:
    names = {"rate": "at the detector's rate", "search": "at the detector's rate, again"}
    return names.get(step.kind, step.kind)


def _yes_doubts(measured: Measured, margin: float | None) -> Iterator[str]:
    """Why a storage that lost nothing may be too weak all the same."""
    if measured.problem is not None:
        yield f"it is incomplete: {measured.problem}"
    for step in measured.at_rate:
        yield from doubts(step.run, "better")
        yield from (f"{_name(step)}: {shortcoming}" for shortcoming in step.shortcomings)
    full = measured.full_speed
    if not measured.searches and full is not None:
        # That it was short is no doubt of the answer, which is of the run at the rate; its advice says it.
        yield from (d for d in doubts(full.run, "better") if not d.startswith(f"{LONG_ENOUGH}: "))
    voids = [step for step in measured.steps if step.kind == "soak" and step.outcome == "invalid"]
    if voids and not measured.sound("soak"):
        yield f"the soak is invalid: {'; '.join(voids[-1].shortcomings)}"
    full_bytes_per_s = measured.full_speed_bytes_per_s
    if margin is None:
        yield "how much the storage carries at most was not measured"
    elif full_bytes_per_s is not None and full_bytes_per_s < measured.needed_bytes_per_s:
        yield "as fast as it goes, the storage carried less than the detector needs"
    yield from _chance(measured)


def _chance(measured: Measured) -> Iterator[str]:
    """A rate near the limit holds by chance."""
    search = measured.search
    if search is None:
        return
    # The lowest of those between the ends did not hold in a run.
    failed_hz = min([*search.chance_hz, search.not_held_hz or math.inf])
    if measured.needed_hz < failed_hz < measured.needed_hz * (1 + WIDTH):
        percent = 100 * (failed_hz / measured.needed_hz - 1)
        yield f"a rate that is only {percent:.1f} % higher did not hold: that this one did may be chance"
    elif search.chance_hz and search.held_runs < RUNS_OF_AN_END and search.held_hz != measured.needed_hz:
        yield (
            f"{search.chance_hz[0]:.4g} Hz held in one run and not in another, and the rate below it that"
            " held was not repeated: what the storage carries may be less"
        )
