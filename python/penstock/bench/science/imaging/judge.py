"""What the jobs of a run did together, and whether their results are right."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.bench.judge.checks import CACHED_SHARE, CACHED_SHARE_MAX
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.science.imaging.files import DECOMPRESSION, PARTS, PROCESSOR, READING
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import TeamOutcome
from penstock.bench.science.run import Found
from penstock.model.bench.runs import Check, CheckOutcome
from penstock.model.bench.science import NamedValue
from penstock.model.text import counted
from penstock.model.units import human_percent

if TYPE_CHECKING:  # it imports this module
    from penstock.bench.science.imaging.parameters import ImagingParameters

_WARM_SHARE = 0.99
_SIGNIFICANT = 0.5


class Verdict:
    """Of the outcome of one run with `frames` frames."""

    def __init__(self, asked: "ImagingParameters", frames: int, in_memory: bool) -> None:
        self._asked, self._frames, self._in_memory = asked, frames, in_memory

    def found(self, outcome: TeamOutcome, slope: Slope) -> Found:
        results = [job.ended.result for job in outcome.jobs if job.ended is not None and job.ended.result]
        shares = _shares(outcome)
        checks = [
            *self._check_right(results, outcome.interrupted),
            *([] if outcome.interrupted else self._check_each_once(results)),
            *self._check_cache(results),
        ]
        return Found(self._values(slope, results, shares), checks, self._findings(shares, results))

    def _values(
        self, slope: Slope, results: list[dict[str, Any]], shares: dict[str, float]
    ) -> list[NamedValue]:
        first = results[0] if results else {"frame_bytes": 0, "stored_bytes": 0.0}
        stored = slope.per_s * first["stored_bytes"]
        return [
            NamedValue(name="frames", value=slope.per_s, unit="1/s", better="higher"),
            NamedValue(name="pixels", value=slope.per_s * first["frame_bytes"], unit="B/s", better="higher"),
            NamedValue(
                name="time",
                value=self._frames / slope.per_s if slope.per_s else 0.0,
                unit="s",
                better="lower",
            ),
            NamedValue(name=PROCESSOR, value=1e3 * _processor_s(results), unit="ms", better="lower"),
            NamedValue(name="from storage", value=stored, unit="B/s", better=None),
            *(
                NamedValue(name=f"{part}: share", value=share, unit="share", better=None)
                for part, share in shares.items()
            ),
        ]

    def _check_right(self, results: list[dict[str, Any]], interrupted: bool) -> Iterator[Check]:
        """A frame that differs from the truth makes the run invalid."""
        wrong, compared, seen, looked = (
            sum(result[name] for result in results) for name in ("wrong", "compared", "frames", "looked_at")
        )
        named = sorted((number, problem) for result in results for number, problem in result["named"])
        if interrupted and not compared and not looked:
            return
        results_agree = f"{counted(compared, 'result agrees', 'results agree')}, and " if compared else ""
        actual = f"{results_agree}the pixels of {counted(looked, 'frame')} are right"
        outcome: CheckOutcome = "ok"
        advice = "give fewer --frames, so that there is time to look at all of them afterwards"
        if not compared and looked < seen:
            outcome = "warning"
            actual += f"; {counted(seen - looked, 'frame was', 'frames were')} not compared"
        if wrong or not (compared or looked):
            outcome = "failed"
            actual = f"{counted(wrong, 'frame is', 'frames are')} wrong" if wrong else "nothing was compared"
            actual += f": frame {named[0][0]}: {named[0][1]}" if named else ""
            advice = "do not use this storage before the cause is known: it returned other pixels"
        yield make_check(
            "frames are right", outcome, "each result equals the truth", actual, "either", advice
        )

    def _check_each_once(self, results: list[dict[str, Any]]) -> Iterator[Check]:
        if self._asked.seconds:
            return
        seen = sum(result["frames"] for result in results)
        yield make_check(
            "each frame was processed",
            "ok" if seen == self._frames else "failed",
            counted(self._frames, "frame"),
            counted(seen, "frame"),
            "either",
            "see why a job ended early",
        )

    def _check_cache(self, results: list[dict[str, Any]]) -> Iterator[Check]:
        if self._in_memory:
            return
        cached = [result["cached_share"] for result in results if result["measured_cache"]]
        known = [share for share in cached if share is not None]
        name, advice = "read from storage", "use a file that you own on a storage without a separate cache"
        expected = f"at most {human_percent(CACHED_SHARE)} in the page cache before"
        if self._asked.cached:
            name, expected = "read from the page cache", f"at least {human_percent(_WARM_SHARE)} in it before"
            advice = "use fewer --frames, so that the file fits into memory"
        if len(known) < len(cached) or not known:
            yield make_check(name, "warning", expected, "not reported by the kernel", "either", advice)
            return
        share = min(known) if self._asked.cached else max(known)
        of_warm: CheckOutcome = "ok" if share >= _WARM_SHARE else "warning"
        outcome = of_warm if self._asked.cached else _graded(share)
        yield make_check(name, outcome, expected, human_percent(share), "either", advice)

    def _findings(self, shares: dict[str, float], results: list[dict[str, Any]]) -> list[str]:
        part, share = max(shares.items(), key=lambda each: each[1], default=("", 0.0))
        if share < _SIGNIFICANT:
            return []
        by = f" ({results[0]['decoder']})" if part == DECOMPRESSION else ""
        part = "reading through HDF5 (storage and decompression)" if part == READING else part
        return [f"{part}{by} takes {human_percent(share)} of the jobs' work"]


def _processor_s(results: list[dict[str, Any]]) -> float:
    """Of all threads of the jobs, for a frame."""
    processed = sum(result["processed"] for result in results)
    return float(sum(result["processor_s"] for result in results) / processed) if processed else 0.0


def _graded(share: float) -> CheckOutcome:
    return "failed" if share > CACHED_SHARE_MAX else "warning" if share > CACHED_SHARE else "ok"


def _shares(outcome: TeamOutcome) -> dict[str, float]:
    """Of the work, without waiting for frames that threads are at."""
    spent: Counter[str] = Counter()
    for job in outcome.jobs:
        spent.update({} if job.ended is None else job.ended.spent_s)
    total = sum(spent[part] for part in PARTS)
    return {part: spent[part] / total for part in PARTS if part in spent and total > 0}
