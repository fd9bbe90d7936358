"""Trends for people."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.model.bench.comparisons import Change, SetFacts, Trend, TrendRow
from penstock.report.comparisons import ANSWER_STYLE, middle_text, plain_table, size_text, why_lines

_MOVEMENT_STYLE = {"steady": "green", "cannot tell": "yellow"}
_BARS = "▁▂▃▄▅▆▇█"


def trend_view(trend: Trend) -> RenderableType:
    """The movements first, then each value's medians."""
    parts: list[RenderableType] = [_documents_table(trend.documents), Text()]
    if trend.conditions:
        parts += [_changes_table(trend.conditions), Text()]
    parts += [_movements_table(trend.rows), Text(), _points_table(trend.rows), Text()]
    parts += [Text(f"- {note}") for note in trend.notes]
    return Group(*parts, Text(trend.answer, style=ANSWER_STYLE[trend.answer]), *why_lines(trend.reasons))


def _documents_table(documents: Sequence[SetFacts]) -> Table:
    table = plain_table("document", "from", "runs", "invalid")
    for each in documents:
        table.add_row(escape(each.name), each.first, str(each.runs), str(each.invalid))
    return table


def _changes_table(changes: Sequence[Change]) -> Table:
    table = plain_table("changed at", "what", "before", "after")
    for each in changes:
        table.add_row(escape(each.document), escape(each.name), escape(each.before), escape(each.after))
    return table


def _movements_table(rows: Sequence[TrendRow]) -> Table:
    table = plain_table("case", "metric", "", "per document", "trend")
    for row in rows:
        movement = row.movement + (f" at {', '.join(row.jumped_at)}" if row.jumped_at else "")
        slope = ""
        if row.slope is not None and row.slope_low is not None and row.slope_high is not None:
            low, high = (
                size_text(each, row.unit, row.scale, "+") for each in (row.slope_low, row.slope_high)
            )
            slope = f"{size_text(row.slope, row.unit, row.scale, '+')} ({low} to {high})"
        table.add_row(
            escape(row.case),
            row.value,
            sparkline([point.middle.median for point in row.points]),
            slope,
            Text(movement, style=_MOVEMENT_STYLE.get(row.movement, "bold yellow")),
        )
    return table


def sparkline(values: Sequence[float]) -> str:
    """From the lowest to the highest value, whatever these are."""
    low, high = min(values), max(values)
    if low == high:
        return _BARS[0] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def _points_table(rows: Sequence[TrendRow]) -> Table:
    table = plain_table("case", "metric", "document", "median", "vs. preceding")
    for row in rows:
        for number, point in enumerate(row.points):
            jump = "" if point.jump is None else size_text(point.jump, row.unit, row.scale, "+")
            table.add_row(
                escape(row.case) if number == 0 else "",
                row.value if number == 0 else "",
                escape(point.document),
                middle_text(point.middle, row.unit),
                Text(f"{jump} jumped" if point.jumped else jump, style="bold" if point.jumped else ""),
            )
    return table
