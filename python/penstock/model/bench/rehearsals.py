"""A rehearsal: the whole chain at a detector's rate and beyond, and which of its stages gives out first."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.comparisons import Answer, Difference
from penstock.model.bench.runs import Check, Search
from penstock.model.findings import Finding

RehearsalAnswer = Literal["yes", "likely yes", "cannot tell", "likely no", "no", "invalid"]
RehearsalStepKind = Literal["warm-up", "rate", "full speed", "search", "soak"]
KIND_WORDS: dict[RehearsalStepKind, str] = {
    "warm-up": "warm-up",
    "rate": "detector's rate",
    "full speed": "unpaced",
    "search": "search",
    "soak": "soak",
}
RehearsalOutcome = Literal["held", "not held", "invalid", "measured"]
Stage = Literal["sender", "network", "receive", "pool", "compress", "write", "storage", "index"]
STAGES: tuple[Stage, ...] = (
    "sender",
    "network",
    "receive",
    "pool",
    "compress",
    "write",
    "storage",
    "index",
)


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class StageUse(_Part):
    """What one stage did in the second half of a step. Shares are of the time of its threads."""

    stage: Stage
    threads: int = Field(ge=0, description="number of threads; 0: the stage has no threads")
    utilisation: float = Field(ge=0, le=1, description="share in which the stage worked")
    headroom: float | None = Field(
        description="multiple of the achieved rate that the stage would sustain, at most; null: it was idle"
    )
    running: float = Field(0.0, ge=0, description="on a processor")
    delayed: float = Field(0.0, ge=0, description="ready, waiting for a processor")
    blocked: float = Field(0.0, ge=0, description="in a blocking call")
    no_work: float = Field(0.0, ge=0, description="waiting for the stage before")
    no_room: float = Field(0.0, ge=0, description="waiting for the stage behind")
    no_memory: float = Field(0.0, ge=0, description="waiting for memory of the pool")
    queue: str = Field("", description="name of the queue in front of the stage; empty: none is counted")
    queue_mean: float | None = Field(None, description="mean depth of that queue; of the pool in bytes")
    queue_peak: float | None = None
    queue_limit: float | None = None


class Delays(_Part):
    """From the time at which a frame is due until it is there, by the recorder's clock, in seconds."""

    received_max_s: float = Field(description="received")
    written_max_s: float = Field(description="written to storage and in the index")
    growth: float | None = Field(
        description="rise per second of the delay until compressed or until written, the larger one, in the"
        " second half; null: too few frames"
    )
    arrival_growth: float | None = Field(None, description="the same of the delay until received")


class SeriesAccount(_Part):
    """What became of the frames of one series: one account by the sender, the recorder and the check."""

    sent: int
    received: int
    written: int
    damaged: int
    dropped: int
    lost: int
    compared: int
    different: int
    closing_s: float = Field(
        0.0, ge=0, description="from the last frame until the file was closed, in seconds"
    )
    raw_bytes: int
    stored_bytes: int
    problems: list[str] = Field([], description="problems that the sender, recorder or check reported")
    findings: list[Finding] = Field([], description="what the check found")

    @property
    def missing(self) -> int:
        """Frames that were sent and are not in the file as they were sent."""
        return max(0, self.sent - self.written) + self.different

    @property
    def corrupt(self) -> bool:
        """Whether frames were stored that are not those that were sent; findings may be of missing ones."""
        return self.different > 0 or (bool(self.findings) and self.written == self.sent)


class RehearsalStep(_Part):
    """One or more series at one rate."""

    kind: RehearsalStepKind
    rate_hz: float = Field(ge=0, description="0: unpaced")
    seconds: float = Field(description="duration of sending")
    sent_hz: float = Field(description="achieved frame rate in Hz")
    written_hz: float | None = Field(
        None,
        description="rate in Hz at which frames of an unpaced step reached the file; null: the step had a"
        " rate, or was too short",
    )
    outcome: RehearsalOutcome
    shortcomings: list[str]
    repeated: str = Field("", description="reason for which the next step repeats it; empty: it does not")
    stopped: bool = Field(False, description="sending was stopped because it was too far behind")
    failure: str = Field(
        "", description="reason for which the recorder crashed or stalled during the step; empty: it did not"
    )
    series: list[SeriesAccount] = Field(description="those that were completed")
    checks: list[Check] = Field([], description="conditions of a sound measurement")
    delays: Delays | None = Field(None, description="null: unpaced, or the file has no times")
    stages: list[StageUse] = Field([], description="empty: the step was too short")
    narrowest: Stage | None = Field(None, description="null: the rate was sustained, or it is not known")

    def total(self, name: str) -> int:
        """Returns the sum of a count over the series."""
        return sum(int(getattr(each, name)) for each in self.series)


