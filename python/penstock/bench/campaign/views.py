"""The tables of a campaign: for each case the middle of its sound runs, and how far these lie apart."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median

from penstock.bench.statistics.values import Reading, Unit, Value, readings_of, too_short_of, values_of
from penstock.model.bench.campaigns import NUMBERS, Aggregate, Baseline, Campaign, Case, Line, Parameter, View
from penstock.model.bench.runs import Run

Key = tuple[Parameter | None, ...]
_AGGREGATES: dict[Aggregate, Callable[[Sequence[float]], float]] = {
    "median": median,
    "max": max,
    "min": min,
    "mean": fmean,
}


@dataclass(frozen=True)
class Cell:
    """Of the runs of a case that are not invalid; None where there is none."""

    middle: float | None
    lowest: float | None
    highest: float | None
    runs: int
    invalid: int
    failed: int
    unit: Unit | None = None  # None where no run has the value
    too_short: int = 0  # runs that count, in which it was too short for a figure
    why_invalid: tuple[str, ...] = ()  # names of the checks that failed, those of most runs first


@dataclass(frozen=True)
class Reference:
    """A line beside the curves: what a row is compared with, by the key of the row.

    `missing` are the cells of rows that have no point, which say why.
    """

    title: str
    unit: Unit | None
    column_names: list[str]
    column: Key
    points: dict[Key, float]
    missing: dict[Key, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """A view with its numbers: `cells` by the keys of row and column."""

    title: str
    value: str  # empty where rows or columns are several values
    unit: Unit | None  # of `value`; None if no run has the value
    row_names: list[str]  # the parameters that the rows differ in
    column_names: list[str]  # the parameters that the columns differ in; empty for what explains itself
    rows: list[Key]
    columns: list[Key]
    cells: dict[tuple[Key, Key], Cell]
    lines: list[Reference] = field(default_factory=list)

    @cached_property
    def usual_rate(self) -> float | None:
        """See `usual_rate`: looked for once, and not for each cell."""
        return usual_rate(self.cells.values())


def usual_rate(cells: Iterable[Cell]) -> float | None:
    """Whose unit all bandwidths of a table have; None where it has none."""
    rates = [cell.middle for cell in cells if cell.unit == "B/s" and cell.middle is not None]
    return median(rates) if rates else None


def sound_values(campaign: Campaign, case: Case, value: str) -> list[float]:
    """Of the runs of a case that are not invalid, from the lowest up."""
    return sorted(reading.value for reading in _sound_readings(campaign, case, value))


def _sound_readings(campaign: Campaign, case: Case, value: str) -> list[Reading]:
    runs = [each.run for each in campaign.runs if each.case == case.name]
    sound = [readings_of(run) for run in runs if run.validity != "invalid"]
    return [readings[value] for readings in sound if value in readings]


def cell_of(campaign: Campaign, case: Case, value: str) -> Cell:
    runs = [each.run for each in campaign.runs if each.case == case.name]
    readings = _sound_readings(campaign, case, value)
    found = sorted(reading.value for reading in readings)
    void = [run for run in runs if run.validity == "invalid"]
    return Cell(
        middle=median(found) if found else None,
        lowest=found[0] if found else None,
        highest=found[-1] if found else None,
        runs=len(found),
        invalid=len(void),
        failed=sum(failure.case == case.name for failure in campaign.failures),
        unit=readings[0].unit if readings else None,
        too_short=sum(value in too_short_of(run) for run in runs if run.validity != "invalid"),
        why_invalid=_failed_checks(void),
    )


def _failed_checks(runs: Sequence[Run]) -> tuple[str, ...]:
    """Their names, those of most runs first."""
    failed = Counter(check.name for run in runs for check in run.checks if check.outcome == "failed")
    return tuple(name for name, _ in failed.most_common())


def names_of_values(campaign: Campaign) -> dict[str, Value]:
    """All values that runs of the campaign have, in their order, each with an example."""
    names: dict[str, Value] = {}
    for each in campaign.runs:
        for name, value in values_of(each.run).items():
            names.setdefault(name, value)
    return names


def units_of(campaign: Campaign) -> dict[str, Unit]:
    """Of all that views may show of its runs."""
    return {name: reading.unit for each in campaign.runs for name, reading in readings_of(each.run).items()}


def shown_cases(campaign: Campaign, view: View) -> list[Case]:
    """Those that the view does not leave out."""

    def is_left_out(case: Case) -> bool:
        return all(campaign.value_of(case, name) == value for name, value in view.leave_out.items())

    cases = [case for case in campaign.cases if not (view.leave_out and is_left_out(case))]
    numbers = [name for name in NUMBERS if name in (view.rows, *view.columns)]
    return [case for case in cases if all(campaign.value_of(case, name) is not None for name in numbers)]


def grid_of(campaign: Campaign, view: View) -> Grid:
    """Where several cases fall into one cell, the last one is shown; no campaign begins with such a view."""
    cases = shown_cases(campaign, view)
    if view.kind == "extremes":
        return _extremes(campaign, view, cases)
    if view.kind == "listing":
        return _listing(campaign, view, cases)
    units, sums = units_of(campaign), _local_sums(campaign, view)
    cells: dict[tuple[Key, Key], Cell] = {}
    for case in cases:
        cell = cell_of(campaign, case, view.value)
        if view.share_of is not None:
            cell = _share(cell, _whole(campaign, case, view.value, view.share_of, sums))
        cells[_key(campaign, case, [view.rows]), _key(campaign, case, view.columns)] = cell
    unit = units.get(view.value) if view.share_of is None else "share"
    lines = [each for line in view.lines for each in _references(campaign, view, line, cases, units)]
    return replace(_grid(view, unit, [view.rows], view.columns, cells), lines=lines)


def _key(campaign: Campaign, case: Case, names: Sequence[str]) -> Key:
    return tuple(campaign.value_of(case, name) for name in names)


def _grid(
    view: View,
    unit: Unit | None,
    row_names: list[str],
    column_names: list[str],
    cells: dict[tuple[Key, Key], Cell],
) -> Grid:
    return Grid(
        title=view.name,
        value=view.value,
        unit=unit,
        row_names=row_names,
        column_names=column_names,
        rows=list(dict.fromkeys(row for row, _ in cells)),
        columns=list(dict.fromkeys(column for _, column in cells)),
        cells=cells,
    )


def _extremes(campaign: Campaign, view: View, cases: Sequence[Case]) -> Grid:
    """Rows are values; first the most of every case, then the least, then the mean."""
    cells: dict[tuple[Key, Key], Cell] = {}
    statistics: tuple[Aggregate, ...] = ("max", "min", "mean")
    for label, value in view.values.items():
        for statistic in statistics:
            for case in cases:
                cell = _aggregated(campaign, case, value, statistic)
                cells[(label,), (statistic, *_key(campaign, case, view.columns))] = replace(
                    cell, lowest=cell.middle, highest=cell.middle
                )
    return _grid(view, None, ["value"], ["", *view.columns], cells)


def _listing(campaign: Campaign, view: View, cases: Sequence[Case]) -> Grid:
    """Rows are cases by their parameters, columns are values."""
    cells: dict[tuple[Key, Key], Cell] = {
        (_key(campaign, case, view.columns), (label,)): _aggregated(campaign, case, value, view.aggregate)
        for case in cases
        for label, value in view.values.items()
    }
    return _grid(view, None, view.columns, [""], cells)


def _aggregated(campaign: Campaign, case: Case, value: str, aggregate: Aggregate) -> Cell:
    """Extremes have no range: the extreme is one end of it."""
    found = sound_values(campaign, case, value)
    middle = _AGGREGATES[aggregate](found) if found else None
    cell = replace(cell_of(campaign, case, value), middle=middle)
    return replace(cell, lowest=middle, highest=middle) if aggregate in ("max", "min") else cell


def _references(
    campaign: Campaign, view: View, line: Line, cases: Sequence[Case], units: Mapping[str, Unit]
) -> list[Reference]:
    """One for each combination of values of its columns."""
    found: dict[Key, dict[Key, list[float]]] = {}
    missing: dict[Key, dict[Key, Cell]] = {}
    for case in cases:
        column, row = _key(campaign, case, line.columns), _key(campaign, case, [view.rows])
        other = _case_like(campaign, case, line.of) if line.of else case
        values = sound_values(campaign, other, line.value) if other is not None else []
        found.setdefault(column, {}).setdefault(row, []).extend(values)
        if other is not None and not values:
            missing.setdefault(column, {})[row] = cell_of(campaign, other, line.value)
    return [
        Reference(
            title=line.title,
            unit=units.get(line.value),
            column_names=line.columns,
            column=column,
            points={row: median(values) for row, values in points.items() if values},
            missing={row: cell for row, cell in missing.get(column, {}).items() if not points[row]},
        )
        for column, points in found.items()
    ]


def _local_sums(campaign: Campaign, view: View) -> dict[str, float]:
    """By the target's name: what the local disks of its servers do together, where both are known."""
    if view.share_of is None or not view.share_of.local:
        return {}
    best: dict[str, float] = {}
    for case in campaign.cases:
        middle = cell_of(campaign, case, view.value).middle
        if middle is not None:
            best[case.target] = max(middle, best.get(case.target, middle))
    return {
        target.name: best[target.local] * target.servers
        for target in campaign.targets
        if target.local in best and target.servers is not None
    }


