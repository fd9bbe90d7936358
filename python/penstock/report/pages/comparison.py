"""The page of a comparison: what is better or worse, how sure that is, and what differs around the sets."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from penstock.model.bench.comparisons import (
    Answer,
    Comparison,
    SetFacts,
    ValueComparison,
)
from penstock.model.text import counted
from penstock.model.units import human_percent
from penstock.report.comparisons import (
    answer_lines,
    change_note,
    differing_of,
    effect_texts,
    middle_text,
    seen_text,
    set_names,
    set_text,
    verdict_texts,
)
from penstock.report.pages.page import Banner, Block, Cell, Facts, Lines, Page, Picture, Section, State, Table
from penstock.report.pages.svg import COLOURS, picture
from penstock.report.printable import printable

_ANSWER_STATE: dict[Answer, State] = {
    "nothing worse": "good",
    "worse": "bad",
    "cannot tell": "warning",
    "invalid": "void",
}
_OUTCOME_STATE: dict[str, State] = {
    "better": "good",
    "worse": "bad",
    "same": "good",
    "indistinguishable": "",
    "too few runs": "warning",
    "drift": "warning",
}
_OUTCOME_COLOUR = {"better": "good", "worse": "bad", "same": "first"}
_PLOTTED_MAX = 60


def comparison_page(comparison: Comparison, source: str) -> Page:
    answer, *summary = answer_lines(comparison)
    threshold = f"changes up to {human_percent(comparison.threshold)} are irrelevant; "
    blocks: list[Block] = [Lines("", [f"{each}." for each in summary])] if summary else []
    blocks += [Lines("Why", comparison.reasons)] if comparison.reasons else []
    blocks.append(Facts({"A": set_text(comparison.base), "B": set_text(comparison.other)}))
    blocks += [Lines("Notes on the comparison", comparison.notes)] if comparison.notes else []
    has_rows = comparison.values or verdict_texts(comparison)
    values: list[Block] = [_values_table(comparison)] if has_rows else []
    plot = interval_plot(comparison)
    first, second = set_names(comparison)
    return Page(
        title=f"Is {second} better or worse than {first}?",
        answer=answer[:1].upper() + answer[1:],
        answer_state=_ANSWER_STATE[comparison.answer],
        subtitle=f"A is {first}, B is {second};"
        f" {threshold if comparison.threshold else ''}better and worse refer to B",
        source=source,
        banners=_banners(comparison),
        sections=[
            Section("", blocks),
            Section("Metrics", [*([plot] if plot is not None else []), *values]),
            Section("Differences in conditions", [_differences(comparison)]),
        ],
    )


def _banners(comparison: Comparison) -> list[Banner]:
    sets: list[SetFacts] = [comparison.base, comparison.other]
    empty = [each.name for each in sets if not each.runs]
    return [Banner("void", f"No run of {name} is valid: nothing to compare.") for name in empty]


def _values_table(comparison: Comparison) -> Table:
    columns = ["case", "metric", "A", "B", "change of B", "interval", "outcome", "detectable from"]
    reported = (
        "Medians of both sets, each with its interval; the change with the interval that decides the outcome"
    )
    caption = ". ".join(filter(None, (reported, change_note(comparison.values))))
    verdicts = [_verdict_row(*texts) for texts in verdict_texts(comparison)]
    return Table(caption, columns, [*verdicts, *map(_value_row, comparison.values)])


def _verdict_row(name: str, base: str, other: str, outcome: str) -> list[Cell]:
    cells = [Cell(text) for text in ("verdict", name, base, other, "", "")]
    return [*cells, Cell(outcome, _OUTCOME_STATE.get(outcome, "")), Cell("")]


def _value_row(row: ValueComparison) -> list[Cell]:
    change, interval = effect_texts(row)
    middles = [middle_text(each, row.unit).replace("\n", "; ") for each in (row.base, row.other)]
    return [
        Cell(row.case),
        Cell(row.value),
        *(Cell(text) for text in middles),
        Cell(change, is_narrow=True),
        Cell(interval or "no interval"),
        Cell(row.outcome, _OUTCOME_STATE[row.outcome], is_narrow=True),
        Cell(seen_text(row), is_narrow=True),
    ]


def _differences(comparison: Comparison) -> Block:
    found = differing_of(comparison)
    if not found:
        if comparison.base.runs and comparison.other.runs:
            return Lines("", ["All known conditions are the same."])
        return Lines("", ["One set has no valid run, so conditions cannot be compared."])
    rows = [
        [
            Cell(f"{each.case}: {each.name}" if each.case else each.name),
            Cell(each.base or "-"),
            Cell(each.other or "-"),
        ]
        for each in found
    ]
    return Table("Each of these may explain a change", ["differs", "A", "B"], rows)


def interval_plot(comparison: Comparison) -> Picture | None:
    """Changes as shares, with their intervals; None where no value has one."""
    drawn = [row for row in comparison.values if row.scale == "ratio" and row.low is not None]
    shown = drawn[:_PLOTTED_MAX]
    if not shown:
        return None
    reported = "; ".join(
        f"{row.case[:60]}: {row.value}: {' '.join(effect_texts(row))}, {row.outcome}" for row in shown[:20]
    )
    left = len(comparison.values) - len(shown)
    more = (
        f" {counted(left, 'metric')} of the table not shown, for lack of a ratio or an interval."
        if left
        else ""
    )
    return picture(
        "Changes of B, with the intervals that decide the outcome",
        f"The change of each metric: {reported}.{more}",
        lambda figure: _draw_intervals(figure, comparison.threshold, shown),
        1.2 + 0.36 * len(shown),
    )


def _draw_intervals(figure: Figure, threshold: float, rows: Sequence[ValueComparison]) -> None:
    axes = figure.add_subplot()
    one_case = len({row.case for row in rows}) == 1
    labels = [printable(row.value if one_case else f"{row.case}: {row.value}", 60) for row in rows]
    if threshold:
        low, high = 100 * (1 / (1 + threshold) - 1), 100 * threshold
        axes.axvspan(low, high, color=COLOURS["void"], alpha=0.2, label="below the threshold")
    axes.axvline(0, color=COLOURS["text"], linewidth=1.0)
    outcomes: set[str] = set()
    for place, row in enumerate(rows):
        assert row.low is not None
        assert row.high is not None
        low, middle, high = (100 * (each - 1) for each in (row.low, row.effect, row.high))
        colour = COLOURS[_OUTCOME_COLOUR.get(row.outcome, "warning")]
        label = None if row.outcome in outcomes else row.outcome
        outcomes.add(row.outcome)
        axes.plot([low, high], [place, place], color=colour, linewidth=2.5, label=label, zorder=2)
        axes.plot([middle], [place], marker="o", markersize=5, color=colour, zorder=3)
    axes.set_yticks(range(len(rows)), labels)
    axes.set(xlabel="change of B, %", ylim=(len(rows) - 0.4, -0.6))
    figure.legend(loc="outside upper right", ncols=5)
