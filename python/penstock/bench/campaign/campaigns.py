"""Plans a campaign, and runs what is not done of it yet."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from penstock.bench.campaign.cells import Cell, run_inside
from penstock.bench.campaign.faults import scaled_schedules
from penstock.bench.campaign.places import Places
from penstock.bench.campaign.view_checks import require_known, require_told_apart, require_yielded
from penstock.bench.data.folder import RoomAdvice, require_room, require_writable
from penstock.bench.judge.conditions import conditions_of, conditions_of_machine
from penstock.bench.option_words import LIMITS, as_parameters
from penstock.bench.run.jobs import Job, NetworkJob
from penstock.bench.run.parameters import WorkloadParameters
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import WORKLOADS, parameters_of
from penstock.bench.statistics.profile import profiled
from penstock.lab.storage import storage_at
from penstock.model.bench.campaign_files import CASES_MAX, REFERENCE, CampaignFile
from penstock.model.bench.campaigns import FAULTS, Campaign, Case, CaseFailure, CaseRun, Parameter, Target
from penstock.model.bench.runs import Run
from penstock.model.errors import InterruptedRunError, PenstockError, UsageError
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.text import counted
from penstock.model.units import human_number

# What is taken for storage that nobody has measured yet, and for what a run takes beside its load.
GUESSED_BYTES_PER_S = 1e9
_START_S = 0.5
_ROOM = RoomAdvice("the largest run", "reduce --scale", "reduce --scale")


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign, with or without runs in it, and how each of its cases is run."""

    campaign: Campaign
    jobs: dict[str, Job | NetworkJob]  # by the case's name
    parameters: dict[str, WorkloadParameters] = dataclasses.field(default_factory=dict)
    """of the jobs, for a process that makes them again; empty for jobs of a command"""

    def with_runs_of(self, campaign: Campaign) -> "CampaignPlan":
        return CampaignPlan(campaign, self.jobs, self.parameters)

    def bytes_at_once(self) -> int:
        return max(job.bytes for job in self.jobs.values())

    def bytes_left(self) -> int:
        """That files of the runs to come take, one after the other."""
        return sum(self.jobs[case.name].bytes for _, case in left_of(self.campaign))

    def seconds_left(self) -> float:
        """At least where the rate is given, and as a guess where storage is unpaced."""
        runs = sum(estimate_s(self.jobs[case.name]) for _, case in left_of(self.campaign))
        return runs if self.campaign.runs else runs + self._making_s()

    def _making_s(self) -> float:
        """Of data sets: on each target, the largest of its cases."""
        longest = max((job.making_s for job in self.jobs.values() if isinstance(job, Job)), default=0.0)
        return longest * max(1, len(self.campaign.targets))


def estimate_s(job: Job | NetworkJob) -> float:
    return _START_S + job.paced_s + job.moved_bytes / GUESSED_BYTES_PER_S


def order_of(seed: int, block: int, cases: int) -> list[int]:
    """The order of the cases in one block. It depends on nothing else: blocks can be added and left out.

    Every second block goes the way of the one before it back: what a run leaves behind for the next one (a
    full cache, a busy device) meets both of two cases as often, and not by chance one of them in all of few
    blocks.
    """
    drawn = numpy.random.default_rng([seed, block - block % 2]).permutation(cases)
    return [int(number) for number in (drawn if block % 2 == 0 else drawn[::-1])]


def left_of(campaign: Campaign) -> Iterator[tuple[int, Case]]:
    """Block and case of each run that does not exist yet, in their order."""
    done = campaign.done
    for block in range(campaign.blocks):
        for case in _ordered(campaign, block):
            if (block, case.name) not in done:
                yield block, case


def _ordered(campaign: Campaign, block: int) -> list[Case]:
    """Of one block. With laboratories, those of one target follow each other: one is up at a time."""
    cases = [campaign.cases[number] for number in order_of(campaign.seed, block, len(campaign.cases))]
    if any(target.laboratory for target in campaign.targets):
        first = {case.target: place for place, case in reversed(list(enumerate(cases)))}
        cases.sort(key=lambda case: first[case.target])
    return cases


