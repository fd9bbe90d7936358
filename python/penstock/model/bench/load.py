"""The plans of penstock-load, exactly as it reads them, and the document that it answers with."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.network import Gaps, NetworkServerWorkload, NetworkSide, NetworkWorkload, Pattern
from penstock.model.bench.science import ScienceWorkload
from penstock.model.failure import Failure
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
    delay_s: float = Field(0.0, ge=0, le=3600, description="duration in seconds of each write and read")
    straggler_every: int = Field(
        0, ge=0, description="number of calls after which one takes longer; 0: never"
    )
    straggler_s: float = Field(0.0, ge=0, le=3600, description="by this")
    freeze_at_s: float = Field(
        0.0, ge=0, le=3600, description="time in seconds after the start at which calls stall"
    )
    freeze_s: float = Field(0.0, ge=0, le=3600, description="duration in seconds of the stall; 0: no stall")


class PosixBackend(Plan):
    """Files through the kernel."""

    kind: Literal["posix"] = "posix"
    folder: str = Field(description="directory in which new files are created; nothing else in it is changed")
    direct: bool = Field(True, description="with direct I/O where the file system can")
    sync: Sync = Field(
        "each",
        description="when data is synced to storage: never, when a file is complete, or after each write",
    )
    queue_depth: int = Field(
        1,
        ge=1,
        le=1024,
        description="queue depth: concurrent transfers per thread; more than 1 uses io_uring",
    )


class FrameImage(Plan):
    """Frames as files that image readers open: a template into which each frame puts its pixels.

    With pixels_bytes 0, frames are the images of the template in turn, unchanged.
    """

    template: str = Field(description="file with one frame of frame_bytes bytes, or several consecutive ones")
    images: int = Field(
        1,
        ge=1,
        le=100_000,
        description="number of frames in the template; more than 1 requires pixels_bytes to be left out",
    )
    suffix: str = Field(
        pattern=r"^[a-z0-9]+(\.[a-z0-9]+)?$",
        max_length=10,
        description="suffix of file names, instead of bin",
    )
    pixels_at: int = Field(ge=0, description="offset of the pixels in the template in bytes")
    pixels_bytes: int = Field(ge=0, description="number of bytes of pixels; 0: frames equal the template")
    differences: bool = Field(
        False, description="each byte is a difference of pixels, as in CBF: any value except 0x80"
    )


class MpiioAccess(Plan):
    """How ranks use MPI-IO."""

    shared: bool = Field(False, description="use one file for all ranks; workload stream only")
    collective: bool = Field(False, description="use collective calls of all ranks; shared files only")
    block_bytes: int = Field(
        0,
        ge=0,
        le=2**50,
        description="number of consecutive bytes per rank in the shared file; 0: all bytes of the rank",
    )
    hints: dict[str, str] = Field(
        {}, description="MPI-IO hints by name; the document has those that were in effect"
    )


class MpiioBackend(MpiioAccess):
    """Files through MPI-IO, by ranks of one thread each."""

    kind: Literal["mpiio"] = "mpiio"
    folder: str = Field(description="directory in which new files are created; nothing else in it is changed")
    sync: Sync = Field(
        "end",
        description="when data is synced to storage: never, when a file is complete, or after each write",
    )


class Hdf5Access(Plan):
    """How HDF5 is used."""

    shared: bool = Field(
        False, description="use one file for all ranks, with one row each; ranks of Open MPI only"
    )
    collective: bool = Field(False, description="use collective calls of all ranks; shared files only")
    chunk_bytes: int = Field(
        0, ge=0, le=GIB, description="chunk size in bytes, a divisor of transfer_bytes; 0: contiguous"
    )
    deflate: int = Field(
        0,
        ge=0,
        le=9,
        description="deflate level of chunks; 0: no compression. A shared file requires collective calls",
    )


class Hdf5Backend(Hdf5Access):
    """One dataset of bytes in each file, through HDF5; of workload stream."""

    kind: Literal["hdf5"] = "hdf5"
    folder: str = Field(description="directory in which new files are created; nothing else in it is changed")
    sync: Sync = Field(
        "end",
        description="when data is synced to storage: never, when a file is complete, or after each write",
    )


class StoreBackend(Plan):
    """Files of Penstock's own store, a chunk for each transfer; of workload stream."""

    kind: Literal["store"] = "store"
    folder: str = Field(description="directory in which new files are created; nothing else in it is changed")
    direct: bool = Field(True, description="with direct I/O where the file system can")
    sync: Literal["none", "end"] = Field("end", description="sync the file to storage when it is complete")
    queue_depth: int = Field(8, ge=2, le=1024, description="queue depth: concurrent transfers per thread")


