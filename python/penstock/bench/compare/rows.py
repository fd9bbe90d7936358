"""Each metric of two sets of runs: better, worse, the same or undecided, and the detectable change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from penstock.bench.compare.drift import common_slope, without_drift
from penstock.bench.compare.scale import Scale, is_undetermined, middle_of
from penstock.bench.compare.sets import Measured
from penstock.bench.statistics.intervals import (
    CONFIDENCE,
    Difference,
    Values,
    difference_apart,
    difference_in_blocks,
    holm,
    holm_levels,
)
from penstock.model.bench.comparisons import Outcome, ValueComparison
from penstock.model.units import human_number, human_percent

RUNS_MIN = 3
# Share of the smaller set that must have a partner for the sets to count as alternating.
_PAIRED_SHARE = 0.75
_ALPHA = 1 - CONFIDENCE
UNDECIDED: tuple[Outcome, ...] = ("indistinguishable", "too few runs", "drift")
_DRIFTED = "the runs drift, which may explain the difference"

Matched = tuple[str, list[Measured], list[Measured]]
"""a case, and its runs in both sets"""


def compared_values(matched: Sequence[Matched], threshold: float) -> list[ValueComparison]:
    """Every value that all runs of a case have in both sets; all of them are one family of tests."""
    return _judged([row for each in matched for row in _rows(*each)], threshold)


@dataclass(frozen=True)
class _Sides:
    """A value of a case in both sets, on the scale on which it is compared."""

    numbers: list[Values]
    places: list[Values]  # in time, in runs of both sets
    error: float
    scale: Scale
    in_blocks: bool

    @property
    def plain(self) -> Difference | None:
        if min(map(len, self.numbers)) < RUNS_MIN:
            return None
        base, other = self.numbers
        return (difference_in_blocks if self.in_blocks else difference_apart)(base, other, self.error)

    @property
    def slope(self) -> Difference | None:
        """What both sets follow through time, and has to be taken out.

        In blocks it cancels, but for what a run is later than its partner where B always came second; only
        there, and where it is sure, it is worth what taking it out costs.
        """
        slope = common_slope(self.numbers, self.places)
        return None if slope and self.in_blocks and slope.p_value() >= _ALPHA else slope

    @property
    def distance(self) -> float:
        return float(self.places[1].mean() - self.places[0].mean())


@dataclass(frozen=True)
class _Row:
    """While it is judged."""

    reported: ValueComparison
    scale: Scale
    difference: Difference | None
    plain: Difference | None  # with the drift in it
    ranges_overlap: bool


def _rows(case: str, base: list[Measured], other: list[Measured]) -> list[_Row]:
    """Of the values that all runs of both sets have."""
    pairs = pairs_of(base, other)
    runs = [*base, *other]
    names = [name for name in base[0].values if all(name in run.values for run in runs)]
    return [_row(case, name, base, other, pairs) for name in names]


_Pairs = list[tuple[Measured, Measured]]


def pairs_of(base: list[Measured], other: list[Measured]) -> _Pairs:
    """Runs of both sets beside one another; none where the sets were not made in turn.

    In one campaign these are the runs of a block; else runs that follow each other in time.
    """
    runs = [*base, *other]
    if len({run.document for run in runs}) == 1 and all(run.block is not None for run in runs):
        blocks = {run.block: run for run in base}
        pairs = [(blocks[run.block], run) for run in other if run.block in blocks]
    else:
        pairs = _neighbours(base, other)
    enough = max(RUNS_MIN, _PAIRED_SHARE * min(len(base), len(other)))
    return pairs if len(pairs) >= enough else []


def _neighbours(base: list[Measured], other: list[Measured]) -> _Pairs:
    line = sorted([(run, 0) for run in base] + [(run, 1) for run in other], key=lambda each: each[0].started)
    pairs, place = [], 0
    while place + 1 < len(line):
        (run, set_), (next_run, next_set) = line[place], line[place + 1]
        if set_ == next_set:
            place += 1
            continue
        pairs.append((run, next_run) if set_ == 0 else (next_run, run))
        place += 2
    return pairs


def _sides(name: str, base: Sequence[Measured], other: Sequence[Measured], in_blocks: bool) -> _Sides:
    runs = [*base, *other]
    scale = Scale.of([run.values[name] for run in runs])
    order = {id(run): place for place, run in enumerate(sorted(runs, key=lambda run: run.started))}
    return _Sides(
        numbers=[numpy.array([scale.number(run.values[name]) for run in each]) for each in (base, other)],
        places=[numpy.array([float(order[id(run)]) for run in each]) for each in (base, other)],
        error=float(numpy.median([scale.error(run.values[name]) for run in runs])),
        scale=scale,
        in_blocks=in_blocks,
    )


def _row(case: str, name: str, base: list[Measured], other: list[Measured], pairs: _Pairs) -> _Row:
    first, second = (list(side) for side in zip(*pairs, strict=True)) if pairs else (base, other)
    sides = _sides(name, first, second, bool(pairs))
    plain, slope, scale = sides.plain, sides.slope, sides.scale
    difference = without_drift(plain, slope, sides.distance) if plain and slope else plain
    middles = [float(numpy.median(numbers)) for numbers in sides.numbers]
    value = base[0].values[name]
    reported = ValueComparison(
        case=case,
        value=name,
        unit=value.unit,
        better=value.better,
        base=middle_of([run.values[name].value for run in base]),
        other=middle_of([run.values[name].value for run in other]),
        design="in blocks" if pairs else "apart",
        outcome="too few runs",
        reason="" if difference else _too_few(len(base), len(other)),
        pairs=len(pairs),
        scale="ratio" if scale.as_ratio else "difference",
        effect=scale.effect(difference.estimate if difference else middles[1] - middles[0]),
        low=None,
        high=None,
        drift=scale.change(slope.estimate) if _drifts(sides) and slope else None,
        detectable=None,
        p_value=None,
        p_adjusted=None,
    )
    return _Row(reported, scale, difference, plain, _ranges_overlap(name, base, other, sides))


def _ranges_overlap(name: str, base: list[Measured], other: list[Measured], sides: _Sides) -> bool:
    """Also where what counting and rounding leave open may be all that is between them."""
    first, second = ([sides.scale.number(run.values[name]) for run in runs] for runs in (base, other))
    return max(min(first) - max(second), min(second) - max(first)) <= 2 * sides.error


def _too_few(base: int, other: int) -> str:
    if base == other == 1:
        return "one run each gives no information about noise"
    return f"{base} and {other} runs are too few to estimate noise: {RUNS_MIN} of each are required"


def _drifts(sides: _Sides) -> bool:
    """In blocks it does no harm: it is the same for both."""
    slope = sides.slope
    return not sides.in_blocks and slope is not None and slope.p_value() < _ALPHA


def _judged(rows: list[_Row], threshold: float) -> list[ValueComparison]:
    """With the outcomes of all values that were compared at once."""
    p_values = [row.difference.p_value(_margin(row, threshold)) for row in rows if row.difference]
    decided = zip(p_values, holm(p_values), holm_levels(p_values), strict=True)
    tests = (_Test(*each, len(p_values)) for each in decided)
    return [
        _reported(row, row.difference, threshold, next(tests)) if row.difference else row.reported
        for row in rows
    ]


@dataclass(frozen=True)
class _Test:
    """Of one value among `family`, as Holm's procedure decided it."""

    p_value: float
    p_adjusted: float
    level: float
    family: int