def plan_campaign(
    name: str,
    file: CampaignFile,
    targets: Sequence[Target],
    seed: int,
    blocks: int | None = None,
    scale: float | None = None,
) -> CampaignPlan:
    """Every case of `file` on every target. A UsageError names the case and the value that is wrong."""
    factor = file.scale if scale is None else scale
    points = list(file.points())
    require_known(file, points)
    if len(points) * len(targets) > CASES_MAX:
        raise UsageError(
            f"{counted(len(points), 'case')} on {counted(len(targets), 'target')} exceed the"
            f" maximum of {CASES_MAX}",
            "name fewer targets",
        )
    planned = [_planned(name, file, point, factor) for point in points]
    require_yielded(file, planned)
    schedules = scaled_schedules(file, factor)
    cases, jobs, parameters_of_jobs = [], {}, {}
    for target in targets:
        for point, parameters in zip(points, planned, strict=True):
            shown = _shown(parameters, point, factor)
            case = Case(name=_name_of(shown, target, targets), target=target.name, parameters=shown)
            if case.name in jobs:
                raise UsageError(
                    f"the case {case.name} is defined twice in the campaign", "remove one of them"
                )
            cases.append(case)
            jobs[case.name], parameters_of_jobs[case.name] = parameters.job(), parameters
    campaign = Campaign(
        name=name,
        title=file.title,
        reproduces=file.reproduces,
        departures=[*file.departures, *_departures(file, points, planned, factor)],
        workload=file.workload,
        parameters=_shown(planned[0], file.parameters, factor),
        scale=factor,
        targets=list(targets),
        profile=file.profile,
        schedules=schedules,
        views=file.views,
        seed=seed,
        blocks=file.blocks if blocks is None else blocks,
        cases=cases,
        runs=[],
    )
    require_told_apart(campaign)
    return CampaignPlan(campaign, jobs, parameters_of_jobs)


def plan_repetitions(job: Job, target: Place, repetitions: int) -> CampaignPlan:
    """A campaign that repeats one case."""
    place = Target(name=str(target), path=str(target.absolute() if isinstance(target, Path) else target))
    campaign = Campaign(
        name=job.workload,
        title=f"{job.workload} on {target}, {repetitions} times",
        workload=job.workload,
        targets=[place],
        seed=0,
        blocks=repetitions,
        cases=[Case(name=job.workload, target=place.name)],
        runs=[],
    )
    return CampaignPlan(campaign, {job.workload: job})


def _planned(name: str, file: CampaignFile, point: dict[str, Parameter], factor: float) -> WorkloadParameters:
    """The parameters of one case, tried out: a case that is not possible is found before the first run."""
    try:
        parameters = _parameters(file, point).scaled(factor)
        parameters.job()
    except UsageError as error:
        where = ", ".join(f"{key} {value}" for key, value in point.items())
        known = WORKLOADS[file.workload].model_fields if file.workload in WORKLOADS else ()
        message, remedy = (as_parameters(text, known) for text in (error.message, error.remedy))
        raise UsageError(
            f"{name}: the case {where or 'of the campaign'}: {message}",
            f"{REFERENCE} has all parameters" if remedy == LIMITS else remedy,
        ) from error
    return parameters


def _parameters(file: CampaignFile, point: dict[str, Parameter]) -> WorkloadParameters:
    """Of the workload. Faults of servers come from the campaign."""
    all_ = file.parameters | point
    return parameters_of(file.workload, {name: all_[name] for name in all_ if name != FAULTS})


def _shown(
    parameters: WorkloadParameters, described: dict[str, Parameter], factor: float
) -> dict[str, Parameter]:
    """As described, but for what the scale changes."""
    scaled = parameters.SCALED if factor != 1 else ()
    return {key: parameters.shown(key) if key in scaled else value for key, value in described.items()}


def _name_of(shown: dict[str, Parameter], target: Target, targets: Sequence[Target]) -> str:
    said = {True: "yes", False: "no"}
    parts = [f"{key}={said[value] if isinstance(value, bool) else value}" for key, value in shown.items()]
    if len(targets) > 1 or not parts:
        parts.append(f"target={target.name}")
    return " ".join(parts)


