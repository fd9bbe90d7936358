"""Whether a storage holds a rate: what a single run at it says."""

from collections.abc import Iterator

import numpy

from penstock.bench.statistics.quantiles import latencies_ns
from penstock.model.bench.load import FramesWorkload, LoadDocument
from penstock.model.bench.runs import Run, StepOutcome
from penstock.model.units import human_seconds

# Of the frames that become due: a backlog that grows by less is not told from one that does not.
GROWTH_MAX = 0.01
# Of a run whose growth can be told: ten in each of the quarters that are compared.
FRAMES_MIN = 40


def outcome_of(run: Run, late_limit_s: float) -> tuple[StepOutcome, list[str]]:
    """Whether the rate of a run of frames held, and why not.

    It held where no due frame was lost, none was done more than `late_limit_s` after it was due, and the
    backlog did not grow.
    """
    if run.validity == "invalid":
        failed = [check for check in run.checks if check.outcome == "failed"]
        return "invalid", [check.reported for check in failed]
    if run.frames is None or not run.frames.needed_hz:
        return "measured", []
    shortcomings = [*_lost(run), *_late(run, late_limit_s), *_growing(run.document)]
    return ("not held" if shortcomings else "held"), shortcomings


def _lost(run: Run) -> Iterator[str]:
    assert run.frames is not None
    lost = run.frames.due - run.frames.written
    if lost:
        yield (
            f"{lost} of {run.frames.due} frames were lost ({run.frames.dropped} because the queue was full)"
        )


def _late(run: Run, late_limit_s: float) -> Iterator[str]:
    assert run.document.times is not None
    most_s = run.document.times.latency.max_ns * 1e-9
    if most_s > late_limit_s:
        most, limit = human_seconds(most_s), human_seconds(late_limit_s)
        yield f"a frame was written {most} after it was due; the deadline is {limit}"


def _growing(document: LoadDocument) -> Iterator[str]:
    growth = backlog_growth(document)
    if growth is not None and growth > GROWTH_MAX:
        yield f"the backlog grew by {100 * growth:.1f} % of what became due"


def backlog_growth(document: LoadDocument) -> float | None:
    """By which share of the frames that become due the backlog grows; None where that cannot be told.

    The rise of the median latency from the second to the fourth quarter of the frames, over the time between
    the middles of those. Storage that carries 95 % of what comes has 0.05. The first quarter is left out:
    there caches fill. Without the times of each frame, the backlog itself stands for the latency.
    """
    workload = document.plan.workload
    if not isinstance(workload, FramesWorkload) or workload.rate_hz <= 0:
        return None
    if document.records is not None:
        latency = latencies_ns(document.records.done_ns, workload.rate_hz) * 1e-9
        between_s = len(latency) / 2 / workload.rate_hz
    elif document.series is not None:
        due = numpy.asarray(document.series.due) > 0
        held = numpy.asarray(document.series.held_max)
        if len(due) != len(held):
            return None
        latency = held[due] / workload.rate_hz
        between_s = len(latency) / 2 * document.series.interval_s
    else:
        return None
    if len(latency) < FRAMES_MIN:
        return None
    _, before, _, after = (quarter[quarter >= 0] for quarter in numpy.array_split(latency, 4))
    if not len(before) or not len(after):
        return None
    return float(numpy.median(after) - numpy.median(before)) / between_s
