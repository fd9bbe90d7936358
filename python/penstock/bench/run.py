"""One run: the plan, the load generator, the figures and the checks, in one document."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.checks import frame_checks, stream_checks, validity_of
from penstock.bench.conditions import conditions_of, is_memory
from penstock.bench.cost import processor_cost
from penstock.bench.figures import frame_figures, stream_figures
from penstock.bench.folder import BenchFolder, FileSet
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import LoadProgress
from penstock.model.load import (
    RECORDED_FRAMES_MAX,
    ContentKind,
    FramesWorkload,
    Layout,
    LoadDocument,
    LoadPlan,
    NullBackend,
    PosixBackend,
    StreamWorkload,
    Sync,
)
from penstock.model.runs import Run
from penstock.programs.load import load
from penstock.programs.process import LogLine

# What the ceiling is measured with: so many seconds' frames, and these take a fraction of that.
_CEILING_S, _CEILING_FRAMES_MIN, _CEILING_FRAMES_MAX = 2.0, 50, 100_000
# Storage whose files are whole pages, with direct I/O.
_PAGE = 4096
_INTERVALS = 500
_INTERVAL_MIN_S = 0.1


class Access(BaseModel):
    """How the storage is used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    direct: bool = True
    sync: Sync = "each"
    content: ContentKind = "random"
    seed: int = Field(1, ge=0, lt=2**64)


class FramesRequest(BaseModel):
    """A frames workload, as it is asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    frame_bytes: int = Field(ge=1, le=4 << 30)
    rate_hz: float = Field(ge=0, le=1e7)
    seconds: float = Field(gt=0, le=30 * 86400)
    frames: int = Field(ge=1, le=10**9)
    writers: int = Field(ge=1, le=256)
    buffer_frames: int = Field(ge=1, le=10**7)
    late_after_s: float = Field(ge=0, le=3600)
    layout: Layout
    access: Access

    @property
    def bytes(self) -> int:
        """That files take."""
        page = _PAGE if self.access.direct else 1
        return self.frames * (-(-self.frame_bytes // page) * page)

    @property
    def files(self) -> int:
        return self.frames if self.layout == "file_a_frame" else self.writers

    def as_fast_as_it_goes(self, frames: int) -> "FramesRequest":
        """The same pattern without a rate."""
        return self.model_copy(update={"rate_hz": 0.0, "frames": frames})


def frames_request(
    frame_bytes: int,
    rate_hz: float,
    seconds: float,
    writers: int,
    buffer_s: float,
    late_after_s: float | None,
    layout: Layout,
    access: Access,
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
            buffer_frames=max(writers + 1, math.ceil(buffer_s * rate_hz)),
            late_after_s=max(period_s, 0.01) if late_after_s is None else late_after_s,
            layout=layout,
            access=access,
        )
    except (ValidationError, OverflowError) as error:
        raise _usage(error) from error


def stream_workload(
    threads: int,
    thread_bytes: int,
    transfer_bytes: int,
    read: bool,
    verify: bool,
    seconds_max: float,
    direct: bool,
) -> StreamWorkload:
    """A UsageError names the value that is not possible. A thread writes whole transfers."""
    if direct and transfer_bytes % _PAGE:
        raise UsageError(
            f"transfers of {transfer_bytes} bytes are not possible past the page cache",
            f"a multiple of {_PAGE}, or any size with --buffered",
        )
    try:
        return StreamWorkload(
            threads=threads,
            thread_bytes=-(-thread_bytes // max(1, transfer_bytes)) * transfer_bytes,
            transfer_bytes=transfer_bytes,
            read=read,
            verify=verify and read,
            seconds_max=seconds_max,
        )
    except ValidationError as error:
        raise _usage(error) from error


def _usage(error: ValidationError | OverflowError) -> UsageError:
    if isinstance(error, OverflowError):
        return UsageError("a rate or a time is too large", "give finite numbers")
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    return UsageError(
        f"{name} is {first['input']!r}: {first['msg']}", "`penstock bench --help` has the options"
    )


@dataclass(frozen=True)
class Telling:
    """Where progress and the load generator's log go."""

    progress: Callable[[LoadProgress], None]
    log: LogLine


