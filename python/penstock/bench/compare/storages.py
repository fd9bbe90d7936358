"""Two sets of runs: which metrics are better, worse, the same or undecided, and the detectable change."""

from collections.abc import Iterator, Sequence
from typing import Literal

from penstock.bench.compare.rows import UNDECIDED, Matched, compared_values, pairs_of
from penstock.bench.compare.sets import OF_TREES, RunSet, differences, refuse_doubles
from penstock.bench.option_words import differing_text
from penstock.bench.statistics.intervals import CONFIDENCE
from penstock.model.bench.comparisons import Answer, Comparison, Difference, ValueComparison
from penstock.model.errors import ExitCode, UsageError
from penstock.model.text import counted
from penstock.model.units import human_number, human_percent

EXIT_CODES = {
    "nothing worse": ExitCode.FINE,
    "worse": ExitCode.FAILED,
    "cannot tell": ExitCode.CANNOT_TELL,
    "invalid": ExitCode.INVALID,
}
_NO_VALUE = "no metric is in all runs of both sets"


def compare(base: RunSet, other: RunSet, threshold: float = 0.0, force: bool = False) -> Comparison:
    """`other` against `base`; changes up to the share `threshold` do not matter.

    A UsageError where no case is in both, and where parameters differ, unless that is meant (`force`).
    """
    refuse_doubles([*base.runs, *other.runs])
    _require_one_workload(base, other)
    matched, unmatched = _match(base, other)
    parameters = [
        difference
        for case, first, second in matched
        for difference in differences(case, first, second, lambda run: run.parameters)
    ]
    if parameters and not force:
        raise UsageError(
            f"the workloads of {base.name} and {other.name} differ in {differing_texts(parameters)}",
            "measure both with the same parameters, or add --force to compare them nevertheless",
        )
    rows = compared_values(matched, threshold)
    lost = [*_lost(base, other, matched), *_frames_lost(matched), *_short_in_some(matched)]
    verdicts = _verdicts(base, other)
    answer = _answer(rows, threshold, bool(lost), verdicts) if matched else "invalid"
    order = _one_after_the_other(matched, base.name, other.name)
    return Comparison(
        base=base.facts,
        other=other.facts,
        threshold=threshold,
        answer=answer,
        conditions=_conditions(matched),
        parameters=parameters,
        notes=[*lost, *unmatched, *order, *_notes(rows, bool(matched))],
        reasons=_reasons(rows, lost, (base, other), answer),
        verdicts=verdicts,
        values=rows,
    )


# By the parameter from which a run derives them unless they are given.
_FOLLOWS = {"buffer_frames": "rate_hz", "late_after_s": "rate_hz"}


def differing_texts(parameters: Sequence[Difference]) -> str:
    """Each difference once, although several cases have it; what follows from another is left out."""
    causes = {each.name for each in parameters}
    texts = dict.fromkeys(
        differing_text(each.name, each.base, each.other)
        for each in parameters
        if _FOLLOWS.get(each.name) not in causes
    )
    return "; ".join([*texts][:4])


def _verdicts(base: RunSet, other: RunSet) -> Literal["better", "worse"] | None:
    """Of verdicts that contradict each other: at most one of them is wrong, and that in 1 of 20 cases."""
    first, second = (
        {each.answer if (each.confidence or 0) >= CONFIDENCE else "" for each in side.verdicts}
        for side in (base, other)
    )
    if (first, second) == ({"yes"}, {"no"}):
        return "worse"
    return "better" if (first, second) == ({"no"}, {"yes"}) else None


def _conditions(matched: Sequence[Matched]) -> list[Difference]:
    """What may be the reason of a difference, the lengths of runs too."""
    first = [run for _, runs, _ in matched for run in runs]
    second = [run for _, _, runs in matched for run in runs]
    lengths = (differences(*each, lambda run: run.extent) for each in matched)
    return [
        *differences("", first, second, lambda run: run.conditions),
        *(each for found in lengths for each in found),
    ]


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


def _lost(base: RunSet, other: RunSet, matched: Sequence[Matched]) -> list[str]:
    """Metrics that `other` lacks, which therefore cannot be judged."""
    reported = []
    if len(other.failed) > len(base.failed):
        reported.append(
            f"{counted(len(other.failed), 'run')} of {other.name} failed, and"
            f" {len(base.failed)} of {base.name}"
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
            reported.append(f"{case}: {_no_metrics(case, other)}")
    return reported


def _no_metrics(case: str, runs: RunSet) -> str:
    """Why a set has no metrics of a case that are compared."""
    if case in runs.facts.not_sustained:
        failed = dict.fromkeys(check for run in runs.runs if run.case == case for check in run.failed_checks)
        return f"not sustained in {runs.name}; metrics left out (failed checks: {', '.join(failed)})"
    return f"no run of {runs.name} is valid"


def _faults(runs: RunSet) -> list[str]:
    """What the storage did wrong in runs that are left out."""
    return [run.fault for run in runs.runs if run.fault]


def _frames_lost(matched: Sequence[Matched]) -> Iterator[str]:
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


def _short_in_some(matched: Sequence[Matched]) -> Iterator[str]:
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


def _one_after_the_other(matched: Sequence[Matched], base: str, other: str) -> Iterator[str]:
    """Of pairs in which the same set always came second: which is not a property of the storage."""
    for case, first, second in matched:
        came_second = {partner.started > run.started for run, partner in pairs_of(first, second)}
        if len(came_second) == 1:
            yield (
                f"{case}: {other if came_second.pop() else base} was always second in its pair:"
                f" after-effects of the first run look like a difference"
            )


def _match(base: RunSet, other: RunSet) -> tuple[list[Matched], list[str]]:
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
    no_metrics = {*base.facts.not_sustained, *other.facts.not_sustained}
    notes = [
        f"{case}: metrics only in {name}" if case in no_metrics else f"only in {name}: {case}"
        for name, cases in alone
        for case in cases
        if case not in names
    ]
    return [(name, first[name], second[name]) for name in names], notes


def _answer(
    rows: list[ValueComparison],
    threshold: float,
    some_lost: bool,
    verdicts: Literal["better", "worse"] | None,
) -> Answer:
    """With a threshold, what may be worse by more than that is an open question; without one it is not."""
    if verdicts == "worse" or any(row.outcome == "worse" for row in rows):
        return "worse"
    open_ = [row for row in rows if row.outcome in UNDECIDED]
    if not rows or some_lost or any(row.reason or (threshold and row.scale == "ratio") for row in open_):
        return "cannot tell"
    return "nothing worse"


def _reasons(
    rows: list[ValueComparison], lost: list[str], sets: tuple[RunSet, RunSet], answer: Answer
) -> list[str]:
    """Metrics of a case with the same reason are reported together, and so are all cases."""
    if answer == "invalid":
        return [text for each in sets for text in _invalid(each)]
    if answer != "cannot tell":
        return []
    reasons = {row.reason for row in rows}
    if len(reasons) == 1 and len({row.case for row in rows}) > 1:
        return [*lost, *reasons]
    together: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.outcome in UNDECIDED and row.reason:
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
