"""One run: the plan, the load generator, the figures and the checks, in one document."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.data.folder import FileSet
from penstock.bench.data.images import ImageRequest, suffix_of, template_file
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.checks import frame_checks, stream_checks, validity_of
from penstock.bench.judge.clock import ClockWatch, clock_checks
from penstock.bench.judge.conditions import check_kept, conditions_of, is_memory
from penstock.bench.judge.meanwhile import check_alone, check_reached, watch_of
from penstock.bench.option_words import impossible_value
from penstock.bench.statistics.cost import processor_cost
from penstock.bench.statistics.figures import frame_figures, stream_figures
from penstock.lab.clients import folders_of_ranks, require_other_readers
from penstock.lab.storage import start_at
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
    RemoteBackend,
    StoreBackend,
    StreamWorkload,
    Sync,
)
from penstock.model.bench.made import Made
from penstock.model.bench.runs import Check, Clock, Conditions, Meanwhile, Run
from penstock.model.errors import InterruptedRunError, UsageError
from penstock.model.events import LoadProgress
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_size, size_at_least
from penstock.programs.load import load
from penstock.programs.process import LogLine
from penstock.programs.ranks import Ranks

# What the ceiling is measured with: so many seconds' frames, and these take a fraction of that.
CEILING_S, _CEILING_FRAMES_MIN, _CEILING_FRAMES_MAX = 2.0, 50, 100_000
# Storage whose files are whole pages, with direct I/O; and what the smallest file takes without.
_PAGE = 4096
RATE_MAX_HZ = 1e7
FRAMES_MAX = 10**9
# A ring may have a quarter of its frames more, which wait for their removal (native/load/workloads/ring.hpp).
_RING_WAITING = 4
# Segments of 8 MiB fill with as many transfers of 1 MiB.
STORE_QUEUE_DEPTH = 8
# What a store leases of its file at a time: as much as the file needs, within these (store_backend.cpp).
_STORE_LEASE_MIN, _STORE_LEASE_MAX = 16 << 20, 128 << 20
_INTERVALS = 500
_INTERVAL_MIN_S = 0.1


FilesBackend = PosixBackend | NullBackend | RemoteBackend


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

    def files(self, folder: Place) -> FilesBackend:
        """A file a frame or a writer, through the kernel or by the server's protocol."""
        if self.null is not None:
            return self.null
        if isinstance(folder, StorageUrl):
            return RemoteBackend(url=str(folder), sync=self.sync)
        return PosixBackend(folder=str(folder), direct=self.direct, sync=self.sync)

    def backend(
        self, folder: Place
    ) -> NullBackend | PosixBackend | MpiioBackend | Hdf5Backend | StoreBackend | RemoteBackend:
        if self.null is not None or isinstance(folder, StorageUrl):
            return self.files(folder)
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
    unpaced_s_max: float = Field(0.0, ge=0)
    """after which an unpaced run ends with fewer frames; 0: no limit"""
    longer: str = ""
    """option that makes the run longer; empty: that of `penstock bench frames`"""

    @property
    def stored_bytes_each(self) -> int:
        """That a frame takes on the storage, in its own file or in that of its writer."""
        page = _PAGE if self.access.direct or self.layout == "file_a_frame" else 1
        return -(-self.frame_bytes // page) * page

    @property
    def bytes(self) -> int:
        """That files take at once."""
        return 0 if self.access.null is not None else self.frames_at_once * self.stored_bytes_each

    @property
    def frames_at_once(self) -> int:
        """On the storage; with a ring, files that wait for their removal among them."""
        if not self.ring_frames:
            return self.frames
        waiting = self.ring_frames // _RING_WAITING
        return min(self.frames, self.ring_frames + waiting + 2 * self.writers * self.ranks)

    @property
    def files(self) -> int:
        """At once."""
        if self.access.null is not None:
            return 0
        return self.frames_at_once if self.layout == "file_a_frame" else 3 * self.writers * self.ranks

    @property
    def file_names(self) -> int:
        """That the run uses, one after the other."""
        if self.layout == "file_a_frame":
            return self.frames
        writers = self.writers * self.ranks
        if not self.ring_frames:
            return writers
        # As frames_a_file() in native/load/workloads/frames.cpp.
        in_file = max(1, self.ring_frames // (2 * writers))
        return writers * -(-self.frames // in_file)

    def within(self, space_bytes: int) -> "FramesRequest":
        """The same run in a ring, where its files would take more than `space_bytes`.

        A UsageError where not even the frames that are written at once have room.
        """
        if self.access.null is not None or self.frames * self.stored_bytes_each <= space_bytes:
            return self
        writers = self.writers * self.ranks
        frames = space_bytes // self.stored_bytes_each
        ring = (frames - 2 * writers) * _RING_WAITING // (_RING_WAITING + 1)
        if ring < 2 * writers:
            raise UsageError(
                f"--space {human_size(space_bytes)} is too small for frames of"
                f" {human_size(self.frame_bytes)} and {counted(writers, 'writer')}",
                f"use at least --space {size_at_least(self.ring_bytes_min).replace(' ', '')}",
            )
        return self.model_copy(update={"ring_frames": ring})

    @property
    def ring_bytes_min(self) -> int:
        """The least space that a ring needs."""
        return 5 * self.writers * self.ranks * self.stored_bytes_each

    def as_fast_as_it_goes(self, frames: int) -> "FramesRequest":
        """The same pattern without a rate."""
        return self.model_copy(update={"rate_hz": 0.0, "frames": frames, "ring_frames": 0})

    def at(self, rate_hz: float, frames: int) -> "FramesRequest":
        """The same pattern at another rate: a buffer of as many frames, and the same limit for late ones.

        A UsageError names the value that is not possible.
        """
        changes = {"rate_hz": rate_hz, "frames": frames, "seconds": frames / rate_hz, "ring_frames": 0}
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
    begins: Callable[[], None] = lambda: None
    """called just before the load that is measured starts; progress before it is of preparations"""
    made: Callable[[Made | None], None] = lambda _: None
    """called with what the load that is measured created"""

    def about(self, folder: RunFolder, prefix: str) -> "Telling":
        """The same, and the folder hears what is created in it."""
        return replace(self, made=partial(folder.note_made, prefix))


def require_possible(request: FramesRequest) -> None:
    """A UsageError where there are fewer frames than ranks."""
    if request.frames < request.ranks:
        raise UsageError(
            f"{counted(request.frames, 'frame')} are fewer than {counted(request.ranks, 'rank')}",
            "use more --frames, or fewer --ranks",
        )


def frames_plan(
    request: FramesRequest,
    backend: FilesBackend,
    prefix: str,
    image: FrameImage | None = None,
    team: Ranks | None = None,
) -> LoadPlan:
    record = request.frames <= RECORDED_FRAMES_MAX
    duration_s = request.frames / request.rate_hz if request.rate_hz else request.seconds
    ring = {"ring_frames": 0} if isinstance(backend, NullBackend) else {}
    return LoadPlan(
        backend=backend,
        workload=FramesWorkload(
            **(request.model_dump(include=set(FramesPattern.model_fields)) | ring),
            seconds_max=request.unpaced_s_max,
            record=record,
            image=image,
        ),
        **request.access.written(),
        prefix=prefix,
        interval_s=max(_INTERVAL_MIN_S, duration_s / _INTERVALS),
        folders=folders_of_ranks(Path(backend.folder), team) if isinstance(backend, PosixBackend) else [],
    )


def measure_ceiling(
    request: FramesRequest, place: Place, telling: Telling, image: FrameImage | None, team: Ranks | None
) -> float | None:
    """Frames a second of the same pattern without storage; None where nothing was written in time."""
    frames = math.ceil(request.rate_hz * CEILING_S)
    least = max(_CEILING_FRAMES_MIN, request.ranks)
    unpaced = request.as_fast_as_it_goes(min(_CEILING_FRAMES_MAX, max(least, frames)))
    plan = frames_plan(unpaced, NullBackend(), "ceiling-", image)
    document = load(plan, telling.progress, telling.log, team, start_at(place, team))
    if document.interrupted:
        raise InterruptedRunError("interrupted before anything was written")
    if document.frames is None or document.seconds is None:
        return None
    seconds = document.seconds.last_done or 0.0
    return document.frames.written / seconds if seconds else None


def stored_frames_plan(request: FramesRequest, folder: RunFolder, prefix: str) -> LoadPlan:
    """Of plain frames. Its files are announced."""
    folder.announce(FileSet(prefix=prefix, count=request.file_names))
    return frames_plan(request, request.access.files(folder.path), prefix)


def run_frames(
    request: FramesRequest, folder: RunFolder, prefix: str, telling: Telling, team: Ranks | None = None
) -> Run:
    """The run in `folder`, by `team`. With a rate, the generator's ceiling is measured first."""
    if request.files:
        folder.announce(FileSet(prefix=prefix, count=request.file_names, suffix=suffix_of(request.image)))
    backend = request.access.files(folder.path)
    return run_frames_on(backend, request, folder.path, prefix, telling.about(folder, prefix), team)


def run_frames_on(
    backend: FilesBackend,
    request: FramesRequest,
    place: Place,
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
    backend: FilesBackend,
    request: FramesRequest,
    place: Place,
    prefix: str,
    telling: Telling,
    image: FrameImage | None,
    team: Ranks | None,
) -> Run:
    ceiling_hz = measure_ceiling(request, place, telling, image, team) if request.rate_hz else None
    observed = observe_load(frames_plan(request, backend, prefix, image, team), place, telling, team)
    document, conditions = observed.document, observed.conditions
    return observed.run(
        "frames",
        frame_checks(document, ceiling_hz, is_memory(conditions), conditions.direct_cached, request.longer),
        frames=frame_figures(document),
        cost=processor_cost(document),
        ceiling_hz=ceiling_hz,
    )


@dataclass(frozen=True)
class ObservedLoad:
    """What a load did, and what else went on at its place meanwhile."""

    place: Place
    conditions: Conditions
    document: LoadDocument
    meanwhile: Meanwhile
    clock: Clock

    def run(
        self, workload: Literal["frames", "metadata", "stream"], checks: Iterable[Check], **figures: Any
    ) -> Run:
        """With the `checks` of the workload, and those of storage and clock."""
        checks = [*checks, *self._storage_checks(), *clock_checks(self.clock)]
        return Run(
            workload=workload,
            target=str(self.place.parent),
            conditions=self.conditions,
            validity=validity_of(checks),
            checks=checks,
            meanwhile=self.meanwhile,
            clock=self.clock,
            document=self.document,
            **figures,
        )

    def _storage_checks(self) -> Iterator[Check]:
        """That what was written into is a storage, was reached, and was used by nobody else."""
        if not isinstance(self.document.plan.backend, NullBackend | RemoteBackend):
            yield check_kept(self.conditions)
            yield from check_reached(self.meanwhile, self.document, self.conditions)
            yield from check_alone(self.meanwhile, self.document, self.conditions.mount_options)


def observe_load(plan: LoadPlan, place: Place, telling: Telling, team: Ranks | None) -> ObservedLoad:
    """Runs `plan` by `team`, and watches the storage of `place` and the clock."""
    conditions, watch, clocks = conditions_of(place), watch_of(place), ClockWatch()
    telling.begins()
    with watch:
        document = load(plan, telling.progress, telling.log, team, start_at(place, team), telling.made)
    return ObservedLoad(place, conditions, document, watch.seen(), clocks.seen())


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
    workload: StreamWorkload, access: Access, folder: RunFolder, team: Ranks | None = None
) -> LoadPlan:
    """Its files are announced."""
    prefix = "stream-"
    folders = [] if access.null is not None else folders_of_ranks(folder.path, team)
    if workload.read:
        require_other_readers(folders, team)
    if files := stream_files(workload, access, team):
        folder.announce(FileSet(prefix=prefix, count=files))
    return LoadPlan(
        backend=access.backend(folder.path),
        workload=workload,
        **access.written(),
        prefix=prefix,
        interval_s=_INTERVAL_MIN_S * 5,
        folders=folders,
    )


def run_stream(
    workload: StreamWorkload,
    access: Access,
    folder: RunFolder,
    telling: Telling,
    team: Ranks | None = None,
) -> Run:
    """The run in `folder`, by `team`."""
    plan = stream_plan(workload, access, folder, team)
    observed = observe_load(plan, folder.path, telling.about(folder, plan.prefix), team)
    document, conditions = observed.document, observed.conditions
    figures = stream_figures(document)
    return observed.run(
        "stream",
        stream_checks(
            document, figures, is_memory(conditions), conditions.direct_cached, conditions.own_cache
        ),
        streams=figures,
        cost=processor_cost(document),
    )
