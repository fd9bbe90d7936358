"""What the native programs report on their standard output, one JSON document a line."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.model.bench.made import Made
from penstock.model.failure import Failure
from penstock.model.findings import Finding
from penstock.model.problems import place_of, words_of


class Event(BaseModel):
    """Any event. Fields that a newer program adds are kept."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    event: str
    time: float = 0.0


class Failed(Event):
    """A program's last event, if it fails."""

    code: str
    path: str = ""
    detail: str = ""

    @property
    def failure(self) -> Failure:
        return Failure(code=self.code, path=self.path, detail=self.detail)


class Listening(Event):
    sources: list[str] = []
    pulled: list[str] = []  # of these, where the recorder connects
    rank: int = 0


class SeriesStart(Event):
    series_unique_id: str = ""
    series_id: int = 0
    file: str = ""
    frames: int = 0
    frames_before: int = 0


class RecorderProgress(Event):
    series_unique_id: str = ""
    frames_received: int = 0
    frames_written: int = 0
    frames_announced: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    pool_used_bytes: int = 0
    pool_bytes: int = 0
    rejected: int = 0
    ends_in_s: float | None = None  # maximum time it waits for frames after the end or for the end
    holdup: str = ""  # why the storage takes nothing at the moment; empty while it writes
    raw_bytes_per_s: float = 0.0
    stored_bytes_per_s: float = 0.0


class Stall(Event):
    """A call to the storage or of HDF5 that takes longer than the limit."""

    call: str = ""
    file: str = ""
    offset: int = 0
    bytes: int = 0
    seconds: float = 0.0  # so far, or altogether
    over: bool = False  # it has returned
    rank: int = 0


class NumaNode(BaseModel):
    node: int
    cpus: str
    memory_bytes: int


class Machine(BaseModel):
    cpus: str
    allowed: str
    cores: list[str]
    nodes: list[NumaNode]
    transparent_huge_pages: str
    free_huge_pages: int


class ThreadPlace(BaseModel):
    role: str
    threads: str
    cpus: str
    nodes: str
    chosen: bool


class MemoryPlace(BaseModel):
    pool_bytes: int
    frame_bytes: int
    segment_bytes_a_series: int
    huge_pages: str
    trouble: str | None


class Placement(Event):
    """Where a recorder's threads and memory would be."""

    machine: Machine
    threads: list[ThreadPlace]
    memory: MemoryPlace


class MetricsAddress(Event):
    address: str = ""
    rank: int = 0


class ThreadGroup(BaseModel):
    """Threads of one name; times in nanoseconds are sums since the program began, of ended threads too."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    name: str
    threads: int = 0  # now
    busiest: float = 0.0  # largest share of the time since the last event in which one of them was running
    alive_ns: int = 0  # 0: threads of a library, whose waits are not known
    running_ns: int = 0
    delayed_ns: int = 0  # ready, waiting for a processor
    work_ns: int = 0  # waiting for the stage before
    room_ns: int = 0  # waiting for the stage behind
    memory_ns: int = 0  # waiting for the pool
    turn_ns: int = 0  # waiting for others that do what one at a time may do


class QueueDepth(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="allow")

    mean: float = 0.0  # since the last event
    peak: float = 0.0


class StageTimes(Event):
    """What the threads of each stage of a recorder did, and how deep its queues were."""

    rank: int = 0
    monotonic_ns: int = 0
    frames_received: int = 0
    frames_written: int = 0
    pool_bytes: int = 0
    segment_bytes: int = 0
    writing_ns: int = 0  # in which at least one segment was being written
    threads: list[ThreadGroup] = []
    queues: dict[str, QueueDepth] = {}


class Latency(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="allow")

    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class RecorderSeriesEnd(Event):
    series_unique_id: str = ""
    file: str = ""
    ended_by: str = ""
    removed: bool = False  # the file, while it was recorded: its frames are gone
    problem: str | None = None
    frames_announced: int = 0
    frames_received: int = 0
    frames_written: int = 0
    missing: int = 0
    never_came: int | None = None  # of those that are missing; None: the recorder is older
    filled: int = 0
    duplicate: int = 0
    late: int = 0
    damaged: int = 0
    dropped: int = 0
    lost: int = 0
    partial: int = 0
    unfiltered: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    frames_seconds: float = 0.0  # from the start to the last frame
    seconds: float = 0.0  # until the file was closed
    latency_ms: Latency = Field(default_factory=Latency)
    stage_seconds: dict[str, float] = {}


class Rejected(Event):
    source: str = ""
    code: str = ""
    message: str = ""


class Note(Event):
    """A problem that led to no rejection."""

    source: str = ""
    code: str = ""
    message: str = ""


class SeriesRefused(Event):
    """A series that has no file, so that nothing of it is recorded."""

    series_unique_id: str = ""
    code: str = ""
    message: str = ""


class Stopped(Event):
    """The recorder's last word; where it is missing, the recorder died."""

    failed_series: int = 0
    refused_series: int = 0
    all_messages_refused: bool = False  # some came, and nothing was recorded


