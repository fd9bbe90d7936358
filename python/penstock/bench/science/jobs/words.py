"""What a job and the command that started it say to each other: lines of JSON, and two words."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.load import Histogram
from penstock.model.failure import Failure

GO, STOP = "go", "stop"


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobPlan(_Said):
    """What one process does."""

    number: int = Field(ge=0, description="of the job, from 0")
    function: str = Field(description="MODULE:NAME of a function that takes the job and its parameters")
    place: str = Field(description="directory or URL")
    parameters: dict[str, Any]


class Ready(_Said):
    """It waits for the common start."""

    event: Literal["ready"] = "ready"


class Working(_Said):
    """It worked since it last said something, and has no unit more to report."""

    event: Literal["working"] = "working"


class Done(_Said):
    """What it had done at a moment of the monotonic clock."""

    event: Literal["done"] = "done"
    at_ns: int
    units: int
    asked_bytes: int
    received_bytes: int
    calls: int


class Ended(_Said):
    """Its last word. `problem`: why it ended early, `failure`: for programs, `remedy`: what to do."""

    event: Literal["ended"] = "ended"
    result: dict[str, Any] = {}
    spent_s: dict[str, float] = {}
    latencies: Histogram = Histogram(count=0, max_ns=0, buckets=[])
    problem: str | None = None
    failure: Failure | None = None
    remedy: str = ""


Said = Annotated[Ready | Working | Done | Ended, Field(discriminator="event")]
