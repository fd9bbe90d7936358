"""Faults of a laboratory's servers beside the runs of a campaign."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.degraded.figures import fault_figures
from penstock.bench.degraded.schedule import FaultSchedule
from penstock.bench.degraded.stored import stored_frames
from penstock.bench.judge.checks import validity_of
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.lab.control import state_of
from penstock.lab.laboratory import failures_max
from penstock.lab.place import place_of
from penstock.lab.storage import name_of_laboratory
from penstock.lab.systems.all import system_named
from penstock.lab.targets import request_of
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Campaign, Target
from penstock.model.bench.fault_schedules import Fault
from penstock.model.bench.runs import Check, Run
from penstock.model.errors import UsageError
from penstock.model.events import LoadProgress
from penstock.model.units import human_seconds


def scaled_schedules(file: CampaignFile, factor: float) -> dict[str, list[Fault]]:
    """Stretches the times of all schedules by the scale of the campaign."""
    return {
        name: [each.model_copy(update={"at_s": round(each.at_s * factor, 6)}) for each in faults]
        for name, faults in file.schedules.items()
    }


@dataclass(frozen=True)
class _Servers:
    """What the laboratory of a target has, or will have."""

    title: str
    count: int
    redundant: bool
    system: str
    on_devices: bool


def require_faults(campaign: Campaign, due_s: Mapping[str, float | None]) -> None:
    """Raises UsageError for a schedule that is not possible on its target, or longer than its run.

    `due_s`: for each case the time in which frames become due; None: not known.
    """
    for case in campaign.cases:
        faults, target = campaign.faults_of(case), campaign.target_of(case)
        if not faults:
            continue
        if campaign.workload == "network" or target is None:
            raise UsageError("`schedules` require a workload that stores", "remove `schedules`")
        if campaign.workload == "acquire-and-analyse":
            raise UsageError(
                "`schedules` are not possible with acquire-and-analyse, whose runs are several recordings",
                "use the workload frames with `beside`, or `penstock lab degrade`",
            )
        servers = _servers_of(target)
        for fault in faults:
            _require_possible(target, servers, fault)
        seconds = due_s.get(case.name)
        if seconds is not None and faults[-1].at_s >= seconds:
            raise UsageError(
                f"the case {case.name}: at_s {faults[-1].at_s:g} comes after the last frame, which is due at"
                f" {human_seconds(seconds)}",
                "increase `seconds`, or move the faults forward",
            )


def _servers_of(target: Target) -> _Servers:
    if target.laboratory:
        request = request_of(target.laboratory, "campaign")
        kind = system_named(request.system)
        on_devices = request.disks.startswith("loop") or kind.DISK == "device"
        return _Servers(kind.TITLE, request.servers, failures_max(request) > 0, kind.NAME, on_devices)
    name = name_of_laboratory(target.path)
    if not name:
        raise UsageError(
            f"`schedules` are possible on laboratories only, and {target.path} is none",
            "use --target lab:SYSTEM, such as lab:moosefs,servers=3",
        )
    state = state_of(place_of(name))
    count = sum(node.name.startswith("server") for node in state.nodes)
    return _Servers(state.title, count, state.failures_max > 0, state.system, on_devices=True)


def _require_possible(target: Target, servers: _Servers, fault: Fault) -> None:
    where = f"--target {target.name}: the fault at {fault.at_s:g} s: "
    kind = system_named(servers.system)
    if (fault.fault == "fail" and not kind.can_fail()) or (fault.fault == "stall" and not kind.has_daemons()):
        raise UsageError(
            f"{where}{servers.title} has no servers that could {fault.fault}", "use `slow` with `disk`"
        )
    if fault.server > servers.count:
        raise UsageError(
            f"{where}{servers.title} has no server {fault.server}",
            f"use a `server` from 1 to {servers.count}" if servers.count > 1 else "use `server: 1`",
        )
    if fault.fault == "fail" and not servers.redundant:
        raise UsageError(
            f"{where}{servers.title} has no second copy of the data on server {fault.server}",
            "use more servers or copies, or `stall`, which loses nothing",
        )
    if fault.disk is not None and not servers.on_devices:
        raise UsageError(f"{where}`disk` requires a loop device", "add disks=loop:SIZE, or use `link`")


@dataclass(frozen=True)
class FaultsOfRun:
    laboratory: str
    faults: list[Fault]

    def run(self, job: Job, folder: RunFolder, telling: Telling, say: Callable[[str], None]) -> Run:
        """The run, with the faults beside it; afterwards all servers are up again."""
        if not self.faults:
            return job.run(folder, telling)
        schedule = FaultSchedule(self.laboratory, self.faults, say)
        start = _Start(schedule)
        with schedule.never_left_failed():
            run = job.run(folder, replace(telling, begins=start.begins, progress=start.noting(telling)))
            if not run.document.interrupted:
                schedule.finish()
        run = _with_figures(run, schedule, start.zero, len(self.faults))
        if isinstance(folder.path, Path):
            run = run.model_copy(update={"stored": stored_frames(run.document, folder.path)})
        return run


class _Start:
    """Lets the schedule begin with the first progress of the load that is measured."""

    def __init__(self, schedule: FaultSchedule) -> None:
        self._schedule, self._measured = schedule, False
        self.zero = time.monotonic()

    def begins(self) -> None:
        self._measured = True

    def noting(self, telling: Telling) -> Callable[[LoadProgress], None]:
        def note(progress: LoadProgress) -> None:
            if self._measured:
                self._measured = False
                self.zero = time.monotonic() - progress.seconds
                self._schedule.begin(self.zero)
            telling.progress(progress)

        return note


def _with_figures(run: Run, schedule: FaultSchedule, zero: float, planned: int) -> Run:
    ends = sum(each.ended is not None for each in schedule.found)
    done = len(schedule.found) + ends
    problem = schedule.problem or ("the run was over before" if done < planned else "")
    check = Check(
        name="all faults took place",
        outcome="failed" if problem else "ok",
        expected=f"{planned} events of the schedule",
        actual=f"{done}{f': {problem}' if problem else ''}",
        bias="better",
        advice="" if not problem else "make the run longer, or look at `penstock lab logs`",
    )
    checks = [*run.checks, check]
    return run.model_copy(
        update={
            "checks": checks,
            "validity": validity_of(checks),
            "faults": fault_figures(run.document, zero, schedule.found),
        }
    )
