"""A campaign: runs that belong together, of cases that differ in something, in interleaved blocks."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.model.runs import Run

Parameter = str | bool | int | float


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Target(_Part):
    """What is measured, under the name that tables and plots give it."""

    name: str = Field(min_length=1)
    path: str = Field(
        min_length=1, description="a folder on a storage; of the workload network HOST:PORT, or local"
    )


class Case(_Part):
    """One point of a table or a plot."""

    name: str = Field(description="unique in its campaign")
    target: str = Field("", description="the name of one of the campaign's targets")
    parameters: dict[str, Parameter] = Field(
        default={}, description="what makes it differ from the other cases"
    )

    def value_of(self, parameter: str) -> Parameter | None:
        """Of what a view names: one of the parameters, or `target`."""
        return self.target if parameter == "target" else self.parameters.get(parameter)


class CaseRun(_Part):
    """A run of a case. Each block has a run of every case, in an order of its own."""

    case: str
    block: int = Field(ge=0)
    run: Run


class CaseFailure(_Part):
    """A run of a case that gave no figures. The campaign goes on without it."""

    case: str
    block: int = Field(ge=0)
    problem: str
    when: str = Field(description="ISO 8601, UTC")


class Baseline(_Part):
    """What values are a share of: the median of the case with these parameters, else like the one shown."""

    parameters: dict[str, Parameter] = Field(min_length=1, description="`target` may be one of them")
    times: str = Field("", description="a parameter of the case that is shown, whose value multiplies that")


class View(_Part):
    """A table or a plot of a campaign. Rows and columns are parameters, or `target`.

    A plot or table has one value, of each case the median of its runs. Extremes have several values, one a
    row, and of each the most, the least and the mean of the runs.
    """

    kind: Literal["table", "plot", "extremes"]
    title: str = ""
    value: str = Field("", description="of each run, by its name: carried, lost, write …; not of extremes")
    rows: str = Field(
        "", description="of the table; of a plot, what its horizontal axis shows; not of extremes"
    )
    columns: list[str] = Field(default=[], description="of the table; of a plot, what its curves are")
    share_of: Baseline | None = None
    values: dict[str, str] = Field(
        default={}, max_length=100, description="of extremes: what rows are called, and the value of each"
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if self.kind == "extremes":
            if not self.values or self.value or self.rows or self.share_of is not None:
                raise ValueError(
                    "`extremes` have `values` and `columns`, and no `value`, `rows` or `share_of`"
                )
        elif self.values or not (self.value and self.rows):
            raise ValueError(f"a {self.kind} has `value` and `rows`, and no `values`")
        return self

    @property
    def name(self) -> str:
        return self.title or self.value or ", ".join(self.values)


class Campaign(_Part):
    """One JSON document. `penstock bench --repetitions` makes one with a single case."""

    format: Literal["penstock-campaign 1"] = "penstock-campaign 1"
    name: str
    title: str
    reproduces: str = Field("", description="the public document whose measurement this is")
    departures: list[str] = Field(default=[], description="where it differs from that, and why")
    workload: str = Field("", description="that of every case")
    parameters: dict[str, Parameter] = Field(
        default={}, description="those that are alike for all cases, and not at their defaults"
    )
    scale: float = Field(1.0, gt=0, description="sizes were multiplied by this")
    targets: list[Target] = []
    profile: bool = Field(False, description="runs were to be profiled with perf")
    views: list[View] = []
    seed: int = Field(ge=0, description="of the order of cases in each block")
    blocks: int = Field(ge=1, description="planned")
    cases: list[Case] = Field(min_length=1)
    runs: list[CaseRun] = Field(description="in the order in which they were made")
    failures: list[CaseFailure] = []

    @property
    def folders(self) -> list[Target]:
        """The targets that are on a storage."""
        return [] if self.workload == "network" else self.targets

    @property
    def complete(self) -> bool:
        return len(self.runs) + len(self.failures) == self.blocks * len(self.cases)

    @property
    def done(self) -> set[tuple[int, str]]:
        """Block and case of every run, of the failed ones too."""
        made: tuple[CaseRun | CaseFailure, ...] = (*self.runs, *self.failures)
        return {(each.block, each.case) for each in made}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Each run is of a case, of a planned block, and there once; so are cases and targets."""
        names = [case.name for case in self.cases]
        targets = [target.name for target in self.targets]
        for what, each in (("case", names), ("target", targets)):
            if len(set(each)) != len(each):
                raise ValueError(f"a {what} stands twice")
        if any(case.target not in targets for case in self.cases if case.target):
            raise ValueError("a case has a target that is not in the list of targets")
        if len(self.done) != len(self.runs) + len(self.failures):
            raise ValueError("a case stands twice in a block")
        if any(block >= self.blocks or name not in names for block, name in self.done):
            raise ValueError("a run is of a case or a block that is not planned")
        return self