class Waiting(Event):
    """The detector has no receiver and waits for one, or its receiver takes no frames."""

    address: str = ""
    seconds: float = 0.0  # altogether
    seconds_left: float = 0.0
    over: bool = False  # there is one, or it takes frames again
    reason: str = ""  # why the receiver accepts no frames; empty: not connected


class PvaChannel(Event):
    """The source's channel was found, or is gone."""

    channel: str = ""
    state: Literal["connected", "disconnected"]


class FrameProblem(Event):
    """A frame that came over pvAccess and cannot be recorded (`damaged`), or not as it is."""

    unique_id: int | None = None
    damaged: bool = False
    message: str = ""


class PvaProgress(Event):
    channel: str = ""
    series_unique_id: str = ""
    frames_received: int = 0
    frames_sent: int = 0
    acknowledged: int = 0
    missed: int = 0
    damaged: int = 0


class PvaSeriesEnd(Event):
    """What the source knows of a series; `missed` are gaps in uniqueId."""

    channel: str = ""
    series_unique_id: str = ""
    reason: str = ""
    first_unique_id: int = 0
    frames_received: int = 0
    frames_sent: int = 0
    acknowledged: int = 0
    missed: int = 0
    late: int = 0
    repeated: int = 0
    damaged: int = 0
    refused: int = 0
    problem: str | None = None


class DetectorProgress(Event):
    frames_sent: int = 0
    frames: int = 0
    bytes: int = 0
    rate_hz: float = 0.0
    late: int = 0
    bytes_per_s: float = 0.0


class SendingWork(BaseModel):
    """What a detector did while it sent; seconds of the sending thread."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    seconds: float = 0.0
    paced: float = 0.0  # waiting for the schedule
    running: float = 0.0
    delayed: float = 0.0  # ready, waiting for a processor
    blocked: float = 0.0  # while the receiver or the network took nothing
    busiest: float = (
        0.0  # largest share of `seconds` in which one thread of the program was running or delayed
    )


class DetectorSeriesEnd(Event):
    frames_sent: int = 0
    sending_seconds: float = 0.0  # from the start to the last frame
    seconds: float = 0.0
    bytes: int = 0
    late: int = 0
    late_max_ms: float = 0.0
    faults: dict[str, int] | None = None  # that were done, by kind
    fault_seed: int | None = None
    acknowledged: int | None = None
    problem: str | None = None
    failure: Failure | None = None  # the problem for programs
    work: SendingWork | None = None  # None: the detector is older
    elements: int = 1  # streams of one detector; faults count messages, of which a frame has one each

    @property
    def dropped(self) -> int:
        """Frames that were never sent because of --fault; 0 with several elements, which lose parts only."""
        return (self.faults or {}).get("drop", 0) if self.elements == 1 else 0

    @property
    def rate_hz(self) -> float:
        """Frames per second. The first of n frames is sent at the start, so n - 1 intervals pass."""
        seconds = self.sending_seconds or self.seconds
        intervals = max(self.frames_sent - 1, min(self.frames_sent, 1))
        return intervals / seconds if seconds > 0 else 0.0


class Prepare(Event):
    """The detector makes its images before it sends."""

    what: str = ""
    done: int = 0
    total: int = 0


class CheckProgress(Event):
    done: int = 0
    total: int = 0
    what: str = ""


class Reached(BaseModel):
    """How far something came that was stopped."""

    what: str
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.what}, {100 * self.done // self.total} %" if self.total else self.what


class FrameRange(BaseModel):
    """Consecutive missing frames, counted from 0; `reason` is empty if they never arrived."""

    first: int
    last: int
    reason: Literal["", "damaged", "dropped", "lost", "partial"] = ""

    def shifted(self, by: int) -> "FrameRange":
        return self.model_copy(update={"first": self.first + by, "last": self.last + by})

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{numbers} ({self.reason})" if self.reason else numbers


class CheckReport(Event):
    ok: bool
    complete: bool = True
    reached: Reached | None = None
    stopped_by: str | None = None
    unfinished: bool = False
    being_recorded: bool = False  # it is unfinished, and a recorder has it open
    findings: list[Finding] = []
    chunks: int = 0
    frame_chunks: int = 0  # of these: those of frames in segments
    frames: int = 0
    missing: int = 0
    missing_ranges: list[FrameRange] = []  # the first of them, from the file's frame accounting
    partial: int = 0
    damaged_frames: int = 0  # of those, as the next two
    dropped_frames: int = 0
    lost_frames: int = 0
    recoverable: int | None = None  # of an unfinished series: frames that the segments hold
    segments: int = 0
    bytes: int = 0
    compared_frames: int = 0
    different_frames: int = 0
    seconds: float = 0.0


class LoadProgress(Event):
    """Frames, bytes of a phase of a stream, or operations of one on names."""

    phase: str = ""
    unit: Literal["", "operations"] = ""
    done: int = 0
    total: int = 0
    held: int = 0
    iteration: int = 0
    seconds: float = 0.0  # of frames: since the first one was due
    seconds_left: float | None = None  # of jobs that work for a time


class NetworkSession(Event):
    """A client of a network workload's server came, went, or was rejected."""

    state: Literal["begins", "ends", "refused"]
    peer: str = ""
    text: str = ""  # why; empty: nothing was wrong


