"""Records at a detector's rate beside more and more jobs, and says which number of them is too many."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock.bench.data.folder import BenchFolder, FileSet, usable
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.rehearse.chain import Chain, SeriesRequest
from penstock.bench.rehearse.checked import checked
from penstock.bench.rehearse.outcome import step_of
from penstock.bench.rehearse.request import RehearsalRequest
from penstock.bench.rehearse.sources import rehearsal_plan
from penstock.bench.run.run import Telling
from penstock.bench.science.acquire.parameters import names_of
from penstock.bench.science.acquire.search import JobsFound, find_jobs
from penstock.bench.science.jobs.beside import JobsBeside
from penstock.bench.science.jobs.slope import Slope, clipped_slope
from penstock.bench.science.jobs.team import JobRequest, TeamOutcome, run_jobs
from penstock.bench.science.run import Found, Measured, Watching, figures_of
from penstock.lab.clients import through_client
from penstock.model.bench.rehearsals import RehearsalStep
from penstock.model.bench.runs import Check, Run
from penstock.model.bench.science import NamedValue, ScienceFigures, ScienceName
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import Event, LoadProgress
from penstock.model.storage_url import Place
from penstock.model.text import counted
from penstock.model.units import human_number, human_seconds

if TYPE_CHECKING:
    from penstock.bench.science.acquire.parameters import AcquireParameters

NAME: ScienceName = "acquire-and-analyse"
PREFIX, OLDER = "acquire-", "older-000000000.h5"
_READERS = "penstock.bench.science.acquire.readers"
_FILES_MAX = 100
_LONGER_MAX, _SPARE_S = 1.5, 3.0
_JOBS_PATIENCE_S = 60.0
_UNCHANGED = 0.05
_NOBODY = TeamOutcome([], 0, 0.0, interrupted=False)


@dataclass(frozen=True)
class Step:
    """One recording, and the jobs beside it."""

    jobs: int
    recorded: RehearsalStep
    beside: TeamOutcome
    slope: Slope

    @property
    def held(self) -> bool:
        return self.recorded.outcome == "held"

    @property
    def delay_s(self) -> float | None:
        """Of the frame that was written latest after it was due."""
        return None if self.recorded.delays is None else self.recorded.delays.written_max_s


@dataclass
class _Course:
    parameters: "AcquireParameters"
    request: RehearsalRequest
    folder: BenchFolder
    telling: Telling
    steps: list[Step] = field(default_factory=list)
    alone: Slope | None = None
    """of as many jobs as were sustained, without a recording"""
    problem: str | None = None
    interrupted: bool = False

    def take_all(self, chain: Chain) -> JobsFound:
        found = JobsFound()
        try:
            find_jobs(lambda jobs: self._holds(chain, jobs), self.parameters.jobs_max, found)
            if found.held and self.parameters.read == "older":
                self.alone = self._alone(found.held)
        except KeyboardInterrupt:
            self.interrupted = True
        except PenstockError as error:
            self.problem = str(error)
        return found

    def _alone(self, jobs: int) -> Slope:
        outcome = run_jobs(self._jobs(jobs, OLDER), self.parameters.seconds)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.problem is not None:
            raise PenstockError(f"without a recording, {outcome.problem}")
        return clipped_slope([job.course for job in outcome.jobs])

    def _holds(self, chain: Chain, jobs: int) -> bool:
        step = self._step(chain, jobs)
        self.steps.append(step)
        if step.beside.problem is not None:
            raise PenstockError(step.beside.problem)
        if step.recorded.outcome == "invalid":
            raise PenstockError("; ".join(step.recorded.shortcomings))
        said = "sustained" if step.held else "not sustained: " + "; ".join(step.recorded.shortcomings)
        self.telling.log(f"{counted(jobs, 'job')}: {said}")
        return step.held

    def _step(self, chain: Chain, jobs: int) -> Step:
        number = len(self.steps) + 1
        (frames,) = self.request.series_of("rate", self.request.rate_hz, 1.0)
        series = SeriesRequest(
            name=f"{PREFIX}{number:09d}",
            number=number,
            frames=frames,
            rate_hz=self.request.rate_hz,
            seconds_max=_LONGER_MAX * frames / self.request.rate_hz + self.request.buffer_s + _SPARE_S,
        )
        name = OLDER if self.parameters.read == "older" else f"{series.name}.h5"
        beside = JobsBeside(self._jobs(jobs, name), _JOBS_PATIENCE_S)
        with beside:
            result = chain.run(series)
        recorded = checked(result, self.request.images, self.request.rate_hz, self._show, self.telling.log)
        self._put_away(result.file)
        outcome = beside.outcome or _NOBODY
        return Step(
            jobs,
            step_of("rate", self.request.rate_hz, [recorded], self.request.buffer_s),
            outcome,
            _while_sending(outcome, result.sending),
        )

    def _put_away(self, file: Path) -> None:
        """The first recording is the older one of the later steps."""
        older = self.folder.path / OLDER
        if not older.exists():
            file.rename(older)
        else:
            file.unlink()

    def _jobs(self, count: int, name: str) -> list[JobRequest]:
        function = f"{_READERS}:{self.parameters.read}"
        # The recorder is the process before them: the first job reads through another client than it wrote.
        places = [through_client(self.folder.path, 1 + number) for number in range(count)]
        return [JobRequest(function, place, {"name": name, "jobs": count}) for place in places]

    def _show(self, event: Event) -> None:
        if isinstance(event, LoadProgress):
            self.telling.progress(event)


def _while_sending(outcome: TeamOutcome, sending: tuple[float, float] | None) -> Slope:
    """The jobs also read before the sender starts, and until the recorder has closed its file."""
    begin, end = sending or (0.0, 0.0)
    between_ns = round(begin * 1e9), round(end * 1e9)
    return clipped_slope([job.course for job in outcome.jobs], between_ns)


def run_acquire(
    parameters: "AcquireParameters", request: RehearsalRequest, folder: RunFolder, telling: Telling
) -> Run:
    """Raises PenstockError if the recorder does not start."""
    if not isinstance(folder, BenchFolder):
        raise UsageError(
            f"{NAME} requires a mounted file system, and {folder.path} is a URL", "name a directory"
        )
    plan = rehearsal_plan(request, folder.path, os.environ)
    for prefix in (PREFIX, OLDER.partition("-")[0] + "-"):
        folder.announce(FileSet(prefix=prefix, count=_FILES_MAX, suffix="h5", parts=True))
    course = _Course(parameters, request, folder, telling)
    watching = Watching(folder)
    with (
        watching,
        usable(folder.path.parent),
        Chain(request, plan, course._show, telling.log) as chain,
    ):
        found = course.take_all(chain)
    measured = Measured(
        _figures(course, found), list(_checks(course, found)), course.interrupted, course.problem
    )
    place: Place = folder.path
    return watching.run(parameters.workload(NAME, max(1, found.held or 0)), measured, place)


def _at(course: _Course, jobs: int | None) -> list[Step]:
    return [step for step in course.steps if step.jobs == jobs]


def _delay_s(steps: list[Step]) -> float | None:
    """The worst of runs with the same number of jobs."""
    known = [step.delay_s for step in steps if step.delay_s is not None]
    return max(known, default=None)


def _typical(steps: list[Step]) -> Step | None:
    """The one with the median rate; of an even number of steps, the lower of two."""
    ordered = sorted(steps, key=lambda step: step.slope.per_s)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _figures(course: _Course, found: JobsFound) -> ScienceFigures:
    typical = _typical(_at(course, found.held))
    said = Found(list(_values(course, found, typical)), [], list(_findings(course, found, typical)))
    outcome, slope = _NOBODY, Slope(0, 0.0, 0.0, 0.0)
    if typical is not None:
        outcome, slope = typical.beside, typical.slope
    return figures_of("frames", outcome, slope, said)


def _values(course: _Course, found: JobsFound, typical: Step | None) -> Iterator[NamedValue]:
    if found.held is not None:
        yield NamedValue(name="jobs", value=found.held, unit="count", better="higher")
    for name, jobs in (("delay alone", 0), ("delay beside", found.held)):
        delay_s = _delay_s(_at(course, jobs))
        if delay_s is not None:
            yield NamedValue(name=name, value=delay_s, unit="s", better="lower")
    if typical is not None and typical.jobs:
        yield NamedValue(name="jobs beside", value=typical.slope.per_s, unit="1/s", better="higher")
        if course.alone is not None and course.alone.per_s > 0:
            share = typical.slope.per_s / course.alone.per_s
            yield NamedValue(name="jobs alone", value=course.alone.per_s, unit="1/s", better=None)
            yield NamedValue(name="share of the jobs' rate", value=share, unit="share", better=None)
    for jobs in sorted({step.jobs for step in course.steps} - {0}):
        yield from _values_of(_at(course, jobs), *names_of(jobs))


def _values_of(steps: list[Step], delay: str, rate: str) -> Iterator[NamedValue]:
    """What one job more costs is the difference between two numbers of jobs."""
    delay_s, typical = _delay_s(steps), _typical(steps)
    if delay_s is not None:
        yield NamedValue(name=delay, value=delay_s, unit="s", better=None)
    if typical is not None:
        yield NamedValue(name=rate, value=typical.slope.per_s, unit="1/s", better=None)


def _findings(course: _Course, found: JobsFound, typical: Step | None) -> Iterator[str]:
    for jobs in sorted({step.jobs for step in course.steps}):
        steps = _at(course, jobs)
        delay_s = _delay_s(steps)
        written = "" if delay_s is None else f", frames written at most {human_seconds(delay_s)} after due"
        outcomes = "; ".join(dict.fromkeys(word for step in steps for word in step.recorded.shortcomings))
        said = "sustained" if all(step.held for step in steps) else f"not sustained ({outcomes})"
        yield f"{counted(jobs, 'job')}, {counted(len(steps), 'recording')}: {said}{written}"
    if found.failed is None and found.held == course.parameters.jobs_max:
        yield f"no number of jobs up to {course.parameters.jobs_max} was too many"
    if typical is not None and typical.jobs and course.alone is not None and course.alone.per_s > 0:
        share = typical.slope.per_s / course.alone.per_s
        if share < 1 - _UNCHANGED:
            cost, those = human_number(100 * (1 - share), 2), counted(typical.jobs, "job")
            yield f"the recording costs {those} {cost} % of {'its' if typical.jobs == 1 else 'their'} rate"


def _checks(course: _Course, found: JobsFound) -> Iterator[Check]:
    alone = _at(course, 0)
    words = "; ".join(dict.fromkeys(word for step in alone for word in step.recorded.shortcomings))
    if alone:
        yield _check_alone(found, words)
    if not course.interrupted:
        yield _check_repeated(found)
    if any(step.held and step.jobs for step in course.steps):
        yield _check_work(course)
    if _has_read(course.steps):
        yield _check_reads(course)


def _check_alone(found: JobsFound, words: str) -> Check:
    return make_check(
        "sustained without jobs",
        "ok" if found.held is not None else "failed",
        "no frame is lost or late without jobs",
        words or "sustained",
        "either",
        "run `penstock rehearse`, which names the stage that is the limit",
    )


def _check_repeated(found: JobsFound) -> Check:
    return make_check(
        "both ends repeated",
        "ok" if found.is_confirmed else "warning",
        "the largest sustained number of jobs and the smallest other one ran twice",
        counted(len(found.runs), "recording"),
        "either",
        "run again; the outcome was different each time, or the run ended early",
    )


def _has_read(steps: list[Step]) -> bool:
    """Whether a job has a result that can be compared."""
    ended = [job.ended for step in steps for job in step.beside.jobs]
    return any(each is not None and each.result.get("checksums") for each in ended)


def _check_reads(course: _Course) -> Check:
    wrong = list(wrong_reads([step.beside for step in course.steps], course.parameters.read))
    return make_check(
        "jobs read what was recorded",
        "failed" if wrong else "ok",
        "the same checksum of a frame by each job",
        "; ".join(wrong) or "the same",
        "either",
        "check the storage: reads gave different data",
    )


def _check_work(course: _Course) -> Check:
    """A number of jobs that the recording sustains says nothing if they read nothing."""
    beside = [step.beside for step in course.steps if step.held and step.jobs]
    idle = [idle_jobs(outcome) for outcome in beside]
    without = any(count == len(outcome.jobs) for count, outcome in zip(idle, beside, strict=True))
    return make_check(
        "jobs were at work",
        "failed" if without else "warning" if any(idle) else "ok",
        "each job reads frames beside each recording that is sustained",
        f"{counted(max(idle, default=0), 'job')} read nothing" if any(idle) else "all did",
        "better",
        "use more --seconds, or a higher --rate",
    )


def idle_jobs(outcome: TeamOutcome) -> int:
    """Number of jobs that read no frame."""
    return sum(not job.reports or not job.reports[-1].units for job in outcome.jobs)


def wrong_reads(outcomes: Iterable[TeamOutcome], read: Literal["older", "growing"]) -> Iterator[str]:
    """Frames that differ between jobs, or between reads of one job. Each growing file has others."""
    checksums: dict[str, int] = {}
    for outcome in outcomes:
        if read == "growing":
            checksums = {}
        for job in outcome.jobs:
            result = job.ended.result if job.ended is not None else {}
            if result.get("different"):
                yield f"job {job.number} read {counted(result['different'], 'frame')} differently"
            of_job = result.get("checksums", {}).items()
            different = [number for number, each in of_job if checksums.setdefault(number, each) != each]
            if different:
                yield f"job {job.number} read frame {different[0]} differently from another job"
