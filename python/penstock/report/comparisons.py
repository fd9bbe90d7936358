"""Comparisons and trends for people."""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.bench.compare.rows import UNDECIDED
from penstock.bench.compare.scale import is_undetermined
from penstock.bench.compare.sets import SEARCH, SUSTAINED, UNPACED
from penstock.bench.compare.storages import differing_texts
from penstock.bench.option_words import field_words, value_words
from penstock.model.bench.comparisons import (
    Answer,
    Comparison,
    Difference,
    Middle,
    SetFacts,
    ValueComparison,
    VerdictFacts,
)
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent, human_rate
from penstock.report.tables import fact_table
from penstock.report.values import value_text
from penstock.report.verdicts import margin_text

_OUTCOME_STYLE = {"better": "green", "worse": "bold red", "same": "green"}
ANSWER_STYLE: dict[Answer, str] = {
    "nothing worse": "bold green",
    "worse": "bold red",
    "cannot tell": "bold yellow",
    "invalid": "bold red",
}


_SPEEDS = ("B/s", "1/s", "1/min", "ms", "s")
# Of what workloads of the sciences count, which is neither faster nor slower.
_AMOUNTS = ("count", "share")
# The metrics that say most of a verdict, then of any other document.
_TELLING = ((SEARCH, SUSTAINED), (UNPACED, "throughput"))
_LATENCY = "latency p99"
# A smaller factor is none, and one below the other is shown in per cent.
_FACTOR_MIN, _FACTOR_SHOWN = 1.005, 1.5
# Larger changes are shown as factors.
_PER_CENT_MAX = 9.0


def comparison_view(comparison: Comparison) -> RenderableType:
    """The answer, what differs around the sets, which is often the reason, and one table side by side."""
    answer, *summary = answer_lines(comparison)
    parts: list[RenderableType] = [
        Text(answer, style=ANSWER_STYLE[comparison.answer]),
        *map(Text, summary),
        Text(),
        fact_table({"A": set_text(comparison.base), "B": set_text(comparison.other)}),
        Text(),
    ]
    differing = differing_of(comparison)
    both = comparison.base.runs and comparison.other.runs
    same = Text(
        "All known conditions are the same."
        if both
        else "One set has no valid run, so conditions cannot be compared."
    )
    parts += [_differences_table(differing) if differing else same, Text()]
    if comparison.values or comparison.base.verdicts:
        parts += [_values_table(comparison), *_dim(change_note(comparison.values)), Text()]
    parts += [Text(f"- {note}") for note in comparison.notes]
    return Group(*parts, *why_lines(comparison.reasons))


def answer_lines(comparison: Comparison) -> list[str]:
    """The answer, and the metric that says most. An open answer is one line, as part of it misleads."""
    answer, summary = answer_text(comparison), summary_text(comparison)
    if comparison.answer == "cannot tell" and summary:
        return [f"{answer}: {summary}"]
    return [answer, summary] if summary else [answer]


def summary_text(comparison: Comparison) -> str:
    """ "B is 20 % slower (sustained): change ..."; empty if nothing telling is compared.

    What the runs only seemed to show is in the past: "B was 28 % faster (throughput, unpaced), in one run
    each, which may be noise". Where runs at a rate had the same throughput, which is the rate that was asked
    for, lost and late frames come first, then the latency.
    """
    row = _most_telling(comparison.values)
    lead = ""
    if row is not None and (paced := _of_a_rate(row, comparison.values)) is not None:
        row, lead = paced, _frames_text(paced.case, comparison.values)
    verdicts = _verdicts_text(comparison)
    if row is None:
        return verdicts
    what = row.value if row.case in ("frames", SEARCH) else f"{row.value}, {row.case}"
    text = f"{lead}{_change_text(row, what)}{_certainty_text(row)}"
    if comparison.answer == "cannot tell" and row.outcome not in UNDECIDED:
        text += "; other metrics are undecided"
    if comparison.parameters:
        text += f"; but the workloads differ in {differing_texts(comparison.parameters)}"
    return f"{verdicts}; {text}" if verdicts else text