def _departures(
    file: CampaignFile, points: list[dict[str, Parameter]], planned: list[WorkloadParameters], factor: float
) -> list[str]:
    """What the scale does to what the file describes, a sentence a parameter."""
    sentences = []
    for key in planned[0].SCALED if factor != 1 else ():
        before = [_parameters(file, point) for point in points]
        found = {(each.shown(key), after.shown(key)) for each, after in zip(before, planned, strict=True)}
        changed = sorted(
            f"{_short(was)} became {_short(now)}" for was, now in found if now is not None and was != now
        )
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            sentences.append(f"scaled by {factor:g}: {key} of {', '.join(changed[:3])}{more}")
    return sentences


def _short(value: Parameter) -> str:
    return human_number(value, 6) if isinstance(value, float) else str(value)


def require_targets(plan: CampaignPlan) -> None:
    """Every folder is there, and has room for the largest of its cases; addresses are tried by the runs.

    What the runs require besides is there, too.
    """
    for job in plan.jobs.values():
        if isinstance(job, Job):
            job.require()
    for target in plan.campaign.folders:
        path = storage_at(target.path)
        if isinstance(path, StorageUrl):
            continue
        require_writable(path)
        jobs = [plan.jobs[case.name] for case in plan.campaign.cases if case.target == target.name]
        require_room(path, max(job.bytes for job in jobs), max(job.files for job in jobs), _ROOM)


def resumed(plan: CampaignPlan, document: Campaign, name: str = "the document") -> CampaignPlan:
    """Returns the campaign of `document`, a file of that name, with the blocks of `plan`.

    Raises UsageError with the difference if it is another campaign.
    """
    wanted = plan.campaign
    if wanted.targets != document.targets:
        there, here = (", ".join(map(_target_text, each.targets)) for each in (document, wanted))
        raise UsageError(
            f"--target: {name} was measured on {there}, not on {here}",
            "repeat the original --target, or name a new --output",
        )
    for field in ("name", "workload", "seed", "scale", "profile", "parameters", "schedules", "cases"):
        mine, theirs = getattr(wanted, field), getattr(document, field)
        if mine != theirs:
            raise UsageError(
                f"{name} belongs to another campaign: its {field} {_difference(theirs, mine)}",
                "resume with the same description, targets, --scale and --seed, or name a new --output",
            )
    started = max((block for block, _ in document.done), default=-1) + 1
    if wanted.blocks < started:
        raise UsageError(
            f"the document has {counted(started, 'block')} already, which exceeds {wanted.blocks}",
            f"--blocks {started}, or more",
        )
    return plan.with_runs_of(wanted.model_copy(update={"runs": document.runs, "failures": document.failures}))


def _target_text(target: Target) -> str:
    """Returns the target as --target names it."""
    if target.laboratory:
        return f"{target.system or target.name}=lab:{target.laboratory}"
    servers = f",servers={target.servers}" if target.servers is not None else ""
    local = f",local={target.local}" if target.local else ""
    return f"{target.system or target.name}={target.path}{servers}{local}"


def _difference(theirs: object, mine: object) -> str:
    if not isinstance(theirs, list) or not isinstance(mine, list):
        return f"is {theirs!r}, and not {mine!r}"
    if len(theirs) != len(mine):
        return f"are {len(theirs)}, and not {len(mine)}"
    there, here = next(pair for pair in zip(theirs, mine, strict=True) if pair[0] != pair[1])
    return f"differ: {there!r} there, {here!r} here"


def strange_conditions(campaign: Campaign) -> list[str]:
    """In what this machine and its targets differ from those of the runs in the document, a sentence each."""
    sentences = []
    folders = {target.name for target in campaign.folders}
    cases = {case.name: case.target for case in campaign.cases}
    for target in campaign.targets:
        of_target = (each.run for each in campaign.runs if cases[each.case] == target.name)
        before = next((run.conditions for run in of_target), None)
        if before is None or target.laboratory:
            continue
        now = conditions_of(storage_at(target.path)) if target.name in folders else conditions_of_machine()
        for name in (
            "host",
            "kernel",
            "processors",
            "file_system",
            "mount_source",
            "mount_options",
            "versions",
        ):
            then, here = getattr(before, name), getattr(now, name)
            if then != here:
                sentences.append(f"{target.name}: {name} was {then}, and is {here}")
    return sentences


