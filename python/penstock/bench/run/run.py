"""One run: the plan, the load generator, the figures and the checks, in one document."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.data.folder import BenchFolder, FileSet
from penstock.bench.data.images import ImageRequest, suffix_of, template_file
from penstock.bench.judge.checks import frame_checks, stream_checks, validity_of
from penstock.bench.judge.clock import ClockWatch, clock_checks
from penstock.bench.judge.conditions import check_kept, conditions_of, is_memory
from penstock.bench.judge.meanwhile import Watch, check_alone, check_reached
from penstock.bench.option_words import impossible_value
from penstock.bench.statistics.cost import processor_cost
from penstock.bench.statistics.figures import frame_figures, stream_figures
from penstock.model.bench.load import (
    RECORDED_FRAMES_MAX,
    THREAD_BYTES_MAX,
    ContentKind,
    FrameImage,
    FramesPattern,
    FramesWorkload,
    Hdf5Access,
    Hdf5Backend,
    Layout,
    LoadDocument,
    LoadPlan,
    MpiioAccess,
    MpiioBackend,
    NullBackend,
    Order,
    PosixBackend,
    StoreBackend,
    StreamWorkload,
    Sync,
)
from penstock.model.bench.runs import Check, Conditions, Meanwhile, Run
from penstock.model.errors import InterruptedRunError, UsageError
from penstock.model.events import LoadProgress
from penstock.model.units import human_bytes, human_size
from penstock.programs.load import load
from penstock.programs.process import LogLine
from penstock.programs.ranks import Ranks

# What the ceiling is measured with: so many seconds' frames, and these take a fraction of that.
CEILING_S, _CEILING_FRAMES_MIN, _CEILING_FRAMES_MAX = 2.0, 50, 100_000
# Storage whose files are whole pages, with direct I/O; and what the smallest file takes without.
_PAGE = 4096
RATE_MAX_HZ = 1e7
FRAMES_MAX = 10**9
# Segments of 8 MiB fill with as many transfers of 1 MiB.
STORE_QUEUE_DEPTH = 8
# What a store leases of its file at a time: as much as the file needs, within these (store_backend.cpp).
_STORE_LEASE_MIN, _STORE_LEASE_MAX = 16 << 20, 128 << 20
_INTERVALS = 500
_INTERVAL_MIN_S = 0.1


class Access(BaseModel):
    """How the storage is used."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    direct: bool = True
    sync: Sync = "each"
    content: ContentKind = "random"
    content_ratio: float = Field(1.0, ge=1)
    content_file: str = ""
    seed: int = Field(1, ge=0, lt=2**64)
    queue_depth: int | None = Field(None, ge=1, le=1024)  # None: as the back end has it
    store: bool = False  # Penstock's own
    library: MpiioAccess | Hdf5Access | None = None  # None: through the kernel
    null: NullBackend | None = None  # no storage at all

    def written(self) -> dict[str, Any]:
        """What bytes, as a plan has it."""
        return {name: getattr(self, name) for name in ("content", "content_ratio", "content_file", "seed")}

    def files(self, folder: Path) -> PosixBackend | NullBackend:
        """A file a frame or a writer, through the kernel."""
        return self.null or PosixBackend(folder=str(folder), direct=self.direct, sync=self.sync)

    def backend(self, folder: Path) -> NullBackend | PosixBackend | MpiioBackend | Hdf5Backend | StoreBackend:
        if self.null is not None:
            return self.null
        if self.store:
            sync: Literal["none", "end"] = "none" if self.sync == "none" else "end"
            depth = self.queue_depth or STORE_QUEUE_DEPTH
            return StoreBackend(folder=str(folder), direct=self.direct, sync=sync, queue_depth=depth)
        match self.library:
            case MpiioAccess():
                return MpiioBackend(folder=str(folder), sync=self.sync, **self.library.model_dump())
            case Hdf5Access():
                return Hdf5Backend(folder=str(folder), sync=self.sync, **self.library.model_dump())
        depth = self.queue_depth or 1
        return PosixBackend(folder=str(folder), direct=self.direct, sync=self.sync, queue_depth=depth)