class RemoteBackend(Plan):
    """Files on a server, by its protocol."""

    kind: Literal["remote"] = "remote"
    url: str = Field(description="directory on a server, which is created; nothing else is changed")
    sync: Sync = Field(
        "end",
        description="when data is synced to storage: never, when a file is complete, or after each write;"
        " calls of nfs and root, while the other protocols answer when they have a file",
    )


class TreesToRemove(Plan):
    """Trees of a metadata workload that did not come to its end."""

    count: int = Field(ge=0, le=10**9, description="number of trees")
    depth: int = Field(0, ge=0, le=20, description="depth of a tree below its top")
    branch: int = Field(
        1, ge=1, le=10_000, description="number of subdirectories in each directory of a tree"
    )
    threads: int = Field(1, ge=1, le=65536, description="number of threads that created items")
    items: int = Field(ge=1, le=10**9, description="number of items of a thread in each directory")
    folders: bool = Field(True, description="the server has directories, and not only names of objects")


class RemoveWorkload(Plan):
    """Removes what runs created on a server."""

    kind: Literal["remove"] = "remove"
    files: int = Field(ge=0, le=10**9, description="number of files; some may be gone")
    suffix: str = Field("bin", description="suffix of their names")
    trees: TreesToRemove | None = None
    folder: bool = Field(True, description="remove the directory too")


THREAD_BYTES_MAX = 2**50


class FramesPattern(Plan):
    """Frames that become due at a rate, whatever became of those before them."""

    frames: int = Field(ge=1, le=10**9)
    frame_bytes: int = Field(ge=1, le=4 * GIB)
    rate_hz: float = Field(
        ge=0,
        le=1e7,
        description="frame rate in Hz; 0: unpaced, a frame is due when the queue has room, and none is"
        " dropped or late",
    )
    writers: int = Field(1, ge=1, le=256, description="number of writer threads per rank")
    buffer_frames: int = Field(
        1,
        ge=1,
        le=10**7,
        description="size of the frame queue in frames, including frames being written; distributed over"
        " the ranks",
    )
    late_after_s: float = Field(
        0.01,
        ge=0,
        le=3600,
        description="deadline in seconds: a frame that is written later than this after its due time is late",
    )
    layout: Layout = "file_a_frame"
    ring_frames: int = Field(
        0,
        ge=0,
        le=10**9,
        description="number of frames that stay on the storage: older files are removed during the run;"
        " 0: all stay",
    )
    rename: bool = Field(False, description="name files NAME.partial until they are complete")


class FramesWorkload(FramesPattern):
    """Frames that become due at a rate, whatever became of those before them."""

    kind: Literal["frames"] = "frames"
    seconds_max: float = Field(
        0.0,
        ge=0,
        le=30 * 86400,
        description="maximum duration in seconds of an unpaced run, which then has fewer frames; 0: no limit",
    )
    record: bool = Field(True, description="write the times of each frame into the document")
    image: FrameImage | None = Field(None, description="image format of frames; null: raw bytes")


class StreamWorkload(Plan):
    """A write by all threads, into a file each or one for all, then a read by all of what another one wrote.

    A shared file has segments one after the other, and in each of them a block of every thread.
    """

    kind: Literal["stream"] = "stream"
    threads: int = Field(1, ge=1, le=256, description="number of threads per rank")
    thread_bytes: int = Field(
        ge=1, le=THREAD_BYTES_MAX, description="number of bytes per thread; a multiple of transfer_bytes"
    )
    transfer_bytes: int = Field(ge=1, le=GIB, description="size of one call in bytes")
    shared: bool = Field(False, description="use one file for all threads")
    segments: int = Field(
        1, ge=1, description="number of blocks of thread_bytes, each a multiple of a transfer"
    )
    order: Order = Field(
        "sequential",
        description="order of a thread's transfers; random transfers are read in a different random order",
    )
    read: bool = True
    verify: bool = Field(False, description="compare the data read with the data written")
    seconds_max: float = Field(
        0.0, ge=0, description="maximum duration in seconds of each phase; 0: no limit"
    )

    @property
    def files(self) -> int:
        return 1 if self.shared else self.threads

    @property
    def bytes(self) -> int:
        """Of all files."""
        return self.threads * self.thread_bytes


