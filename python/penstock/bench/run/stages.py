"""Measures what a verdict needs: at the detector's rate, unpaced, the search, the soak.

Whatever ends it before its time, what was measured until then is in the verdict.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.bench.data.folder import BenchFolder, require_room, room_for_frames, usable
from penstock.bench.judge.checks import FAR_TOO_SHORT_S, SHORT_S
from penstock.bench.judge.holds import FRAMES_MIN, outcome_of
from penstock.bench.judge.reasons import INTERRUPTED, Measured
from penstock.bench.judge.search import STEPS_MAX, Bracket, limits_of, search
from penstock.bench.judge.verdict import judge
from penstock.bench.run.interference import run_beside
from penstock.bench.run.run import CEILING_S, FRAMES_MAX, RATE_MAX_HZ, FramesRequest, Telling, run_frames
from penstock.model.bench.runs import Run, Search, Step, StepKind, StepOutcome, Verdict
from penstock.model.errors import PenstockError
from penstock.model.units import human_seconds
from penstock.programs.beside import Repeated

# The first look at how fast it goes: of the frames of the run at the detector's rate.
_FULL_SPEED_SHARE = 3
_FULL_SPEED_FRAMES_MIN = 20
# A shorter run unpaced is made again with more frames; with some to spare, since it gets faster.
FULL_SPEED_S = 2 * FAR_TOO_SHORT_S
_FULL_SPEED_SPARE = 1.3
# To start the load generator and to remove the files of a step, as measured on a local disk.
_AROUND_S = 1.0
GOES_ON = "the measurement was still running when this was written"


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
    beside: str = ""
    """what runs beside each step; empty: nothing"""

    @property
    def full_speed(self) -> FramesRequest:
        frames = max(_FULL_SPEED_FRAMES_MIN, self.at_rate.frames // _FULL_SPEED_SHARE)
        return self.at_rate.as_fast_as_it_goes(frames)

    @property
    def soak(self) -> FramesRequest | None:
        if not self.soak_s:
            return None
        soak = self.at_rate.at(self.at_rate.rate_hz, math.ceil(self.soak_s * self.at_rate.rate_hz))
        return soak.model_copy(update={"longer": "--soak"})

    def search_step(self, rate_hz: float) -> FramesRequest:
        """Returns a run as long as its checks require. A longer one at the detector's rate is the soak."""
        step = self.at_rate.at(rate_hz, max(FRAMES_MIN, math.ceil(self.step_s * rate_hz)))
        return step.model_copy(update={"longer": "--soak"})

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
        paced = [step.frames / rate_hz + CEILING_S for step in (self.at_rate, self.soak) if step is not None]
        unpaced = [self.full_speed.frames / rate_hz, _FULL_SPEED_SPARE * FULL_SPEED_S]
        return sum(seconds + _AROUND_S for seconds in (*paced, *unpaced)) + self.search_s

    @property
    def search_steps_max(self) -> int:
        return STEPS_MAX if self.search_s else 0


class Place(Protocol):
    """Where runs are made, one after the other."""

    def run(self, request: FramesRequest, prefix: str) -> Run: ...

    def clear(self) -> None:
        """Removes what runs left."""

    def fits_hz(self, request: VerdictRequest) -> float:
        """The highest rate whose step of the search has room."""


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

    def fits_hz(self, request: VerdictRequest) -> float:
        with usable(self.folder.path.parent):
            return fits_hz(request, self.folder.path)


@dataclass(frozen=True)
class BesidePlace:
    """Every run is made with a background load, which takes so many bytes where the frames go."""

    place: Place
    start: Callable[[], AbstractContextManager[Repeated]]
    taken_bytes: int

    def run(self, request: FramesRequest, prefix: str) -> Run:
        return run_beside(lambda: self.place.run(request, prefix), self.start)

    def clear(self) -> None:
        self.place.clear()

    def fits_hz(self, request: VerdictRequest) -> float:
        taken_hz = self.taken_bytes / request.at_rate.stored_bytes_each / request.step_s
        return max(0.0, self.place.fits_hz(request) - taken_hz)