def _verdicts_text(comparison: Comparison) -> str:
    if comparison.verdicts is None:
        return ""
    yes, no = ("B", "A") if comparison.verdicts == "better" else ("A", "B")
    return f"{yes} sustains the {comparison.base.verdicts[0].detector}, {no} does not"


def _most_telling(rows: Sequence[ValueComparison]) -> ValueComparison | None:
    """Of a verdict what it sustains; of other documents the first metric, where it differs most."""
    speeds = [row for row in rows if row.scale == "ratio" and row.unit in _SPEEDS]
    if rows and rows[0].unit in _AMOUNTS:
        return rows[0]
    if not speeds:
        return None
    found = {(row.case, row.value): row for row in speeds}
    for place in _TELLING:
        if place in found:
            return found[place]
    alike = [row for row in speeds if row.value == speeds[0].value]
    return max(alike, key=lambda row: (row.outcome in ("worse", "better"), abs(math.log(row.effect))))


def _of_a_rate(row: ValueComparison, rows: Sequence[ValueComparison]) -> ValueComparison | None:
    """Returns the latency that differs most, if `row` is the same throughput of runs at a rate; else None."""
    paced = {each.case for each in rows if each.value == "lost"}
    if row.value != "throughput" or row.case not in paced or _factor(row) >= _FACTOR_MIN:
        return None
    latencies = [each for each in rows if each.value == _LATENCY and each.case in paced]
    return max(latencies, key=_factor, default=None)


def _frames_text(case: str, rows: Sequence[ValueComparison]) -> str:
    """ "lost frames 0 % in A, 0.1 % in B; late frames 1 % in A, 4 % in B; "."""
    found = {row.value: row for row in rows if row.case == case}
    return "".join(
        f"{name} frames {value_text(row.base.median, row.unit)} in A,"
        f" {value_text(row.other.median, row.unit)} in B; "
        for name in ("lost", "late")
        if (row := found.get(name)) is not None
    )


def _factor(row: ValueComparison) -> float:
    return max(row.effect, 1 / row.effect)


def _change_text(row: ValueComparison, what: str) -> str:
    """ "B is 12 % faster (WHAT)", or "2 in A, 4 in B (WHAT)"."""
    if row.unit in _AMOUNTS:
        first, second = (value_text(each.median, row.unit) for each in (row.base, row.other))
        return f"{first} in A, {second} in B ({what})"
    verb = "was" if row.outcome in UNDECIDED else "is"
    return f"B {verb} {_speed_text(row)} ({what})"


def _speed_text(row: ValueComparison) -> str:
    """ "9 times slower", "12 % faster", "as fast as A"."""
    faster = row.effect if row.better == "higher" else 1 / row.effect
    factor = _factor(row)
    if factor < _FACTOR_MIN:
        return "as fast as A"
    word = "faster" if faster > 1 else "slower"
    if factor < _FACTOR_SHOWN:
        return f"{human_percent(abs(faster - 1), 2)} {word}"
    return f"{human_number(factor, 2)} times {word}"


def _certainty_text(row: ValueComparison) -> str:
    if row.low is None:
        runs = row.base.runs, row.other.runs
        number = "one run each" if runs == (1, 1) else f"{runs[0]} and {runs[1]} runs"
        return f", in {number}, which may be noise"
    if row.outcome == "drift":
        return ", but the runs drift"
    if row.outcome == "too few runs":
        return ", but the runs are too few to exclude chance"
    interval = effect_texts(row)[1]
    if row.outcome == "indistinguishable":
        return f", which is within the noise: change {interval}"
    return f": change {interval}"