class FramesRequest(FramesPattern):
    """A frames workload, as it is asked for."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    seconds: float = Field(gt=0, le=30 * 86400)
    ranks: int = Field(1, ge=1, le=256)
    access: Access
    image: ImageRequest | None = None
    longer: str = ""
    """option that makes the run longer; empty: that of `penstock bench frames`"""

    @property
    def stored_bytes_each(self) -> int:
        """That a frame takes on the storage, in its own file or in that of its writer."""
        page = _PAGE if self.access.direct or self.layout == "file_a_frame" else 1
        return -(-self.frame_bytes // page) * page

    @property
    def bytes(self) -> int:
        """That files take."""
        return 0 if self.access.null is not None else self.frames * self.stored_bytes_each

    @property
    def files(self) -> int:
        if self.access.null is not None:
            return 0
        return self.frames if self.layout == "file_a_frame" else self.writers * self.ranks

    def as_fast_as_it_goes(self, frames: int) -> "FramesRequest":
        """The same pattern without a rate."""
        return self.model_copy(update={"rate_hz": 0.0, "frames": frames})

    def at(self, rate_hz: float, frames: int) -> "FramesRequest":
        """The same pattern at another rate: a buffer of as many frames, and the same limit for late ones.

        A UsageError names the value that is not possible.
        """
        changes = {"rate_hz": rate_hz, "frames": frames, "seconds": frames / rate_hz}
        try:
            return FramesRequest.model_validate(self.model_dump() | changes)
        except ValidationError as error:
            raise usage(error) from error


def frames_request(
    frame_bytes: int,
    rate_hz: float,
    seconds: float,
    writers: int,
    buffer_s: float,
    late_after_s: float | None,
    layout: Layout,
    access: Access,
    ranks: int = 1,
) -> FramesRequest:
    """A UsageError names the value that is not possible. The buffer holds `buffer_s` of frames."""
    period_s = 1 / rate_hz if rate_hz > 0 else 0.0
    try:
        return FramesRequest(
            frame_bytes=frame_bytes,
            rate_hz=rate_hz,
            seconds=seconds,
            frames=max(1, math.ceil(seconds * rate_hz)),
            writers=writers,
            ranks=ranks,
            buffer_frames=max(ranks * (writers + 1), math.ceil(buffer_s * rate_hz)),
            late_after_s=max(period_s, 0.01) if late_after_s is None else late_after_s,
            layout=layout,
            access=access,
        )
    except (ValidationError, OverflowError) as error:
        raise usage(error) from error


def stream_workload(
    threads: int,
    thread_bytes: int,
    transfer_bytes: int,
    read: bool,
    verify: bool,
    seconds_max: float,
    direct: bool,
    shared: bool = False,
    segments: int = 1,
    order: Order = "sequential",
) -> StreamWorkload:
    """A UsageError names the value that is not possible. A thread writes whole transfers in each segment."""
    if direct and transfer_bytes % _PAGE:
        raise UsageError(
            f"transfers of {transfer_bytes} bytes are not possible with direct I/O",
            f"use a multiple of {_PAGE}, or --buffered",
        )
    in_each_segment = max(1, transfer_bytes) * segments
    if in_each_segment > THREAD_BYTES_MAX:
        raise UsageError(
            f"--segments {segments} with a --transfer of {human_size(transfer_bytes)} in each are"
            f" {human_bytes(in_each_segment)} of a thread",
            f"at most {human_size(THREAD_BYTES_MAX)}: fewer --segments",
        )
    try:
        return StreamWorkload(
            threads=threads,
            thread_bytes=-(-thread_bytes // in_each_segment) * in_each_segment,
            transfer_bytes=transfer_bytes,
            shared=shared,
            segments=segments,
            order=order,
            read=read,
            verify=verify and read,
            seconds_max=seconds_max,
        )
    except ValidationError as error:
        raise usage(error) from error


def usage(error: ValidationError | OverflowError) -> UsageError:
    """The first value that is not possible."""
    if isinstance(error, OverflowError):
        return UsageError("--rate, --seconds or --buffer-seconds is not finite", "give finite numbers")
    return impossible_value(error)


@dataclass(frozen=True)
class Telling:
    """Where progress and the load generator's log go."""

    progress: Callable[[LoadProgress], None]
    log: LogLine


def require_possible(request: FramesRequest) -> None:
    """A UsageError where there are fewer frames than ranks."""
    if request.frames < request.ranks:
        raise UsageError(
            f"{request.frames} frames are fewer than {request.ranks} ranks",
            "use more --frames, or fewer --ranks",
        )


def frames_plan(
    request: FramesRequest, backend: PosixBackend | NullBackend, prefix: str, image: FrameImage | None = None
) -> LoadPlan:
    record = request.frames <= RECORDED_FRAMES_MAX
    duration_s = request.frames / request.rate_hz if request.rate_hz else request.seconds
    return LoadPlan(
        backend=backend,
        workload=FramesWorkload(
            **request.model_dump(include=set(FramesPattern.model_fields)), record=record, image=image
        ),
        **request.access.written(),
        prefix=prefix,
        interval_s=max(_INTERVAL_MIN_S, duration_s / _INTERVALS),
    )


def measure_ceiling(
    request: FramesRequest, telling: Telling, image: FrameImage | None = None, team: Ranks | None = None
) -> float | None:
    """Frames a second of the same pattern without storage; None where nothing was written in time."""
    frames = math.ceil(request.rate_hz * CEILING_S)
    least = max(_CEILING_FRAMES_MIN, request.ranks)
    unpaced = request.as_fast_as_it_goes(min(_CEILING_FRAMES_MAX, max(least, frames)))
    plan = frames_plan(unpaced, NullBackend(), "ceiling-", image)
    document = load(plan, telling.progress, telling.log, team)
    if document.interrupted:
        raise InterruptedRunError("interrupted before anything was written")
    if document.frames is None or document.seconds is None:
        return None
    seconds = document.seconds.last_done or 0.0
    return document.frames.written / seconds if seconds else None


