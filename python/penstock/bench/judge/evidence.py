"""What a verdict follows from: the steps that were made, sorted by what each says about the storage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.bench.judge.bounds import Bounds, bounds_of
from penstock.bench.judge.checks import COMPLETE, LONG_ENOUGH
from penstock.bench.judge.meanwhile import ALONE
from penstock.model.bench.runs import Check, Search, Step, StepKind
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
    """All that a verdict follows from."""

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
    command: str = ""
    typical_ratio: float | None = None
    """of a detector that sends compressed frames, if uncompressed ones were written"""
    hints: Sequence[str] = ()
    """what `describe` says of the storage"""
    left_out: Sequence[str] = ()
    """for lack of time"""

    @property
    def needed_bytes_per_s(self) -> float:
        return self.needed_hz * self.frame_bytes

    @property
    def written_bytes(self) -> int:
        """By all steps; frames have the same size in each."""
        written = sum(step.run.frames.written for step in self.steps if step.run.frames is not None)
        return written * self.frame_bytes

    @property
    def at_rate(self) -> list[Step]:
        """At the detector's rate, and not invalid: the search may come to it once more."""
        return [
            step
            for step in self.steps
            if step.outcome != "invalid"
            and step.kind in ("rate", "search", "soak")
            and step.rate_hz == self.needed_hz
        ]

    def of(self, outcome: str) -> list[Step]:
        """Steps at the detector's rate."""
        return [step for step in self.at_rate if step.outcome == outcome]

    @property
    def full_speed(self) -> Step | None:
        return next((s for s in self.steps if s.kind == "full speed" and s.outcome != "invalid"), None)

    @property
    def bounds(self) -> Bounds | None:
        full = self.full_speed
        return bounds_of(full.run) if full is not None else None

    @property
    def bytes_per_s(self) -> float | None:
        """What the storage was seen to sustain at most: never less than what it sustained for longer."""
        if self.searches:
            held_hz = self.search.held_hz if self.search is not None else None
            found = None if held_hz is None else held_hz * self.frame_bytes
        else:
            found = self.bounds.measured if self.bounds is not None else None
        return None if found is None else max(found, sustained_longer_hz(self.steps) * self.frame_bytes)

    @property
    def less_than_bytes_per_s(self) -> float | None:
        """A rate that it does not sustain, above the one that it does; None where none was found."""
        if self.search is None or self.search.not_held_hz is None:
            return None
        longer_hz, least_hz = sustained_longer_hz(self.steps), self.search.not_held_hz
        failed_hz = [least_hz, *(step.rate_hz for step in self.steps if step.outcome == "not held")]
        not_held_hz = min((rate for rate in failed_hz if rate >= least_hz and rate > longer_hz), default=None)
        return None if not_held_hz is None else not_held_hz * self.frame_bytes


def sustained_longer_hz(steps: Sequence[Step]) -> float:
    """The highest rate that was sustained for longer than each unpaced run, and each failure at it or below.

    0 if there is none. Shorter runs that failed, as by one late frame, did so by chance.
    """
    against = [step for step in steps if step.outcome == "not held" or step.kind == "full speed"]
    return max(
        (
            held.rate_hz
            for held in steps
            if held.outcome == "held"
            and held.rate_hz
            and all(seconds_of(each) < seconds_of(held) for each in against if each.rate_hz <= held.rate_hz)
        ),
        default=0.0,
    )


def seconds_of(step: Step) -> float:
    """How long frames became due; of an unpaced run, how long it wrote."""
    if step.rate_hz:
        return frame_counts([step])[0] / step.rate_hz
    seconds = step.run.document.seconds
    return seconds.completed if seconds is not None and seconds.completed is not None else 0.0


def frame_counts(steps: Iterable[Step]) -> tuple[int, int]:
    """Frames due, and lost."""
    figures = [step.run.frames for step in steps if step.run.frames is not None]
    due = sum(each.due for each in figures)
    return due, due - sum(each.written for each in figures)


def name_of(step: Step) -> str:
    """With its rate."""
    name = STEP_NAMES[step.kind]
    return f"{name}, {human_hz(step.rate_hz)}" if step.rate_hz else name


def too_good(step: Step) -> list[Check]:
    """Conditions for which figures may look better than the storage is.

    A run that was only short, or interrupted, is weak evidence, and no doubt about what was measured.
    """
    return [
        check
        for check in step.run.checks
        if check.outcome != "ok" and check.bias != "worse" and not _is_only_short(step, check)
    ]


def _is_only_short(step: Step, check: Check) -> bool:
    return check.name == LONG_ENOUGH or (check.name == COMPLETE and step.run.document.problem is None)


def was_shared(step: Step) -> bool:
    """Whether other programs used the storage meanwhile."""
    return any(check.name == ALONE and check.outcome != "ok" for check in step.run.checks)
