"""A run: one measurement of one workload on one target, with its conditions. One JSON document."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.load import LoadDocument, Operation
from penstock.model.bench.percentiles import Percentiles
from penstock.model.bench.science import ScienceFigures, ScienceName

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
    bias: Bias = Field(description="direction in which metrics may be wrong if the condition is not met")
    advice: str = ""

    @property
    def reported(self) -> str:
        """Returns 'check "long enough" failed: 24.7 ms; expected: at least 10 s'."""
        outcome = {"failed": "failed", "warning": "gives a warning", "ok": "passed"}[self.outcome]
        return f'check "{self.name}" {outcome}: {self.actual}; expected: {self.expected}'


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
    stripe_bytes: int = Field(description="0: none, or unknown")
    free_bytes: int
    direct_cached: str = Field(
        "", description="reason for which direct I/O still uses a cache of this machine; empty: none known"
    )
    own_cache: str = Field(
        "",
        description="reason for which files may be in a cache that the kernel does not report; empty: none"
        " known",
    )
    memory: str = Field(
        "", description="reason for which stored data is in the memory of this machine; empty: none known"
    )
    versions: dict[str, str]
    command: str


class StorageWaits(_Part):
    """How long what the storage needs on the starting machine waited for a processor, sampled."""

    kernel_threads: bool = Field(description="kernel threads were visible")
    daemon_threads: int | None = Field(
        description="visible threads of FUSE processes; null: the target is not a FUSE file system"
    )
    at_ns: list[int] = Field(description="time of each sample, by the monotonic clock")
    waited_ns: list[int] = Field(
        description="time waited until then, of all these threads together and including steal"
    )
    longest_ns: list[int] = Field(
        [],
        description="the same, but of each sample only the longest wait of a kernel thread and that of a FUSE"
        " thread; empty: of an older version",
    )


class Meanwhile(_Part):
    """What went on during a run on the machine where it was begun, whoever caused it."""

    processor_pressure_s: float | None = Field(None, description="of an older version")
    memory_pressure_s: float | None = Field(None, description="of an older version")
    device: str = Field(description="block device below the target; empty: none known")
    plain: bool = Field(
        False,
        description="disk and file system need little processor time: no RAID, encryption or loop device",
    )
    device_read_bytes: int
    device_written_bytes: int
    below: str = Field("", description="block device that has the file of a loop device; empty: none")
    below_moved_bytes: int = Field(0, description="read from and written to the device below")
    other_runs: list[str] = Field(description="directories of other runs that used the target")
    storage_waits: StorageWaits | None = Field(None, description="null: not measured")


class Clock(_Part):
    """What the clocks did during a run, on the machine where it was begun. Times are of the monotonic one."""

    source: str = Field(description="clock source of the kernel; empty: not reported")
    source_before: str = Field(description="the same before the run")
    seconds: float = Field(description="time between both readings, before and after the run")
    set_by_s: float = Field(
        description="seconds by which the time of day advanced more than the clock: it was stepped, or the"
        " machine was suspended"
    )
    suspended_s: float = Field(ge=0, description="seconds during which the machine was suspended")
    adjusted_share: float = Field(
        description="share by which the clock was accelerated relative to the machine's oscillator"
    )


class FrameFigures(_Part):
    """What follows from the document of a frames workload."""

    needed_hz: float = Field(description="0: unpaced")
    needed_bytes_per_s: float
    carried_bytes_per_s: float = Field(
        description="throughput until the last file was synced and closed; at a rate at most the required"
        " throughput"
    )
    due: int
    written: int
    dropped: int
    late: int
    failed: int
    unfinished: int
    lost_share: float = Field(description="share of due frames that were not written")
    lost_share_bound_95: float = Field(
        description="upper bound of the true share with 95 % confidence, for independent losses"
    )
    latency_ms: Percentiles
    service_ms: Percentiles
    jitter_ms: Percentiles
    stall_s: float
    recovery_s: float | None = Field(
        description="time after the longest stall until a frame was on time again; null: no stall, or never"
    )
    held_max: int


# Caches of devices count most in the first second. Threads begin and end within a millisecond of each other,
# and a local file system looks up tens of thousands of names before a second is over.
STREAM_S_MIN, OPERATION_S_MIN = 1.0, 0.02


class StreamFigures(_Part):
    """What follows from a phase of a stream workload."""

    phase: Literal["write", "read"]
    bytes: int
    bytes_per_s: float = Field(description="time until the last thread was done")
    first_done_s: float | None
    last_done_s: float | None
    service_ms: Percentiles
    cached_share: float | None = Field(
        description="share of the files in this machine's page cache before the phase"
    )
    mismatches: int | None

    @property
    def too_short(self) -> bool:
        """For its rate to say anything; phases beside it may stand all the same."""
        return (self.last_done_s or 0.0) < STREAM_S_MIN


class OperationFigures(_Part):
    """What follows from all iterations of one operation of a metadata workload, those that were completed."""

    operation: Operation
    operations: int = Field(description="rate of each iteration")
    iterations: int = Field(description="number of completed iterations")
    rate_max: float = Field(description="operations per second of all threads until the last thread was done")
    rate_min: float
    rate_mean: float
    rate_deviation: float | None = Field(
        description="standard deviation over iterations (divisor n - 1); null for a single iteration"
    )
    seconds: float = Field(description="duration of all iterations")
    together: float = Field(
        description="duration of the first thread divided by that of the last, in the worst iteration"
    )
    latency_ms: Percentiles

    @property
    def too_short(self) -> bool:
        """For its rate to say anything; operations beside it may stand all the same."""
        return self.seconds < OPERATION_S_MIN


class ProcessorCost(_Part):
    """Processor time for each GB (10⁹ bytes) that was moved: written and read, or sent and received."""

    moved_bytes: int
    user_s_per_gb: float = Field(description="processor time of the whole machine")
    system_s_per_gb: float = Field(description="kernel time including interrupts")
    steal_s_per_gb: float = Field(description="time used by other virtual machines")
    own_user_s_per_gb: float = Field(description="processor time of the load generator")
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

    idle_share: float = Field(description="share of the time of all processors")
    shares: dict[str, float] = Field(description="shares by purpose, the largest first")
    symbols: list[ProfileSymbol] = Field(description="functions, the largest share first")


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
    seconds: float = Field(description="duration from the common start until the last byte arrived")
    bytes_per_s: float
    share_of_link: float | None = Field(
        description="payload divided by the capacity of the link; null: unknown"
    )
    sent_again_share: float = Field(description="share of retransmitted bytes")
    round_trip_ms: float = Field(
        description="round-trip time at the end as reported by the sender's kernel, mean over the streams"
    )
    sender_busy_share: float = Field(description="load of the busiest thread, in processors")
    receiver_busy_share: float
    sender_s_per_gb: float = Field(description="processor time of the sender's program per GB")
    receiver_s_per_gb: float


class NetworkFigures(_Part):
    """What follows from the document of a network workload."""

    interface: str = Field(description="network interface of the route to the other end; empty: unknown")
    link_bytes_per_s: float | None
    round_trips: list[RoundTrips]
    transfers: list[TransferFigures]


class FaultFigures(_Part):
    """A fault of a server during a run. Times of the run count from when its first frame was due.

    In other workloads than frames they count from the first progress, and all after `healed_s` are null.
    """

    server: int
    fault: Literal["fail", "stall", "slow"]
    began_s: float
    ended_s: float | None = Field(description="when it was healed, at the latest when the run was over")
    healed_s: float | None = Field(
        description="from then until the system reported that it has all copies; null: not known"
    )
    before_hz: float | None = Field(None, description="frames written per second before the fault")
    lowest_hz: float | None = Field(None, description="fewest frames written in a second after the fault")
    dip_s: float | None = Field(None, description="longest time without a written frame after the fault")
    returned_s: float | None = Field(None, description="from the fault until the end of that time")
    caught_up_s: float | None = Field(
        None, description="from the fault until frames were written as soon as before; null: not in the run"
    )


class StoredFrames(_Part):
    """Frames that were read back after a run with faults, and compared."""

    written: int = Field(description="frames that the storage had accepted")
    wrong: int = Field(description="of these, frames that are missing or have other bytes")


class Run(_Part):
    format: Literal["penstock-run 1"] = "penstock-run 1"
    workload: Literal["frames", "stream", "metadata", "network"] | ScienceName
    target: str
    conditions: Conditions
    validity: Validity
    checks: list[Check]
    frames: FrameFigures | None = None
    streams: list[StreamFigures] = []
    metadata: list[OperationFigures] = []
    network: NetworkFigures | None = None
    science: ScienceFigures | None = None
    cost: ProcessorCost | None = None
    meanwhile: Meanwhile | None = Field(None, description="null: not measured, or nothing is stored")
    clock: Clock | None = Field(None, description="null: of an older version that did not measure it")
    profile: Profile | None = Field(None, description="profile, if requested and possible")
    faults: list[FaultFigures] = Field([], description="faults of servers that a campaign scheduled")
    stored: StoredFrames | None = Field(
        None,
        description="null: without faults, or not checked (only raw frames of random bytes or zeros are)",
    )
    ceiling_hz: float | None = Field(
        None, description="frame rate in Hz that the generator reaches without storage"
    )
    document: LoadDocument


Answer = Literal["yes", "likely yes", "cannot tell", "likely no", "no", "invalid"]
StepKind = Literal["rate", "probe", "full speed", "search", "soak"]
StepOutcome = Literal["held", "not held", "disturbed", "invalid", "measured"]
SearchEnd = Literal["narrow", "chance", "top", "bottom", "steps", "time", "invalid", "cut short"]


class Alone(_Part):
    """Whether the storage alone would have sustained the rate of a run that did not."""

    hindered_share: float | None = Field(
        description="share of the time of all writes that was not the storage's own; null: unknown"
    )
    shortcomings: list[str] = Field(
        description="reasons for which the storage alone would not have sustained the rate either; empty: it"
        " would have, or that is unknown"
    )
    certain: bool = Field(description="also with writes that take 0.9 of the measured time")
    unknown: str = Field("", description="reason for which nothing can be said; empty: it can")


class Step(_Part):
    """A run of a verdict, and what it says about its rate."""

    kind: StepKind
    rate_hz: float = Field(ge=0, description="0: unpaced")
    outcome: StepOutcome = Field(
        description="measured: outcome of the unpaced run, which has no rate; disturbed: not sustained, but"
        " the storage alone would have sustained it, or that is unknown"
    )
    alone: Alone | None = Field(None, description="null: the rate was sustained")
    shortcomings: list[str] = Field(
        description="reasons why the rate was not sustained, or the run is invalid"
    )
    run: Run


class Search(_Part):
    """Between which rates the highest one lies that holds.

    Every run at the lower end and below it held, every run at the upper end and above it did not.
    """

    held_hz: float | None = Field(
        description="highest sustained rate below all rates that were not sustained; null: none"
    )
    not_held_hz: float | None = Field(
        description="lowest rate that was not sustained, above all sustained rates; null: none"
    )
    held_runs: int = Field(1, ge=0, description="number of runs at the lower endpoint; all sustained")
    not_held_runs: int = Field(1, ge=0, description="number of runs at the upper endpoint; none sustained")
    chance_hz: list[float] = Field(
        [], description="rates within the bracket at which one run was sustained and another was not"
    )
    full_speed_hz: float | None = Field(description="frame rate in Hz of the unpaced run")
    top_hz: float = Field(description="highest rate that the search would try")
    top_reason: str = Field("asked", description="of older versions: the free space may have limited it")
    ended: SearchEnd = Field(
        description="narrow: the bracket is narrow; chance: it cannot become narrower because rates in it"
        " are sustained by chance; top, bottom: the limit of the search was reached"
    )


class Verdict(_Part):
    """Whether a storage takes a detector."""

    format: Literal["penstock-verdict 1"] = "penstock-verdict 1"
    detector: str
    beside: str = Field("", description="background load of each step; empty: none")
    answer: Answer
    confidence: float | None = Field(
        None, description="probability that the answer is right; null: no answer, or of an older version"
    )
    reasons: list[str] = Field(description="the first one decides")
    advice: list[str] = Field(description="about the storage, then about the measurement")
    next_command: str = Field("", description="command that would make the answer certain; empty: it is")
    notes: list[str] = Field([], description="checks that did not pass; they do not change the answer")
    problem: str | None = Field(description="reason for which it ended early; null: complete")
    needed_hz: float = Field(gt=0)
    needed_bytes_per_s: float
    typical_ratio: float | None = Field(
        None,
        description="typical compression ratio of a detector that sends compressed frames, if uncompressed"
        " frames were measured; null: otherwise",
    )
    late_limit_s: float = Field(description="a rate is not sustained if the latency of a frame exceeds this")
    measured_bytes_per_s: float | None = Field(
        description="at the highest sustained rate; without a search, unpaced"
    )
    less_than_bytes_per_s: float | None = Field(
        None, description="at the lowest rate that was not sustained; null: none was found"
    )
    unpaced_bytes_per_s: float | None = Field(None, description="of the unpaced run")
    at_most_bytes_per_s: float | None = Field(
        None,
        description="upper bound of what the storage would sustain without other programs, with 95 %"
        " confidence; null: unknown, or more than 3 times the unpaced throughput",
    )
    margin: float | None = Field(description="measured / required")
    detectors: int | None = Field(
        description="equivalent detectors: number of detectors that the measured bandwidth supports"
    )
    written_bytes: int = Field(
        0, description="by all steps, preliminary runs included; 0: nothing, or of an older version"
    )
    lost: int = Field(description="lost frames in all valid and warned runs at the detector's rate")
    due: int
    lost_share_bound_95: float
    search: Search | None = Field(description="null: none")
    steps: list[Step] = Field(description="in the order in which they were made")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a document, as it is written."""
    schema = model.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
