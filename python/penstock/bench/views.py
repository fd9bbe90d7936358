"""The tables of a campaign: for each case the middle of its sound runs, and how far these lie apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from penstock.bench.values import Unit, Value, values_of
from penstock.model.campaigns import Baseline, Campaign, Case, Parameter, View

Key = tuple[Parameter | None, ...]


@dataclass(frozen=True)
class Cell:
    """Of the runs of a case that are not invalid; None where there is none."""

    middle: float | None
    lowest: float | None
    highest: float | None
    runs: int
    invalid: int
    failed: int


@dataclass(frozen=True)
class Grid:
    """A view with its numbers: `cells` by the keys of row and column."""

    title: str
    value: str  # empty where rows are several values
    unit: Unit | None  # None where there is no such value in any run
    row_name: str  # the parameter that the rows differ in
    column_names: list[str]  # the parameters that the columns differ in; empty for what explains itself
    rows: list[Parameter | None]
    columns: list[Key]
    cells: dict[tuple[Parameter | None, Key], Cell]


def sound_values(campaign: Campaign, case: Case, value: str) -> list[float]:
    """Of the runs of a case that are not invalid, from the lowest up."""
    runs = [each.run for each in campaign.runs if each.case == case.name]
    sound = [values_of(run) for run in runs if run.validity != "invalid"]
    return sorted(values[value].value for values in sound if value in values)


def cell_of(campaign: Campaign, case: Case, value: str) -> Cell:
    runs = [each.run for each in campaign.runs if each.case == case.name]
    found = sound_values(campaign, case, value)
    return Cell(
        middle=median(found) if found else None,
        lowest=found[0] if found else None,
        highest=found[-1] if found else None,
        runs=len(found),
        invalid=sum(run.validity == "invalid" for run in runs),
        failed=sum(failure.case == case.name for failure in campaign.failures),
    )


def names_of_values(campaign: Campaign) -> dict[str, Value]:
    """All values that runs of the campaign have, in their order, each with an example."""
    names: dict[str, Value] = {}
    for each in campaign.runs:
        for name, value in values_of(each.run).items():
            names.setdefault(name, value)
    return names


def grid_of(campaign: Campaign, view: View) -> Grid:
    """Where several cases fall into one cell, the last one is shown."""
    if view.kind == "extremes":
        return _extremes(campaign, view)
    values = names_of_values(campaign)
    unit = values[view.value].unit if view.value in values else None
    cells: dict[tuple[Parameter | None, Key], Cell] = {}
    for case in campaign.cases:
        place = case.value_of(view.rows), tuple(case.value_of(name) for name in view.columns)
        cell = cell_of(campaign, case, view.value)
        cells[place] = (
            cell if view.share_of is None else _share(campaign, case, cell, view.value, view.share_of)
        )
    return _grid(view, unit if view.share_of is None else "share", view.rows, view.columns, cells)


def _grid(
    view: View,
    unit: Unit | None,
    row_name: str,
    column_names: list[str],
    cells: dict[tuple[Parameter | None, Key], Cell],
) -> Grid:
    return Grid(
        title=view.name,
        value=view.value,
        unit=unit,
        row_name=row_name,
        column_names=column_names,
        rows=list(dict.fromkeys(row for row, _ in cells)),
        columns=list(dict.fromkeys(column for _, column in cells)),
        cells=cells,
    )


def _extremes(campaign: Campaign, view: View) -> Grid:
    """Rows are values; first the most of every case, then the least, then the mean."""
    known = names_of_values(campaign)
    units = [known[value].unit for value in view.values.values() if value in known]
    cells: dict[tuple[Parameter | None, Key], Cell] = {}
    for label, value in view.values.items():
        for statistic, of in (("max", max), ("min", min), ("mean", fmean)):
            for case in campaign.cases:
                key = (statistic, *(case.value_of(name) for name in view.columns))
                found = sound_values(campaign, case, value)
                one = of(found) if found else None
                cell = replace(cell_of(campaign, case, value), middle=one, lowest=one, highest=one)
                cells[label, key] = cell
    return _grid(view, units[0] if units else None, "value", ["", *view.columns], cells)


def _share(campaign: Campaign, case: Case, cell: Cell, value: str, baseline: Baseline) -> Cell:
    """Of the median of another case, times a parameter of this one."""
    base = _case_like(campaign.cases, case, baseline)
    whole = cell_of(campaign, base, value).middle if base is not None else None
    times = case.value_of(baseline.times) if baseline.times else 1
    if not whole or isinstance(times, bool | str) or not times:
        return Cell(None, None, None, 0, cell.invalid, cell.failed)
    middle, lowest, highest = (
        None if each is None else each / (whole * times) for each in (cell.middle, cell.lowest, cell.highest)
    )
    return replace(cell, middle=middle, lowest=lowest, highest=highest)


def _case_like(cases: Sequence[Case], case: Case, baseline: Baseline) -> Case | None:
    """As `case`, with the parameters of the baseline; else the first with these on its target."""
    wanted = {"target": case.target} | baseline.parameters
    exact = {**case.parameters, **wanted}
    for needed in (exact, wanted):
        for other in cases:
            if all(other.value_of(name) == value for name, value in needed.items()):
                return other
    return None
