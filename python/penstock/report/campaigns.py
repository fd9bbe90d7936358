"""Campaigns for people: the plan before, the tables after."""

from collections import Counter

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.bench.campaigns import GUESSED_BYTES_PER_S, CampaignPlan, Standing, left_of
from penstock.bench.values import Unit
from penstock.bench.views import Cell, Grid, Key, cell_of, grid_of, names_of_values
from penstock.model.campaign_files import CampaignFile
from penstock.model.campaigns import Campaign, Parameter, View
from penstock.model.text import counted, harmless
from penstock.model.units import human_bytes, human_rate, human_seconds
from penstock.report.tables import fact_table
from penstock.report.values import value_text

_CASES_SHOWN = 12
_REASONS_SHOWN = 4


def campaign_plan_view(plan: CampaignPlan) -> Table:
    """What will be done, before it is."""
    campaign = plan.campaign
    cases = [case.name for case in campaign.cases]
    more = f", and {len(cases) - _CASES_SHOWN} more" if len(cases) > _CASES_SHOWN else ""
    left = sum(1 for _ in left_of(campaign))
    done = len(campaign.done)
    rows = {"campaign": campaign.title}
    if campaign.reproduces:
        rows["reproduces"] = campaign.reproduces
    writes = (
        f"{human_bytes(plan.bytes_at_once())} at most at once, {human_bytes(plan.bytes_left())} in all;"
        " each run in a new folder, removed afterwards"
    )
    rows |= {
        "workload": campaign.workload
        + "".join(f", {name} {parameter_text(value)}" for name, value in campaign.parameters.items()),
        "targets": ", ".join(_target_text(target.name, target.path) for target in campaign.targets),
        "cases": f"{len(cases)}: {', '.join(cases[:_CASES_SHOWN])}{more}",
        "blocks": f"{campaign.blocks}, each with every case once, in its own order (seed {campaign.seed})",
        "runs": f"{left} to be made" + (f", {done} are done" if done else ""),
        "writes": writes if left and campaign.folders else "",
        "takes": _takes(plan) if left else "",
    }
    for number, departure in enumerate(campaign.departures, 1):
        rows[f"differs ({number})"] = departure
    return fact_table(rows)


def _target_text(name: str, path: str) -> str:
    return path if name == path else f"{name} = {path}"


def _takes(plan: CampaignPlan) -> str:
    about = f"about {human_seconds(plan.seconds_left())}"
    if not any(job.moved_bytes for job in plan.jobs.values()):
        return about
    return f"{about} where the storage carries {human_rate(GUESSED_BYTES_PER_S)}; longer where it is slower"


def standing_line(standing: Standing) -> str:
    """ "run 3 of 27, block 1: rate=10; about 5 min left"."""
    left = human_seconds(standing.seconds_left)
    run = f"run {standing.done + 1} of {standing.total}, block {standing.block + 1}"
    return f"{run}: {standing.case}; about {left} left"


def campaign_view(campaign: Campaign) -> RenderableType:
    """Its own tables where it has some, or else a row a case with the first value of its runs."""
    parts: list[RenderableType] = []
    for view in campaign.views:
        grid = grid_of(campaign, view)
        if no_value := missing_value(campaign, view):
            parts += [Text(f"{grid.title}: {no_value}", style="yellow"), Text()]
        else:
            parts += [Text(grid.title, style="bold"), _grid_table(grid), Text()]
    if not parts:
        parts += [_cases_table(campaign), Text()]
    return Group(*parts, *(_failure_lines(campaign)), Text(_summary(campaign)))


def _summary(campaign: Campaign) -> str:
    counts = {
        kind: sum(each.run.validity == kind for each in campaign.runs)
        for kind in ("valid", "warned", "invalid")
    }
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    text = f"{counted(len(campaign.runs), 'run')}: {kinds}"
    if campaign.failures:
        text += f"; {len(campaign.failures)} failed"
    reasons = Counter(
        check.name
        for each in campaign.runs
        if each.run.validity == "invalid"
        for check in each.run.checks
        if check.outcome == "failed"
    )
    if reasons:
        named = ", ".join(f"{name} ({count})" for name, count in reasons.most_common(_REASONS_SHOWN))
        text += f"; invalid for: {named}"
    if not campaign.complete:
        text += f"; {sum(1 for _ in left_of(campaign))} are still to be made"
    return text + ". Medians, with the lowest and the highest run, of those that are not invalid."


def _failure_lines(campaign: Campaign) -> list[Text]:
    return [
        Text(harmless(f"failed: {each.case}, block {each.block + 1}: {each.problem}"), style="red")
        for each in campaign.failures
    ]


def _cases_table(campaign: Campaign) -> Table:
    values = names_of_values(campaign)
    if len(campaign.cases) == 1:
        only = campaign.cases[0]
        return fact_table(
            {name: cell_text(cell_of(campaign, only, name), value.unit) for name, value in values.items()}
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    for name in values:
        table.add_column(escape(name), justify="right")
    for case in campaign.cases:
        cells = [cell_text(cell_of(campaign, case, name), value.unit) for name, value in values.items()]
        table.add_row(escape(case.name), *(escape(cell) for cell in cells))
    return table


def missing_value(campaign: Campaign, view: View) -> str:
    """What a view cannot show, where it can show nothing."""
    wanted = list(view.values.values()) or [view.value]
    if any(value in names_of_values(campaign) for value in wanted):
        return ""
    return f"no run has the value {wanted[0]}"


def column_title(grid: Grid, column: Key) -> str:
    """ "transfer 8 MiB, target disk"."""
    pairs = zip(grid.column_names, column, strict=True)
    return ", ".join(f"{name} {parameter_text(value)}".strip() for name, value in pairs) or grid.value


def grid_cell_text(grid: Grid, row: Parameter | None, column: Key) -> str:
    cell = grid.cells.get((row, column))
    return "" if cell is None or grid.unit is None else cell_text(cell, grid.unit)


def _grid_table(grid: Grid) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(escape(grid.row_name), overflow="fold")
    for column in grid.columns:
        table.add_column(escape(column_title(grid, column)), justify="right")
    for row in grid.rows:
        texts = [grid_cell_text(grid, row, column) for column in grid.columns]
        table.add_row(escape(parameter_text(row)), *(escape(text) for text in texts))
    return table


def parameter_text(value: Parameter | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)


def cell_text(cell: Cell, unit: Unit) -> str:
    """ "622 MB/s (601 to 640 MB/s)", and what is wrong with runs that are not in it."""
    wrong = [
        f"{count} {what}" for what, count in (("invalid", cell.invalid), ("failed", cell.failed)) if count
    ]
    if cell.middle is None or cell.lowest is None or cell.highest is None:
        return ", ".join(wrong) or "-"
    text = value_text(cell.middle, unit)
    if cell.lowest < cell.highest:
        text += f" ({value_text(cell.lowest, unit)} to {value_text(cell.highest, unit)})"
    return ", ".join([text, *wrong])


def shipped_table(files: dict[str, CampaignFile]) -> Table:
    """The campaigns that come with Penstock."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "workload", "title", "reproduces"):
        table.add_column(title, no_wrap=title == "name", overflow="fold")
    for name, file in files.items():
        table.add_row(name, file.workload, escape(file.title), escape(file.reproduces))
    return table
