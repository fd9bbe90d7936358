"""Why a verdict is what it is: each reason with the run and the check that it comes from, and what helps."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.bench.judge.checks import LONG_ENOUGH
from penstock.bench.judge.doubts import best_case, doubtful
from penstock.bench.judge.search import RUNS_OF_AN_END, WIDTH
from penstock.model.bench.runs import Answer, Bias, Check, Search, Step, StepKind
from penstock.model.units import human_hz

STEP_NAMES: dict[StepKind, str] = {
    "rate": "at the detector's rate",
    "probe": "preliminary run",
    "full speed": "unpaced",
    "search": "search",
    "soak": "soak",
}


@dataclass(frozen=True)
class Measured:
    """All that a verdict follows from. The first of `steps` is at the detector's rate."""

    detector: str
    needed_hz: float
    frame_bytes: int
    late_limit_s: float
    searches: bool
    """whether a search was requested; without one the unpaced run gives the headroom"""
    steps: Sequence[Step]
    search: Search | None = None
    problem: str | None = None
    beside: str = ""
    soak_left_out: bool = False
    """requested, but frames had been lost before"""

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


@dataclass(frozen=True)
class Reason:
    """A sentence, and what to do about it; empty: nothing helps, or nothing has to."""

    text: str
    advice: str = ""


def frame_counts(steps: Iterable[Step]) -> tuple[int, int]:
    """Frames due, and lost."""
    figures = [step.run.frames for step in steps if step.run.frames is not None]
    due = sum(each.due for each in figures)
    return due, due - sum(each.written for each in figures)


def advice_of(check: Check) -> str:
    """With the check that it is about."""
    return f"{check.name}: {check.advice}" if check.advice else ""


def answer_of(measured: Measured, margin: float | None, lost: int) -> tuple[Answer, list[Reason]]:
    """What a condition may have made too good is no yes; what it may have made too bad is no no."""
    at_rate = measured.at_rate
    if not any(step.kind in ("rate", "soak") for step in at_rate):
        void = [step for step in measured.steps if step.kind == "rate"]
        return "invalid", _invalid(void[-1]) if void else [Reason("no measurement at the detector's rate")]
    if lost > 0:
        answer, found = _of_losers([step for step in at_rate if frame_counts([step])[1]])
        return answer, [*found, *([SOAK_LEFT_OUT] if measured.soak_left_out else [])]
    found = [Reason(f"{_name(step)}: none of {frame_counts([step])[0]} frames was lost") for step in at_rate]
    why_not = list(dict.fromkeys(_yes_doubts(measured, margin)))
    return ("cannot tell", [*found, NOT_YES, *why_not]) if why_not else ("yes", found)


NOT_YES = Reason("the answer is not yes because of the following:")
SOAK_LEFT_OUT = Reason("no soak was run: frames had already been lost at the detector's rate")


def _invalid(step: Step) -> list[Reason]:
    """Of a step that is: the checks that failed."""
    failed = [check for check in step.run.checks if check.outcome == "failed"]
    return [Reason(f"{_name(step)}: {check.reported}", advice_of(check)) for check in failed]


def _of_losers(losers: Sequence[Step]) -> tuple[Answer, list[Reason]]:
    """One run that lost frames beyond doubt is enough."""
    found = [Reason(f"{_name(step)}: {step.shortcomings[0]}") for step in losers]
    doubts = [list(_doubts(step, "worse", ", which may be why")) for step in losers]
    if not all(doubts):
        return "no", found
    best = [(step, case) for step in losers if (case := best_case(step.run)) is not None]
    if far := [Reason(f"{_name(step)}: {case.reported}") for step, case in best if case.is_far_too_slow]:
        return "no", [*found, *far]
    reported = [Reason(f"{_name(step)}: {case.reported}") for step, case in best]
    return "cannot tell", [*found, *reported, *dict.fromkeys(doubt for each in doubts for doubt in each)]


def _doubts(step: Step, bias: Bias, then: str = "") -> Iterator[Reason]:
    """The warnings of a step whose figures they may have made so."""
    for check in doubtful(step.run, bias):
        yield Reason(f"{_name(step)}: {check.reported}{then}", advice_of(check))


def _name(step: Step) -> str:
    """With its rate."""
    name = STEP_NAMES[step.kind]
    return f"{name}, {human_hz(step.rate_hz)}" if step.rate_hz else name


