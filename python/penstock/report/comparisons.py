"""Comparisons and trends for people."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.model.bench.comparisons import (
    Change,
    Comparison,
    Difference,
    Middle,
    SetFacts,
    Trend,
    TrendRow,
    ValueComparison,
)
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent
from penstock.report.tables import fact_table
from penstock.report.values import value_text

_OUTCOME_STYLE = {"better": "green", "worse": "bold red", "same": "green", "indistinguishable": ""}
_ANSWER_STYLE = {
    "nothing worse": "bold green",
    "worse": "bold red",
    "cannot tell": "bold yellow",
    "invalid": "bold red",
}
_MOVEMENT_STYLE = {"steady": "green", "cannot tell": "yellow"}
_BARS = "▁▂▃▄▅▆▇█"


def comparison_view(comparison: Comparison) -> RenderableType:
    """What differs around the sets comes first: it is often the reason."""
    parts: list[RenderableType] = [
        fact_table({"A": set_text(comparison.base), "B": set_text(comparison.other)}),
        Text(),
    ]
    differing = [*comparison.conditions, *comparison.parameters]
    both = comparison.base.runs and comparison.other.runs
    same = Text(
        "All known conditions are the same."
        if both
        else "One set has no valid run, so conditions cannot be compared."
    )
    parts += [_differences_table(differing) if differing else same, Text()]
    if comparison.values:
        parts += [_values_table(comparison.values), *_dim(change_note(comparison.values)), Text()]
    parts += [Text(f"- {note}") for note in comparison.notes]
    answer = Text(answer_text(comparison), style=_ANSWER_STYLE[comparison.answer])
    return Group(*parts, answer, *_why(comparison.reasons))


def _dim(text: str) -> list[Text]:
    return [Text(text, style="dim")] if text else []


_CHANGE_OF = {
    "in blocks": "that between neighbouring runs of both sets",
    "apart": "that between the means of both sets",
}


def change_note(values: Sequence[ValueComparison]) -> str:
    """One line: why the change is not that of the medians beside it. Empty where no change was estimated."""
    judged = [row for row in values if row.low is not None]
    if not judged:
        return ""
    designs = {row.design for row in judged}
    how = " or ".join(text for design, text in _CHANGE_OF.items() if design in designs)
    mean = ", the geometric mean of ratios" if any(row.scale == "ratio" for row in judged) else ""
    drift = ", without the drift" if any(row.drift is not None for row in judged) else ""
    return f"The change is {how}{mean}{drift}; the ratio of the medians may differ from it."


def answer_text(comparison: Comparison) -> str:
    words = {"worse": "B is worse", "nothing worse": "B is not worse"}
    return words.get(comparison.answer, comparison.answer)


def _why(reasons: Sequence[str]) -> list[Text]:
    return [Text("Why:"), *(Text(f"- {reason}") for reason in reasons)] if reasons else []


def set_text(facts: SetFacts) -> str:
    text = f"{facts.name}: {counted(facts.runs, 'run')}"
    if facts.warned:
        text += " (warned)" if facts.warned == facts.runs == 1 else f", {facts.warned} of them warned"
    text += f", {counted(facts.invalid, 'invalid run')} left out" if facts.invalid else ""
    return f"{text}, from {facts.first} to {facts.last}" if facts.runs else text


def _differences_table(found: Sequence[Difference]) -> Table:
    table = _table("differs", "A", "B")
    for each in found:
        name = f"{each.case}: {each.name}" if each.case else each.name
        table.add_row(escape(name), escape(each.base) or "-", escape(each.other) or "-")
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _values_table(values: Sequence[ValueComparison]) -> Table:
    table = _table("case", "metric", "A", "B", "change", "outcome")
    table.columns[-1].no_wrap = True
    for row in values:
        table.add_row(
            escape(row.case),
            row.value,
            middle_text(row.base, row.unit),
            middle_text(row.other, row.unit),
            "\n".join(text for text in effect_texts(row) if text),
            _outcome_text(row),
        )
    return table


def _outcome_text(row: ValueComparison) -> Text:
    text = Text(row.outcome, style=_OUTCOME_STYLE[row.outcome])
    if row.detectable is not None:
        text.append(f"\ndetectable from {seen_text(row)}", style="not bold default")
    return text


def seen_text(row: ValueComparison) -> str:
    """The smallest change that would have been found, mostly; empty where that is not known."""
    return "" if row.detectable is None else _size(row.detectable, row.unit, row.scale)


def middle_text(middle: Middle, unit: str) -> str:
    """The median, and below it the interval with the number of runs."""
    text = value_text(middle.median, unit)
    if middle.runs == 1:
        return f"{text}\nn = 1"
    low, high = (value_text(each, unit, middle.median) for each in (middle.low, middle.high))
    return f"{text}\n{low} to {high}\nn = {middle.runs}"


def effect_texts(row: ValueComparison) -> tuple[str, str]:
    """As changes, which are read sooner than ratios: "+3.1 %", and "-0.4 % to +6.8 % (98.3 %)" or nothing."""
    one = 1.0 if row.scale == "ratio" else 0.0
    text = _size(row.effect - one, row.unit, row.scale, "+")
    if row.low is None or row.high is None:
        return text, ""
    low, high = (_size(each - one, row.unit, row.scale, "+") for each in (row.low, row.high))
    sure = "" if row.confidence is None else f" ({human_percent(row.confidence)})"
    return text, f"{low} to {high}{sure}"


def _size(change: float, unit: str, scale: str, sign: str = "") -> str:
    change = round(change, 9)
    if scale == "ratio":
        return human_percent(change, sign=sign)
    if unit == "share":
        return f"{human_number(100 * change, sign=sign)} percentage points"
    return f"{'-' if change < 0 else sign}{value_text(abs(change), unit)}"


def trend_view(trend: Trend) -> RenderableType:
    """The movements first, then each value's medians."""
    parts: list[RenderableType] = [_documents_table(trend.documents), Text()]
    if trend.conditions:
        parts += [_changes_table(trend.conditions), Text()]
    parts += [_movements_table(trend.rows), Text(), _points_table(trend.rows), Text()]
    parts += [Text(f"- {note}") for note in trend.notes]
    return Group(*parts, Text(trend.answer, style=_ANSWER_STYLE[trend.answer]), *_why(trend.reasons))


