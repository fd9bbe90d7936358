"""The tables and plots that a campaign's description asks for, on its page."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock.bench.campaign.views import Cell as Figures
from penstock.bench.campaign.views import Grid, Key, Reference, grid_of
from penstock.model.bench.campaigns import Campaign, Parameter, View
from penstock.report.campaigns import (
    column_title,
    grid_cell_text,
    line_texts,
    line_title,
    missing_value,
    parameter_text,
    table_titles,
)
from penstock.report.pages.axes import plain_numbers, value_axis
from penstock.report.pages.page import Block, Cell, Lines, Section, Table
from penstock.report.pages.svg import COLOURS, picture
from penstock.report.printable import printable

_CURVES_MAX, _LINES_MAX = 12, 8
_COLOURS = ("first", "second", "good", "warning", "bad", "text")
_MARKERS = "osD^vP"
_OF_BYTES, _MEGABYTE = ("size", "bytes"), 1e6
_DASHES = (":", "--", "-.", (0, (1, 4)))


def views_section(campaign: Campaign) -> Section | None:
    """None where the description asks for nothing."""
    blocks: list[Block] = []
    for view in campaign.views:
        grid = grid_of(campaign, view)
        if no_value := missing_value(campaign, view):
            blocks.append(Lines(grid.title, [no_value]))
            continue
        if view.kind == "plot" and any(cell.middle is not None for cell in grid.cells.values()):
            blocks.append(_plot(grid))
        blocks.append(_table(grid, view))
    return Section("Tables and plots", blocks) if blocks else None


def _table(grid: Grid, view: View) -> Table:
    rows = [
        [
            *(Cell(parameter_text(value)) for value in row),
            *(_cell(grid, row, column) for column in grid.columns),
            *(Cell(text) for text in line_texts(grid, row)),
        ]
        for row in grid.rows
    ]
    return Table(grid.title + _of_runs(view), table_titles(grid), rows)


def _of_runs(view: View) -> str:
    """What cells are of the runs of a case."""
    if view.kind == "extremes":
        return ""
    if view.aggregate in ("max", "min"):
        return f": the {'highest' if view.aggregate == 'max' else 'lowest'} run of each case"
    return f": {'medians' if view.aggregate == 'median' else 'means'}, with the lowest and the highest run"


def _cell(grid: Grid, row: Key, column: Key) -> Cell:
    found = grid.cells.get((row, column))
    if found is None:
        return Cell("")
    is_void = found.middle is None and bool(found.invalid or found.failed)
    return Cell(grid_cell_text(grid, row, column), "void" if is_void else "")


def _plot(grid: Grid) -> Block:
    assert grid.unit is not None
    shown = grid.columns[:_CURVES_MAX]
    more = f" The first {len(shown)} of {len(grid.columns)} curves." if len(shown) < len(grid.columns) else ""
    (row_name,) = grid.row_names
    lines = [line for line in grid.lines if line.unit == grid.unit and line.points][:_LINES_MAX]
    beside = f", and the lines {', '.join(line_title(line) for line in lines)}" if lines else ""
    axis = value_axis(grid.unit, _plotted(grid, shown, lines))
    description = (
        f"{grid.value or grid.title} against {row_name}{beside}; the table below has the numbers."
        f"{axis.note}{more}"
    )
    places, labels = _places([row for (row,) in grid.rows])
    row_title = row_name
    if not labels:
        is_large_size = row_name.endswith(_OF_BYTES) and max(places, default=0.0) >= _MEGABYTE
        rows = value_axis("B" if is_large_size else "", places)
        places, row_title = [place * rows.scale for place in places], f"{row_name}, {rows.unit}".rstrip(", ")

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for number, column in enumerate(shown):
            cells = [grid.cells.get((row, column)) for row in grid.rows]
            _curve(axes, number, places, cells, axis.scale, printable(column_title(grid, column), 60))
        for number, line in enumerate(lines):
            _line(axes, number, dict(zip(grid.rows, places, strict=True)), line, axis.scale)
        axes.set(xlabel=row_title, ylabel=f"{grid.value}, {axis.unit}")
        if labels:
            axes.set_xticks(places, labels)
        else:
            plain_numbers(axes, "x")
        axis.apply(axes, "y")
        axes.legend(loc="best")

    return picture(grid.title, description, draw, 3.6)


def _plotted(grid: Grid, columns: Sequence[Key], lines: Sequence[Reference]) -> list[float]:
    """All values that a plot has."""
    cells = (grid.cells.get((row, column)) for row in grid.rows for column in columns)
    of_cells = [each for cell in cells if cell is not None for each in (cell.lowest, cell.highest)]
    of_lines = [value for line in lines for value in line.points.values()]
    return [each for each in (*of_cells, *of_lines) if each is not None]


def _places(rows: Sequence[Parameter | None]) -> tuple[list[float], list[str]]:
    """Where rows stand on the axis: by their numbers, or one behind the other under their names."""
    numbers = [row for row in rows if isinstance(row, int | float) and not isinstance(row, bool)]
    if len(numbers) == len(rows):
        return [float(number) for number in numbers], []
    return [float(n) for n in range(len(rows))], [printable(parameter_text(row), 20) for row in rows]


def _curve(
    axes: Axes,
    number: int,
    places: Sequence[float],
    cells: Sequence[Figures | None],
    scale: float,
    label: str,
) -> None:
    """Medians, with bars from the lowest to the highest run; what has no valid run is left out."""
    points = [
        (place, cell.middle * scale, cell.lowest * scale, cell.highest * scale)
        for place, cell in zip(places, cells, strict=True)
        if cell is not None
        and cell.middle is not None
        and cell.lowest is not None
        and cell.highest is not None
    ]
    colour = COLOURS[_COLOURS[number % len(_COLOURS)]]
    if not points:
        axes.plot([], [], color=colour, label=f"{label}: no valid run")
        return
    x, middle, low, high = zip(*sorted(points), strict=True)
    below = [m - at for m, at in zip(middle, low, strict=True)]
    above = [at - m for m, at in zip(middle, high, strict=True)]
    axes.errorbar(
        x,
        middle,
        yerr=[below, above],
        color=colour,
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=4,
        linestyle="-" if number < len(_COLOURS) else "--",
        linewidth=1.2,
        capsize=2,
        label=label,
    )


def _line(axes: Axes, number: int, places: dict[Key, float], line: Reference, scale: float) -> None:
    """Nothing that was measured at these rows: a thin line in the colour of the text, without bars."""
    points = sorted((places[row], value * scale) for row, value in line.points.items() if row in places)
    x, y = zip(*points, strict=True)
    axes.plot(
        x,
        y,
        color=COLOURS["text"],
        linestyle=_DASHES[number % len(_DASHES)],
        linewidth=1,
        marker="_",
        zorder=1,
        label=printable(line_title(line), 60),
    )
