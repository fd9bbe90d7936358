"""A campaign: runs that belong together, of cases that differ in something, in interleaved blocks."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.runs import Run


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Case(_Part):
    """One point of a table or a plot."""

    name: str = Field(description="unique in its campaign")
    parameters: dict[str, str | int | float] = Field(
        default={}, description="what makes it differ from the other cases"
    )


class CaseRun(_Part):
    """A run of a case. Each block has a run of every case, in an order of its own."""

    case: str
    block: int = Field(ge=0)
    run: Run


class Campaign(_Part):
    """One JSON document. `penstock bench --repetitions` makes one with a single case."""

    format: Literal["penstock-campaign 1"] = "penstock-campaign 1"
    name: str
    title: str
    seed: int = Field(description="of the order of cases in each block")
    blocks: int = Field(ge=1, description="planned")
    cases: list[Case]
    runs: list[CaseRun] = Field(description="in the order in which they were made")

    @property
    def complete(self) -> bool:
        return len(self.runs) == self.blocks * len(self.cases)