def _documents_table(documents: Sequence[SetFacts]) -> Table:
    table = _table("document", "from", "runs", "invalid")
    for each in documents:
        table.add_row(escape(each.name), each.first, str(each.runs), str(each.invalid))
    return table


def _changes_table(changes: Sequence[Change]) -> Table:
    table = _table("changed at", "what", "before", "after")
    for each in changes:
        table.add_row(escape(each.document), escape(each.name), escape(each.before), escape(each.after))
    return table


def _movements_table(rows: Sequence[TrendRow]) -> Table:
    table = _table("case", "metric", "", "per document", "trend")
    for row in rows:
        movement = row.movement + (f" at {', '.join(row.jumped_at)}" if row.jumped_at else "")
        slope = ""
        if row.slope is not None and row.slope_low is not None and row.slope_high is not None:
            low, high = (_size(each, row.unit, row.scale, "+") for each in (row.slope_low, row.slope_high))
            slope = f"{_size(row.slope, row.unit, row.scale, '+')} ({low} to {high})"
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
    table = _table("case", "metric", "document", "median", "vs. preceding")
    for row in rows:
        for number, point in enumerate(row.points):
            jump = "" if point.jump is None else _size(point.jump, row.unit, row.scale, "+")
            table.add_row(
                escape(row.case) if number == 0 else "",
                row.value if number == 0 else "",
                escape(point.document),
                middle_text(point.middle, row.unit),
                Text(f"{jump} jumped" if point.jumped else jump, style="bold" if point.jumped else ""),
            )
    return table
