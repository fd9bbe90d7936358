"""Two sets of runs: which metrics are better, worse, the same or undecided, and the detectable change."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy

from penstock.bench.compare.drift import common_slope, without_drift
from penstock.bench.compare.scale import Scale, middle_of
from penstock.bench.compare.sets import OF_TREES, Measured, RunSet, differences, refuse_doubles
from penstock.bench.option_words import differing_text
from penstock.bench.statistics.intervals import (
    CONFIDENCE,
    Difference,
    Values,
    difference_apart,
    difference_in_blocks,
    holm,
    holm_levels,
)
from penstock.model.bench.comparisons import Answer, Comparison, Outcome, ValueComparison
from penstock.model.errors import ExitCode, UsageError
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent

EXIT_CODES = {
    "nothing worse": ExitCode.FINE,
    "worse": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}
RUNS_MIN = 3
# Share of the smaller set that must have a partner for the sets to count as alternating.
_PAIRED_SHARE = 0.75
_ALPHA = 1 - CONFIDENCE
_NO_VALUE = "no metric is in all runs of both sets"
_DRIFTED = "the runs drift, which may explain the difference"


def compare(base: RunSet, other: RunSet, threshold: float = 0.0, force: bool = False) -> Comparison:
    """`other` against `base`; changes up to the share `threshold` do not matter.

    A UsageError where no case is in both, and where parameters differ, unless that is meant (`force`).
    """
    refuse_doubles([*base.runs, *other.runs])
    _require_one_workload(base, other)
    matched, notes = _match(base, other)
    parameters = [
        difference
        for case, first, second in matched
        for difference in differences(case, first, second, lambda run: run.parameters)
    ]
    if parameters and not force:
        reported = "; ".join(differing_text(each.name, each.base, each.other) for each in parameters[:4])
        raise UsageError(
            f"the workload differs between {base.name} and {other.name}: {reported}",
            "measure both with the same parameters, or add --force to compare them nevertheless",
        )
    all_first = [run for _, first, _ in matched for run in first]
    all_second = [run for _, _, second in matched for run in second]
    rows = _judged([row for each in matched for row in _rows(*each)], threshold)
    lost = [*_lost(base, other, matched), *_frames_lost(matched), *_short_in_some(matched)]
    answer = _answer(rows, threshold, bool(lost)) if matched else "invalid"
    return Comparison(
        base=base.facts,
        other=other.facts,
        threshold=threshold,
        answer=answer,
        conditions=differences("", all_first, all_second, lambda run: run.conditions),
        parameters=parameters,
        notes=[
            *lost,
            *notes,
            *_one_after_the_other(matched, base.name, other.name),
            *_notes(rows, bool(matched)),
        ],
        reasons=_reasons(rows, lost)
        if answer == "cannot tell"
        else [text for each in (base, other) for text in _invalid(each)]
        if not matched
        else [],
        values=rows,
    )


def _require_one_workload(base: RunSet, other: RunSet) -> None:
    """Raises UsageError if the sets have no workload in common: they have no metric in common either."""
    kinds = [sorted({run.parameters.get("kind", "") for run in each.runs}) for each in (base, other)]
    if kinds[0] and kinds[1] and not set(kinds[0]) & set(kinds[1]):
        first, second = (", ".join(each) for each in kinds)
        raise UsageError(
            f"{base.name} is a run of {first}, {other.name} of {second}", "compare runs of the same workload"
        )


def _invalid(runs: RunSet) -> list[str]:
    """Returns the failed checks of a set without a valid run."""
    if runs.valid:
        return []
    failed = dict.fromkeys(check for run in runs.runs for check in run.failed_checks)
    checks = f"; failed checks: {', '.join(failed)}" if failed else ""
    return [f"{runs.name} has no valid run{checks}"]


_Matched = tuple[str, list[Measured], list[Measured]]


def _lost(base: RunSet, other: RunSet, matched: Sequence[_Matched]) -> list[str]:
    """Metrics that `other` lacks, which therefore cannot be judged."""
    reported = []
    if len(other.failed) > len(base.failed):
        reported.append(
            f"{len(other.failed)} runs of {other.name} failed, and {len(base.failed)} of {base.name}"
        )
    faults, before = _faults(other), _faults(base)
    if len(faults) > len(before):
        reported.append(
            f"{counted(len(faults), 'run')} of {other.name} failed with a storage error, and {len(before)} of"
            f" {base.name}: {faults[0]}"
        )
    compared = {id(run) for _, first, _ in matched for run in first}
    cases = {run.case for run in other.runs} | set(other.failed)
    for case, runs in base.cases.items():
        if case in cases and not any(id(run) in compared for run in runs):
            reported.append(f"{case}: no run of {other.name} is valid")
    return reported


def _faults(runs: RunSet) -> list[str]:
    """What the storage did wrong in runs that are left out."""
    return [run.fault for run in runs.runs if run.fault]


def _frames_lost(matched: Sequence[_Matched]) -> Iterator[str]:
    """By `other` and not by `base`: too few losses to be called worse do not prove that nothing is."""
    for case, first, second in matched:
        before, losers = (
            [run.values["lost"].value for run in runs if "lost" in run.values and run.values["lost"].value]
            for runs in (first, second)
        )
        if losers and not before:
            yield (
                f"{case}: lost: frames were lost in {len(losers)} of {counted(len(second), 'run')} of B,"
                f" {human_percent(max(losers))} at most, and in none of A"
            )


def _short_in_some(matched: Sequence[_Matched]) -> Iterator[str]:
    """A value that runs have and others lack, as they were too short for it, is compared with nothing.

    It may be worse by far: what was too short in A, and takes its time in B.
    """
    for case, first, second in matched:
        runs = [*first, *second]
        short = {name for run in runs for name in run.too_short} - set(OF_TREES)
        for name in sorted(short):
            lack = sum(name in run.too_short for run in runs)
            if any(name in run.values for run in runs):
                yield (
                    f"{case}: {name} was too short for a metric in {lack} of {len(runs)} runs, and is not"
                    " compared"
                )


def _one_after_the_other(matched: Sequence[_Matched], base: str, other: str) -> Iterator[str]:
    """Of pairs in which the same set always came second: which is not a property of the storage."""
    for case, first, second in matched:
        came_second = {partner.started > run.started for run, partner in pairs_of(first, second)}
        if len(came_second) == 1:
            yield (
                f"{case}: {other if came_second.pop() else base} was always second in its pair:"
                f" after-effects of the first run look like a difference"
            )


def _match(base: RunSet, other: RunSet) -> tuple[list[_Matched], list[str]]:
    """Cases of both sets by name; the only case of each matches whatever it is called."""
    first, second = base.cases, other.cases
    if not first or not second:
        return [], []
    if len(first) == len(second) == 1:
        (name, runs), (second_name, second_runs) = *first.items(), *second.items()
        both = name if name == second_name else f"{name} / {second_name}"
        return [(both, runs, second_runs)], []
    names = [name for name in first if name in second]
    if not names:
        raise UsageError(
            f"no case is in both sets: {base.name} has {'; '.join(first)},"
            f" {other.name} has {'; '.join(second)}",
            "choose one of each with --base-case and --case",
        )
    alone = [(base.name, first), (other.name, second)]
    notes = [f"only in {name}: {case}" for name, cases in alone for case in cases if case not in names]
    return [(name, first[name], second[name]) for name in names], notes


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
        outcome="indistinguishable",
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
    return _Row(reported, scale, difference, plain)


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
    outcome = _outcome(row, difference, test.p_adjusted, margin)
    # That all values are the same follows from each of them alone; that one differs, from all together.
    confidence = CONFIDENCE if outcome == "same" else 1 - test.level
    low, high = difference.interval(confidence)
    reason = _reason(row, difference, margin, test) if outcome == "indistinguishable" else ""
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


def _reason(row: _Row, difference: Difference, margin: float, test: _Test) -> str:
    """Returns why it is undecided; empty if nothing is to be decided, without a threshold."""
    if row.reported.drift is not None and row.plain is not None and row.plain.p_value(margin) < _ALPHA:
        return _DRIFTED
    if not margin:
        return ""
    is_beyond = difference.p_value(margin) < _ALPHA
    # Only the interval of this metric alone is beyond the threshold; otherwise that of the table counts.
    confidence = CONFIDENCE if is_beyond else 1 - test.level
    low, high = (human_percent(row.scale.change(each), sign="+") for each in difference.interval(confidence))
    limit = human_number(math.exp(margin), 4)
    limits = f"{human_percent(math.expm1(margin))} either way (factor 1/{limit} to {limit})"
    found = f"its change is {low} to {high} ({human_percent(confidence)})"
    if is_beyond:
        return (
            f"{found}, which exceeds the threshold of {limits}, but is not significant among"
            f" {test.family} metrics compared at once: add runs, or compare one --case"
        )
    return f"{found}, whose interval includes the threshold of {limits}: more runs narrow the interval"


def _margin(row: _Row, threshold: float) -> float:
    """On the scale of the comparison. No loss of frames is too small to matter."""
    return math.log1p(threshold) if row.scale.as_ratio else 0.0


def _outcome(row: _Row, difference: Difference, p_adjusted: float, margin: float) -> Outcome:
    if p_adjusted < _ALPHA:
        return "better" if (difference.estimate > 0) == (row.reported.better == "higher") else "worse"
    low, high = difference.interval()
    return "same" if margin and -margin <= low and high <= margin else "indistinguishable"


def _answer(rows: list[ValueComparison], threshold: float, some_lost: bool) -> Answer:
    """With a threshold, what may be worse by more than that is an open question; without one it is not."""
    if any(row.outcome == "worse" for row in rows):
        return "worse"
    open_ = [row for row in rows if row.outcome == "indistinguishable"]
    if not rows or some_lost or any(row.reason or (threshold and row.scale == "ratio") for row in open_):
        return "cannot tell"
    return "nothing worse"


def _reasons(rows: list[ValueComparison], lost: list[str]) -> list[str]:
    """Metrics of a case with the same reason are reported together."""
    together: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.outcome == "indistinguishable" and row.reason:
            together.setdefault((row.case, row.reason), []).append(row.value)
    reported = [f"{case}: {', '.join(values)}: {reason}" for (case, reason), values in together.items()]
    return [*lost, *([] if rows else [_NO_VALUE]), *reported]


def _notes(rows: list[ValueComparison], matched: bool) -> list[str]:
    notes = [] if rows or not matched else [_NO_VALUE]
    if any(row.design == "apart" and row.p_value is not None for row in rows):
        notes.append(
            "the sets were not measured in alternation, so any change in between looks like a difference"
        )
    for row in rows:
        if row.drift is not None:
            size = (
                human_percent(row.drift, 2, "+") if row.scale == "ratio" else human_number(row.drift, 2, "+")
            )
            notes.append(f"{row.case}: {row.value} drifts by {size} per run; the drift was removed")
    return notes
