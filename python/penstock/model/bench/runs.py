"""A run: one measurement of one workload on one target, with its conditions. One JSON document."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.load import LoadDocument, Operation

Validity = Literal["valid", "warned", "invalid"]
CheckOutcome = Literal["ok", "warning", "failed"]
Bias = Literal["better", "worse", "either"]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Check(_Part):
    """One condition of a sound measurement. A failed one makes the run invalid, a warning makes it warned."""

    name: str
    outcome: CheckOutcome
    expected: str
    actual: str
    bias: Bias = Field(description="how the figures may look where the condition does not hold")
    advice: str = ""

    @property
    def told(self) -> str:
        """Where it does not hold: 'check "long enough" failed: 24.7 ms; expected at least 10 s'."""
        outcome = {"failed": "failed", "warning": "gives a warning", "ok": "holds"}[self.outcome]
        return f'check "{self.name}" {outcome}: {self.actual}; expected {self.expected}'


class Conditions(_Part):
    """What the figures depend on."""

    host: str
    kernel: str
    processors: int
    memory_bytes: int
    file_system: str
    mount: str
    mount_source: str
    mount_options: str
    block_bytes: int
    stripe_bytes: int = Field(description="0: none, or not known")
    free_bytes: int
    direct_cached: str = Field(
        "", description="why direct I/O meets a cache of this machine all the same; empty: none is known"
    )
    own_cache: str = Field(
        "",
        description="why this machine may have files in a cache that the kernel does not show; empty: none is"
        " known",
    )
    memory: str = Field(
        "", description="why what is stored is in the memory of this machine; empty: nothing says so"
    )
    versions: dict[str, str]
    command: str


class Meanwhile(_Part):
    """What went on during a run on the machine where it was begun, whoever caused it."""

    processor_pressure_s: float | None = Field(
        description="in which something waited for a processor, as the kernel averages it over those that"
        " had something to do; null: it does not tell"
    )
    memory_pressure_s: float | None = Field(None, description="likewise, for memory")
    device: str = Field(description="the block device below the target; empty: none is known")
    plain: bool = Field(
        False,
        description="a disk and a file system that take little processor time: no RAID, encryption or loop",
    )
    device_read_bytes: int
    device_written_bytes: int
    other_runs: list[str] = Field(description="folders of other runs that worked in the target")


class Clock(_Part):
    """What the clocks did during a run, on the machine where it was begun. Times are of the monotonic one."""

    source: str = Field(description="what the kernel reads it from; empty: it does not tell")
    source_before: str = Field(description="likewise, before the run")
    seconds: float = Field(description="between the two looks, before the run and after it")
    set_by_s: float = Field(
        description="by which the time of day went ahead of it meanwhile: it was set, or the machine stood"
        " still"
    )
    suspended_s: float = Field(ge=0, description="in which the machine was suspended")
    adjusted_share: float = Field(description="by which it was made faster than the machine's own clock is")


class Percentiles(_Part):
    """Milliseconds; each is the upper end of its bucket, at most 0.4 % above the value."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class FrameFigures(_Part):
    """What follows from the document of a frames workload."""

    needed_hz: float = Field(description="0: as fast as it went")
    needed_bytes_per_s: float
    carried_bytes_per_s: float = Field(
        description="written until the last file was synced and closed; at a rate at most what was needed"
    )
    due: int
    written: int
    dropped: int
    late: int
    failed: int
    unfinished: int
    lost_share: float = Field(description="of due frames: those that were not written")
    lost_share_bound_95: float = Field(
        description="the true share is below this with 95 % confidence, if frames are lost one by one"
    )
    latency_ms: Percentiles
    service_ms: Percentiles
    jitter_ms: Percentiles
    stall_s: float
    recovery_s: float | None = Field(
        description="after the longest stall, until a frame was in time again; null: none, or it never was"
    )
    held_max: int


# Caches of devices count most in the first second. Threads begin and end within a millisecond of each other,
# and a local file system looks up tens of thousands of names before a second is over.
STREAM_S_MIN, OPERATION_S_MIN = 1.0, 0.02


class StreamFigures(_Part):
    """What follows from a phase of a stream workload."""

    phase: Literal["write", "read"]
    bytes: int
    bytes_per_s: float = Field(description="until the last thread was done")
    first_done_s: float | None
    last_done_s: float | None
    service_ms: Percentiles
    cached_share: float | None = Field(description="of the files, in this machine's memory before the phase")
    mismatches: int | None

    @property
    def too_short(self) -> bool:
        """For its rate to say anything; phases beside it may stand all the same."""
        return (self.last_done_s or 0.0) < STREAM_S_MIN


class OperationFigures(_Part):
    """What follows from all iterations of one operation of a metadata workload, those that were completed."""

    operation: Operation
    operations: int = Field(description="of each iteration")
    iterations: int = Field(description="that were completed")
    rate_max: float = Field(description="operations a second of all threads, until the last one was done")
    rate_min: float
    rate_mean: float
    rate_deviation: float | None = Field(
        description="standard deviation over iterations, divided by n - 1; null for a single one"
    )
    seconds: float = Field(description="all iterations together")
    together: float = Field(
        description="time of the first thread over that of the last, in the worst iteration"
    )
    latency_ms: Percentiles

    @property
    def too_short(self) -> bool:
        """For its rate to say anything; operations beside it may stand all the same."""
        return self.seconds < OPERATION_S_MIN


