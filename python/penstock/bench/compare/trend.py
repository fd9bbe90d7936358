"""Many documents through time: what is steady, what rises or falls, and at which document it jumped."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from penstock.bench.compare.scale import Scale, middle_of
from penstock.bench.compare.sets import OF_TREES, Measured, RunSet, differences, refuse_doubles
from penstock.bench.statistics.intervals import CONFIDENCE, Difference, Values, holm
from penstock.model.bench.comparisons import Answer, Change, Movement, Trend, TrendPoint, TrendRow
from penstock.model.errors import UsageError
from penstock.model.text import counted

WINDOW = 8
_ALPHA = 1 - CONFIDENCE
# Minimum number of preceding documents with which a document is compared.
_BEFORE_MIN = 3


def trend(sets: Sequence[RunSet], window: int = WINDOW, force: bool = False) -> Trend:
    """Of documents in any order; each is compared with up to `window` before it.

    What is counted are documents, not runs: those of a document share a day, and do not confirm each other.
    A UsageError where parameters differ, unless that is meant (`force`).
    """
    if len(sets) < 2:
        raise UsageError(f"{len(sets)} document has no trend", "give at least two")
    refuse_doubles([run for set_ in sets for run in set_.runs])
    ordered = sorted((set_ for set_ in sets if set_.valid), key=lambda set_: set_.valid[0].started)
    if not force:
        _refuse_other_parameters(ordered)
    rows = _judged([row for case in _cases(ordered) for row in _rows(case, ordered)], window)
    unknown = _unknown_of_last(sets, rows)
    answer = _answer(rows, bool(unknown))
    return Trend(
        documents=[set_.facts for set_ in ordered],
        window=window,
        answer=answer,
        conditions=_changes(ordered),
        notes=[f"{set_.name} has no valid run" for set_ in sets if not set_.valid],
        reasons=[*unknown, *_reasons(rows)] if answer == "cannot tell" else [],
        rows=rows,
    )


def _unknown_of_last(sets: Sequence[RunSet], rows: Sequence[TrendRow]) -> list[str]:
    """Returns why the last document cannot be judged: what it lacks, or what failed in it."""
    last = max(sets, key=lambda set_: set_.runs[0].started)
    if not last.valid:
        return [f"{last.name}, the last document, has no valid run"]
    reported = [
        f"{row.case}: {row.value}: missing in {last.name}, the last document"
        for row in rows
        if row.case not in last.cases or any(row.value in run.too_short for run in last.cases[row.case])
    ]
    failed = len(last.failed) + sum(bool(run.fault) for run in last.runs)
    return [
        *reported,
        *([f"{last.name}, the last document: {counted(failed, 'run')} failed"] if failed else []),
    ]


def _cases(sets: Sequence[RunSet]) -> list[str]:
    """Those of two documents or more."""
    found = [case for set_ in sets for case in set_.cases]
    return [case for case in dict.fromkeys(found) if found.count(case) > 1]


def _refuse_other_parameters(sets: Sequence[RunSet]) -> None:
    for case in _cases(sets):
        there = [set_ for set_ in sets if case in set_.cases]
        for set_ in there[1:]:
            found = differences(case, there[0].cases[case], set_.cases[case], lambda run: run.parameters)
            if found:
                raise UsageError(
                    f"{case}: {found[0].name} is {found[0].base} in {there[0].name}"
                    f" and {found[0].other} in {set_.name}",
                    "leave one of them out, or add --force to compare them nevertheless",
                )


def _changes(sets: Sequence[RunSet]) -> list[Change]:
    return [
        Change(document=after.name, name=each.name, before=each.base, after=each.other)
        for before, after in itertools.pairwise(sets)
        for each in differences("", before.valid, after.valid, lambda run: run.conditions)
    ]


@dataclass(frozen=True)
class _Row:
    """A value of a case, a number for each document that has it."""

    case: str
    name: str
    documents: list[str]
    runs: list[list[Measured]]

    @property
    def scale(self) -> Scale:
        return Scale.of([run.values[self.name] for runs in self.runs for run in runs])

    @property
    def numbers(self) -> Values:
        """Each document's median."""
        scale = self.scale
        return numpy.array(
            [numpy.median([scale.number(run.values[self.name]) for run in runs]) for runs in self.runs]
        )

    @property
    def error(self) -> float:
        scale = self.scale
        return float(numpy.median([scale.error(run.values[self.name]) for runs in self.runs for run in runs]))


def _rows(case: str, sets: Sequence[RunSet]) -> list[_Row]:
    """Of each value, the documents of which all runs have it: few may have it too short for a figure."""
    there = [(set_.name, set_.cases[case]) for set_ in sets if case in set_.cases]
    rows = []
    for name in dict.fromkeys(name for _, runs in there for run in runs for name in run.values):
        whole = [(document, runs) for document, runs in there if all(name in run.values for run in runs)]
        if len(whole) == len(there) or (name not in OF_TREES and 2 * len(whole) > len(there)):
            rows.append(_Row(case, name, [document for document, _ in whole], [runs for _, runs in whole]))
    return rows


