"""Measures what a verdict needs: unpaced, at the detector's rate, the search, the soak.

Whatever ends it before its time, what was measured until then is in the verdict.
"""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from penstock.bench.data.folder import SPACE_BYTES, BenchFolder, require_room, usable
from penstock.bench.judge.checks import FAR_TOO_SHORT_S, SHORT_S
from penstock.bench.judge.evidence import STEP_NAMES, Measured
from penstock.bench.judge.holds import FRAMES_MIN, outcome_of
from penstock.bench.judge.search import SAYS_NOTHING, STEPS_MAX, Bracket, limits_of, search
from penstock.bench.judge.verdict import judge
from penstock.bench.run.early_end import INTERRUPTED, problem_of
from penstock.bench.run.interference import run_beside
from penstock.bench.run.run import CEILING_S, FRAMES_MAX, RATE_MAX_HZ, FramesRequest, Telling, run_frames
from penstock.model.bench.runs import Run, Search, Step, StepKind, StepOutcome, Verdict
from penstock.model.errors import PenstockError
from penstock.model.text import counted
from penstock.model.units import human_seconds
from penstock.programs.beside import Repeated
from penstock.programs.signals import came_since

# The first look at how fast it goes: of the frames of the run at the detector's rate.
_FULL_SPEED_SHARE = 10
_FULL_SPEED_FRAMES_MIN = 20
# A shorter run unpaced is made again with more frames; with some to spare, since it gets faster. It takes a
# share of the run at the detector's rate, within these. Of a long run a smaller share is enough.
_FULL_SPEED_S_MIN, _FULL_SPEED_S_MAX, _FULL_SPEED_OF_RATE = 2 * FAR_TOO_SHORT_S, 8 * FAR_TOO_SHORT_S, 0.3
_FULL_SPEED_OF_LONG = 0.1
_FULL_SPEED_SPARE = 1.3
# Storage may become slower than a preliminary run found: an unpaced run ends after as many times its length.
_FULL_SPEED_LONGER_MAX = 4
# Short runs are slower than long ones on some storage: more than one may be too short.
_PROBES_MAX = 3
# To start the load generator and to remove the files of a step, as measured on a local disk.
_AROUND_S = 1.0
GOES_ON = "the measurement was still running when this was written"


def seconds_of_step(step: FramesRequest) -> float:
    """Returns the duration of a step at a rate, with the generator's ceiling that is measured before it."""
    return step.frames / step.rate_hz + CEILING_S + _AROUND_S


def late_limit_s(at_rate: FramesRequest, asked_s: float | None) -> float:
    """Of a rate that holds: half of what the buffer takes at the detector's rate, or what was asked for."""
    if asked_s is not None:
        return asked_s
    return max(at_rate.late_after_s, at_rate.buffer_frames / at_rate.rate_hz / 2)


