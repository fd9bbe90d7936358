"""One run of the buffer, and what its processes found."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock.bench.data.folder import FileSet
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.run.run import Telling
from penstock.bench.science.jobs.team import JobRequest, TeamOutcome
from penstock.bench.science.run import Found, Requested, run_science
from penstock.bench.science.uvbuffer.buffer import Buffer
from penstock.bench.science.uvbuffer.limits import (
    CAPACITY,
    LISTING,
    SUSTAINED_SHARE,
    Kind,
    Limits,
    Needed,
    Role,
    limits_of,
    needed_by,
)
from penstock.model.bench.runs import Check, Run
from penstock.model.bench.science import NamedValue, ScienceUnit, ScienceWorkload
from penstock.model.storage_url import mounted
from penstock.model.units import human_bytes, human_number, human_percent, human_rate

WORK = "penstock.bench.science.uvbuffer.work"
_WORKERS: dict[Role, str] = {"write": "writers", "read": "readers", "delete": "the deleter"}
_OWN_SHARE = 0.5
_LATE_SHARE = 0.01


@dataclass(frozen=True)
class BufferRequest:
    buffer: Buffer
    seed: int
    workload: ScienceWorkload


def run_buffer(request: BufferRequest, folder: RunFolder, telling: Telling, work: str = WORK) -> Run:
    """`work`: the module with the functions of the jobs."""
    buffer, target = request.buffer, mounted(folder.path, "uvbuffer")
    folder.announce(FileSet(prefix="uv-", count=buffer.snapshots * buffer.files, suffix="vis"))
    common = {"buffer": asdict(buffer), "seed": request.seed}
    roles = [*_numbered("write", buffer.writers), *_numbered("read", buffer.readers), ("delete", 0)]
    requested = Requested(
        unit="files written, read or deleted",
        jobs=[JobRequest(f"{work}:{role}", target, common | {"number": number}) for role, number in roles],
        seconds=buffer.seconds,
        longer="--seconds",
        patience_s=buffer.seconds + 60.0,
    )
    return run_science(
        request.workload,
        folder,
        requested,
        lambda outcome, _slope: _judged(request, target, outcome),
        telling,
    )


def _numbered(role: str, count: int) -> list[tuple[str, int]]:
    return [(role, number) for number in range(count)]


def _judged(request: BufferRequest, target: Path, outcome: TeamOutcome) -> Found:
    results = [job.ended.result for job in outcome.jobs if job.ended is not None]
    buffer = request.buffer
    if outcome.interrupted:
        buffer = replace(buffer, seconds=min(buffer.seconds, outcome.seconds))
    if outcome.problem or buffer.seconds <= buffer.life_s:
        return Found([], [])
    limits = limits_of(buffer, results)
    checks = [
        _check_content(results),
        _check_own_work(limits),
        _check_storage(all(each["direct"] for each in results)),
        _check_locks(all(each["locks"] for each in results)),
    ]
    capacity = _capacity(target)
    needed = needed_by(limits, capacity)
    values = [*_values(limits, results), *_needed(needed), *_facts(results)]
    return Found(values, checks, [*_findings(limits), *full_case(needed, capacity), *_gone(results)])


def _capacity(target: Path) -> int:
    room = os.statvfs(target)
    return room.f_blocks * room.f_frsize


def _check_content(results: list[dict[str, Any]]) -> Check:
    problems = [problem for each in results for problem in each["problems"]]
    wrong = sum(each["wrong"] for each in results)
    more = f"; {wrong} in all" if wrong > 1 else ""
    return make_check(
        "content",
        "failed" if wrong else "ok",
        "each file has the visibilities of its snapshot and channels",
        f"{problems[0]}{more}" if problems else "all that was read",
        advice="check the storage: it returned other bytes than were written",
    )


def _check_own_work(limits: Limits) -> Check:
    """A process that has no time left because of what it does itself says nothing about the storage."""
    is_limit = limits.own_share > _OWN_SHARE and not limits.is_sustained
    return make_check(
        "storage is the limit",
        "warning" if is_limit else "ok",
        f"jobs that are late spend at most {100 * _OWN_SHARE:.0f} % of their time on their own work",
        human_percent(limits.own_share),
        "worse",
        "use more --writers and --readers, more processors, or a smaller --file-size",
    )


def _check_storage(is_direct: bool) -> Check:
    return make_check(
        "storage, not the page cache",
        "ok" if is_direct else "warning",
        "direct I/O",
        "direct I/O" if is_direct else "through the page cache; a file is dropped from it when it was read",
        "better",
        "the file system refuses direct I/O: what this machine wrote it may read from memory",
    )


def _check_locks(has_locks: bool) -> Check:
    return make_check(
        "closing is seen",
        "ok" if has_locks else "warning",
        "a writer's lock shows whether a file is open",
        "by its lock" if has_locks else "the file system has no locks; the size of a file shows it",
        advice="mount the file system with locks (Lustre: -o flock)",
    )


def _values(limits: Limits, results: list[dict[str, Any]]) -> Iterator[NamedValue]:
    yield NamedValue(name="sustained", value=limits.sustained, unit="share", better="higher")
    for kind in limits.kinds:
        unit: ScienceUnit = "B/s" if kind.is_bytes else "1/s"
        yield NamedValue(name=kind.name, value=kind.done_per_s, unit=unit, better="higher")
    for kind in limits.kinds:
        yield NamedValue(name=f"{kind.name} share", value=kind.share, unit="share", better="higher")
    done = sum(each["counts"].get("done", 0) for each in results)
    late = sum(each["late"] for each in results) / max(1, done)
    yield NamedValue(name="late", value=late, unit="share", better="lower")
    yield NamedValue(name="headroom", value=limits.headroom, unit="factor", better="higher")


def _needed(needed: Needed) -> Iterator[NamedValue]:
    if needed.most < float("inf"):
        yield NamedValue(name="storages needed", value=needed.most, unit="count", better="lower")
    for name, count in needed.by_name.items():
        if count < float("inf"):
            yield NamedValue(name=f"storages for {name}", value=count, unit="count", better=None)


def _facts(results: list[dict[str, Any]]) -> Iterator[NamedValue]:
    files = max(each.get("files", 0) for each in results)
    yield NamedValue(name="files at once", value=files, unit="count", better=None)
    signals = sorted(each for result in results for each in result.get("signals_ms", []))
    if signals:
        yield NamedValue(name="signal", value=signals[len(signals) // 2], unit="ms", better=None)


def _findings(limits: Limits) -> Iterator[str]:
    first = limits.first
    if limits.is_sustained:
        yield (
            f"the storage sustains the load; if the load grows and the number of jobs does not, the first"
            f" limit is {first.name}, at about {human_number(limits.headroom, 2)} times this load"
        )
    else:
        yield (
            f"the first limit is {first.name}: {_rate(first, first.done_per_s)} were reached and"
            f" {_rate(first, first.target_per_s)} were due ({human_percent(first.share)}; a load is sustained"
            f" from {human_percent(SUSTAINED_SHARE)} on); {_WORKERS[first.role]} spent"
            f" {human_percent(first.busy)} of the time on it"
        )


def full_case(needed: Needed, capacity_bytes: int) -> Iterator[str]:
    if needed.most == float("inf"):
        return
    each = f"the {needed.decides} of this run"
    if needed.decides == CAPACITY:
        each = f"a capacity of {human_bytes(capacity_bytes)} as this one"
    yield (
        f"the full case (7 TB/s written, 10^8 files in 12 h) takes {human_number(needed.most)} such storages,"
        f" each with {each}, if they share the work evenly; {needed.decides} decides"
    )


def _gone(results: list[dict[str, Any]]) -> Iterator[str]:
    gone = sum(each["counts"].get("gone", 0) for each in results)
    if gone:
        yield f"{gone} reads came after the file's life had ended"


def _rate(kind: Kind, per_s: float) -> str:
    if kind.is_bytes:
        return human_rate(per_s)
    return f"{human_number(per_s)}{' deletes' if kind.name == LISTING else ''}/s"