def verdict_texts(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Metric, A, B and outcome of what only verdicts have; nothing unless each set is of verdicts."""
    sets = (comparison.base.verdicts, comparison.other.verdicts)
    if not all(sets):
        return []
    first, second = (_verdict_column(verdicts) for verdicts in sets)
    outcomes = {"answer": comparison.verdicts or ""}
    return [
        (name, first[name], second[name], outcomes.get(name, ""))
        for name in first
        if (first[name], second[name]) != ("-", "-")
    ]


def _verdict_column(verdicts: Sequence[VerdictFacts]) -> dict[str, str]:
    """Of several verdicts the answers; their metrics are compared like all others."""
    answers = [
        each.answer + (f" ({human_percent(each.confidence)})" if each.confidence is not None else "")
        for each in verdicts
    ]
    return {
        "detector": ", ".join(dict.fromkeys(each.detector for each in verdicts)),
        "answer": ", ".join(answers),
        "needed": ", ".join(dict.fromkeys(human_rate(each.needed_bytes_per_s) for each in verdicts)),
        "sustained": ", ".join(dict.fromkeys(map(_sustained_text, verdicts))),
        "unpaced": ", ".join(dict.fromkeys(map(_unpaced_text, verdicts))),
        "margin": ", ".join(dict.fromkeys(map(_margin_text, verdicts))),
        "lost frames": ", ".join(dict.fromkeys(f"{each.lost} of {each.due}" for each in verdicts)),
    }


def _sustained_text(verdict: VerdictFacts) -> str:
    low, high = verdict.sustained_bytes_per_s, verdict.less_than_bytes_per_s
    if low is None:
        return "unknown" if high is None else f"less than {human_rate(high)}"
    return f"at least {human_rate(low)}" + (f", less than {human_rate(high)}" if high is not None else "")


def _unpaced_text(verdict: VerdictFacts) -> str:
    unpaced = verdict.unpaced_bytes_per_s
    return human_rate(unpaced) if unpaced is not None else "unknown"


def _margin_text(verdict: VerdictFacts) -> str:
    """ "factor 2", "factor 1 or more (unpaced: factor 4.6)", or "factor 0.33 (unpaced)"."""
    low, needed = verdict.sustained_bytes_per_s, verdict.needed_bytes_per_s
    unpaced = "" if verdict.unpaced_bytes_per_s is None else margin_text(verdict.unpaced_bytes_per_s / needed)
    if low is None:
        return f"{unpaced} (unpaced)" if unpaced else "-"
    if verdict.less_than_bytes_per_s is not None:
        return margin_text(low / needed)
    return f"{margin_text(low / needed)} or more{f' (unpaced: {unpaced})' if unpaced else ''}"


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


def why_lines(reasons: Sequence[str]) -> list[Text]:
    return [Text("Why:"), *(Text(f"- {reason}") for reason in reasons)] if reasons else []


def set_names(comparison: Comparison) -> tuple[str, str]:
    """Returns what A and B are called: their documents, with their targets if these differ."""
    sets = comparison.base, comparison.other
    if sets[0].targets == sets[1].targets:
        return sets[0].name, sets[1].name
    first, second = (
        f"{each.name} ({', '.join(each.targets)})" if each.targets not in ([], [each.name]) else each.name
        for each in sets
    )
    return first, second


def set_text(facts: SetFacts) -> str:
    text = f"{facts.name}: {_runs_text(facts)}"
    for case in dict.fromkeys(facts.not_sustained):
        number = facts.not_sustained.count(case)
        text += f", {case}{f' {number} times' if number > 1 else ''}: not sustained (metrics left out)"
    invalid = facts.invalid - len(facts.not_sustained)
    text += f", {counted(invalid, 'invalid run')} left out" if invalid else ""
    first, last = (each[:16].replace("T", " ") for each in (facts.first, facts.last))
    return f"{text}, from {first} to {last} UTC" if facts.runs else text


def _runs_text(facts: SetFacts) -> str:
    """ "6 runs, 2 with warnings"; the runs of verdicts are steps of these: "1 verdict (2 steps)"."""
    warned = f", {facts.warned} with warnings" if facts.warned else ""
    if not facts.verdicts:
        return f"{counted(facts.runs, 'run')}{warned}"
    return f"{counted(len(facts.verdicts), 'verdict')} ({counted(facts.runs, 'step')}{warned})"


def differing_of(comparison: Comparison) -> list[Difference]:
    """Returns conditions and parameters; these with the words and units of their options."""
    parameters = (
        each.model_copy(
            update={
                "name": field_words(each.name),
                "base": value_words(each.name, each.base),
                "other": value_words(each.name, each.other),
            }
        )
        for each in comparison.parameters
    )
    return [*comparison.conditions, *parameters]


def _differences_table(found: Sequence[Difference]) -> Table:
    table = plain_table("differs", "A", "B")
    for each in found:
        name = f"{each.case}: {each.name}" if each.case else each.name
        table.add_row(escape(name), escape(each.base) or "-", escape(each.other) or "-")
    return table


def plain_table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _values_table(comparison: Comparison) -> Table:
    table = plain_table("case", "metric", "A", "B", "change", "outcome")
    table.columns[-1].no_wrap = True
    for name, base, other, outcome in verdict_texts(comparison):
        style = _OUTCOME_STYLE.get(outcome, "")
        table.add_row("verdict", name, escape(base), escape(other), "", Text(outcome, style=style))
    for row in comparison.values:
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
    text = Text(row.outcome, style=_OUTCOME_STYLE.get(row.outcome, ""))
    if row.detectable is not None:
        text.append(f"\ndetectable from {seen_text(row)}", style="not bold default")
    return text


def seen_text(row: ValueComparison) -> str:
    """The smallest change that would have been found, mostly; empty where that is not known."""
    if row.detectable is None:
        return ""
    if row.scale == "ratio" and row.detectable > _PER_CENT_MAX:
        return f"a factor of {human_number(1 + row.detectable, 2)}"
    return size_text(row.detectable, row.unit, row.scale)


def middle_text(middle: Middle, unit: str) -> str:
    """The median, and below it the interval with the number of runs; of a single run its value."""
    text = value_text(middle.median, unit)
    if middle.runs == 1:
        return text
    low, high = (value_text(each, unit, middle.median) for each in (middle.low, middle.high))
    return f"{text}\n{low} to {high}\nn = {middle.runs}"


def effect_texts(row: ValueComparison) -> tuple[str, str]:
    """As changes, which are read sooner than ratios: "+3.1 %", and "-0.4 % to +6.8 % (98.3 %)" or nothing."""
    one = 1.0 if row.scale == "ratio" else 0.0
    text = size_text(row.effect - one, row.unit, row.scale, "+")
    if row.low is None or row.high is None:
        return text, ""
    if is_undetermined(row.low, row.high, row.scale):
        return text, f"undetermined ({_number_text(row)})"
    low, high = (size_text(each - one, row.unit, row.scale, "+") for each in (row.low, row.high))
    sure = "" if row.confidence is None else f" ({human_percent(row.confidence)})"
    return text, f"{low} to {high}{sure}"


def _number_text(row: ValueComparison) -> str:
    """ "n = 3", or "n = 3 and 4"."""
    return f"n = {' and '.join(dict.fromkeys(map(str, (row.base.runs, row.other.runs))))}"


def size_text(change: float, unit: str, scale: str, sign: str = "") -> str:
    change = round(change, 9)
    if scale == "ratio" and change > _PER_CENT_MAX:
        return f"factor {human_number(1 + change, 3)}"
    if scale == "ratio":
        return human_percent(change, sign=sign)
    if unit == "share":
        return f"{human_number(100 * change, sign=sign)} percentage points"
    return f"{'-' if change < 0 else sign}{value_text(abs(change), unit)}"