@dataclass(frozen=True)
class VerdictRequest:
    """What a verdict measures. Times are in seconds; 0 skips the search or the soak."""

    detector: str
    at_rate: FramesRequest
    late_limit_s: float
    search_s: float
    times_max: float
    """upper limit of the search, as a multiple of the detector's rate"""
    soak_s: float
    step_s: float = SHORT_S
    """of the search, at least"""
    space_bytes: int = SPACE_BYTES
    """that the files of a step take at most: older ones are removed while it goes on"""
    room_bytes: int | None = None
    """free for the files of a step; None: as much as `space_bytes`"""
    within_s: float = math.inf
    """for all steps: repetitions are left out and the search is shortened to keep it"""
    beside: str = ""
    """what runs beside each step; empty: nothing"""
    command: str = ""
    """the user's own, to be repeated"""
    typical_ratio: float | None = None
    """of a detector that sends compressed frames, if `at_rate` has uncompressed ones"""
    hints: tuple[str, ...] = ()
    """what costs speed on this storage, as `describe` finds it"""

    @property
    def full_speed_s(self) -> float:
        """How long the unpaced run takes at least."""
        at_rate_s = self.at_rate.frames / self.at_rate.rate_hz
        most_s = max(_FULL_SPEED_S_MAX, _FULL_SPEED_OF_LONG * at_rate_s)
        return min(most_s, max(_FULL_SPEED_S_MIN, _FULL_SPEED_OF_RATE * at_rate_s))

    @property
    def full_speed(self) -> FramesRequest:
        frames = max(_FULL_SPEED_FRAMES_MIN, self.at_rate.frames // _FULL_SPEED_SHARE)
        return self.unpaced(frames)

    def unpaced(self, frames: int) -> FramesRequest:
        limited = {"unpaced_s_max": _FULL_SPEED_LONGER_MAX * self.full_speed_s}
        unpaced = self.at_rate.as_fast_as_it_goes(frames).model_copy(update=limited)
        return unpaced.within(self.unpaced_bytes)

    @property
    def unpaced_bytes(self) -> int:
        """That the files of an unpaced run may take: how much it writes is unknown, so it takes what fits.

        If not even a ring fits, this is the requested space, and the check of free space rejects it.
        """
        room = self.space_bytes if self.room_bytes is None else self.room_bytes
        return min(self.space_bytes, room) if room >= self.at_rate.ring_bytes_min else self.space_bytes

    @property
    def largest_unpaced(self) -> FramesRequest:
        return self.unpaced(FRAMES_MAX)

    @property
    def bytes_at_rate(self) -> int:
        """That the run at the detector's rate and the soak write in all."""
        frames = self.at_rate.frames + (self.soak.frames if self.soak is not None else 0)
        return frames * self.at_rate.frame_bytes

    @property
    def seconds_at_storage_speed(self) -> float:
        """In which the storage's speed decides how much is written: a preliminary run as long as the unpaced
        one, that one, and the search.
        """
        return (1 + _FULL_SPEED_SPARE) * self.full_speed_s + self.search_s

    @property
    def soak(self) -> FramesRequest | None:
        if not self.soak_s:
            return None
        soak = self.at_rate.at(self.at_rate.rate_hz, math.ceil(self.soak_s * self.at_rate.rate_hz))
        return soak.model_copy(update={"longer": "--soak"}).within(self.space_bytes)

    def search_step(self, rate_hz: float) -> FramesRequest:
        """Returns a run as long as its checks require. A longer one at the detector's rate is the soak."""
        step = self.at_rate.at(rate_hz, max(FRAMES_MIN, math.ceil(self.step_s * rate_hz)))
        return step.model_copy(update={"longer": "--soak"}).within(self.space_bytes)

    @property
    def top_hz(self) -> float:
        """The highest rate that the search may try."""
        return min(self.times_max * self.at_rate.rate_hz, RATE_MAX_HZ)

    @property
    def largest_search_step(self) -> FramesRequest | None:
        return self.search_step(self.top_hz) if self.search_s else None

    @property
    def always(self) -> list[FramesRequest]:
        """The steps that are made in any case."""
        return [step for step in (self.at_rate, self.full_speed, self.soak) if step is not None]

    @property
    def seconds_expected(self) -> float:
        """Returns the duration of all steps on storage that just sustains the detector.

        Each step at a rate measures the generator's ceiling first. A preliminary unpaced run that was too
        short is replaced by a longer one. Repetitions of invalid runs are not included.
        """
        rate_hz = self.at_rate.rate_hz
        paced_s = seconds_of_step(self.at_rate) + self.soak_seconds
        unpaced = [self.full_speed.frames / rate_hz, _FULL_SPEED_SPARE * self.full_speed_s]
        return paced_s + sum(seconds + _AROUND_S for seconds in unpaced) + self.search_s

    @property
    def soak_seconds(self) -> float:
        """Returns the duration of the soak with what is around it; 0 without one."""
        return 0.0 if self.soak is None else seconds_of_step(self.soak)

    @property
    def search_steps_max(self) -> int:
        return min(STEPS_MAX, math.ceil(self.search_s / self.step_s))


class Place(Protocol):
    """Where runs are made, one after the other."""

    def run(self, request: FramesRequest, prefix: str) -> Run: ...

    def clear(self) -> None:
        """Removes what runs left."""


@dataclass(frozen=True)
class FolderPlace:
    folder: BenchFolder
    telling: Telling

    def run(self, request: FramesRequest, prefix: str) -> Run:
        with usable(self.folder.path.parent):
            require_room(self.folder.path, request.bytes, request.files)
            return run_frames(request, self.folder, prefix, self.telling)

    def clear(self) -> None:
        self.folder.clear()


@dataclass(frozen=True)
class BesidePlace:
    """Every run is made with a background load."""

    place: Place
    start: Callable[[], AbstractContextManager[Repeated]]

    def run(self, request: FramesRequest, prefix: str) -> Run:
        return run_beside(lambda: self.place.run(request, prefix), self.start)

    def clear(self) -> None:
        self.place.clear()


@dataclass
class _Course:
    """The steps so far."""

    request: VerdictRequest
    place: Place
    on_step: Callable[[Step, Verdict], None]
    steps: list[Step] = field(default_factory=list)
    search: Search | None = None
    left_out: list[str] = field(default_factory=list)
    """for lack of time"""
    began: float = field(default_factory=time.monotonic)

    def verdict(self, problem: str | None) -> Verdict:
        return judge(
            Measured(
                detector=self.request.detector,
                needed_hz=self.request.at_rate.rate_hz,
                frame_bytes=self.request.at_rate.frame_bytes,
                late_limit_s=self.request.late_limit_s,
                searches=self.request.search_s > 0,
                beside=self.request.beside,
                steps=self.steps,
                search=self.search,
                problem=problem,
                command=self.request.command,
                typical_ratio=self.request.typical_ratio,
                hints=self.request.hints,
                left_out=self.left_out,
            )
        )

    def take(self, kind: StepKind, asked: FramesRequest, later: bool = False) -> Step:
        """Makes a step, reports it and removes its files; with `later` the caller calls `reported`, unless it
        ends the measurement.
        """
        prefix = f"{kind.replace(' ', '-')}-{len(self.steps) + 1}-"
        run = self.place.run(asked, prefix)
        outcome, shortcomings, alone = outcome_of(run, self.request.late_limit_s)
        step = Step(
            kind=kind,
            rate_hz=asked.rate_hz,
            outcome=outcome,
            shortcomings=shortcomings,
            alone=alone,
            run=run,
        )
        self.steps.append(step)
        # A run that was over when the signal came is complete, and the last one.
        is_last = run.document.interrupted or came_since(self.began)
        if not later or is_last or run.document.problem is not None:
            self.on_step(step, self.verdict(GOES_ON))
        if is_last:
            raise PenstockError(INTERRUPTED)
        if run.document.problem is not None:
            raise PenstockError(run.document.problem)
        if not later:
            self.place.clear()
        return step

    @property
    def left_s(self) -> float:
        return self.request.within_s - (time.monotonic() - self.began)

    def take_sound(self, kind: StepKind, asked: FramesRequest, keep_s: float = 0.0) -> Step:
        """A step that says nothing about the storage is made again once, if `keep_s` are left after that."""
        step = self.take(kind, asked)
        return self.repeat(step, asked, keep_s) if step.outcome in SAYS_NOTHING else step

    def repeat(self, step: Step, asked: FramesRequest, keep_s: float = 0.0) -> Step:
        """Returns the repeated step, or the first one if no time is left."""
        if self.left_s >= seconds_of_step(asked) + keep_s:
            return self.take(step.kind, asked)
        self.left_out.append(
            f"no time was left to repeat a step ({STEP_NAMES[step.kind]}): --within allows more"
        )
        return step

    def take_all(self) -> None:
        full = self.take_full_speed()
        at_rate = self.take_sound("rate", self.request.at_rate, self.request.soak_seconds)
        if at_rate.outcome == "invalid":
            return
        if self.request.search_s:
            self.take_search(at_rate, full)
        # What lost frames once needs no confirmation.
        if self.request.soak is not None and self.verdict(GOES_ON).answer not in ("no", "likely no"):
            soak = self.take_sound("soak", self.request.soak)
            # A loss that other runs make doubtful is repeated, too.
            if soak.outcome == "not held" and self.verdict(GOES_ON).answer in ("cannot tell", "likely yes"):
                self.repeat(soak, self.request.soak)

    def search_seconds(self) -> float:
        """Returns the time for the search: what was asked for, or what other steps leave of all."""
        left_s = max(0.0, self.left_s - self.request.soak_seconds)
        if left_s < self.request.search_s:
            had = f"{human_seconds(left_s)} of {human_seconds(self.request.search_s)}"
            self.left_out.append(f"the search had {had}: --within allows more")
        return min(self.request.search_s, left_s)

    def take_full_speed(self) -> Step:
        """Preliminary runs give the number of frames of one that is long enough."""
        request = self.request
        step, frames = self.take("full speed", request.full_speed, later=True), request.full_speed.frames
        for _ in range(_PROBES_MAX):
            seconds, rate_hz = _seconds_of(step), _rate_of(step)
            if rate_hz is None or seconds >= request.full_speed_s:
                break
            frames = math.floor(min(_FULL_SPEED_SPARE * request.full_speed_s * rate_hz, FRAMES_MAX))
            short = f"{human_seconds(seconds)} is too short; repeating with {counted(frames, 'frame')}"
            self.reported(step.model_copy(update={"kind": "probe", "shortcomings": [short]}))
            step = self.take("full speed", request.unpaced(frames), later=True)
        return self.reported(step)

    def reported(self, step: Step) -> Step:
        """Replaces the last step, reports it, and removes its files."""
        self.steps[-1] = step
        self.on_step(step, self.verdict(GOES_ON))
        self.place.clear()
        return step

    def take_search(self, at_rate: Step, full: Step) -> None:
        request = self.request
        full_hz = _rate_of(full) if full.outcome != "invalid" else None
        limits = limits_of(
            at_rate.rate_hz,
            full_hz,
            request.times_max,
            RATE_MAX_HZ,
            self.search_seconds(),
            lambda rate_hz: request.search_step(rate_hz).seconds,
        )

        def note(bracket: Bracket, ended: str) -> None:
            self.search = Search(
                held_hz=bracket.held_hz,
                not_held_hz=bracket.not_held_hz,
                held_runs=bracket.held_runs,
                not_held_runs=bracket.not_held_runs,
                chance_hz=bracket.chance_hz,
                full_speed_hz=full_hz,
                top_hz=limits.top_hz,
                ended=ended,
            )

        bracket = Bracket().with_outcome(at_rate.rate_hz, at_rate.outcome)
        note(bracket, "cut short")

        def outcome_at(rate_hz: float) -> StepOutcome | None:
            nonlocal bracket
            outcome = self.take("search", request.search_step(rate_hz)).outcome
            bracket = bracket.with_outcome(rate_hz, outcome)
            note(bracket, "cut short")
            return outcome

        note(*search(outcome_at, bracket, limits))


def _seconds_of(step: Step) -> float:
    """How long a run took."""
    seconds = step.run.document.seconds
    return (seconds.completed or seconds.last_done or 0.0) if seconds is not None else 0.0


def _rate_of(step: Step) -> float | None:
    """Returns the frame rate of the unpaced run."""
    figures, frame_bytes = step.run.frames, getattr(step.run.document.plan.workload, "frame_bytes", 0)
    if figures is None or not figures.carried_bytes_per_s or not frame_bytes:
        return None
    return figures.carried_bytes_per_s / frame_bytes


def measure(request: VerdictRequest, place: Place, on_step: Callable[[Step, Verdict], None]) -> Verdict:
    """`on_step` hears of each step, with the verdict as far as it is known then.

    A PenstockError or a KeyboardInterrupt only where no measurement.
    """
    course = _Course(request, place, on_step)
    return course.verdict(problem_of(course.take_all, course.steps))
