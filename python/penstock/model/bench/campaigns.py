"""A campaign: runs that belong together, of cases that differ in something, in interleaved blocks."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.model.bench.fault_schedules import NO_FAULTS, Fault
from penstock.model.bench.runs import Run

Parameter = str | bool | int | float
SERVERS_MAX, CLIENTS_MAX = 100_000, 100_000
# What a view may name beside the parameters of cases.
NUMBERS = ("servers", "clients")
OF_TARGETS = ("target", "system", *NUMBERS)
FAULTS = "faults"
"""parameter of cases that names a schedule"""


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Target(_Part):
    """What is measured, under the name that tables and plots give it."""

    name: str = Field(min_length=1)
    path: str = Field(
        min_length=1, description="folder on a storage; for the workload network HOST:PORT or local"
    )
    servers: int | None = Field(
        None,
        ge=1,
        le=SERVERS_MAX,
        description="number of servers of the storage, as given by the user; null: not given",
    )
    clients: int | None = Field(
        None,
        ge=1,
        le=CLIENTS_MAX,
        description="number of clients of a laboratory, as given by the user; the ranks of a run use them in"
        " turn; null: not given",
    )
    system: str = Field(
        "",
        description="name shared by targets with different numbers of servers or clients; empty: the"
        " target's name",
    )
    local: str = Field("", description="name of the target that is the local disk of one server")
    laboratory: str = Field(
        "",
        description="storage system that the campaign brings up for its runs, with its settings; empty: the"
        " target is there already",
    )


class Case(_Part):
    """One point of a table or a plot."""

    name: str = Field(description="unique name of the case")
    target: str = Field("", description="name of one of the campaign's targets")
    parameters: dict[str, Parameter] = Field(
        default={}, description="parameters that differ from other cases"
    )


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
    """Values are shown as shares of the median of the case with these parameters.

    Its other parameters are those of the case shown.
    """

    parameters: dict[str, Parameter] = Field(
        default={}, description="parameters, which may include `target`, `system`, `servers` and `clients`"
    )
    times: str = Field(
        "", description="parameter of the case, or `servers` or `clients`, whose value multiplies the metric"
    )
    local: bool = Field(
        False,
        description="use the highest median on the local disk of one server, times the number of servers",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.local == bool(self.parameters) or (self.local and self.times):
            raise ValueError("it has `parameters`, with or without `times`, or else `local: true`")
        return self


class Line(_Part):
    """Reference lines of a plot, and a column of its table: what was requested, or what can be reached.

    Each row has the median of a metric, of the row's own cases or of a reference case. A plot draws the lines
    that have the unit of its metric.
    """

    title: str = Field(min_length=1, max_length=60)
    value: str = Field(min_length=1, description="metric of runs, such as `needed`; see below")
    of: dict[str, Parameter] = Field(
        default={},
        description="parameters of the reference case, otherwise those of the row; left out: the row's own"
        " case",
    )
    columns: list[str] = Field(
        default=[], description="parameters, or `target`, with one line per value; left out: one line"
    )


Aggregate = Literal["median", "max", "min", "mean"]


class View(_Part):
    """A table or a plot of a campaign. Rows and columns are parameters, or `target`.

    `plot` and `table`: one metric, the median over the runs of each case. `extremes`: one metric per row,
    with the maximum, minimum and mean over the runs. `listing`: one case per row, with its parameters and
    several metrics.

    `servers` and `clients` are the numbers of servers and clients of a target, and `system` the name shared
    by targets with different numbers. A view by `servers` or `clients` leaves out targets for which no number
    is given.
    """

    kind: Literal["table", "plot", "extremes", "listing"]
    title: str = ""
    value: str = Field(
        "", description="metric of each run, by name: throughput, lost, write …; for tables and plots"
    )
    rows: str = Field("", description="parameter of the rows; for plots, of the horizontal axis")
    columns: list[str] = Field(
        default=[],
        description="parameter of the columns; for plots, of the curves; for listings, the parameters in"
        " which cases differ",
    )
    share_of: Baseline | None = Field(None, description="for tables and plots")
    lines: list[Line] = Field(default=[], max_length=10, description="for tables and plots")
    values: dict[str, str] = Field(
        default={},
        max_length=100,
        description="names of the rows of extremes or columns of a listing, with the metric of each",
    )
    aggregate: Aggregate = Field("median", description="for listings: aggregate over the runs of a case")
    leave_out: dict[str, Parameter] = Field(
        default={}, description="cases with these parameters are hidden, and may still be references"
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if self.kind in ("extremes", "listing"):
            if not self.values or self.value or self.rows or self.share_of is not None or self.lines:
                raise ValueError(
                    f"`{self.kind}` has `values` and `columns`, and no `value`, `rows`, `share_of` or `lines`"
                )
        elif self.values or not (self.value and self.rows):
            raise ValueError(f"a {self.kind} has `value` and `rows`, and no `values`")
        if self.kind == "listing" and not self.columns:
            raise ValueError("a listing has `columns`: what its cases differ in")
        if self.kind != "listing" and self.aggregate != "median":
            raise ValueError("`aggregate` is of a listing, and its `values`")
        return self

    @property
    def shown_values(self) -> list[str]:
        """By their names, those of lines too."""
        return [*(self.values.values() or [self.value]), *(line.value for line in self.lines)]

    @property
    def named(self) -> list[str]:
        """The parameters that it needs cases to have, or those in OF_TARGETS."""
        names = [*([self.rows] if self.rows else []), *self.columns, *self.leave_out]
        if self.share_of is not None:
            names += [*self.share_of.parameters, *([self.share_of.times] if self.share_of.times else [])]
        for line in self.lines:
            names += [*line.columns, *line.of]
        return names

    @property
    def name(self) -> str:
        return self.title or self.value or ", ".join(self.values)


class Campaign(_Part):
    """One JSON document. `penstock bench --repetitions` makes one with a single case."""

    format: Literal["penstock-campaign 1"] = "penstock-campaign 1"
    name: str
    title: str
    reproduces: str = Field("", description="public document whose measurement is reproduced")
    departures: list[str] = Field(default=[], description="differences from that document, with reasons")
    workload: str = Field("", description="workload of all cases")
    parameters: dict[str, Parameter] = Field(
        default={}, description="parameters that all cases share and that differ from their defaults"
    )
    scale: float = Field(1.0, gt=0, description="factor of sizes and durations")
    targets: list[Target] = []
    profile: bool = Field(False, description="runs are profiled with perf")
    schedules: dict[str, list[Fault]] = Field(
        default={}, description="faults of servers, by the name that the parameter `faults` has"
    )
    views: list[View] = []
    seed: int = Field(ge=0, description="seed of the order of cases in each block")
    blocks: int = Field(ge=1, description="planned")
    cases: list[Case] = Field(min_length=1)
    runs: list[CaseRun] = Field(description="in the order in which they were made")
    failures: list[CaseFailure] = []

    @property
    def folders(self) -> list[Target]:
        """The targets that are folders, and there already."""
        return [] if self.workload == "network" else [each for each in self.targets if not each.laboratory]

    def value_of(self, case: Case, name: str) -> Parameter | None:
        """Of what a view names: a parameter of the case, or something of its target."""
        if name not in OF_TARGETS:
            return case.parameters.get(name)
        if name == "target":
            return case.target
        target = self.target_of(case)
        if target is None:
            return None
        if name in NUMBERS:
            return target.servers if name == "servers" else target.clients
        return target.system or target.name

    def faults_of(self, case: Case) -> list[Fault]:
        name = (self.parameters | case.parameters).get(FAULTS, NO_FAULTS)
        return self.schedules.get(str(name), [])

    def target_of(self, case: Case) -> Target | None:
        """None where the campaign names no targets."""
        return next((target for target in self.targets if target.name == case.target), None)

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
                raise ValueError(f"duplicate {what}")
        if any(case.target not in targets for case in self.cases if case.target):
            raise ValueError("a case has a target that is not in the list of targets")
        for target in self.targets:
            if target.local and (target.local not in targets or target.servers is None):
                raise ValueError("a local disk is one of the targets, of one that has a number of servers")
        if len(self.done) != len(self.runs) + len(self.failures):
            raise ValueError("a block has a case twice")
        if any(block >= self.blocks or name not in names for block, name in self.done):
            raise ValueError("a run is of a case or a block that is not planned")
        return self