def _reported(row: _Row, difference: Difference, threshold: float, test: _Test) -> ValueComparison:
    margin = _margin(row, threshold)
    outcome, reason = _outcome(row, difference, test, margin)
    # That all values are the same follows from each of them alone; that one differs, from all together.
    confidence = CONFIDENCE if outcome == "same" else 1 - test.level
    low, high = difference.interval(confidence)
    return row.reported.model_copy(
        update={
            "outcome": outcome,
            "low": row.scale.effect(low),
            "high": row.scale.effect(high),
            "confidence": confidence,
            "reason": reason,
            "detectable": row.scale.change(difference.detectable(_ALPHA / test.family) + margin),
            "p_value": test.p_value,
            "p_adjusted": test.p_adjusted,
        }
    )


def _margin(row: _Row, threshold: float) -> float:
    """On the scale of the comparison. No loss of frames is too small to matter."""
    return math.log1p(threshold) if row.scale.as_ratio else 0.0


def _outcome(row: _Row, difference: Difference, test: _Test, margin: float) -> tuple[Outcome, str]:
    """The outcome and, if it leaves open whether B is worse, why."""
    is_worse = (difference.estimate > 0) != (row.reported.better == "higher")
    if test.p_adjusted < _ALPHA:
        return ("worse" if is_worse else "better"), ""
    low, high = difference.interval()
    if margin and -margin <= low and high <= margin:
        return "same", ""
    if row.reported.drift is not None and _seems_to_differ(row, margin):
        return "drift", _DRIFTED
    least, most = map(row.scale.effect, difference.interval(1 - test.level))
    if is_undetermined(least, most, row.reported.scale):
        return "too few runs", _undetermined(row.reported)
    reason = _threshold_reason(row, difference, margin, test) if margin else ""
    if row.ranges_overlap:
        return "indistinguishable", reason
    return "too few runs", reason or (_apart(row.reported) if is_worse else "")


def _seems_to_differ(row: _Row, margin: float) -> bool:
    """With the drift in it."""
    return not row.ranges_overlap or (row.plain is not None and row.plain.p_value(margin) < _ALPHA)


def _apart(row: ValueComparison) -> str:
    return (
        f"all runs of B are worse than those of A, but {row.base.runs} and {row.other.runs} runs are too few"
        " to exclude chance"
    )


def _undetermined(row: ValueComparison) -> str:
    return f"its change is undetermined, because {row.base.runs} and {row.other.runs} runs are too few"


def _threshold_reason(row: _Row, difference: Difference, margin: float, test: _Test) -> str:
    is_beyond = difference.p_value(margin) < _ALPHA
    # Only the interval of this metric alone is beyond the threshold; otherwise that of the table counts.
    confidence = CONFIDENCE if is_beyond else 1 - test.level
    low, high = difference.interval(confidence)
    change = " to ".join(human_percent(row.scale.change(each), sign="+") for each in (low, high))
    limit = human_number(math.exp(margin), 4)
    limits = f"{human_percent(math.expm1(margin))} either way (factor 1/{limit} to {limit})"
    found = f"its change is {change} ({human_percent(confidence)})"
    if is_beyond:
        return (
            f"{found}, which exceeds the threshold of {limits}, but is not significant among"
            f" {test.family} metrics compared at once: add runs, or compare one --case"
        )
    return f"{found}, whose interval includes the threshold of {limits}: more runs narrow the interval"