class MetadataWorkload(Plan):
    """Names: trees of folders with items in each folder of them, made, found, read, renamed and removed.

    Each operation is a phase that all threads of all ranks start together.
    """

    kind: Literal["metadata"] = "metadata"
    threads: int = Field(1, ge=1, le=256, description="number of threads per rank, numbered across ranks")
    items: int = Field(
        ge=1,
        le=10**7,
        description="number of directories, and of files, that a thread creates in each directory of its"
        " tree",
    )
    depth: int = Field(0, ge=0, le=20, description="depth of the tree below its top")
    branch: int = Field(
        1, ge=1, le=10_000, description="number of subdirectories in each directory of the tree"
    )
    shared: bool = Field(False, description="use one tree for all threads instead of one each")
    shift: int = Field(
        0,
        ge=0,
        lt=65536,
        description="shift between threads: each thread looks up, reads, renames and removes the items of"
        " the thread this many positions further",
    )
    iterations: int = Field(1, ge=1, le=1000, description="number of repetitions, each in new trees")
    folders: bool = Field(True, description="create directories")
    files: bool = Field(True, description="create files")
    file_bytes: int = Field(
        0, ge=0, le=64 * MIB, description="size of a file in bytes; empty files are not read"
    )
    rename: bool = False
    remove: bool = Field(True, description="remove items and trees")

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
    """The job of penstock-load; with a workload of a science, that of its own processes."""

    backend: Annotated[
        NullBackend | PosixBackend | MpiioBackend | Hdf5Backend | StoreBackend | RemoteBackend,
        Field(discriminator="kind"),
    ]
    workload: Annotated[
        FramesWorkload
        | StreamWorkload
        | MetadataWorkload
        | NetworkWorkload
        | NetworkServerWorkload
        | RemoveWorkload
        | ScienceWorkload,
        Field(discriminator="kind"),
    ]
    content: ContentKind = Field("random", description="random bytes cannot be compressed or deduplicated")
    content_ratio: float = Field(
        1.0,
        ge=1,
        description="compression ratio of the content: at most 10 for compressible content; measured for"
        " files",
    )
    content_file: str = Field(
        "",
        description="file or folder whose first bytes, or images, are written repeatedly, with content file",
    )
    seed: int = Field(1, ge=0, lt=2**64)
    prefix: str = Field(
        "load-", description="prefix of names: files are PREFIX000000000.bin and so on, trees PREFIX000000000"
    )
    interval_s: float = Field(1.0, ge=0.001, le=3600, description="interval of the time series in seconds")
    drain_timeout_s: float = Field(
        60.0, ge=0, le=86400, description="time in seconds to wait for active operations at the end"
    )
    folders: list[Annotated[str, Field(min_length=1)]] = Field(
        [],
        max_length=256,
        description="one directory through several mounts, one for each client: rank r uses number r modulo"
        " their count, and number 0 is backend.folder; empty: all ranks use backend.folder",
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
        description="lowest and highest ns, both inclusive, and the count"
    )


class FrameCounts(_Part):
    """What became of frames: due = written + dropped + failed + unfinished."""

    planned: int
    due: int
    written: int
    dropped: int = Field(description="frames that found the queue full when they became due")
    late: int = Field(description="number of written frames that were late")
    failed: int = Field(description="frames that failed with a storage error")
    unfinished: int = Field(description="frames that were active when the run was ended")
    bytes: int = Field(description="bytes of written frames")
    stored_bytes_each: int = Field(
        description="bytes of a frame in its file: a multiple of pages with direct I/O"
    )


class FrameSeconds(_Part):
    """Since the first frame was due; null where there was none."""

    last_due: float
    first_done: float | None
    last_done: float | None
    completed: float | None = Field(description="time at which the last file was synced and closed")


class BufferLevels(_Part):
    held_max: int = Field(description="peak queue depth in frames; for several ranks the largest")
    stall_s: float = Field(description="longest time with queued frames in which none was written")
    stall_end_s: float


class FrameTimes(_Part):
    latency: Histogram = Field(description="latency from the due time of a frame until it was written")
    wait: Histogram = Field(description="time in the queue until the write started")
    service: Histogram = Field(description="of write time")
    jitter: Histogram = Field(
        description="scheduling delay: from the due time of a frame until the generator queued it"
    )


class WriterShare(_Part):
    rank: int = 0
    written: int
    first_done_s: float | None
    last_done_s: float | None
    waited_ns: int = Field(
        description="for a processor while it could run; -1 where the kernel does not report it"
    )
    ran_in_writes_ns: int = Field(0, description="on a processor while frames were written")
    waited_in_writes_ns: int = Field(
        -1, description="for a processor while frames were written; -1: not reported by the kernel"
    )


class Generator(_Part):
    start_ns: int = Field(
        0, description="monotonic clock of the machine of rank 0 when the first frame was due"
    )
    pacer_goes_first: bool = Field(
        description="the pacing thread has real-time priority: up to 2 kHz, if permitted"
    )
    pacer_waited_ns: int
    gaps: Gaps | None = Field(None, description="null: of an older version that did not measure it")
    stood_still_ns: list[tuple[int, int]] = Field(
        [], description="begin and end of each pause of at least 50 ms, since the first frame was due"
    )
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
    waited_ns: Sequence[int] | None = Field(
        None,
        description="for a processor while the frame was written; -1: not reported by the kernel, or not"
        " written",
    )