def frames_plan(request: FramesRequest, backend: PosixBackend | NullBackend, prefix: str) -> LoadPlan:
    record = request.frames <= RECORDED_FRAMES_MAX
    duration_s = request.frames / request.rate_hz if request.rate_hz else request.seconds
    return LoadPlan(
        backend=backend,
        workload=FramesWorkload(**request.model_dump(exclude={"seconds", "access"}), record=record),
        content=request.access.content,
        seed=request.access.seed,
        prefix=prefix,
        interval_s=max(_INTERVAL_MIN_S, duration_s / _INTERVALS),
    )


def measure_ceiling(request: FramesRequest, telling: Telling) -> float | None:
    """Frames a second of the same pattern without storage; None where nothing was written in time."""
    frames = math.ceil(request.rate_hz * _CEILING_S)
    unpaced = request.as_fast_as_it_goes(min(_CEILING_FRAMES_MAX, max(_CEILING_FRAMES_MIN, frames)))
    plan = frames_plan(unpaced, NullBackend(), "ceiling-")
    document = load(plan, telling.progress, telling.log)
    if document.interrupted:
        raise PenstockError("interrupted before anything was written")
    if document.frames is None or document.seconds is None:
        return None
    seconds = document.seconds.last_done or 0.0
    return document.frames.written / seconds if seconds else None


def stored_frames_plan(request: FramesRequest, folder: BenchFolder, prefix: str) -> LoadPlan:
    """Its files are announced."""
    folder.announce(FileSet(prefix=prefix, count=request.files))
    backend = PosixBackend(folder=str(folder.path), direct=request.access.direct, sync=request.access.sync)
    return frames_plan(request, backend, prefix)


def run_frames(request: FramesRequest, folder: BenchFolder, prefix: str, telling: Telling) -> Run:
    """The run in `folder`. With a rate, the generator's ceiling is measured first."""
    ceiling_hz = measure_ceiling(request, telling) if request.rate_hz else None
    plan = stored_frames_plan(request, folder, prefix)
    conditions = conditions_of(folder.path)
    document = load(plan, telling.progress, telling.log)
    checks = frame_checks(document, ceiling_hz, is_memory(conditions))
    return Run(
        workload="frames",
        target=str(folder.path.parent),
        conditions=conditions,
        validity=validity_of(checks),
        checks=checks,
        frames=frame_figures(document),
        cost=processor_cost(document),
        ceiling_hz=ceiling_hz,
        document=document,
    )


def stream_plan(workload: StreamWorkload, access: Access, folder: BenchFolder) -> LoadPlan:
    """Its files are announced."""
    prefix = "stream-"
    folder.announce(FileSet(prefix=prefix, count=workload.threads))
    return LoadPlan(
        backend=PosixBackend(folder=str(folder.path), direct=access.direct, sync=access.sync),
        workload=workload,
        content=access.content,
        seed=access.seed,
        prefix=prefix,
        interval_s=_INTERVAL_MIN_S * 5,
    )


def run_stream(workload: StreamWorkload, access: Access, folder: BenchFolder, telling: Telling) -> Run:
    plan = stream_plan(workload, access, folder)
    conditions = conditions_of(folder.path)
    document: LoadDocument = load(plan, telling.progress, telling.log)
    figures = stream_figures(document)
    checks = stream_checks(document, figures, is_memory(conditions))
    return Run(
        workload="stream",
        target=str(folder.path.parent),
        conditions=conditions,
        validity=validity_of(checks),
        checks=checks,
        streams=figures,
        cost=processor_cost(document),
        document=document,
    )
