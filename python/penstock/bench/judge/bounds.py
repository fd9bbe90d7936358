"""Between which rates a storage sustains: what an unpaced run bounds from both sides."""

import math
from dataclasses import dataclass

import numpy

from penstock.bench.judge.meanwhile import ALONE, own_and_noted_bytes
from penstock.bench.statistics.own_time import own_times
from penstock.model.bench.load import FramesWorkload
from penstock.model.bench.runs import Run

# Parts of a run, of equally many frames: neighbours are less alike the longer they are.
_PARTS_MAX, _PARTS_MIN = 20, 5
_PART_S = 0.25
_CONFIDENCE = 0.95
# Where nothing is known of the scatter.
_UNKNOWN_SCATTER = 0.2


@dataclass(frozen=True)
class Bounds:
    """Bytes per second. The storage sustains at least `low`; without other programs, at most `high`."""

    low: float
    measured: float
    high: float
    """infinite where the waits for processors are unknown"""
    expected: float
    """without other programs, each wait of the storage shared by the writes under way; infinite likewise"""


def bounds_of(run: Run) -> Bounds | None:
    """Of an unpaced run; None where it wrote nothing."""
    workload = run.document.plan.workload
    if run.frames is None or not run.frames.carried_bytes_per_s or not isinstance(workload, FramesWorkload):
        return None
    measured = run.frames.carried_bytes_per_s
    scatter = _scatter(run)
    most, expected = _alone_bytes_per_s(run, workload)
    moved = _moved_for_own(run)
    return Bounds(
        low=measured / (1 + scatter),
        measured=measured,
        high=most * (1 + scatter) * moved,
        expected=expected * moved,
    )


def _scatter(run: Run) -> float:
    """By which share the mean time of a part may be off, with 95 % confidence: Student's interval."""
    records = run.document.records
    if records is None:
        return _UNKNOWN_SCATTER
    done = numpy.sort(numpy.asarray([at for at in records.done_ns if at >= 0], dtype=numpy.float64)) * 1e-9
    parts = min(_PARTS_MAX, int(done[-1] / _PART_S), len(done)) if len(done) else 0
    if parts < _PARTS_MIN:
        return _UNKNOWN_SCATTER
    ends = done[numpy.linspace(0, len(done) - 1, parts + 1).astype(int)]
    frames = numpy.diff(numpy.linspace(0, len(done) - 1, parts + 1).astype(int))
    each = numpy.diff(ends) / frames
    # Loading it takes as long as the rest of a command: those that measure nothing do without.
    from scipy import stats  # noqa: PLC0415

    reach = stats.t.ppf((1 + _CONFIDENCE) / 2, parts - 1) * each.std(ddof=1) / math.sqrt(parts)
    return float(reach / each.mean())


def _alone_bytes_per_s(run: Run, workload: FramesWorkload) -> tuple[float, float]:
    """Had all writers always been in a write, and no write waited for a processor: at most, and expected."""
    assert run.frames is not None
    own = own_times(run.document, run.meanwhile.storage_waits if run.meanwhile is not None else None)
    if own is None:
        return math.inf, math.inf
    ranks = run.document.job.ranks if run.document.job is not None else 1
    size = run.frames.written * workload.frame_bytes * workload.writers * ranks
    least_s, expected_s = (float(each[own.written].sum()) * 1e-9 for each in (own.own_ns, own.shared_ns))
    return size / least_s if least_s > 0 else math.inf, size / expected_s if expected_s > 0 else math.inf


def _moved_for_own(run: Run) -> float:
    """Bytes that the device moved for each one of the run, where other programs used it too."""
    if any(check.name == ALONE and check.outcome == "ok" for check in run.checks):
        return 1.0
    seen, (own, _) = run.meanwhile, own_and_noted_bytes(run.document)
    if seen is None or not own or not seen.device:
        return 1.0
    moved = max(seen.device_read_bytes + seen.device_written_bytes, seen.below_moved_bytes)
    return max(1.0, moved / own)