class StreamThread(_Part):
    rank: int = 0
    bytes: int
    done_s: float | None = Field(description="time of sync and close; null if it failed")
    waited_ns: int


class StreamTimes(_Part):
    service: Histogram


class StreamPhase(_Part):
    phase: Literal["write", "read"]
    bytes: int
    operations: int
    mismatches: int | None = Field(
        description="number of blocks that differ from the written data; null: not verified"
    )
    cached_bytes: int | None = Field(
        description="share of the files in this machine's page cache before the phase"
    )
    verify_ns: int | None = Field(
        None, description="time of all threads for comparing data; null: not measured"
    )
    fill_ns: int | None = Field(None, description="time of all threads for generating data; null for reads")
    times: StreamTimes
    threads: list[StreamThread]
    storage_waited_ns: int | None = Field(
        None,
        description="longest wait of a thread of the back end for a processor; null: it has no threads",
    )
    gaps: Gaps | None = Field(None, description="null: of an older version that did not measure it")
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
    complete: bool = Field(description="all threads completed it")
    first_done_s: float | None = Field(
        description="time at which the first thread was done; null if it is not complete"
    )
    last_done_s: float | None
    gaps: Gaps | None = Field(None, description="null: of an older version that did not measure it")


class MetadataSaid(_Part):
    """Of a metadata workload."""

    phases: list[MetadataPhase] = Field(description="in the order in which they were made")
    times: dict[Operation, Histogram] = Field(
        description="time from the end of a thread's operation to the end of its next one, over all"
        " iterations"
    )
    waited_ns: list[int] = Field(
        description="each thread's, for a processor while it could run; -1 where the kernel does not report"
        " it"
    )


class NetworkPhase(_Part):
    """Messages there and back, or a transfer. `server` is null where it gave no answer any more."""

    pattern: Pattern
    streams: int
    message_bytes: int
    seconds: float = Field(description="planned")
    interval_s: float = Field(description="name of the series")
    round_trips: Histogram | None = Field(description="round-trip times of the pattern echo")
    client: NetworkSide
    server: NetworkSide | None


class NetworkSaid(_Part):
    peer_host: str = Field(description="host name of the other end")
    phases: list[NetworkPhase]


class NetworkServed(_Part):
    sessions: int
    refused: int = Field(description="number of rejected connections")


class StorageSaid(_Part):
    direct: bool = Field(description="all files were opened with direct I/O")
    hints: dict[str, str] | None = Field(None, description="MPI-IO hints in effect for the first file")
    mpi_io: str | None = Field(None, description="component of Open MPI that was requested")
    hdf5: str | None = Field(None, description="version of the library that wrote")
    queue_depth: int = Field(1, description="queue depth: concurrent transfers per thread")
    client: str | None = Field(None, description="library and version that spoke the server's protocol")


class RankSaid(_Part):
    """A process of the job that measured."""

    rank: int
    host: str
    lead_ahead_ns: int = Field(
        description="clock of rank 0 minus the clock of this rank, by which its times are corrected"
    )
    clock_error_ns: int = Field(description="uncertainty of clock_offset_ns")
    late_ns: int = Field(description="delay of the start relative to the common start; 0: on time")
    folder: str = Field(
        "", description="directory that the rank used, through its own client; empty: that of all ranks"
    )


class JobSaid(_Part):
    """The ranks that measured together. Their counts are added; times are since the common start."""

    library: str = Field(description="name of the MPI library")
    ranks: int = Field(description="number of ranks of the job")
    parts: list[RankSaid] = Field(description="ranks whose metrics are included")

    @property
    def folders(self) -> dict[int, str]:
        """By rank, where ranks used clients with separate mounts."""
        return {part.rank: part.folder for part in self.parts if part.folder}


class LoadDocument(_Part):
    """What penstock-load measured. The parts of the other workload are null."""

    format: Literal["penstock-load 1"]
    program: str
    plan: LoadPlan
    started: str = Field(description="ISO 8601, UTC")
    interrupted: bool
    problem: str | None = Field(description="reason for which the run ended early")
    failure: Failure | None = Field(
        None, description="the problem for programs; null: there is none, or an older program measured"
    )
    storage: StorageSaid
    machine: dict[str, Any] = Field(
        description="counters of the kernel before and after the run; summed over hosts"
    )
    job: JobSaid | None = Field(None, description="null: a single process")
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
