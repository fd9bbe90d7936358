"""The plans of penstock-load, exactly as it reads them, and the document that it answers with."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.network import Gaps, NetworkServerWorkload, NetworkSide, NetworkWorkload, Pattern
from penstock.model.plans import GIB, MIB, LogLevel, Plan

Sync = Literal["none", "end", "each"]
Layout = Literal["file_a_frame", "file_a_writer"]
ContentKind = Literal["random", "zeros", "compressible", "file"]
Order = Literal["sequential", "random"]

RECORDED_FRAMES_MAX = 1_000_000
# Of compressible content: more than that, and the bytes by which sectors differ are most of what is left.
CONTENT_RATIO_MAX = 10.0


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
    queue_depth: int = Field(
        1, ge=1, le=1024, description="transfers of a thread under way at once; more than 1 by io_uring"
    )


class FrameImage(Plan):
    """Frames as files that image readers open: a template, in which each has pixels of its own.

    With no pixels of their own frames are the images of the template as they are, in turn.
    """

    template: str = Field(description="a file with one whole frame, of frame_bytes, or several in a row")
    images: int = Field(1, ge=1, le=100_000, description="in the template; more than 1 without pixels_bytes")
    suffix: str = Field(
        pattern=r"^[a-z0-9]+(\.[a-z0-9]+)?$", max_length=10, description="of file names, instead of bin"
    )
    pixels_at: int = Field(ge=0, description="the first byte of the pixels in the template")
    pixels_bytes: int = Field(ge=0, description="0: frames are as they are in the template")
    differences: bool = Field(
        False, description="each byte is a difference of pixels, as in CBF: any value but 0x80"
    )


class MpiioAccess(Plan):
    """How ranks use MPI-IO."""

    shared: bool = Field(False, description="one file for all ranks; of workload stream")
    collective: bool = Field(False, description="all ranks do each call together; of a shared file")
    block_bytes: int = Field(
        0,
        ge=0,
        le=2**50,
        description="of a rank in the shared file, then comes the next rank's; 0: all that it writes",
    )
    hints: dict[str, str] = Field(
        {}, description="MPI-IO's, by name; the document tells those that were in effect"
    )


class MpiioBackend(MpiioAccess):
    """Files through MPI-IO, by ranks of one thread each."""

    kind: Literal["mpiio"] = "mpiio"
    folder: str = Field(description="where new files are made; nothing else in it is touched")
    sync: Sync = Field(
        "end", description="force data to storage: never, when a file is complete, or after each write"
    )


class Hdf5Access(Plan):
    """How HDF5 is used."""

    shared: bool = Field(False, description="one file for all ranks, a row each; of Open MPI's ranks")
    collective: bool = Field(False, description="all ranks do each call together; of a shared file")
    chunk_bytes: int = Field(0, ge=0, le=GIB, description="divides transfer_bytes; 0: contiguous")
    deflate: int = Field(
        0,
        ge=0,
        le=9,
        description="level of compression, of chunks; 0: none. In a shared file only collectively",
    )


class Hdf5Backend(Hdf5Access):
    """One dataset of bytes in each file, through HDF5; of workload stream."""

    kind: Literal["hdf5"] = "hdf5"
    folder: str = Field(description="where new files are made; nothing else in it is touched")
    sync: Sync = Field(
        "end", description="force data to storage: never, when a file is complete, or after each write"
    )


class StoreBackend(Plan):
    """Files of Penstock's own store, a chunk for each transfer; of workload stream."""

    kind: Literal["store"] = "store"
    folder: str = Field(description="where new files are made; nothing else in it is touched")
    direct: bool = Field(True, description="past the page cache where the file system can")
    sync: Literal["none", "end"] = Field("end", description="force the file to storage when it is complete")
    queue_depth: int = Field(8, ge=2, le=1024, description="transfers of a thread under way at once")


THREAD_BYTES_MAX = 2**50


class FramesPattern(Plan):
    """Frames that become due at a rate, whatever became of those before them."""

    frames: int = Field(ge=1, le=10**9)
    frame_bytes: int = Field(ge=1, le=4 * GIB)
    rate_hz: float = Field(
        ge=0, le=1e7, description="0: a frame is due as soon as the buffer has room; none is dropped or late"
    )
    writers: int = Field(1, ge=1, le=256, description="threads that write, of each rank")
    buffer_frames: int = Field(
        1,
        ge=1,
        le=10**7,
        description="held at once, those that are being written among them; ranks share them out",
    )
    late_after_s: float = Field(
        0.01, ge=0, le=3600, description="a frame is late when it is done more than this after it was due"
    )
    layout: Layout = "file_a_frame"
    rename: bool = Field(False, description="a file is called NAME.partial until it is complete")


