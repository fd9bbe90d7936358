"""What a campaign's YAML file says: a workload, what varies in it, and how the outcome is shown."""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.model.bench.campaigns import Parameter, View
from penstock.model.yaml_file import read_yaml

REFERENCE = "docs/reference/campaign.md"
CASES_MAX = 10_000
BLOCKS_MAX = 1000
_LINE_MAX, _VALUE_MAX = 2000, 200
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)]


def _one_line(text: str) -> str:
    """A control character could change what a terminal shows."""
    line = " ".join(text.split())
    if not line.isprintable():
        raise ValueError("it has characters that cannot be printed")
    return line


def _plain(value: object) -> object:
    """A text, a truth value or a number that everything can hold: YAML knows more."""
    if isinstance(value, str) and len(value) <= _VALUE_MAX:
        return _one_line(value)
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    other = "" if isinstance(value, str | int | float) else f", and not a {type(value).__name__}"
    raise ValueError(f"it must be a number, true, false, or a short text{other}")


Line = Annotated[str, Field(max_length=_LINE_MAX), AfterValidator(_one_line)]
Value = Annotated[Parameter, BeforeValidator(_plain)]
Parameters = dict[_Name, Value]


class CampaignFile(BaseModel):
    """One YAML file. Cases are each of `cases` with each combination of `vary`, on each target."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    title: Line = Field(min_length=1)
    reproduces: Line = Field("", description="the public document whose measurement this is")
    departures: list[Line] = Field(
        default=[], max_length=50, description="where it differs from that, and why"
    )
    workload: str = Field(max_length=60, description="one of `penstock bench`, see below")
    parameters: Parameters = Field(
        default={}, description="of all cases: the options of `penstock bench`, with _ for -"
    )
    cases: list[Parameters] = Field(
        default=[{}],
        min_length=1,
        max_length=CASES_MAX,
        description="a list of cases, each with what is its own; each is run at every point of `vary`",
    )
    vary: dict[_Name, Annotated[list[Value], Field(min_length=1, max_length=CASES_MAX)]] = Field(
        default={}, description="for each parameter the values that it takes, as a grid"
    )
    blocks: int = Field(5, ge=1, le=BLOCKS_MAX, description="each has every case once")
    scale: float = Field(
        1.0,
        ge=1e-6,
        le=1000,
        description="sizes and times of runs are multiplied by this; --scale replaces it",
    )
    profile: bool = Field(
        False, description="where the processors' time goes becomes values, with perf where that may be used"
    )
    views: list[View] = Field(default=[], max_length=50, description="tables and plots of the outcome")

    @model_validator(mode="after")
    def _few_and_named_once(self) -> Self:
        count = len(self.cases) * math.prod(len(values) for values in self.vary.values())
        if count > CASES_MAX:
            raise ValueError(f"it has {count} cases; at most {CASES_MAX} are possible")
        for name in self.vary:
            if name in self.parameters or any(name in case for case in self.cases):
                raise ValueError(f"`{name}` is varied and has a value")
        for case in self.cases:
            both = set(case) & set(self.parameters)
            if both:
                raise ValueError(f"`{min(both)}` is in `parameters` and in a case")
        return self

    def points(self) -> Iterator[dict[str, Parameter]]:
        """The parameters in which each case differs from the others, without targets."""
        for case in self.cases:
            for values in itertools.product(*self.vary.values()):
                yield {**case, **dict(zip(self.vary, values, strict=True))}


def read_campaign_file(path: Path) -> CampaignFile:
    """A UsageError names the file, the line, the field and the value."""
    return read_yaml(path, CampaignFile, REFERENCE)