def fits_hz(request: VerdictRequest, target: Path) -> float:
    """The highest rate whose step of the search has room in `target`."""
    at_rate = request.at_rate
    frames = room_for_frames(target, at_rate.stored_bytes_each, at_rate.layout == "file_a_frame")
    return frames / request.step_s if frames > FRAMES_MIN else 0.0


class _EndedError(Exception):
    """The measurement cannot go on."""


@dataclass
class _Course:
    """The steps so far."""

    request: VerdictRequest
    place: Place
    on_step: Callable[[Step, Verdict], None]
    steps: list[Step] = field(default_factory=list)
    search: Search | None = None
    soak_left_out: bool = False

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
                soak_left_out=self.soak_left_out,
            )
        )

    def take(self, kind: StepKind, asked: FramesRequest, later: bool = False) -> Step:
        """Makes a step and reports it; with `later` the caller reports it, unless it ends the measurement."""
        prefix = f"{kind.replace(' ', '-')}-{len(self.steps) + 1}-"
        run = self.place.run(asked, prefix)
        outcome, shortcomings = outcome_of(run, self.request.late_limit_s)
        step = Step(kind=kind, rate_hz=asked.rate_hz, outcome=outcome, shortcomings=shortcomings, run=run)
        self.steps.append(step)
        if not later or run.document.interrupted or run.document.problem is not None:
            self.on_step(step, self.verdict(GOES_ON))
        if run.document.interrupted:
            raise _EndedError(INTERRUPTED)
        if run.document.problem is not None:
            raise _EndedError(run.document.problem)
        self.place.clear()
        return step

    def take_sound(self, kind: StepKind, asked: FramesRequest) -> Step:
        """An invalid step is made again once."""
        step = self.take(kind, asked)
        return self.take(kind, asked) if step.outcome == "invalid" else step

    def take_all(self) -> None:
        at_rate = self.take_sound("rate", self.request.at_rate)
        if at_rate.outcome == "invalid":
            return
        full = self.take_full_speed()
        if self.request.search_s:
            self.take_search(at_rate, full)
        if self.request.soak is None:
            return
        self.soak_left_out = self.verdict(GOES_ON).lost > 0
        if not self.soak_left_out:
            self.take_sound("soak", self.request.soak)

    def take_full_speed(self) -> Step:
        """A preliminary run gives the number of frames of a run that is long enough, if there is room."""
        request = self.request
        looked = self.take("full speed", request.full_speed, later=True)
        seconds, rate_hz = _seconds_of(looked), _rate_of(looked)
        if rate_hz is None or seconds >= FULL_SPEED_S:
            return self.reported(looked)
        room = self.place.fits_hz(request) * request.step_s
        frames = math.floor(min(_FULL_SPEED_SPARE * FULL_SPEED_S * rate_hz, room, FRAMES_MAX))
        if frames <= request.full_speed.frames:
            return self.reported(looked)
        short = f"{human_seconds(seconds)} is too short; repeating with {frames} frames"
        self.reported(looked.model_copy(update={"kind": "probe", "shortcomings": [short]}))
        return self.take("full speed", request.at_rate.as_fast_as_it_goes(frames))

    def reported(self, step: Step) -> Step:
        """Replaces the last step, and reports it."""
        self.steps[-1] = step
        self.on_step(step, self.verdict(GOES_ON))
        return step

    def take_search(self, at_rate: Step, full: Step) -> None:
        request = self.request
        full_hz = _rate_of(full) if full.outcome != "invalid" else None
        limits, top_reason = limits_of(
            at_rate.rate_hz,
            full_hz,
            request.times_max,
            min(self.place.fits_hz(request), RATE_MAX_HZ),
            request.search_s,
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
                top_reason=top_reason,
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
    problem: str | None = None
    try:
        course.take_all()
    except _EndedError as ended:
        problem = str(ended)
    except KeyboardInterrupt:
        if not course.steps:
            raise
        problem = INTERRUPTED
    except PenstockError as error:
        if not course.steps:
            raise
        problem = error.message
    return course.verdict(problem)