class LoadMade(Event):
    """What the run created; None: it is unknown, because a rank has not reported."""

    made: Made | None = None


class LoadResult(Event):
    """The last event of penstock-load; penstock.model.bench.load.LoadDocument reads the document."""

    document: dict[str, Any]


class LoadPartial(LoadResult):
    """Result of a job that is stopping, before all ranks have reported their parts: some may never do."""


class RecoverReport(Event):
    way: Literal["nothing", "seal", "repair", "rebuild"]
    written: bool = False
    findings: list[Finding] = []
    segments: int = 0
    indexed: int = 0
    recovered: int = 0
    damaged: int = 0
    frames: int = 0
    missing: int = 0
    damaged_frames: int = 0  # of those, by their state in the file, as the next three
    dropped_frames: int = 0
    lost_frames: int = 0
    partial: int = 0
    seconds: float = 0.0


_COMMON: dict[str, type[Event]] = {
    "failed": Failed,
    "listening": Listening,
    "series_start": SeriesStart,
    "rejected": Rejected,
    "note": Note,
    # Of the pvAccess source; `penstock record` reports them with the recorder's.
    "channel": PvaChannel,
    "frame_problem": FrameProblem,
    "source_progress": PvaProgress,
    "source_series_end": PvaSeriesEnd,
}
_BY_PROGRAM: dict[str, dict[str, type[Event]]] = {
    "penstock-recorder": {
        "progress": RecorderProgress,
        "series_end": RecorderSeriesEnd,
        "stall": Stall,
        "metrics": MetricsAddress,
        "placement": Placement,
        "stages": StageTimes,
        "series_refused": SeriesRefused,
        "stopped": Stopped,
    },
    "penstock-detector": {
        "prepare": Prepare,
        "waiting": Waiting,
        "progress": DetectorProgress,
        "series_end": DetectorSeriesEnd,
    },
    "penstock-check": {"progress": CheckProgress, "report": CheckReport},
    "penstock-load": {
        "progress": LoadProgress,
        "partial": LoadPartial,
        "session": NetworkSession,
        "made": LoadMade,
        "result": LoadResult,
    },
    "penstock-load-remote": {"progress": LoadProgress, "made": LoadMade, "result": LoadResult},
    "penstock-recover": {"progress": CheckProgress, "report": RecoverReport},
}


def parse_event(program: str, line: str) -> Event:
    """The event in one line of a program's output. A ValueError names the program and the line."""
    try:
        plain = Event.model_validate_json(line)
        kind = (_COMMON | _BY_PROGRAM.get(program, {})).get(plain.event)
        return plain if kind is None else kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(
            f"{program} wrote an event that cannot be read"
            f" ({place_of(first)}: {words_of(first, of_json=True)}): {line!r}"
        ) from error
