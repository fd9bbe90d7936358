"""One run of the sort: the survey is made or found, sorted, and the result compared with it."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.bench.data.folder import BenchFolder, FileSet, RoomAdvice, require_room
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.run.run import Telling
from penstock.bench.science.data.prepare import DataSet, prepared
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import JobRequest, TeamOutcome, run_jobs
from penstock.bench.science.run import Found, Requested, run_science
from penstock.bench.science.seismic.plan import SortPlan
from penstock.bench.science.seismic.survey import Survey
from penstock.bench.science.seismic.tier import Tier, require_tier, tier_of
from penstock.bench.science.seismic.work import survey_spec
from penstock.bench.science.storage.open import require_libraries
from penstock.model.bench.runs import Check, CheckOutcome, Run
from penstock.model.bench.science import NamedValue, ScienceWorkload
from penstock.model.storage_url import mounted
from penstock.model.units import human_bytes, human_number, human_seconds

WORK = "penstock.bench.science.seismic.work"
_GAIN = 1.1
_SCRATCH = RoomAdvice("the sort", "reduce --size", "use more --memory, which makes fewer runs")


@dataclass(frozen=True)
class SortRequest:
    survey: Survey
    plan: SortPlan
    scratch: str | None
    workload: ScienceWorkload


def require_scratch(request: SortRequest) -> None:
    """Raises UsageError if the sort cannot write its runs there."""
    if request.scratch is not None:
        require_tier(request.scratch)


def run_sort(request: SortRequest, folder: RunFolder, telling: Telling, work: str = WORK) -> Run:
    """`work`: the module with the functions of the jobs."""
    target = mounted(folder.path, "seismic-sort")
    require_libraries("the check of a sorted file", "segyio")
    tier = tier_of(request.scratch) if request.scratch is not None else None
    if tier is not None:
        require_room(tier.path, request.survey.bytes, request.plan.runs, _SCRATCH)
    runs = FileSet(prefix="run-", count=request.plan.runs, suffix="bin")
    folder.announce(runs)
    folder.announce(FileSet(prefix="sorted-", count=2, suffix="sgy"))
    with ExitStack() as stack:
        data = stack.enter_context(prepared(target.parent, survey_spec(request.survey), telling.log))
        tiers = [target]
        if tier is not None:
            second = BenchFolder.make(tier.path, needed_bytes=request.survey.bytes)
            stack.enter_context(second).announce(runs)
            tiers = in_random_order([target, second.path], request.survey.seed)
        return _run(_Sorted(request, data, target, tier, work), tiers, folder, telling)


def in_random_order(tiers: list[Path], seed: int) -> list[Path]:
    """Drawn for each run, whose directory has a new name: what comes second may find caches full."""
    return random.Random(f"{seed} {tiers[0].name}").sample(tiers, len(tiers))


@dataclass(frozen=True)
class _Sorted:
    """What is sorted, and where."""

    request: SortRequest
    data: DataSet
    target: Path
    tier: Tier | None
    work: str

    @property
    def common(self) -> dict[str, Any]:
        source = f"{self.data.place}/{self.data.files[0].name}"
        return {"survey": asdict(self.request.survey), "source": source}


def _run(what: _Sorted, tiers: list[Path], folder: RunFolder, telling: Telling) -> Run:
    plan = what.request.plan
    parameters = what.common | {"memory": plan.memory_bytes, "tiers": [str(each) for each in tiers]}
    requested = Requested(
        unit="traces written",
        jobs=[JobRequest(f"{what.work}:sort", what.target, parameters)],
        seconds=None,
        longer="--size",
        units_total=2 * plan.traces * len(tiers),
    )
    return run_science(
        what.request.workload,
        folder,
        requested,
        lambda outcome, _slope: _judged(what, outcome, _slope),
        telling,
    )


def _judged(what: _Sorted, outcome: TeamOutcome, _slope: Slope) -> Found:
    ended = outcome.jobs[0].ended
    result = ended.result if ended is not None else {}
    sorts = result.get("sorts", [])
    if outcome.problem or not sorts:
        return Found([], [])
    problem = None if outcome.interrupted else _problem(what, len(sorts))
    checks = [
        _check_traces(problem),
        _check_memory(result["peak"] - result["base"], what.request.plan),
        _check_runs(what.request.plan),
        _check_storage(all(each["direct"] for each in sorts)),
    ]
    of_tiers = {each["tier"]: each for each in sorts}
    plain = of_tiers.pop(str(what.target), None)
    values = [] if plain is None else list(_values(what.request, plain, result))
    findings = []
    if what.tier is not None and plain is not None and of_tiers:
        (there,) = of_tiers.values()
        gained = list(_gain(what.request, plain, there, what.tier))
        values += gained
        findings = _findings(gained, what.tier)
    return Found(values, checks, findings, interrupted=problem is None)


def _problem(what: _Sorted, count: int) -> str | None:
    """Of the sorted files; "" if they have all traces in order, None after Ctrl-C."""
    parameters = what.common | {"truth": what.data.files[0].truth, "sorted": count}
    outcome = run_jobs([JobRequest(f"{WORK}:verify", what.target, parameters)], keeps=False)
    if outcome.interrupted:
        return None
    ended = outcome.jobs[0].ended
    if outcome.problem or ended is None:
        return f"not verified: {outcome.problem}"
    return next((each for each in ended.result["problems"] if each), "")


def _check_traces(problem: str | None) -> Check:
    name, expected = "traces sorted", "each trace unchanged and in order of CDP and offset, also for segyio"
    if problem is None:
        advice = "let the run end by itself"
        return make_check(name, "warning", expected, "not verified: interrupted", "either", advice)
    advice = "check the storage: it returned other traces than were written"
    outcome: CheckOutcome = "failed" if problem else "ok"
    return make_check(name, outcome, expected, problem or "all traces", advice=advice)


def _check_memory(used: int, plan: SortPlan) -> Check:
    return make_check(
        "memory bound held",
        "ok" if used <= plan.memory_bytes else "failed",
        f"at most {human_bytes(plan.memory_bytes)} more than the program itself",
        human_bytes(used),
        "better",
        "use more --memory, or fewer --samples",
    )


def _check_runs(plan: SortPlan) -> Check:
    return make_check(
        "larger than memory",
        "ok" if plan.runs > 1 else "warning",
        "at least 2 sorted runs",
        str(plan.runs),
        "better",
        "increase --size, or reduce --memory: one run is sorted in memory",
    )


def _check_storage(is_direct: bool) -> Check:
    return make_check(
        "storage, not the page cache",
        "ok" if is_direct else "warning",
        "direct I/O",
        "direct I/O" if is_direct else "through the page cache; files were synced, and dropped from it",
        "better",
        "the file system refuses direct I/O: use a --size above the memory of this machine",
    )


def _seconds(sort: dict[str, Any]) -> float:
    return float(sort["runs_s"] + sort["merge_s"])


def _values(request: SortRequest, sort: dict[str, Any], result: dict[str, Any]) -> Iterator[NamedValue]:
    seconds = _seconds(sort)
    yield NamedValue(name="traces", value=request.survey.traces / seconds, unit="1/s", better="higher")
    yield NamedValue(name="throughput", value=request.survey.bytes / seconds, unit="B/s", better="higher")
    yield NamedValue(name="run generation", value=sort["runs_s"], unit="s", better="lower")
    yield NamedValue(name="merge", value=sort["merge_s"], unit="s", better="lower")
    yield NamedValue(name="peak memory", value=result["peak"] - result["base"], unit="B", better="lower")


def _gain(
    request: SortRequest, of_target: dict[str, Any], of_tier: dict[str, Any], tier: Tier
) -> Iterator[NamedValue]:
    plain, there = _seconds(of_target), _seconds(of_tier)
    survey = request.survey
    yield NamedValue(name="traces (scratch)", value=survey.traces / there, unit="1/s", better="higher")
    yield NamedValue(name="throughput (scratch)", value=survey.bytes / there, unit="B/s", better="higher")
    yield NamedValue(name="gain", value=plain / there, unit="factor", better="higher")
    if tier.up_s is not None:
        with_it = plain / (there + tier.up_s)
        yield NamedValue(name="gain with bring-up", value=with_it, unit="factor", better=None)


def _findings(gained: list[NamedValue], tier: Tier) -> list[str]:
    """Where the tier changes the time by more than a single run leaves open."""
    factors = {each.name: each.value for each in gained if each.unit == "factor"}
    gain = factors["gain"]
    if 1 / _GAIN < gain < _GAIN:
        return []
    word = f"{human_number(gain)} times as fast" if gain > 1 else f"{human_number(1 / gain)} times slower"
    said = f"with its runs on the scratch storage the sort is {word}"
    if tier.up_s is not None:
        counted = human_number(factors["gain with bring-up"])
        said += f"; bringing that up takes {human_seconds(tier.up_s)}, and with it the factor is {counted}"
    return [said]
