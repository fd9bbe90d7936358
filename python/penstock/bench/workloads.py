"""The workloads that a campaign can vary, by name, each with its parameters.

A new one is a class here, with the names and defaults of the options of its `penstock bench` command, and a
line in WORKLOADS. Campaigns, their documents and tables know nothing else of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.folder import BenchFolder
from penstock.bench.run import (
    Access,
    FramesRequest,
    Telling,
    frames_request,
    run_frames,
    run_stream,
    stream_bytes,
    stream_files,
    stream_workload,
)
from penstock.model.campaigns import Parameter
from penstock.model.errors import UsageError
from penstock.model.load import ContentKind, Layout, StreamWorkload, Sync
from penstock.model.runs import Run
from penstock.model.units import Size, format_size
from penstock.programs.ranks import Ranks

_MIB, _PAGE = 1 << 20, 4096


@dataclass(frozen=True)
class Job:
    """One run, ready to be made, and what it takes."""

    workload: str
    bytes: int  # that its files take
    files: int
    paced_s: float  # how long it takes at least, whatever the storage does
    moved_bytes: int  # as fast as the storage goes
    run: Callable[[BenchFolder, Telling], Run]


def frames_job(request: FramesRequest, team: Ranks | None = None) -> Job:
    paced_s = request.frames / request.rate_hz if request.rate_hz else 0.0
    return Job(
        workload="frames",
        bytes=request.bytes,
        files=request.files,
        paced_s=paced_s,
        moved_bytes=0 if request.rate_hz else request.bytes,
        run=lambda folder, telling: run_frames(request, folder, "frame-", telling, team),
    )


def stream_job(workload: StreamWorkload, access: Access, team: Ranks | None = None) -> Job:
    size = stream_bytes(workload, team)
    return Job(
        workload="stream",
        bytes=size,
        files=stream_files(workload, access, team),
        paced_s=0.0,
        moved_bytes=size * (2 if workload.read else 1),
        run=lambda folder, telling: run_stream(workload, access, folder, telling, team),
    )


class WorkloadParameters(BaseModel):
    """Of one workload. SCALED names those that make a run larger, and leave its pattern as it is."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)
    SCALED: ClassVar[tuple[str, ...]] = ()

    def job(self) -> Job:
        """A UsageError names a value that is not possible."""
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        """Sizes are whole MiB, or whole pages where they are small; counts are whole, and at least one."""
        return self.model_copy(
            update={
                name: _scaled(name, getattr(self, name), factor)
                for name in self.SCALED
                if getattr(self, name) is not None and factor != 1
            }
        )

    def shown(self, name: str) -> Parameter:
        """As a description has it."""
        value: Parameter = getattr(self, name)
        return format_size(int(value)) if name in self.SCALED and _is_size(name) else value


def _is_size(name: str) -> bool:
    return name.endswith("size")


def _scaled(name: str, value: float, factor: float) -> float:
    if not isinstance(value, int):
        return round(value * factor, 6)
    scaled = round(value * factor)
    unit = 1
    if _is_size(name):
        unit = _MIB if scaled >= _MIB else _PAGE if value >= _PAGE else 1
    return max(1, -(-scaled // unit)) * unit


class FramesParameters(WorkloadParameters):
    """Frames that become due at a rate, as `penstock bench frames` writes them."""

    SCALED = ("seconds", "frames")

    frame_size: Size
    rate: float = Field(ge=0, le=1e7, description="frames a second; 0: as fast as it goes, needs `frames`")
    seconds: float = Field(30.0, ge=0.001, description="how long frames become due")
    frames: int | None = Field(None, ge=1, description="so many instead")
    writers: int = Field(4, ge=1, le=256)
    buffer_seconds: float = Field(1.0, ge=0, le=3600, description="so many seconds of frames may wait")
    late_after: float | None = Field(None, ge=0, le=3600, description="seconds after a frame was due")
    layout: Layout = "file_a_frame"
    buffered: bool = False
    sync: Sync = "each"
    content: ContentKind = "random"
    seed: int = Field(1, ge=0, lt=2**63, description="of the random bytes")

    def job(self) -> Job:
        if self.rate == 0 and self.frames is None:
            raise UsageError("`rate` is 0 and there is no `frames`", "say how many frames are written")
        seconds = self.seconds if self.frames is None or self.rate == 0 else self.frames / self.rate
        request = frames_request(
            self.frame_size,
            self.rate,
            seconds,
            self.writers,
            self.buffer_seconds,
            self.late_after,
            self.layout,
            Access(direct=not self.buffered, sync=self.sync, content=self.content, seed=self.seed),
        )
        return frames_job(
            request if self.frames is None else request.model_copy(update={"frames": self.frames})
        )


class StreamParameters(WorkloadParameters):
    """A large file a thread, written and then read, as `penstock bench stream` does it."""

    SCALED = ("size",)

    size: Size = 4 << 30
    transfer: Size = 8 << 20
    threads: int = Field(1, ge=1, le=256)
    read: bool = True
    verify: bool = True
    seconds_max: float = Field(0.0, ge=0, le=86400, description="of each phase; 0: no limit")
    buffered: bool = False
    sync: Sync = "end"
    content: ContentKind = "random"
    seed: int = Field(1, ge=0, lt=2**63, description="of the random bytes")

    def job(self) -> Job:
        workload = stream_workload(
            self.threads,
            self.size,
            self.transfer,
            self.read,
            self.verify,
            self.seconds_max,
            not self.buffered,
        )
        access = Access(direct=not self.buffered, sync=self.sync, content=self.content, seed=self.seed)
        return stream_job(workload, access)


WORKLOADS: dict[str, type[WorkloadParameters]] = {"frames": FramesParameters, "stream": StreamParameters}


def parameters_of(workload: str, values: Mapping[str, Parameter]) -> WorkloadParameters:
    """A UsageError names what the workload does not know, or does not take."""
    if workload not in WORKLOADS:
        raise UsageError(f'there is no workload "{workload}"', f"one of {', '.join(sorted(WORKLOADS))}")
    try:
        return WORKLOADS[workload].model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        what = {"extra_forbidden": "there is no such parameter", "missing": "it is missing"}
        problem = what.get(first["type"], f"{first['msg']} (given: {first['input']!r})")
        raise UsageError(
            f"`{name}` of the workload {workload}: {problem}",
            f"one of {', '.join(WORKLOADS[workload].model_fields)}",
        ) from error