def _judged(rows: list[_Row], window: int) -> list[TrendRow]:
    """Jumps of all values are one family of tests, slopes are another one."""
    jumps = [jumps_of(row.numbers, window, row.error) for row in rows]
    p_values = [jump.p_value() for found in jumps for jump in found if jump is not None]
    adjusted = iter(holm(p_values))
    jump_p = [[None if jump is None else next(adjusted) for jump in found] for found in jumps]
    slope_p = holm([kendall(row.numbers) for row in rows])
    return [_reported(*each, len(rows)) for each in zip(rows, jumps, jump_p, slope_p, strict=True)]


def jumps_of(numbers: Values, window: int = WINDOW, error: float = 0.0) -> list[Difference | None]:
    """Each number from the mean of up to `window` before it; None where these are too few.

    Student's test of a single new number, whose error is as large as that of those before. A number that
    moves slowly is not a jump: what it moved by is part of the scatter before it.
    """
    found: list[Difference | None] = []
    for at, number in enumerate(numbers):
        before = numbers[max(0, at - window) : at]
        if len(before) < _BEFORE_MIN:
            found.append(None)
            continue
        spread = math.sqrt(max(float(before.var(ddof=1)), error**2))
        away = float(number - before.mean())
        found.append(Difference(away, spread * math.sqrt(1 + 1 / len(before)), len(before) - 1))
    return found


def kendall(numbers: Values) -> float:
    """How probable such an order is where nothing moves: exact, but for many numbers or equal ones.

    Of few numbers with equal ones among them the plain normal approximation is too sure: two pairs and one
    more in order would be 1 of 27, and are 1 of 15. So it has the correction for continuity (Kendall 1970).
    """
    from scipy import stats  # noqa: PLC0415

    counts = numpy.unique(numbers, return_counts=True)[1]
    if len(counts) == len(numbers):
        return float(stats.kendalltau(numpy.arange(len(numbers)), numbers).pvalue)
    if len(counts) == 1:
        return 1.0
    earlier, later = numpy.triu_indices(len(numbers), 1)
    score = float(numpy.sign(numbers[later] - numbers[earlier]).sum())
    sizes = numpy.array([len(numbers), *counts], dtype=numpy.float64)
    whole, *equal = sizes * (sizes - 1) * (2 * sizes + 5) / 18
    variance = float(whole) - math.fsum(equal)
    return min(1.0, 2 * float(stats.norm.sf(max(0.0, abs(score) - 1) / math.sqrt(variance))))


def _reported(
    row: _Row, jumps: list[Difference | None], jump_p: list[float | None], slope_p: float, family: int
) -> TrendRow:
    from scipy import stats  # noqa: PLC0415

    numbers, scale = row.numbers, row.scale
    slope = stats.theilslopes(numbers, numpy.arange(len(numbers)), CONFIDENCE)
    jumped = [at for at, p_value in enumerate(jump_p) if p_value is not None and p_value < _ALPHA]
    points = [
        TrendPoint(
            document=document,
            middle=middle_of([run.values[row.name].value for run in runs]),
            jump=None if jump is None else scale.change(jump.estimate),
            p_adjusted=jump_p[at],
            jumped=at in jumped,
        )
        for at, (document, runs, jump) in enumerate(zip(row.documents, row.runs, jumps, strict=True))
    ]
    value = row.runs[0][0].values[row.name]
    return TrendRow(
        case=row.case,
        value=row.name,
        unit=value.unit,
        better=value.better,
        scale="ratio" if scale.as_ratio else "difference",
        movement=_movement(len(numbers), jumped, float(slope.slope), slope_p, family),
        jumped_at=[row.documents[at] for at in jumped],
        slope=scale.change(float(slope.slope)),
        slope_low=scale.change(float(slope.low_slope)),
        slope_high=scale.change(float(slope.high_slope)),
        p_adjusted=slope_p,
        points=points,
    )


def _movement(count: int, jumped: list[int], slope: float, slope_p: float, family: int) -> Movement:
    if jumped:
        return "jumped"
    if slope_p < _ALPHA:
        return "rising" if slope > 0 else "falling"
    # Of so few documents even a row in perfect order would be no proof.
    return "cannot tell" if _too_few(count, family) else "steady"


def _too_few(count: int, family: int) -> bool:
    return 2 / math.factorial(count) * family >= _ALPHA


def _reasons(rows: list[TrendRow]) -> list[str]:
    """Of values that are in too few documents."""
    needed = next(count for count in itertools.count(2) if not _too_few(count, len(rows)))
    return [
        f"{row.case}: {row.value}: {counted(len(row.points), 'document')} are too few: with"
        f" {counted(len(rows), 'metric')} tested together, a trend needs at least"
        f" {counted(needed, 'document')}"
        for row in rows
        if row.movement == "cannot tell"
    ]


def _answer(rows: list[TrendRow], is_last_unknown: bool) -> Answer:
    if not rows:
        return "invalid"
    if any(_worse(row) for row in rows):
        return "worse"
    open_ = is_last_unknown or any(row.movement == "cannot tell" for row in rows)
    return "cannot tell" if open_ else "nothing worse"


def _worse(row: TrendRow) -> bool:
    """A way or a jump in the wrong direction."""
    sign = 1 if row.better == "higher" else -1
    moves = {"rising": 1, "falling": -1}.get(row.movement, 0)
    return sign * moves < 0 or any(point.jumped and sign * (point.jump or 0) < 0 for point in row.points)