class Rehearsal(_Part):
    """Whether a recorder, with its network and storage, keeps up with a detector."""

    format: Literal["penstock-rehearsal 1"] = "penstock-rehearsal 1"
    version: str = Field(description="version of Penstock")
    started: str = Field(description="UTC, ISO 8601")
    host: str
    target: str
    file_system: str = Field("", description="type of the file system")
    sender: str = Field(description="where the detector was simulated; empty: on the recorder's machine")
    transport: Literal["tcp", "zmq"]
    ranks: int = Field(1, ge=1)
    images: str = Field(description="simulated, or which images were replayed")
    detector: str
    answer: RehearsalAnswer
    confidence: float | None = Field(description="probability that the answer is right; null: no answer")
    reasons: list[str] = Field(description="the first one decides")
    advice: list[str]
    notes: list[str] = []
    problem: str | None = Field(description="reason for which it ended early; null: complete")
    needed_hz: float = Field(gt=0)
    frame_bytes: int
    buffer_s: float = Field(description="seconds of frames that the detector's buffer holds")
    sustained_hz: float | None = Field(description="highest sustained rate; null: none was sustained")
    less_than_hz: float | None = Field(description="lowest rate that was not sustained; null: none")
    factor: float | None = Field(description="margin: sustained / needed")
    sent: int = Field(description="frames sent at the detector's rate")
    missing: int = Field(description="of those, frames that are not in the file as they were sent")
    narrowest: Stage | None = Field(description="stage that gives out first; null: not found")
    stages: list[StageUse] = Field(description="of a step at the detector's rate; empty: not measured")
    ratio: float | None = Field(description="compression ratio of the recorded frames")
    storage_alone_bytes_per_s: float | None = Field(
        None, description="what a verdict measured of the storage alone; null: none was given"
    )
    search: Search | None
    steps: list[RehearsalStep]
    configuration: dict[str, Any] = Field(description="the recorder's job, without tokens")
    configuration_file: str = Field("", description="name of the file given by --config; empty: none")

    @property
    def unpaced_hz(self) -> float | None:
        """Rate at which frames of the last unpaced step reached the file; null: it is not known."""
        unpaced = [step.written_hz for step in self.steps if step.kind == "full speed"]
        return unpaced[-1] if unpaced else None if self.search is None else self.search.full_speed_hz

    @property
    def needed_bytes_per_s(self) -> float:
        return self.needed_hz * self.frame_bytes


class RehearsalFacts(_Part):
    """A rehearsal of a comparison."""

    name: str = Field(description="path of the document")
    detector: str
    started: str
    answer: RehearsalAnswer
    confidence: float | None
    needed_hz: float
    frame_bytes: int
    sustained_hz: float | None
    less_than_hz: float | None
    unpaced_hz: float | None
    missing: int
    sent: int
    ratio: float | None = Field(description="compression ratio")
    narrowest: Stage | None
    headroom: dict[Stage, float | None] = Field(
        description="by stage, as a multiple of the achieved rate; null: it was idle"
    )
    complete: bool


class RehearsalComparison(_Part):
    """Two rehearsals side by side. Better and worse are meant of `other`."""

    format: Literal["penstock-rehearsal-comparison 1"] = "penstock-rehearsal-comparison 1"
    base: RehearsalFacts
    other: RehearsalFacts
    answer: Answer
    summary: str = Field(description="what decided the answer")
    conditions: list[Difference] = Field(description="conditions that differ")
    configuration: list[Difference] = Field(description="settings of the recorder that differ")
    notes: list[str] = []
