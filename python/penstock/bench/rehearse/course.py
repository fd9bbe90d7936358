"""The steps of a rehearsal: warm-up, the detector's rate, unpaced, the search, the soak."""

import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from penstock import __version__
from penstock.bench.data.folder import BenchFolder, FileSet, RoomAdvice, require_room, usable
from penstock.bench.judge.conditions import conditions_of
from penstock.bench.judge.meanwhile import Watch
from penstock.bench.judge.search import Bracket, Limits, search
from penstock.bench.rehearse.answer import Evidence, advice_of, answer_of, step_notes
from penstock.bench.rehearse.chain import Chain, ChainFailedError, SeriesRequest, Show
from penstock.bench.rehearse.checked import checked
from penstock.bench.rehearse.outcome import Recorded, step_of
from penstock.bench.rehearse.request import FRAMES_MIN, UNPACED_RUNS_MAX, RehearsalRequest, notes_of
from penstock.bench.rehearse.surroundings import series_checks
from penstock.bench.rehearse.throughput import TIMES_HELD, Throughput
from penstock.bench.run.early_end import problem_of
from penstock.files.storage import storage_facts
from penstock.model.bench.rehearsals import Rehearsal, RehearsalStep, RehearsalStepKind
from penstock.model.bench.runs import Conditions, Search, SearchEnd, StepOutcome
from penstock.model.plans import RecorderPlan
from penstock.model.text import counted
from penstock.model.units import human_seconds
from penstock.programs.process import LogLine
from penstock.programs.signals import came_since

PREFIX = "rehearsal-"
GOES_ON = "the rehearsal was still running when this was written"
# Of a step at a rate that the chain does not sustain, as a multiple of its planned duration.
_LONGER_MAX, _SPARE_S = 1.5, 3.0
_UNPACED_SHARE = 3
# Of the unpaced step, as a multiple of the duration of a step.
_UNPACED_LONGEST = 3
_RATIO_KEPT = 0.8
_SEARCH_STEP_AROUND_S = 2.0


def room_advice(request: RehearsalRequest) -> RoomAdvice:
    least = FRAMES_MIN * request.frame_bytes
    return RoomAdvice("a series of the rehearsal", fewer_bytes="", space="--space", space_min=least)


@dataclass(frozen=True)
class Told:
    """Who hears what happens."""

    show: Show
    log: LogLine
    on_step: Callable[[RehearsalStep, Rehearsal], None]
    on_series: Callable[[Rehearsal], None] = lambda _: None
    """called after each series of a step that has more, with the document as far as it is known"""


def rehearse(request: RehearsalRequest, plan: RecorderPlan, folder: BenchFolder, told: Told) -> Rehearsal:
    """Measures, and returns what was measured whatever ends it early.

    A PenstockError or KeyboardInterrupt only if nothing was measured.
    """
    course = _Course(request, plan, folder, told)
    folder.announce(FileSet(prefix=PREFIX, count=request.series_max + 1, suffix="h5", parts=True))

    def take_all() -> None:
        with usable(folder.path.parent), Chain(request, plan, told.show, told.log) as chain:
            course.take_all(chain)

    return course.rehearsal(problem_of(take_all, course.steps))


def _to_confirm(step: RehearsalStep, _: Recorded) -> RehearsalStep:
    return step.model_copy(update={"repeated": "repeated to confirm" if step.outcome == "not held" else ""})


def _unchanged(step: RehearsalStep, _: Recorded) -> RehearsalStep:
    return step