def stored_frames_plan(request: FramesRequest, folder: BenchFolder, prefix: str) -> LoadPlan:
    """Of plain frames. Its files are announced."""
    folder.announce(FileSet(prefix=prefix, count=request.files))
    return frames_plan(request, request.access.files(folder.path), prefix)


def run_frames(
    request: FramesRequest, folder: BenchFolder, prefix: str, telling: Telling, team: Ranks | None = None
) -> Run:
    """The run in `folder`, by `team`. With a rate, the generator's ceiling is measured first."""
    if request.files:
        folder.announce(FileSet(prefix=prefix, count=request.files, suffix=suffix_of(request.image)))
    backend = request.access.files(folder.path)
    run = run_frames_on(backend, request, folder.path, prefix, telling, team)
    folder.note_problem(run.document.problem)
    return run


def run_frames_on(
    backend: PosixBackend | NullBackend,
    request: FramesRequest,
    place: Path,
    prefix: str,
    telling: Telling,
    team: Ranks | None = None,
) -> Run:
    """The run on any back end. The conditions are those of the folder `place`."""
    if request.image is None:
        return _run_frames(backend, request, place, prefix, telling, None, team)
    with template_file(request.image) as image:
        return _run_frames(backend, request, place, prefix, telling, image, team)


def _run_frames(
    backend: PosixBackend | NullBackend,
    request: FramesRequest,
    place: Path,
    prefix: str,
    telling: Telling,
    image: FrameImage | None,
    team: Ranks | None,
) -> Run:
    ceiling_hz = measure_ceiling(request, telling, image, team) if request.rate_hz else None
    conditions, watch, clocks = conditions_of(place), Watch(place), ClockWatch()
    document = load(frames_plan(request, backend, prefix, image), telling.progress, telling.log, team)
    meanwhile, clock = watch.seen(), clocks.seen()
    checks = [
        *frame_checks(document, ceiling_hz, is_memory(conditions), conditions.direct_cached, request.longer),
        *storage_checks(document, conditions, meanwhile),
        *clock_checks(clock),
    ]
    return Run(
        workload="frames",
        target=str(place.parent),
        conditions=conditions,
        validity=validity_of(checks),
        checks=checks,
        frames=frame_figures(document),
        cost=processor_cost(document),
        meanwhile=meanwhile,
        clock=clock,
        ceiling_hz=ceiling_hz,
        document=document,
    )


def storage_checks(document: LoadDocument, conditions: Conditions, meanwhile: Meanwhile) -> Iterator[Check]:
    """Of what was written into: that it is a storage, that it was reached, and that nobody else used it."""
    if not isinstance(document.plan.backend, NullBackend):
        yield check_kept(conditions)
        yield from check_reached(meanwhile, document, conditions)
        yield from check_alone(meanwhile, document, conditions.mount_options)


def stream_files(workload: StreamWorkload, access: Access, team: Ranks | None) -> int:
    """How many there will be."""
    if access.null is not None:
        return 0
    if workload.shared or (access.library is not None and access.library.shared):
        return 1
    return workload.threads * (team.count if team is not None else 1)


def stream_bytes(workload: StreamWorkload, access: Access, team: Ranks | None) -> int:
    """That files take at most at once."""
    ranks = team.count if team is not None else 1
    if access.null is not None:
        return 0
    if access.store:  # which leases space ahead, each rank for itself, file by file
        own_bytes = workload.thread_bytes * (workload.threads if workload.shared else 1)
        lease = min(max(own_bytes, _STORE_LEASE_MIN), _STORE_LEASE_MAX)
        return ranks * (workload.bytes + 2 * lease * workload.files)
    return workload.bytes * ranks


def stream_plan(
    workload: StreamWorkload, access: Access, folder: BenchFolder, team: Ranks | None = None
) -> LoadPlan:
    """Its files are announced."""
    prefix = "stream-"
    if files := stream_files(workload, access, team):
        folder.announce(FileSet(prefix=prefix, count=files))
    return LoadPlan(
        backend=access.backend(folder.path),
        workload=workload,
        **access.written(),
        prefix=prefix,
        interval_s=_INTERVAL_MIN_S * 5,
    )


def run_stream(
    workload: StreamWorkload,
    access: Access,
    folder: BenchFolder,
    telling: Telling,
    team: Ranks | None = None,
) -> Run:
    """The run in `folder`, by `team`."""
    plan = stream_plan(workload, access, folder, team)
    conditions, watch, clocks = conditions_of(folder.path), Watch(folder.path), ClockWatch()
    document: LoadDocument = load(plan, telling.progress, telling.log, team)
    folder.note_problem(document.problem)
    meanwhile, clock = watch.seen(), clocks.seen()
    figures = stream_figures(document)
    checks = [
        *stream_checks(
            document, figures, is_memory(conditions), conditions.direct_cached, conditions.own_cache
        ),
        *storage_checks(document, conditions, meanwhile),
        *clock_checks(clock),
    ]
    return Run(
        workload="stream",
        target=str(folder.path.parent),
        conditions=conditions,
        validity=validity_of(checks),
        checks=checks,
        streams=figures,
        cost=processor_cost(document),
        meanwhile=meanwhile,
        clock=clock,
        document=document,
    )