def _whole(
    campaign: Campaign, case: Case, value: str, baseline: Baseline, sums: Mapping[str, float]
) -> float | None:
    """What the value of a case is a share of; None where there is none to compare it with."""
    if baseline.local:
        return sums.get(case.target)
    base = _case_like(campaign, case, baseline.parameters)
    whole = cell_of(campaign, base, value).middle if base is not None else None
    times = campaign.value_of(case, baseline.times) if baseline.times else 1
    if whole is None or times is None or isinstance(times, bool | str):
        return None
    return whole * times


def _share(cell: Cell, whole: float | None) -> Cell:
    if not whole:
        return replace(cell, middle=None, lowest=None, highest=None, runs=0, unit=None)
    middle, lowest, highest = (
        None if each is None else each / whole for each in (cell.middle, cell.lowest, cell.highest)
    )
    return replace(cell, middle=middle, lowest=lowest, highest=highest, unit="share")


def _case_like(campaign: Campaign, case: Case, parameters: Mapping[str, Parameter]) -> Case | None:
    """As `case`, but with these parameters; else the first with these."""
    wanted: dict[str, Parameter | None] = {**_place_of(campaign, case, parameters), **parameters}
    exact = {**case.parameters, **wanted}
    for needed in (exact, wanted):
        for other in campaign.cases:
            if all(campaign.value_of(other, name) == value for name, value in needed.items()):
                return other
    return None


def _place_of(
    campaign: Campaign, case: Case, parameters: Mapping[str, Parameter]
) -> dict[str, Parameter | None]:
    """On its target, unless another one is named; with another number of servers or clients of its system."""
    if "target" in parameters or "system" in parameters:
        return {}
    if not set(NUMBERS) & set(parameters):
        return {"target": campaign.value_of(case, "target")}
    return {name: campaign.value_of(case, name) for name in ("system", *NUMBERS) if name not in parameters}