class FramesWorkload(FramesPattern):
    """Frames that become due at a rate, whatever became of those before them."""

    kind: Literal["frames"] = "frames"
    record: bool = Field(True, description="the times of each frame go into the document")
    image: FrameImage | None = Field(None, description="else frames are plain bytes")


class StreamWorkload(Plan):
    """A write by all threads, into a file each or one for all, then a read by all of what another one wrote.

    A shared file has segments one after the other, and in each of them a block of every thread.
    """

    kind: Literal["stream"] = "stream"
    threads: int = Field(1, ge=1, le=256, description="of each rank")
    thread_bytes: int = Field(
        ge=1, le=THREAD_BYTES_MAX, description="of each thread; a multiple of transfer_bytes"
    )
    transfer_bytes: int = Field(ge=1, le=GIB, description="of one call")
    shared: bool = Field(False, description="one file for all threads")
    segments: int = Field(
        1, ge=1, description="thread_bytes are so many blocks, each of them whole transfers"
    )
    order: Order = Field("sequential", description="of a thread's transfers; random ones are read in another")
    read: bool = True
    verify: bool = Field(False, description="compare what is read with what was written")
    seconds_max: float = Field(0.0, ge=0, description="of each phase, which ends early then; 0: no limit")

    @property
    def files(self) -> int:
        return 1 if self.shared else self.threads

    @property
    def bytes(self) -> int:
        """Of all files."""
        return self.threads * self.thread_bytes


class MetadataWorkload(Plan):
    """Names: trees of folders with items in each folder of them, made, found, read, renamed and removed.

    Each operation is a phase that all threads of all ranks begin together.
    """

    kind: Literal["metadata"] = "metadata"
    threads: int = Field(1, ge=1, le=256, description="of each rank; they count on from rank to rank")
    items: int = Field(
        ge=1,
        le=10**7,
        description="folders, and as many files, that a thread makes in each folder of its tree",
    )
    depth: int = Field(0, ge=0, le=20, description="of a tree, below its top")
    branch: int = Field(1, ge=1, le=10_000, description="folders of the tree in each of its folders")
    shared: bool = Field(False, description="one tree for all threads instead of one each")
    shift: int = Field(
        0,
        ge=0,
        lt=65536,
        description="threads find, read, rename and remove what the thread so many further made",
    )
    iterations: int = Field(1, ge=1, le=1000, description="each in trees of its own")
    folders: bool = Field(True, description="items that are folders")
    files: bool = Field(True, description="items that are files")
    file_bytes: int = Field(0, ge=0, le=64 * MIB, description="0: empty ones, which are not read")
    rename: bool = False
    remove: bool = Field(True, description="else items and trees stay")

    @property
    def tree_folders(self) -> int:
        """Of one tree; its top is one of them."""
        return sum(self.branch**level for level in range(self.depth + 1))

    def trees(self, ranks: int = 1) -> int:
        """Of an iteration."""
        return 1 if self.shared else ranks * self.threads

    def items_each(self, ranks: int = 1) -> int:
        """Of a kind, in an iteration."""
        return ranks * self.threads * self.tree_folders * self.items


class LoadPlan(Plan):
    """The job of penstock-load."""

    backend: Annotated[
        NullBackend | PosixBackend | MpiioBackend | Hdf5Backend | StoreBackend, Field(discriminator="kind")
    ]
    workload: Annotated[
        FramesWorkload | StreamWorkload | MetadataWorkload | NetworkWorkload | NetworkServerWorkload,
        Field(discriminator="kind"),
    ]
    content: ContentKind = Field("random", description="random bytes cannot be compressed or deduplicated")
    content_ratio: float = Field(
        1.0,
        ge=1,
        description="so many times smaller storage can make it: at most 10 of compressible content; of a"
        " file, what was measured",
    )
    content_file: str = Field(
        "", description="whose first bytes, or images, are written again and again, with file"
    )
    seed: int = Field(1, ge=0, lt=2**64)
    prefix: str = Field(
        "load-", description="files are called PREFIX000000000.bin and so on, trees PREFIX000000000"
    )
    interval_s: float = Field(1.0, ge=0.001, le=3600, description="of the time series")
    drain_timeout_s: float = Field(
        60.0, ge=0, le=86400, description="for what is under way when nothing new is due"
    )
    log_level: LogLevel = "warning"


