"""One run of a workload, ready remaining, and what it takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.checks import schedule_s
from penstock.bench.run.by_protocol import require_by_protocol
from penstock.bench.run.metadata import bytes_at_once, metadata_plan, names_at_once, run_metadata
from penstock.bench.run.run import (
    Access,
    FramesRequest,
    Telling,
    run_frames,
    run_stream,
    stored_frames_plan,
    stream_bytes,
    stream_files,
    stream_plan,
)
from penstock.model.bench.load import LoadPlan, MetadataWorkload, StreamWorkload
from penstock.model.bench.runs import Run
from penstock.programs.ranks import Ranks

# Of a load that is repeated beside a run.
_BESIDE = "beside-"


@dataclass(frozen=True)
class Job:
    """One run, ready remaining, and what it takes."""

    workload: str
    bytes: int  # that its files take
    files: int
    paced_s: float  # how long it takes at least, whatever the storage does
    moved_bytes: int  # as fast as the storage goes
    run: Callable[[RunFolder, Telling], Run]
    # What one process of the load generator does in a folder, to be repeated; None: it cannot be.
    plan: Callable[[RunFolder], LoadPlan] | None = None
    # In which frames become due, as the check of its length counts it; None: as fast as the storage goes.
    due_s: float | None = None
    # Of a phase as fast as the storage goes; 0: there is none, or it moves names and no bytes.
    phase_bytes: int = 0
    # Whether its data set stays in the target, for runs to come; how long it takes to make, about.
    data_stays: bool = False
    making_s: float = 0.0
    # Raises UsageError for what the run requires besides its target, and that is not there.
    require: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class NetworkJob:
    """One run that stores nothing; `run` takes where the other end is: HOST:PORT, or LOCAL."""

    paced_s: float
    run: Callable[[str, Telling], Run]
    bytes: ClassVar[int] = 0
    files: ClassVar[int] = 0
    moved_bytes: ClassVar[int] = 0


# Instead of an address: the other end is a second process on this machine.
LOCAL = "local"


def _able(
    folder: RunFolder,
    asked: FramesRequest | StreamWorkload | MetadataWorkload,
    access: Access,
    team: Ranks | None,
) -> RunFolder:
    """The folder, if its protocol can do what is asked of it. Raises UsageError."""
    require_by_protocol(folder.path, asked, access, team)
    return folder


def frames_job(request: FramesRequest, team: Ranks | None = None) -> Job:
    paced_s = request.frames / request.rate_hz if request.rate_hz else 0.0
    # Names of files that are measured are renamed, and hidden until then in others.
    is_plain = team is None and request.image is None and not request.rename and request.access.null is None
    return Job(
        workload="frames",
        bytes=request.bytes,
        files=request.files,
        paced_s=paced_s,
        moved_bytes=0 if request.rate_hz else request.bytes,
        run=lambda folder, telling: run_frames(
            request, _able(folder, request, request.access, team), "frame-", telling, team
        ),
        plan=(lambda folder: stored_frames_plan(request, folder, _BESIDE)) if is_plain else None,
        due_s=_due_s(request) if request.rate_hz else None,
        phase_bytes=0 if request.rate_hz else request.bytes,
    )


def _due_s(request: FramesRequest) -> float:
    """A run lasts until its last frame is done, which may be as soon as it is due."""
    return max(schedule_s(request.frames, request.rate_hz), (request.frames - 1) / request.rate_hz)


def stream_job(workload: StreamWorkload, access: Access, team: Ranks | None = None) -> Job:
    size = stream_bytes(workload, access, team)
    moved = workload.bytes * (team.count if team is not None else 1)
    is_plain = team is None and access.library is None and not access.store and access.null is None
    return Job(
        workload="stream",
        bytes=size,
        files=stream_files(workload, access, team),
        paced_s=0.0,
        moved_bytes=moved * (2 if workload.read else 1),
        run=lambda folder, telling: run_stream(
            workload, access, _able(folder, workload, access, team), telling, team
        ),
        plan=(lambda folder: stream_plan(workload, access, folder)) if is_plain else None,
        phase_bytes=moved,
    )


def metadata_job(workload: MetadataWorkload, access: Access, team: Ranks | None = None) -> Job:
    ranks = team.count if team is not None else 1
    size = bytes_at_once(workload, ranks)
    is_plain = team is None and workload.remove
    return Job(
        workload="metadata",
        bytes=size,
        files=names_at_once(workload, ranks),
        paced_s=0.0,
        moved_bytes=size * workload.iterations,
        run=lambda folder, telling: run_metadata(
            workload, access, _able(folder, workload, access, team), telling, team
        ),
        plan=(lambda folder: metadata_plan(workload, access, folder, _BESIDE)) if is_plain else None,
    )
