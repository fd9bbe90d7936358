"""A run of a science's workload: its jobs, what they did together, the checks, the document."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from penstock import __version__
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.checks import (
    FAR_TOO_SHORT_S,
    check_complete,
    check_long_enough,
    machine_checks,
    validity_of,
)
from penstock.bench.judge.clock import ClockWatch, clock_checks
from penstock.bench.judge.conditions import conditions_of
from penstock.bench.judge.meanwhile import watch_of
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.run.run import Telling
from penstock.bench.science.jobs.latencies import together
from penstock.bench.science.jobs.slope import Slope, clipped_slope, whole_slope
from penstock.bench.science.jobs.team import JobOutcome, JobRequest, TeamOutcome, Until, run_jobs
from penstock.bench.science.machine import machine_counters
from penstock.bench.statistics.quantiles import percentiles
from penstock.model.bench.load import LoadDocument, LoadPlan, PosixBackend, RemoteBackend, StorageSaid
from penstock.model.bench.runs import Check, Run
from penstock.model.bench.science import JobFigures, NamedValue, ScienceFigures, ScienceWorkload
from penstock.model.events import LoadProgress
from penstock.model.failure import Failure
from penstock.model.storage_url import Place, StorageUrl


@dataclass(frozen=True)
class Requested:
    """The jobs of a run. `seconds`: None if each works until it is through; see `run_jobs`."""

    unit: str
    jobs: Sequence[JobRequest]
    seconds: float | None
    longer: str
    """option that makes the run longer"""
    until: Until = "all"
    units_total: int = 0
    """units of all jobs, for progress; 0: unknown"""
    patience_s: float = 60.0
    shared_work: bool = False
    """the jobs share a fixed amount of work: what counts is the time until all of it is done"""


@dataclass(frozen=True)
class Found:
    """What a workload makes of its jobs' results: its values, its checks, and what a facility learns."""

    values: list[NamedValue]
    checks: list[Check]
    findings: list[str] = field(default_factory=list)
    interrupted: bool = False
    """by Ctrl-C, while the results were checked"""


Judge = Callable[[TeamOutcome, Slope], Found]


@dataclass(frozen=True)
class Measured:
    """What a measurement says: figures, checks of its own, and whether it ended early."""

    figures: ScienceFigures
    checks: list[Check]
    interrupted: bool
    problem: str | None
    failure: Failure | None = None


class Watching:
    """What is noted around a measurement. Use as a context manager around it; `run` makes the document."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._conditions, self._watch = conditions_of(folder.path), watch_of(folder.path)
        self._clocks = ClockWatch()
        self._started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._before = machine_counters()

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, value, trace)

    def run(self, workload: ScienceWorkload, measured: Measured, place: Place | None = None) -> Run:
        """The document. `place` is what is measured, if not the run's folder."""
        meanwhile, clock = self._watch.seen(), self._clocks.seen()
        document = LoadDocument(
            format="penstock-load 1",
            program=f"penstock {__version__}",
            plan=LoadPlan(backend=_backend(place or self._folder.path), workload=workload),
            started=self._started,
            interrupted=measured.interrupted,
            problem=None if measured.interrupted else measured.problem,
            failure=None if measured.interrupted else measured.failure,
            storage=StorageSaid(direct=False),
            machine={"before": self._before, "after": machine_counters()},
        )
        checks = [
            check_complete(document),
            *measured.checks,
            *machine_checks(document, measured.figures.seconds),
            *clock_checks(clock),
        ]
        return Run(
            workload=workload.name,
            target=str(self._folder.path.parent),
            conditions=self._conditions,
            validity=validity_of(checks),
            checks=checks,
            science=measured.figures,
            meanwhile=meanwhile,
            clock=clock,
            document=document,
        )