def _yes_doubts(measured: Measured, margin: float | None) -> Iterator[Reason]:
    """Why a storage that lost nothing may be too weak all the same."""
    if measured.problem is not None:
        yield Reason(
            f"the measurement is incomplete: {measured.problem}", "run it again, and let it complete"
        )
    for step in measured.at_rate:
        yield from _doubts(step, "better")
        yield from _not_held(step)
    full = measured.full_speed
    if not measured.searches and full is not None:
        # That it was short is no doubt of the answer, which is of the run at the rate; its advice says it.
        doubts = [check for check in doubtful(full.run, "better") if check.name != LONG_ENOUGH]
        yield from (Reason(f"{_name(full)}: {check.reported}", advice_of(check)) for check in doubts)
    voids = [step for step in measured.steps if step.kind == "soak" and step.outcome == "invalid"]
    if voids and not measured.sound("soak"):
        yield Reason("the soak is invalid, so the result is not confirmed")
        yield from _invalid(voids[-1])
    full_bytes_per_s = measured.full_speed_bytes_per_s
    if margin is None:
        yield from _unmeasured(measured)
    elif full is not None and full_bytes_per_s is not None and full_bytes_per_s < measured.needed_bytes_per_s:
        yield Reason("even unpaced, the storage sustained less than the detector's rate")
        yield from _doubts(full, "worse", ", which may be why")
    yield from _chance(measured)


_LATER = (
    "check what else uses this storage; increase --buffer-seconds to absorb longer stalls, or --late-after to"
    " allow later frames"
)


def _not_held(step: Step) -> Iterator[Reason]:
    """Of a step whose rate did not hold though no frame was lost, and what that may come from."""
    doubts = list(_doubts(step, "worse", ", which may be why"))
    for shortcoming in step.shortcomings:
        yield Reason(f"{_name(step)}: {shortcoming}", "" if doubts else _LATER)
    if step.shortcomings:
        yield from doubts


def _unmeasured(measured: Measured) -> Iterator[Reason]:
    """Why nothing says how much the storage carries at most."""
    least = "; it sustains at least the detector's rate" if rate_held(measured) else ""
    yield Reason(f"the maximum sustained rate was not measured: {_unmeasured_as(measured)}{least}")
    tried = [step for step in measured.steps if step.kind in ("full speed", "search")]
    for step in tried:
        if step.outcome == "invalid":
            yield from _invalid(step)
    failed = [step for step in tried if step.kind == "search" and step.outcome == "not held"]
    if failed:
        lowest = min(failed, key=lambda step: step.rate_hz)
        yield from _not_held(lowest)


def rate_held(measured: Measured) -> bool:
    """In each of the runs at the detector's rate, of which there is one at least."""
    at_rate = measured.at_rate
    return bool(at_rate) and all(step.outcome == "held" for step in at_rate)


INTERRUPTED = "it was interrupted"


def _unmeasured_as(measured: Measured) -> str:
    """What kept the search, or the run unpaced, from telling it."""
    if measured.search is not None:
        return "no sustained rate was found"
    full = measured.full_speed
    if not measured.searches and full is not None and full.outcome == "invalid":
        return "the unpaced run is invalid, and no search was requested"
    ended = INTERRUPTED if measured.problem == INTERRUPTED else "the measurement ended"
    return f"{ended} before {'the search' if measured.searches else 'the unpaced run'}"


def _chance(measured: Measured) -> Iterator[Reason]:
    """A rate near the limit holds by chance."""
    search = measured.search
    if search is None:
        return
    # The lowest of those between the ends did not hold in a run.
    failed_hz = min([*search.chance_hz, search.not_held_hz or math.inf])
    if measured.needed_hz < failed_hz < measured.needed_hz * (1 + WIDTH):
        yield from _too_near(measured, failed_hz)
    elif _lacks_repeat(search, measured.needed_hz):
        yield Reason(
            f"{human_hz(search.chance_hz[0])} was sustained in one run and not in another, and the"
            f" sustained rate below it was not repeated: the storage may sustain less",
            "increase --search-time, so that the search can repeat its bracket endpoints",
        )


def _too_near(measured: Measured, failed_hz: float) -> Iterator[Reason]:
    percent = 100 * (failed_hz / measured.needed_hz - 1)
    yield Reason(
        f"a rate only {percent:.1f} % higher was not sustained: chance may have sustained this one",
        "increase --soak to confirm the rate, or reduce --rate: it is at the storage's limit",
    )
    for step in measured.steps:
        if step.kind == "search" and step.rate_hz == failed_hz and step.outcome == "not held":
            yield from _not_held(step)


def _lacks_repeat(search: Search, needed_hz: float) -> bool:
    return bool(search.chance_hz) and search.held_runs < RUNS_OF_AN_END and search.held_hz != needed_hz