@dataclass(frozen=True)
class Standing:
    """How far a campaign is, when a run begins."""

    done: int
    total: int
    block: int
    case: str
    seconds_left: float


@dataclass(frozen=True)
class CampaignTelling:
    """Receivers of a campaign's progress."""

    standing: Callable[[Standing], None]
    trouble: Callable[[str], None]
    save: Callable[[Campaign], None]  # after each run
    load: Telling


def run_campaign(plan: CampaignPlan, notify: CampaignTelling) -> Campaign:
    """All runs that are not there yet. Interrupted where somebody ends it; what is done then was saved."""
    campaign, pace = plan.campaign, _Pace(plan)
    with Places() as places:
        for block, case in list(left_of(campaign)):
            done = len(campaign.done)
            notify.standing(
                Standing(done, len(campaign.cases) * campaign.blocks, block, case.name, pace.left_s())
            )
            begun = time.monotonic()
            made = _run_case(plan, case, block, places, notify)
            field = "runs" if isinstance(made, CaseRun) else "failures"
            campaign = campaign.model_copy(update={field: [*getattr(campaign, field), made]})
            notify.save(campaign)
            pace.passed(plan.jobs[case.name], time.monotonic() - begun)
    return campaign


def _run_case(
    plan: CampaignPlan, case: Case, block: int, places: Places, notify: CampaignTelling
) -> CaseRun | CaseFailure:
    """A failed run is written down."""
    target = next(each for each in plan.campaign.targets if each.name == case.target)
    job, profile = plan.jobs[case.name], plan.campaign.profile
    try:
        if isinstance(job, NetworkJob):
            run = profiled(profile, lambda: job.run(target.path, notify.load), notify.trouble)
        else:
            run = _run_at(plan, case, places, target, job, notify)
    except InterruptedRunError:
        raise
    except (PenstockError, OSError) as error:
        notify.trouble(f"{case.name}: {error}")
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return CaseFailure(case=case.name, block=block, problem=str(error), when=when)
    _end_where_interrupted(run)
    return CaseRun(case=case.name, block=block, run=run)


def _run_at(
    plan: CampaignPlan, case: Case, places: Places, target: Target, job: Job, notify: CampaignTelling
) -> Run:
    """Where the mount point of a laboratory is visible only inside, a process in it makes the run."""
    path, inside = places.path_of(target), places.inside_of(target)
    laboratory, faults = places.laboratory_of(target), plan.campaign.faults_of(case)
    cell = Cell(job, path, laboratory, faults, plan.campaign.profile)

    def trouble(text: str) -> None:
        notify.trouble(f"{case.name}: {text}")

    if not inside:
        return cell.run(notify.load, trouble)
    parameters = plan.parameters[case.name]
    return run_inside(inside, cell, plan.campaign.workload, parameters, notify.load, trouble)


def _end_where_interrupted(run: Run) -> None:
    """A run that ended early does not count: it is repeated."""
    if run.document.interrupted:
        raise InterruptedRunError("the campaign was interrupted")


class _Pace:
    """How long the rest takes, by how long the runs took that are done."""

    def __init__(self, plan: CampaignPlan) -> None:
        self._left_s = plan.seconds_left()
        self._estimated_s = 0.0
        self._passed_s = 0.0

    def passed(self, job: Job | NetworkJob, seconds: float) -> None:
        self._left_s = max(0.0, self._left_s - estimate_s(job))
        self._estimated_s += estimate_s(job)
        self._passed_s += seconds

    def left_s(self) -> float:
        slower = self._passed_s / self._estimated_s if self._estimated_s else 1.0
        return self._left_s * (slower if math.isfinite(slower) else 1.0)
