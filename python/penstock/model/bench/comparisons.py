"""What came of comparing sets of runs: with one another, or many through time. Each is one JSON document."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal["better", "worse", "same", "indistinguishable"]
Answer = Literal["nothing worse", "worse", "cannot tell", "invalid"]
Movement = Literal["steady", "rising", "falling", "jumped", "cannot tell"]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class SetFacts(_Part):
    """A set of runs, as it was given."""

    name: str = Field(description="of the document or folder")
    runs: int = Field(description="that are compared")
    warned: int = Field(description="of those")
    invalid: int = Field(description="left out")
    failed: int = Field(0, description="runs of a campaign that came to nothing")
    first: str = Field(description="when its first run started; ISO 8601, UTC; empty where there is none")
    last: str


class Difference(_Part):
    """A condition or a parameter that is not the same in both sets. Empty: it is not there."""

    case: str = Field("", description="empty: of all")
    name: str
    base: str
    other: str


class Middle(_Part):
    """The median of a value over runs, with its interval."""

    runs: int
    low: float
    median: float
    high: float
    confidence: float = Field(description="that the interval has; below 0.95 where runs are few")


class ValueComparison(_Part):
    """A value of a case, in both sets."""

    case: str
    value: str
    unit: str
    better: Literal["higher", "lower"]
    base: Middle
    other: Middle
    design: Literal["in blocks", "apart"] = Field(
        description="in blocks: each run beside one of the other set that was made next to it"
    )
    outcome: Outcome
    reason: str = Field("", description="why it cannot be told, where it cannot")
    pairs: int = Field(description="runs beside one another; 0: apart")
    scale: Literal["ratio", "difference"] = Field(
        description="of what follows: other / base, or other - base where a value may be 0"
    )
    effect: float
    low: float | None = Field(
        description="of the interval that decided the outcome; null: nothing is known of noise"
    )
    high: float | None
    confidence: float | None = Field(
        None,
        description="of that interval: 0.95 of `same`; else more where several values were compared, so that"
        " all together have 0.95, after Holm; null: of a Penstock that told 0.95 of all, or no interval",
    )
    drift: float | None = Field(
        description="from a run to the next, a share or a difference; it was taken out; null: none"
    )
    detectable: float | None = Field(
        description="the smallest change that would have been found in 4 of 5 times: a share, or a difference"
    )
    p_value: float | None
    p_adjusted: float | None = Field(description="for all values that were compared, after Holm")


class Comparison(_Part):
    """`base` against `other`. Better and worse are meant of `other`."""

    format: Literal["penstock-comparison 1"] = "penstock-comparison 1"
    base: SetFacts
    other: SetFacts
    threshold: float = Field(description="changes up to this share do not matter")
    answer: Answer
    conditions: list[Difference] = Field(description="that differ, and may be the reason")
    parameters: list[Difference] = Field(description="of the workload, that differ; only with --force")
    notes: list[str]
    reasons: list[str] = Field([], description="why it cannot be told, where that is the answer")
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
    jump: float | None = Field(description="from the mean of those before it; null: too few of those")
    p_adjusted: float | None = Field(description="of the jump, for all that were tested, after Holm")
    jumped: bool


class TrendRow(_Part):
    """A value of a case through time."""

    case: str
    value: str
    unit: str
    better: Literal["higher", "lower"]
    scale: Literal["ratio", "difference"] = Field(description="of jumps and slopes: a share, or a difference")
    movement: Movement
    jumped_at: list[str] = Field(description="documents at which the value jumped")
    slope: float | None = Field(description="from a document to the next (Theil and Sen)")
    slope_low: float | None
    slope_high: float | None
    p_adjusted: float | None = Field(description="of the slope, after Kendall, for all values, after Holm")
    points: list[TrendPoint]


class Trend(_Part):
    """Many documents in the order in which their runs were made."""

    format: Literal["penstock-trend 1"] = "penstock-trend 1"
    documents: list[SetFacts]
    window: int = Field(description="each document is compared with so many before it at most")
    answer: Answer
    conditions: list[Change] = Field(description="that may be the reason")
    notes: list[str]
    reasons: list[str] = Field([], description="why it cannot be told, where that is the answer")
    rows: list[TrendRow]