@dataclass
class _Course:
    request: RehearsalRequest
    plan: RecorderPlan
    folder: BenchFolder
    told: Told
    steps: list[RehearsalStep] = field(default_factory=list)
    search: Search | None = None
    ratio: float = 1.0
    """of frames so far, so that the room of later series is known"""
    unpaced_frames: int = 0
    """of the next unpaced step"""
    guess_hz: float | None = None
    """at which the last unpaced step was written on average, even if it was too short"""
    series: int = 0
    began: float = field(default_factory=time.monotonic)
    started: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def take_all(self, chain: Chain) -> None:
        request = self.request
        self.take(chain, "warm-up", request.rate_hz)
        at_rate = self.take(chain, "rate", request.rate_hz, judged=_to_confirm)
        if at_rate.outcome == "invalid":
            return
        if at_rate.outcome == "not held":
            at_rate = self.take(chain, "rate", request.rate_hz)
        if request.search_s:
            self.take_unpaced(chain)
            self.take_search(chain)
        if request.soak_s and at_rate.outcome == "held":
            self.take(chain, "soak", request.rate_hz)

    def take_unpaced(self, chain: Chain) -> None:
        """Repeats the step with more frames until they are several times what the recorder's memory holds."""
        first = math.ceil(self.request.step_s * self.request.rate_hz / _UNPACED_SHARE)
        self.unpaced_frames = self._fitting(first)
        for left in reversed(range(UNPACED_RUNS_MAX)):
            step = self.take(
                chain,
                "full speed",
                0.0,
                [self.unpaced_frames],
                partial(self._judged_unpaced, may_repeat=left > 0),
            )
            if not step.repeated:
                return

    def _judged_unpaced(self, step: RehearsalStep, recorded: Recorded, *, may_repeat: bool) -> RehearsalStep:
        """Adds why it is repeated with more frames, or why it has no throughput."""
        found = recorded.throughput
        if found is None or step.outcome == "not held":
            return step.model_copy(update={"written_hz": None})
        self.guess_hz = found.average_hz or None
        short = self._too_short(step, found)
        if not short:
            return step
        frames = self._fitting(self._frames_enough(found))
        longest_s = _UNPACED_LONGEST * self.request.step_s
        if may_repeat and frames > 1.5 * found.frames and self._unpaced_s(frames) <= longest_s:
            self.unpaced_frames = frames
            return step.model_copy(
                update={"written_hz": None, "repeated": f"{short}; repeated with more frames"}
            )
        return step.model_copy(
            update={
                "written_hz": None,
                "shortcomings": [*step.shortcomings, f"no unpaced throughput: {short}"],
            }
        )

    def _too_short(self, step: RehearsalStep, found: Throughput) -> str:
        """Returns why an unpaced step says nothing about the throughput; empty: it does."""
        enough_s = self.request.step_s / 2
        if found.steady_hz is None:
            return (
                f"the recorder's memory held {found.held} of {counted(found.frames, 'frame')} when the last"
                " one arrived"
            )
        return f"shorter than {human_seconds(enough_s)}" if step.seconds < enough_s else ""

    def _frames_enough(self, found: Throughput) -> int:
        """Returns the frames of a step that is as long as planned and several times what memory holds.

        How much that is, is not known as long as it took nearly all.
        """
        held = found.held
        if 2 * held > found.frames:
            held = max(held, self.plan.pool_bytes // 2 // self.request.frame_bytes)
        rate_hz = found.steady_hz or found.average_hz
        return math.ceil(max(self.request.step_s * rate_hz, 1.5 * TIMES_HELD * held))

    def _unpaced_s(self, frames: int) -> float:
        """Returns how long an unpaced step of `frames` takes, by the one before."""
        expected_s = frames / self.guess_hz if self.guess_hz else 0.0
        return max(self.request.step_s, expected_s)

    def _fitting(self, frames: int) -> int:
        return max(FRAMES_MIN, min(frames, math.floor(self.request.frames_fitting * self.ratio)))

    def take(
        self,
        chain: Chain,
        kind: RehearsalStepKind,
        rate_hz: float,
        frames: list[int] | None = None,
        judged: Callable[[RehearsalStep, Recorded], RehearsalStep] = _unchanged,
    ) -> RehearsalStep:
        """Makes a step; `judged` adds why it is to be repeated, or what is not known.

        If it ends early, its complete series are a step as well.
        """
        recorded: list[Recorded] = []
        try:
            counts = frames or self.request.series_of(kind, rate_hz, self.ratio)
            self._record_all(chain, kind, rate_hz, counts, recorded)
        except BaseException as error:
            failure = error.message if isinstance(error, ChainFailedError) else ""
            if recorded or failure:
                self._add(self._step_of(kind, rate_hz, recorded, failure))
            raise
        step = self._step_of(kind, rate_hz, recorded)
        self._note_ratio(step)
        step = judged(step, recorded[-1])
        self._add(step)
        if came_since(self.began):  # and the program that it was for had ended
            raise KeyboardInterrupt
        return step

    def _record_all(
        self,
        chain: Chain,
        kind: RehearsalStepKind,
        rate_hz: float,
        counts: list[int],
        recorded: list[Recorded],
    ) -> None:
        """Records series until one is not sustained; `recorded` has those that are complete."""
        for left, count in zip(reversed(range(len(counts))), counts, strict=True):
            recorded.append(self._record(chain, count, rate_hz))
            so_far = self._step_of(kind, rate_hz, recorded)
            if so_far.stopped or so_far.outcome == "not held":
                return
            if left:
                self.told.on_series(self.rehearsal(GOES_ON, so_far))

    def _step_of(
        self, kind: RehearsalStepKind, rate_hz: float, recorded: list[Recorded], failure: str = ""
    ) -> RehearsalStep:
        return step_of(kind, rate_hz, recorded, self.request.buffer_s, failure)

    def _add(self, step: RehearsalStep) -> None:
        self.steps.append(step)
        self.told.on_step(step, self.rehearsal(GOES_ON))

    def _note_ratio(self, step: RehearsalStep) -> None:
        stored, raw = step.total("stored_bytes"), step.total("raw_bytes")
        if stored and raw:
            self.ratio = max(1.0, _RATIO_KEPT * raw / stored)

    def _record(self, chain: Chain, frames: int, rate_hz: float) -> Recorded:
        """Records, checks and removes one series."""
        needed_bytes = math.ceil(frames * self.request.frame_bytes / self.ratio)
        require_room(self.folder.path, needed_bytes, 1, room_advice(self.request))
        self.series += 1
        planned_s = frames / rate_hz if rate_hz else self._unpaced_s(frames)
        series = SeriesRequest(
            name=f"{PREFIX}{self.series:09d}",
            number=self.series,
            frames=frames,
            rate_hz=rate_hz,
            seconds_max=_LONGER_MAX * planned_s + self.request.buffer_s + _SPARE_S,
        )
        watch = Watch(self.folder.path, sampled=False)
        try:
            result = chain.run(series)
            checks = series_checks(
                self.plan,
                self.conditions,
                watch.seen(),
                result.recorded,
                result.others_share,
                direct_refused=chain.direct_refused,
            )
            found = checked(result, self.request.images, rate_hz, self.told.show, self.told.log)
            return replace(found, checks=checks)
        finally:
            self.folder.clear()

    @cached_property
    def conditions(self) -> Conditions:
        return conditions_of(self.folder.path)

    def take_search(self, chain: Chain) -> None:
        request = self.request
        full_hz = self.steps[-1].written_hz
        limits = Limits(
            bottom_hz=request.rate_hz / request.times_max,
            top_hz=request.rate_hz * request.times_max,
            guess_hz=full_hz or self.guess_hz,
            seconds_max=request.search_s,
            step_s=lambda rate_hz: max(request.step_s, FRAMES_MIN / rate_hz) + _SEARCH_STEP_AROUND_S,
        )
        bracket = Bracket()
        for step in self.steps:
            if step.kind == "rate" and step.outcome in ("held", "not held"):
                bracket = bracket.with_outcome(step.rate_hz, "held" if step.outcome == "held" else "not held")
        self._note(bracket, full_hz, limits, "cut short")

        def outcome_at(rate_hz: float) -> StepOutcome | None:
            nonlocal bracket
            outcome: StepOutcome = self.take(chain, "search", rate_hz).outcome
            bracket = bracket.with_outcome(rate_hz, outcome)
            self._note(bracket, full_hz, limits, "cut short")
            return outcome

        found, ended = search(outcome_at, bracket, limits)
        self._note(found, full_hz, limits, ended)

    def _note(self, bracket: Bracket, full_hz: float | None, limits: Limits, ended: SearchEnd) -> None:
        self.search = Search(
            held_hz=bracket.held_hz,
            not_held_hz=bracket.not_held_hz,
            held_runs=bracket.held_runs,
            not_held_runs=bracket.not_held_runs,
            chance_hz=bracket.chance_hz,
            full_speed_hz=full_hz,
            top_hz=limits.top_hz,
            top_reason="asked",
            ended=ended,
        )

    def rehearsal(self, problem: str | None, under_way: RehearsalStep | None = None) -> Rehearsal:
        """Returns the document as far as it is known, with a step that is `under_way`."""
        request = self.request
        steps = self.steps if under_way is None else [*self.steps, under_way]
        ranks = 1 if request.ranks is None else request.ranks.count
        evidence = Evidence(
            needed_hz=request.rate_hz,
            frame_bytes=request.frame_bytes,
            steps=steps,
            search=self.search,
            problem=problem,
            plan=self.plan,
            ranks=ranks,
            sender=request.sender,
        )
        answer, confidence, reasons = answer_of(evidence)
        stages = next((step.stages for step in reversed(evidence.at_rate) if step.stages), [])
        limiting = next((step.stages for step in steps if step.narrowest == evidence.narrowest), stages)
        sustained = evidence.sustained_hz
        stored = sum(step.total("stored_bytes") for step in steps)
        raw = sum(step.total("raw_bytes") for step in steps)
        return Rehearsal(
            version=__version__,
            started=self.started,
            host=platform.node(),
            target=str(self.folder.path.parent),
            file_system=storage_facts(self.folder.path.parent).kind,
            sender=request.sender,
            transport=self.plan.sources[0].kind,
            ranks=ranks,
            images=request.images.words,
            detector=request.name,
            answer=answer,
            confidence=confidence,
            reasons=reasons,
            advice=advice_of(evidence, limiting, answer),
            notes=[*notes_of(request), *step_notes(steps)],
            problem=problem,
            needed_hz=request.rate_hz,
            frame_bytes=request.frame_bytes,
            buffer_s=request.buffer_s,
            sustained_hz=sustained,
            less_than_hz=evidence.less_than_hz,
            factor=None if sustained is None else sustained / request.rate_hz,
            sent=sum(step.total("sent") for step in evidence.at_rate),
            missing=sum(step.total("missing") for step in evidence.at_rate),
            narrowest=evidence.narrowest,
            stages=stages,
            ratio=raw / stored if stored else None,
            storage_alone_bytes_per_s=request.storage_alone_bytes_per_s,
            search=self.search,
            steps=steps,
            configuration=self.plan.without_tokens().model_dump(mode="json"),
            configuration_file=request.configuration_file,
        )