class _Part(BaseModel):
    """A part of a document: it is not changed, and a field that is not known is an error."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


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
    held_max: int = Field(description="frames; of several ranks the most that one held")
    stall_s: float = Field(description="the longest time in which frames were held and none was done")
    stall_end_s: float


class FrameTimes(_Part):
    latency: Histogram = Field(description="from when a frame was due until it was done")
    wait: Histogram = Field(description="from when it was offered until its write began")
    service: Histogram = Field(description="of the write alone")
    jitter: Histogram = Field(description="from when a frame was due until the generator offered it")


class WriterShare(_Part):
    rank: int = 0
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
    gaps: Gaps | None = Field(None, description="null: of a Penstock that did not look")
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
    rank: int = 0
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
    verify_ns: int | None = Field(
        None, description="of all threads together, comparing what was read; null: not looked at"
    )
    fill_ns: int | None = Field(
        None, description="of all threads together, making what is written; null: of reads"
    )
    times: StreamTimes
    threads: list[StreamThread]
    storage_waited_ns: int | None = Field(
        None,
        description="the longest wait of a thread of the back end's own for a processor; null: it has none",
    )
    gaps: Gaps | None = Field(None, description="null: of a Penstock that did not look")
    series: Series


Operation = Literal[
    "tree_create",
    "folder_create",
    "folder_stat",
    "folder_rename",
    "folder_remove",
    "file_create",
    "file_stat",
    "file_read",
    "file_rename",
    "file_remove",
    "tree_remove",
]


class MetadataPhase(_Part):
    """One operation in one iteration."""

    operation: Operation
    iteration: int
    operations: int
    complete: bool = Field(description="all threads did all of it")
    first_done_s: float | None = Field(description="the first thread was done; null where it is not complete")
    last_done_s: float | None
    gaps: Gaps | None = Field(None, description="null: of a Penstock that did not look")


class MetadataSaid(_Part):
    """Of a metadata workload."""

    phases: list[MetadataPhase] = Field(description="in the order in which they were done")
    times: dict[Operation, Histogram] = Field(
        description="from the end of a thread's operation to that of its next one, all iterations together"
    )
    waited_ns: list[int] = Field(
        description="each thread's, for a processor while it could run; -1 where the kernel does not tell"
    )


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
    hints: dict[str, str] | None = Field(None, description="of MPI-IO: those in effect for the first file")
    mpi_io: str | None = Field(None, description="the component of Open MPI that was asked for")
    hdf5: str | None = Field(None, description="the version of the library that wrote")
    queue_depth: int = Field(1, description="transfers of a thread under way at once")


class RankSaid(_Part):
    """A process of the job that measured."""

    rank: int
    host: str
    lead_ahead_ns: int = Field(
        description="the clock of rank 0 minus this rank's; its times are corrected by it"
    )
    clock_error_ns: int = Field(description="that is known to within this")
    late_ns: int = Field(description="how long after the common start it heard of that; 0: before")


class JobSaid(_Part):
    """The ranks that measured together. Their counts are added; times are since the common start."""

    library: str = Field(description="the MPI, as it names itself")
    ranks: int = Field(description="of the job")
    parts: list[RankSaid] = Field(description="the ranks whose figures are here")


class LoadDocument(_Part):
    """What penstock-load measured. The parts of the other workload are null."""

    format: Literal["penstock-load 1"]
    program: str
    plan: LoadPlan
    started: str = Field(description="ISO 8601, UTC")
    interrupted: bool
    problem: str | None = Field(description="what ended the run before its time")
    storage: StorageSaid
    machine: dict[str, Any] = Field(
        description="counters of the kernel before and after the run; of several hosts together"
    )
    job: JobSaid | None = Field(None, description="null: one process measured")
    frames: FrameCounts | None = None
    seconds: FrameSeconds | None = None
    buffer: BufferLevels | None = None
    times: FrameTimes | None = None
    generator: Generator | None = None
    series: Series | None = None
    records: Records | None = None
    phases: list[StreamPhase] | None = None
    metadata: MetadataSaid | None = None
    network: NetworkSaid | None = None
    network_server: NetworkServed | None = None

    @property
    def active_seconds(self) -> float:
        """How long the load was under way."""
        if self.seconds is not None:
            return self.seconds.completed or self.seconds.last_done or self.seconds.last_due
        if self.network is not None:
            return sum(phase.client.seconds for phase in self.network.phases)
        if self.metadata is not None:
            return sum(phase.last_done_s or 0.0 for phase in self.metadata.phases)
        return sum(
            max(
                (thread.done_s for thread in phase.threads if thread.done_s is not None),
                default=len(phase.series.bytes) * phase.series.interval_s,
            )
            for phase in self.phases or []
        )
