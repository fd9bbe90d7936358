"""What came of comparing sets of runs: with one another, or many through time. Each is one JSON document."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.runs import Answer as VerdictAnswer

Outcome = Literal["better", "worse", "same", "indistinguishable", "too few runs", "drift"]
Answer = Literal["nothing worse", "worse", "cannot tell", "invalid"]
Movement = Literal["steady", "rising", "falling", "jumped", "cannot tell"]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class VerdictFacts(_Part):
    """A verdict of a set: its answer and what it rests on."""

    detector: str
    answer: VerdictAnswer
    confidence: float | None = Field(description="probability that the answer is right; null: no answer")
    needed_bytes_per_s: float
    sustained_bytes_per_s: float | None = Field(
        description="at least this is sustained; null: no rate was sustained"
    )
    less_than_bytes_per_s: float | None = Field(description="this is not sustained; null: not found")
    unpaced_bytes_per_s: float | None
    lost: int = Field(description="lost frames at the detector's rate")
    due: int


class SetFacts(_Part):
    """A set of runs, as it was given."""

    name: str = Field(description="name of the document or folder")
    runs: int = Field(description="number of runs that are compared")
    warned: int = Field(description="of those")
    invalid: int = Field(description="left out")
    not_sustained: list[str] = Field(
        [], description="cases of the left out runs that are steps of a verdict which were not sustained"
    )
    failed: int = Field(0, description="failed runs of a campaign")
    first: str = Field(description="start of the first run, ISO 8601, UTC; empty: no run")
    last: str
    verdicts: list[VerdictFacts] = Field([], description="verdicts that the runs are of")
    targets: list[str] = Field([], description="targets of the runs; empty: of an older version")


class Difference(_Part):
    """A condition or a parameter that is not the same in both sets. Empty: it does not exist."""

    case: str = Field("", description="case; empty: all cases")
    name: str
    base: str
    other: str


class Middle(_Part):
    """The median of a value over runs, with its interval."""

    runs: int
    low: float
    median: float
    high: float
    confidence: float = Field(description="confidence of the interval; below 0.95 if runs are few")


class ValueComparison(_Part):
    """A value of a case, in both sets."""

    case: str
    value: str
    unit: str
    better: Literal["higher", "lower"]
    base: Middle
    other: Middle
    design: Literal["in blocks", "apart"] = Field(
        description="in blocks: each run is paired with the adjacent run of the other set"
    )
    outcome: Outcome = Field(
        description="indistinguishable: undecided, and the ranges of both sets overlap; too few runs:"
        " undecided because runs are few; drift: the runs drift, which may explain the difference"
    )
    reason: str = Field("", description="reason if the outcome is undecided")
    pairs: int = Field(description="number of pairs of adjacent runs; 0: not paired")
    scale: Literal["ratio", "difference"] = Field(
        description="meaning of the change: other / base, or other - base if a metric may be 0"
    )
    effect: float
    low: float | None = Field(description="of the interval that decided the outcome; null: noise unknown")
    high: float | None
    confidence: float | None = Field(
        None,
        description="confidence of that interval: 0.95 for `same`; otherwise higher if several metrics are"
        " compared, so that all together have 0.95 (Holm); null: of an older version, or no interval",
    )
    drift: float | None = Field(
        description="drift per run, as a share or difference, which was removed; null: none"
    )
    detectable: float | None = Field(
        description="smallest change that would be detected with a probability of 80 %, as a share or"
        " difference"
    )
    p_value: float | None
    p_adjusted: float | None = Field(description="p-value over all compared metrics (Holm)")


class Comparison(_Part):
    """`base` against `other`. Better and worse are meant of `other`."""

    format: Literal["penstock-comparison 1"] = "penstock-comparison 1"
    base: SetFacts
    other: SetFacts
    threshold: float = Field(description="smallest relevant change, as a share")
    answer: Answer
    conditions: list[Difference] = Field(description="conditions that differ and may be the reason")
    parameters: list[Difference] = Field(
        description="parameters of the workload that differ; only with --force"
    )
    notes: list[str]
    reasons: list[str] = Field([], description="reasons if the answer is undecided")
    verdicts: Literal["better", "worse"] | None = Field(
        None,
        description="all verdicts of one set are `yes` and all of the other set `no`; null: they do not"
        " contradict each other with confidence",
    )
    values: list[ValueComparison]


class Change(_Part):
    """A condition that is another one from a document on."""

    document: str
    name: str
    before: str
    after: str


class TrendPoint(_Part):
    """A value of one document."""

    document: str
    middle: Middle
    jump: float | None = Field(description="change from the mean of the preceding documents; null: too few")
    p_adjusted: float | None = Field(description="p-value of the jump over all tests (Holm)")
    jumped: bool


class TrendRow(_Part):
    """A value of a case through time."""

    case: str
    value: str
    unit: str
    better: Literal["higher", "lower"]
    scale: Literal["ratio", "difference"] = Field(
        description="meaning of jumps and slopes: a share or a difference"
    )
    movement: Movement
    jumped_at: list[str] = Field(description="documents at which the metric jumped")
    slope: float | None = Field(description="slope per document (Theil and Sen)")
    slope_low: float | None
    slope_high: float | None
    p_adjusted: float | None = Field(description="p-value of the slope (Kendall) over all metrics (Holm)")
    points: list[TrendPoint]


class Trend(_Part):
    """Many documents in the order in which their runs completed."""

    format: Literal["penstock-trend 1"] = "penstock-trend 1"
    documents: list[SetFacts]
    window: int = Field(description="maximum number of preceding documents with which each one is compared")
    answer: Answer
    conditions: list[Change] = Field(description="conditions that may be the reason")
    notes: list[str]
    reasons: list[str] = Field([], description="reasons if the answer is undecided")
    rows: list[TrendRow]