def run_science(
    workload: ScienceWorkload,
    folder: RunFolder,
    requested: Requested,
    judge: Judge,
    telling: Telling,
    place: Place | None = None,
) -> Run:
    """Runs the jobs and makes the document of the run. `place` is what is measured, if not `folder`.

    Raises PenstockError if a job does not start. One that ends early makes the run invalid, and is named.
    """

    def on_units(units: int, seconds: float) -> None:
        telling.progress(_progress(requested, units, seconds))

    telling.begins()
    with Watching(folder) as watching:
        outcome = run_jobs(requested.jobs, requested.seconds, requested.until, on_units, requested.patience_s)
    courses = [job.course for job in outcome.jobs]
    slope = whole_slope(courses, outcome.go_ns) if requested.shared_work else clipped_slope(courses)
    found = judge(outcome, slope)
    if outcome.interrupted and slope.seconds < FAR_TOO_SHORT_S:
        found = Found([], [check for check in found.checks if check.outcome == "failed"])
    checks = [*found.checks, *_checks_of_time(requested, outcome, slope)]
    figures = figures_of(requested.unit, outcome, slope, found)
    interrupted = outcome.interrupted or found.interrupted
    measured = Measured(figures, checks, interrupted, outcome.problem, outcome.failure)
    return watching.run(workload, measured, place)


def _progress(requested: Requested, units: int, seconds: float) -> LoadProgress:
    return LoadProgress(
        event="progress",
        phase=requested.unit,
        unit="operations",
        done=units,
        total=requested.units_total,
        seconds=seconds,
        seconds_left=max(0.0, requested.seconds - seconds) if requested.seconds else None,
    )


def _backend(place: Place) -> PosixBackend | RemoteBackend:
    if isinstance(place, StorageUrl):
        return RemoteBackend(url=str(place))
    return PosixBackend(folder=str(place), direct=False, sync="end")


def figures_of(unit: str, outcome: TeamOutcome, slope: Slope, found: Found) -> ScienceFigures:
    spent: Counter[str] = Counter()
    ended = [job.ended for job in outcome.jobs if job.ended is not None]
    for each in ended:
        spent.update(each.spent_s)
    calls = together(each.latencies for each in ended)
    return ScienceFigures(
        unit=unit,
        units=round(slope.units),
        seconds=slope.seconds,
        per_s=slope.per_s,
        received_bytes_per_s=slope.received_bytes_per_s,
        values=found.values,
        spent_s=dict(spent),
        call_ms=percentiles(calls) if calls.count else None,
        jobs=[_of_job(job, outcome.go_ns) for job in outcome.jobs],
        findings=found.findings,
    )


def _of_job(job: JobOutcome, go_ns: int) -> JobFigures:
    last = job.reports[-1] if job.reports else None
    counted: dict[str, Any] = {"units": 0, "asked_bytes": 0, "received_bytes": 0, "calls": 0}
    if last is not None:
        counted = {name: getattr(last, name) for name in counted}
    return JobFigures(
        job=job.number,
        place=job.place,
        seconds=max(0.0, (last.at_ns - go_ns) * 1e-9) if last is not None else 0.0,
        problem=job.problem,
        **counted,
    )


def _checks_of_time(requested: Requested, outcome: TeamOutcome, slope: Slope) -> list[Check]:
    if outcome.interrupted:  # who ended the run knows why it is short
        return _checks_of_interrupted(slope)
    checks = [check_long_enough(slope.seconds, requested.longer)]
    return checks if requested.shared_work else [*checks, _check_together(outcome, slope)]


def _checks_of_interrupted(slope: Slope) -> list[Check]:
    if slope.seconds < FAR_TOO_SHORT_S:
        return []
    check = check_long_enough(slope.seconds, "")
    advice = "let the run end by itself" if check.advice else ""
    return [check.model_copy(update={"advice": advice})]


_TOGETHER_SHARE = 0.8


def _check_together(outcome: TeamOutcome, slope: Slope) -> Check:
    """Of a time in which some jobs are not at work, the slope leaves out more than it should."""
    share = slope.seconds / outcome.seconds if outcome.seconds > 0 else 0.0
    return make_check(
        "jobs work together",
        "ok" if share >= _TOGETHER_SHARE else "warning",
        f"all jobs work for at least {100 * _TOGETHER_SHARE:.0f} % of the time",
        f"{100 * share:.0f} %",
        "either",
        "give each job as much work, or more seconds",
    )
