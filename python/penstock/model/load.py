"""The plans of penstock-load, exactly as it reads them, and the document that it answers with."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.network import NetworkServerWorkload, NetworkSide, NetworkWorkload, Pattern
from penstock.model.plans import GIB, LogLevel, Plan

Sync = Literal["none", "end", "each"]
Layout = Literal["file_a_frame", "file_a_writer"]
ContentKind = Literal["random", "zeros"]

RECORDED_FRAMES_MAX = 1_000_000


class NullBackend(Plan):
    """Stores nothing: what the generator itself can do, and storage that misbehaves by the clock."""

    kind: Literal["null"] = "null"
    delay_s: float = Field(0.0, ge=0, le=3600, description="of each write and read")
    straggler_every: int = Field(0, ge=0, description="each so many-th call takes longer; 0: none")
    straggler_s: float = Field(0.0, ge=0, le=3600, description="by this")
    freeze_at_s: float = Field(0.0, ge=0, le=3600, description="after the start, time stands still for calls")
    freeze_s: float = Field(0.0, ge=0, le=3600, description="for so long; 0: never")


class PosixBackend(Plan):
    """Files through the kernel."""

    kind: Literal["posix"] = "posix"
    folder: str = Field(description="where new files are made; nothing else in it is touched")
    direct: bool = Field(True, description="past the page cache where the file system can")
    sync: Sync = Field(
        "each", description="force data to storage: never, when a file is complete, or after each write"
    )


class FramesWorkload(Plan):
    """Frames that become due at a rate, whatever became of those before them."""

    kind: Literal["frames"] = "frames"
    frames: int = Field(ge=1, le=10**9)
    frame_bytes: int = Field(ge=1, le=4 * GIB)
    rate_hz: float = Field(
        ge=0, le=1e7, description="0: a frame is due as soon as the buffer has room; none is dropped or late"
    )
    writers: int = Field(1, ge=1, le=256, description="threads that write")
    buffer_frames: int = Field(
        1, ge=1, le=10**7, description="held at once, those that are being written among them"
    )
    late_after_s: float = Field(
        0.01, ge=0, le=3600, description="a frame is late when it is done more than this after it was due"
    )
    layout: Layout = "file_a_frame"
    record: bool = Field(True, description="the times of each frame go into the document")


class StreamWorkload(Plan):
    """A sequential write of one file a thread, then a sequential read of each by another thread."""

    kind: Literal["stream"] = "stream"
    threads: int = Field(1, ge=1, le=256)
    thread_bytes: int = Field(ge=1, le=2**50, description="of each file; a multiple of transfer_bytes")
    transfer_bytes: int = Field(ge=1, le=GIB, description="of one call")
    read: bool = True
    verify: bool = Field(False, description="compare what is read with what was written")
    seconds_max: float = Field(0.0, ge=0, description="of each phase, which ends early then; 0: no limit")


class LoadPlan(Plan):
    """The job of penstock-load."""

    backend: Annotated[NullBackend | PosixBackend, Field(discriminator="kind")]
    workload: Annotated[
        FramesWorkload | StreamWorkload | NetworkWorkload | NetworkServerWorkload, Field(discriminator="kind")
    ]
    content: ContentKind = Field("random", description="random bytes cannot be compressed or deduplicated")
    seed: int = Field(1, ge=0, lt=2**64)
    prefix: str = Field("load-", description="files are called PREFIX000000000.bin and so on")
    interval_s: float = Field(1.0, ge=0.001, le=3600, description="of the time series")
    drain_timeout_s: float = Field(
        60.0, ge=0, le=86400, description="for what is under way when nothing new is due"
    )
    log_level: LogLevel = "warning"


class _Part(BaseModel):
    """A part of a document: it is not changed, and a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Histogram(_Part):
    """Durations, in buckets of at most 0.4 % of themselves."""

    count: int = Field(ge=0)
    max_ns: int = Field(ge=0)
    buckets: list[tuple[int, int, int]] = Field(
        description="lowest and highest ns, both inside, and the count"
    )


class FrameCounts(_Part):
    """What became of frames: due = written + dropped + failed + unfinished."""

    planned: int
    due: int
    written: int
    dropped: int = Field(description="the buffer was full when they became due")
    late: int = Field(description="of those written")
    failed: int = Field(description="storage gave an error")
    unfinished: int = Field(description="under way when the run was given up")
    bytes: int = Field(description="of written frames")
    stored_bytes_each: int = Field(description="of a frame in its file: whole pages with direct I/O")


