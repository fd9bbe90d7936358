"""Campaigns for people: the plan before, the tables after."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.bench.campaign.campaigns import GUESSED_BYTES_PER_S, CampaignPlan, Standing, left_of
from penstock.bench.campaign.lengths import length_warnings
from penstock.bench.campaign.views import (
    Cell,
    Grid,
    Key,
    Reference,
    cell_of,
    grid_of,
    names_of_values,
    shown_cases,
    units_of,
    usual_rate,
)
from penstock.bench.data.folder import DATA_NAME
from penstock.bench.run.jobs import Job
from penstock.bench.statistics.values import too_short_of
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Campaign, Parameter, Target, View
from penstock.model.text import counted, harmless
from penstock.model.units import human_bytes, human_number, human_rate, human_seconds
from penstock.report.metadata import TOO_SHORT
from penstock.report.tables import fact_table
from penstock.report.values import value_text

_CASES_SHOWN = 12
_REASONS_SHOWN, _CHECKS_SHOWN = 4, 2
_LOCAL = "NAME=PATH,servers=N,local=DISK --target DISK=PATH"


def campaign_plan_rows(plan: CampaignPlan) -> dict[str, str]:
    """What will be done, before it is."""
    campaign = plan.campaign
    cases = [case.name for case in campaign.cases]
    hidden = len(cases) - _CASES_SHOWN
    more = f", and {hidden} more (--dry-run --json lists them)" if hidden > 0 else ""
    left = sum(1 for _ in left_of(campaign))
    done = len(campaign.done)
    rows = {"campaign": campaign.title}
    if campaign.reproduces:
        rows["reproduces"] = campaign.reproduces
    rows |= {
        "workload": campaign.workload
        + "".join(f", {name} {parameter_text(value)}" for name, value in campaign.parameters.items()),
        "targets": ", ".join(_target_text(target) for target in campaign.targets),
        "cases": f"{len(cases)}: {', '.join(cases[:_CASES_SHOWN])}{more}",
        "blocks": f"{campaign.blocks}, each with every case once, in random order (seed {campaign.seed})",
        "runs": f"{left} remaining" + (f", {done} done" if done else ""),
        "writes": _writes(plan) if left and campaign.folders else "",
        "takes": _takes(plan) if left else "",
    }
    for number, warning in enumerate(length_warnings(plan) if left else (), 1):
        rows["warning" if number == 1 else f"warning ({number})"] = warning
    for number, departure in enumerate(campaign.departures, 1):
        rows[f"differs ({number})"] = departure
    return rows


def _target_text(target: Target) -> str:
    """ "moosefs = /mnt/x (3 servers, 2 clients, local disk ssd)"."""
    text = target.path if target.name == target.path else f"{target.name} = {target.path}"
    if target.servers is None:
        return text
    clients = f", {counted(target.clients, 'client')}" if target.clients is not None else ""
    disk = f", local disk {target.local}" if target.local else ""
    return f"{text} ({counted(target.servers, 'server')}{clients}{disk})"


def _writes(plan: CampaignPlan) -> str:
    total, most = human_bytes(plan.bytes_left()), human_bytes(plan.bytes_at_once())
    if not any(isinstance(job, Job) and job.data_stays for job in plan.jobs.values()):
        return f"{total} in all, at most {most} at a time; each run in a new directory, removed afterwards"
    data = f"data sets ({DATA_NAME}…) stay"
    if not all(target.laboratory for target in plan.campaign.targets):
        data += " until `penstock bench clean TARGET`"
    return f"at most {total} in all; {data}, and the directory of each run is removed afterwards"


def _takes(plan: CampaignPlan) -> str:
    about = f"about {human_seconds(plan.seconds_left())}"
    if not any(job.moved_bytes for job in plan.jobs.values()):
        return about
    return f"{about} if the storage sustains {human_rate(GUESSED_BYTES_PER_S)}; longer if it is slower"


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
        text += f"; failed checks: {named}"
    if not campaign.complete:
        text += f"; {sum(1 for _ in left_of(campaign))} remain"
    return text + ". Medians without invalid runs, with the lowest and the highest run."


def _failure_lines(campaign: Campaign) -> list[Text]:
    return [
        Text(harmless(f"failed: {each.case}, block {each.block + 1}: {each.problem}"), style="red")
        for each in campaign.failures
    ]


def _names_of_figures(campaign: Campaign) -> list[str]:
    """With those that were too short in every run."""
    short = (name for each in campaign.runs for name in sorted(too_short_of(each.run)))
    return list(dict.fromkeys([*names_of_values(campaign), *short]))


def _cases_table(campaign: Campaign) -> Table:
    values = _names_of_figures(campaign)
    if len(campaign.cases) == 1:
        only = campaign.cases[0]
        return fact_table({name: cell_text(cell_of(campaign, only, name)) for name in values})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    for name in values:
        table.add_column(escape(name), justify="right")
    columns = [_column_texts([cell_of(campaign, case, name) for case in campaign.cases]) for name in values]
    for number, case in enumerate(campaign.cases):
        table.add_row(escape(case.name), *(escape(column[number]) for column in columns))
    return table


def _column_texts(cells: Sequence[Cell]) -> list[str]:
    like = usual_rate(cells)
    return [cell_text(cell, like) for cell in cells]


def missing_value(campaign: Campaign, view: View) -> str:
    """What a view cannot show, where it can show nothing."""
    if not shown_cases(campaign, view):
        if "clients" in (view.rows, *view.columns):
            return "no target has a number of clients; give it with --target lab:SYSTEM,clients=N"
        if "servers" in (view.rows, *view.columns):
            return "no target has a number of servers; give it with --target NAME=PATH,servers=N"
        return "`leave_out` hides all cases"
    if view.share_of is not None and view.share_of.local and not any(each.local for each in campaign.targets):
        return f"no target names the local disk of its servers; name it with --target {_LOCAL}"
    wanted = list(view.values.values()) or [view.value]
    if any(value in units_of(campaign) for value in wanted):
        return ""
    return f"no run has the metric {wanted[0]}"


def table_titles(grid: Grid) -> list[str]:
    """Of what rows differ in, of the cells, and of the lines beside them."""
    return [
        *grid.row_names,
        *(column_title(grid, column) for column in grid.columns),
        *(line_title(line) for line in grid.lines),
    ]


def column_title(grid: Grid, column: Key) -> str:
    """ "transfer 8 MiB, target disk"."""
    return _key_text(grid.column_names, column) or grid.value


def line_title(line: Reference) -> str:
    """ "bandwidth", or "bandwidth, target disk"."""
    return ", ".join(filter(None, (line.title, _key_text(line.column_names, line.column))))


def _key_text(names: Sequence[str], key: Key) -> str:
    pairs = zip(names, key, strict=True)
    return ", ".join(f"{name} {parameter_text(value)}".strip() for name, value in pairs)


def grid_cell_text(grid: Grid, row: Key, column: Key) -> str:
    cell = grid.cells.get((row, column))
    return "" if cell is None else cell_text(cell, grid.usual_rate)


def line_texts(grid: Grid, row: Key) -> list[str]:
    """Of each line at that row."""
    return [_line_text(line, row, grid.usual_rate) for line in grid.lines]


def _line_text(line: Reference, row: Key, like: float | None) -> str:
    if line.unit is not None and row in line.points:
        return value_text(line.points[row], line.unit, like)
    return cell_text(line.missing[row]) if row in line.missing else ""


def _grid_table(grid: Grid) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(table_titles(grid)):
        is_name = number < len(grid.row_names)
        # A figure that is cut would be another figure.
        table.add_column(escape(title), justify="left" if is_name else "right", overflow="fold")
    for row in grid.rows:
        names = (parameter_text(value) for value in row)
        cells = (grid_cell_text(grid, row, column) for column in grid.columns)
        table.add_row(*(escape(text) for text in (*names, *cells, *line_texts(grid, row))))
    return table


def parameter_text(value: Parameter | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return human_number(value, 6) if isinstance(value, float) else "" if value is None else str(value)


def cell_text(cell: Cell, like: float | None = None) -> str:
    """ "622 MB/s (601 to 640 MB/s)", and what is wrong with runs that are not in it.

    Where no run counts, why: "too short", "2 invalid: long enough". `like`: a bandwidth whose unit it has.
    """
    counts = ((TOO_SHORT, cell.too_short), ("invalid", cell.invalid), ("failed", cell.failed))
    if cell.middle is None or cell.lowest is None or cell.highest is None or cell.unit is None:
        return _why_empty(cell)
    text = value_text(cell.middle, cell.unit, like)
    if cell.lowest < cell.highest:
        low, high = (value_text(each, cell.unit, like) for each in (cell.lowest, cell.highest))
        text += f" ({low} to {high})"
    return ", ".join([text, *(f"{count} {what}" for what, count in counts if count)])


def _why_empty(cell: Cell) -> str:
    """ "-" where no run of it was made yet."""
    named = ", ".join(cell.why_invalid[:_CHECKS_SHOWN])
    reported = [
        TOO_SHORT if cell.too_short else "",
        f"{cell.invalid} invalid{f': {named}' if named else ''}" if cell.invalid else "",
        f"{cell.failed} failed" if cell.failed else "",
    ]
    return "; ".join(filter(None, reported)) or "-"


def shipped_table(files: dict[str, CampaignFile]) -> Table:
    """The campaigns that come with Penstock."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "workload", "title", "reproduces"):
        table.add_column(title, no_wrap=title == "name", overflow="fold")
    for name, file in files.items():
        table.add_row(name, file.workload, escape(file.title), escape(file.reproduces))
    return table