class ProcessorCost(_Part):
    """Processor time for each GB (10⁹ bytes) that was moved: written and read, or sent and received."""

    moved_bytes: int
    user_s_per_gb: float = Field(description="of the whole machine, whoever used it")
    system_s_per_gb: float = Field(description="the kernel, with its interrupts")
    steal_s_per_gb: float = Field(description="taken by other virtual machines")
    own_user_s_per_gb: float = Field(description="of the load generator alone")
    own_system_s_per_gb: float

    @property
    def machine_s_per_gb(self) -> float:
        return self.user_s_per_gb + self.system_s_per_gb


class ProfileSymbol(_Part):
    share: float
    symbol: str
    module: str
    kind: str = Field(description="one of the names in `shares`")


class Profile(_Part):
    """Where the processors of the machine spent the time in which they were not idle."""

    idle_share: float = Field(description="of all processors' time")
    shares: dict[str, float] = Field(description="by what the work was for, the largest first")
    symbols: list[ProfileSymbol] = Field(description="functions, the largest first")


class RoundTrips(_Part):
    """Messages of one size, there and back, one after the other over one connection."""

    message_bytes: int
    count: int
    round_trip_ms: Percentiles


class TransferFigures(_Part):
    """One direction of a transfer, counted where the bytes arrived."""

    name: Literal["up", "down", "both: up", "both: down"]
    streams: int
    bytes: int
    seconds: float = Field(description="from the agreed start until the last byte had come")
    bytes_per_s: float
    share_of_link: float | None = Field(description="payload over what the link can carry; null: not known")
    sent_again_share: float = Field(description="of the bytes that the sender's kernel sent")
    round_trip_ms: float = Field(
        description="as the sender's kernel had it at the end, mean over the streams"
    )
    sender_busy_share: float = Field(description="of the busiest thread, in processors")
    receiver_busy_share: float
    sender_s_per_gb: float = Field(description="processor time of the sender's program, for each GB")
    receiver_s_per_gb: float


class NetworkFigures(_Part):
    """What follows from the document of a network workload."""

    interface: str = Field(description="of the route to the other end; empty: not known")
    link_bytes_per_s: float | None
    round_trips: list[RoundTrips]
    transfers: list[TransferFigures]


class Run(_Part):
    format: Literal["penstock-run 1"] = "penstock-run 1"
    workload: Literal["frames", "stream", "metadata", "network"]
    target: str
    conditions: Conditions
    validity: Validity
    checks: list[Check]
    frames: FrameFigures | None = None
    streams: list[StreamFigures] = []
    metadata: list[OperationFigures] = []
    network: NetworkFigures | None = None
    cost: ProcessorCost | None = None
    meanwhile: Meanwhile | None = Field(None, description="null: nobody looked, or nothing is stored")
    clock: Clock | None = Field(None, description="null: of a Penstock that did not look")
    profile: Profile | None = Field(None, description="where one was asked for and could be made")
    ceiling_hz: float | None = Field(
        None, description="frames a second that the generator reaches without storage"
    )
    document: LoadDocument


Answer = Literal["yes", "no", "cannot tell", "invalid"]
StepKind = Literal["rate", "probe", "full speed", "search", "soak"]
StepOutcome = Literal["held", "not held", "invalid", "measured"]
SearchEnd = Literal["narrow", "chance", "top", "bottom", "steps", "time", "invalid", "cut short"]
TopReason = Literal["asked", "space"]


class Step(_Part):
    """A run of a verdict, and what it says about its rate."""

    kind: StepKind
    rate_hz: float = Field(ge=0, description="0: as fast as it went")
    outcome: StepOutcome = Field(description="measured: of the run as fast as it went, which has no rate")
    shortcomings: list[str] = Field(description="why the rate did not hold, or the run is invalid")
    run: Run


class Search(_Part):
    """Between which rates the highest one lies that holds.

    Every run at the lower end and below it held, every run at the upper end and above it did not.
    """

    held_hz: float | None = Field(
        description="the highest rate that held, of those below each that did not; null: none that was tried"
    )
    not_held_hz: float | None = Field(
        description="the lowest rate that did not hold, of those above each that did; null: none that was"
        " tried"
    )
    held_runs: int = Field(1, ge=0, description="at the lower end; all of them held")
    not_held_runs: int = Field(1, ge=0, description="at the upper end; none of them held")
    chance_hz: list[float] = Field(
        [], description="rates between the ends, in a range where one run held and another did not"
    )
    full_speed_hz: float | None = Field(description="frames a second as fast as it went")
    top_hz: float = Field(description="nothing higher would have been tried")
    top_reason: TopReason
    ended: SearchEnd = Field(
        description="narrow: the ends are near each other; chance: they are as near as they get, with rates"
        " between them that hold by chance; top, bottom: nothing is left to try"
    )


class Verdict(_Part):
    """Whether a storage takes a detector."""

    format: Literal["penstock-verdict 1"] = "penstock-verdict 1"
    detector: str
    beside: str = Field("", description="what was repeated beside each step; empty: nothing")
    answer: Answer
    reasons: list[str]
    advice: list[str]
    problem: str | None = Field(description="what ended it before its time; null: it is complete")
    needed_hz: float = Field(gt=0)
    needed_bytes_per_s: float
    late_limit_s: float = Field(description="a rate does not hold where a frame took longer")
    measured_bytes_per_s: float | None = Field(
        description="at the highest rate that held; without a search, as fast as it went"
    )
    margin: float | None = Field(description="measured / needed - 1")
    detectors: int | None = Field(description="how many such detectors the measured bandwidth is enough for")
    lost: int = Field(description="in all valid and warned runs at the detector's rate, as due")
    due: int
    lost_share_bound_95: float
    search: Search | None = Field(description="null: there was none")
    steps: list[Step] = Field(description="in the order in which they were made")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a document, as it is written."""
    schema = model.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
