"""What a campaign's YAML file says: a workload, what varies in it, and how the outcome is shown."""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.model.bench.campaigns import FAULTS, Parameter, View
from penstock.model.bench.fault_schedules import NO_FAULTS, Schedule
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
        raise ValueError("it has unprintable characters")
    return line


def _plain(value: object) -> object:
    """A text, a truth value or a number that everything can hold: YAML knows more."""
    if isinstance(value, str) and len(value) <= _VALUE_MAX:
        return _one_line(value)
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    other = "" if isinstance(value, str | int | float) else f", not a {type(value).__name__}"
    raise ValueError(f"it must be a number, true, false, or a short text{other}")


Line = Annotated[str, Field(max_length=_LINE_MAX), AfterValidator(_one_line)]
Value = Annotated[Parameter, BeforeValidator(_plain)]
Parameters = dict[_Name, Value]


class CampaignFile(BaseModel):
    """One YAML file. Cases are each of `cases` with each combination of `vary`, on each target."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    title: Line = Field(min_length=1)
    reproduces: Line = Field("", description="public document whose measurement is reproduced")
    departures: list[Line] = Field(
        default=[], max_length=50, description="differences from that document, with reasons"
    )
    workload: str = Field(max_length=60, description="workload of `penstock bench`, see below")
    parameters: Parameters = Field(
        default={}, description="parameters of all cases: the options of `penstock bench`, with _ for -"
    )
    cases: list[Parameters] = Field(
        default=[{}],
        min_length=1,
        max_length=CASES_MAX,
        description="list of cases with their own parameters; each is run at every point of `vary`",
    )
    vary: dict[_Name, Annotated[list[Value], Field(min_length=1, max_length=CASES_MAX)]] = Field(
        default={}, description="values of each varied parameter, which form a grid"
    )
    schedules: dict[_Name, Schedule] = Field(
        default={},
        max_length=100,
        description="faults of servers of a laboratory during a run, see below; the parameter `faults` of a"
        " case names one, or none",
    )
    blocks: int = Field(
        5, ge=1, le=BLOCKS_MAX, description="number of blocks; each block runs every case once"
    )
    scale: float = Field(
        1.0,
        ge=1e-6,
        le=1000,
        description="factor for sizes and durations of runs; --scale replaces it",
    )
    profile: bool = Field(
        False, description="report where processor time is spent, with perf if it is permitted"
    )
    views: list[View] = Field(default=[], max_length=50, description="tables and plots of the outcome")

    @model_validator(mode="after")
    def _few_and_named_once(self) -> Self:
        count = len(self.cases) * math.prod(len(values) for values in self.vary.values())
        if count > CASES_MAX:
            raise ValueError(f"its {count} cases exceed the maximum of {CASES_MAX}")
        for name in self.vary:
            if name in self.parameters or any(name in case for case in self.cases):
                raise ValueError(f"`{name}` is both in `vary` and in `parameters`")
        for case in self.cases:
            both = set(case) & set(self.parameters)
            if both:
                raise ValueError(f"`{min(both)}` is both in `parameters` and in a case")
        return self

    @model_validator(mode="after")
    def _schedules_named(self) -> Self:
        named = [each[FAULTS] for each in (self.parameters, *self.cases) if FAULTS in each]
        named += self.vary.get(FAULTS, [])
        for name in named:
            if name != NO_FAULTS and name not in self.schedules:
                known = ", ".join((NO_FAULTS, *self.schedules))
                raise ValueError(f"`{FAULTS}` is {name!r}, which is not a schedule; use one of {known}")
        if unused := set(self.schedules) - {str(name) for name in named}:
            raise ValueError(f"no case has the schedule `{min(unused)}`; name it in `{FAULTS}`")
        if NO_FAULTS in self.schedules:
            raise ValueError(f"`{NO_FAULTS}` cannot be the name of a schedule")
        return self

    def points(self) -> Iterator[dict[str, Parameter]]:
        """The parameters in which each case differs from the others, without targets."""
        for case in self.cases:
            for values in itertools.product(*self.vary.values()):
                yield {**case, **dict(zip(self.vary, values, strict=True))}


def read_campaign_file(path: Path) -> CampaignFile:
    """A UsageError names the file, the line, the field and the value."""
    return read_yaml(path, CampaignFile, REFERENCE)
