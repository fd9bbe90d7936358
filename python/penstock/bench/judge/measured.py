"""The bandwidth of a block out of documents of earlier measurements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from penstock.bench.judge.verdict import is_at_least
from penstock.bench.statistics.values import values_of
from penstock.files.documents import read_document
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run, Validity, Verdict
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.plan.blocks import MeasuredBandwidth

Answered = Literal["yes", "likely yes", "cannot tell", "likely no", "no"]


def measured_bandwidth(paths: Sequence[Path]) -> MeasuredBandwidth:
    """The median over the runs that were unpaced, and over what verdicts found.

    Of a verdict that is the highest rate that held, or how fast it went where none was searched for. Runs at
    a detector's rate tell what was asked for and not what is possible; they are left out. Where a verdict
    found nothing that was too much, the median is a bound: the block carries that at least. A UsageError
    names a document that has nothing else; a PenstockError (INVALID) one whose figures are invalid.
    """
    found = [each for path in paths for each in _found_in(path)]
    for each in found:
        if each.validity == "invalid":
            raise PenstockError(
                f"{each.path} is invalid: its metrics are not those of the storage",
                "its table of checks gives the reason; measure again",
                ExitCode.INVALID,
            )
    writes = [each.write_bytes_per_s for each in found]
    reads = [each.read_bytes_per_s for each in found if each.read_bytes_per_s is not None]
    if not all(math.isfinite(value) and value > 0 for value in (*writes, *reads)):
        raise UsageError(
            f"{', '.join(map(str, paths))}: a run transferred nothing", "measure again, or leave it out"
        )
    return MeasuredBandwidth(
        write_bytes_per_s=median(writes),
        read_bytes_per_s=median(reads) if reads else None,
        at_least=any(each.at_least for each in found),
        source=f"median of {len(writes)} runs in " + ", ".join(path.name for path in paths)
        if len(writes) > 1
        else paths[0].name,
        answer=_common_answer([each.answer for each in found if each.answer is not None]),
        validity="warned" if any(each.validity == "warned" for each in found) else "valid",
        frame_bytes=sorted({size for each in found for size in each.frame_bytes}),
    )


_LEAST_CERTAIN_FIRST: tuple[Answered, ...] = ("cannot tell", "likely no", "likely yes", "no", "yes")


def _common_answer(answers: Sequence[Answered]) -> Answered | None:
    """Returns the least certain one."""
    return next((each for each in _LEAST_CERTAIN_FIRST if each in answers), None)


@dataclass(frozen=True)
class _Found:
    path: Path
    validity: Validity
    write_bytes_per_s: float
    read_bytes_per_s: float | None
    at_least: bool = False
    frame_bytes: tuple[int, ...] = ()
    answer: Answered | None = None


def _found_in(path: Path) -> list[_Found]:
    document = read_document(path)
    if isinstance(document, Verdict):
        return [_of_verdict(path, document)]
    runs: list[Run] = []
    if isinstance(document, Run):
        runs = [document]
    elif isinstance(document, Campaign):
        if len(document.cases) != 1:
            raise UsageError(
                f"{path} is a campaign of {len(document.cases)} cases, but only one is allowed",
                "name a document with one case",
            )
        runs = [each.run for each in document.runs]
    fast = [run for run in runs if run.frames is None or run.frames.needed_hz == 0]
    found = [(run, values_of(run)) for run in fast]
    writing = [
        _Found(
            path,
            run.validity,
            values[name].value,
            values["read"].value if "read" in values else None,
            frame_bytes=_frame_bytes([run]),
        )
        for run, values in found
        for name in ("throughput", "write")
        if name in values
    ]
    if not writing:
        raise UsageError(
            f"{path} has no run that was unpaced",
            "`penstock bench frames --rate 0` makes one; `penstock verdict` finds the highest rate",
        )
    return writing


def _of_verdict(path: Path, verdict: Verdict) -> _Found:
    if verdict.measured_bytes_per_s is None and verdict.answer != "invalid":
        why, remedy = _why_unmeasured(verdict)
        raise UsageError(f"{path} does not have the throughput that the storage sustains: {why}", remedy)
    warned = any(step.run.validity == "warned" for step in verdict.steps if step.kind != "probe")
    validity: Validity = "invalid" if verdict.answer == "invalid" else "warned" if warned else "valid"
    carried = verdict.measured_bytes_per_s or 0.0
    frame_bytes = _frame_bytes([step.run for step in verdict.steps])
    answer: Answered | None = None if verdict.answer == "invalid" else verdict.answer
    return _Found(path, validity, carried, None, is_at_least(verdict), frame_bytes, answer)


def _why_unmeasured(verdict: Verdict) -> tuple[str, str]:
    """Returns why a verdict has no throughput, and the remedy."""
    if verdict.problem is not None:
        return f"it is incomplete ({verdict.problem})", "measure again"
    if verdict.search is not None:
        if verdict.search.ended == "invalid":
            return "the runs of its search are invalid", "its table of checks gives the reason; measure again"
        return "its search found no sustained rate", "measure a lower --rate, or another block"
    unpaced = [step for step in verdict.steps if step.kind == "full speed"]
    reasons = "; ".join(unpaced[-1].shortcomings) if unpaced else ""
    why = f"its unpaced run is {'invalid' if unpaced else 'missing'}{f' ({reasons})' if reasons else ''}"
    return f"{why}, and it has no search", "measure again without --quick, or longer"


def _frame_bytes(runs: Sequence[Run]) -> tuple[int, ...]:
    """Of the workloads that write frames."""
    sizes = {getattr(run.document.plan.workload, "frame_bytes", 0) for run in runs}
    return tuple(sorted(sizes - {0}))