class FrameSeconds(_Part):
    """Since the first frame was due; null where there was none."""

    last_due: float
    first_done: float | None
    last_done: float | None
    completed: float | None = Field(description="the last file is synced and closed too")


class BufferLevels(_Part):
    held_max: int = Field(description="frames")
    stall_s: float = Field(description="the longest time in which frames were held and none was done")
    stall_end_s: float


class FrameTimes(_Part):
    latency: Histogram = Field(description="from when a frame was due until it was done")
    wait: Histogram = Field(description="from when it was offered until its write began")
    service: Histogram = Field(description="of the write alone")
    jitter: Histogram = Field(description="from when a frame was due until the generator offered it")


class WriterShare(_Part):
    written: int
    first_done_s: float | None
    last_done_s: float | None
    waited_ns: int = Field(
        description="for a processor while it could run; -1 where the kernel does not tell"
    )


class Generator(_Part):
    pacer_goes_first: bool = Field(
        description="the thread that paces runs before all others: to 2 kHz, where that is allowed"
    )
    pacer_waited_ns: int
    writers: list[WriterShare]


class Series(_Part):
    """Columns with a value for each interval; what happened after the last one is in the last one."""

    interval_s: float
    due: list[int]
    dropped: list[int]
    done: list[int]
    late: list[int]
    bytes: list[int]
    held_max: list[int]
    time_max_ns: list[int]


class Records(_Part):
    """Of each frame, ns since the first was due. Frame n was due at n / rate_hz.

    `done_ns` is -1 where a frame was not done, -2 where it was dropped, -3 where storage gave an error.
    """

    offered_ns: Sequence[int]
    start_ns: Sequence[int]
    done_ns: Sequence[int]


class StreamThread(_Part):
    bytes: int
    done_s: float | None = Field(description="synced and closed; null where it failed")
    waited_ns: int


class StreamTimes(_Part):
    service: Histogram


class StreamPhase(_Part):
    phase: Literal["write", "read"]
    bytes: int
    operations: int
    mismatches: int | None = Field(description="blocks that were not what was written; null: not looked at")
    cached_bytes: int | None = Field(description="of the files in this machine's memory before the phase")
    times: StreamTimes
    threads: list[StreamThread]
    series: Series


class NetworkPhase(_Part):
    """Messages there and back, or a transfer. `server` is null where it gave no answer any more."""

    pattern: Pattern
    streams: int
    message_bytes: int
    seconds: float = Field(description="planned")
    interval_s: float = Field(description="of the series")
    round_trips: Histogram | None = Field(description="of the pattern echo")
    client: NetworkSide
    server: NetworkSide | None


class NetworkSaid(_Part):
    peer_host: str = Field(description="what the other end calls its machine")
    phases: list[NetworkPhase]


class NetworkServed(_Part):
    sessions: int
    refused: int = Field(description="connections that were turned away")


class StorageSaid(_Part):
    direct: bool = Field(description="all files were opened past the page cache")


class LoadDocument(_Part):
    """What penstock-load measured. The parts of the other workload are null."""

    format: Literal["penstock-load 1"]
    program: str
    plan: LoadPlan
    started: str = Field(description="ISO 8601, UTC")
    interrupted: bool
    problem: str | None = Field(description="what ended the run before its time")
    storage: StorageSaid
    machine: dict[str, Any] = Field(description="counters of the kernel before and after the run")
    frames: FrameCounts | None = None
    seconds: FrameSeconds | None = None
    buffer: BufferLevels | None = None
    times: FrameTimes | None = None
    generator: Generator | None = None
    series: Series | None = None
    records: Records | None = None
    phases: list[StreamPhase] | None = None
    network: NetworkSaid | None = None
    network_server: NetworkServed | None = None

    @property
    def active_seconds(self) -> float:
        """How long the load was under way."""
        if self.seconds is not None:
            return self.seconds.completed or self.seconds.last_done or self.seconds.last_due
        if self.network is not None:
            return sum(phase.client.seconds for phase in self.network.phases)
        return sum(
            max(
                (thread.done_s for thread in phase.threads if thread.done_s is not None),
                default=len(phase.series.bytes) * phase.series.interval_s,
            )
            for phase in self.phases or []
        )
