"""Whether a storage holds a rate: what a single run says, and what the storage alone had to do with it."""

from collections.abc import Iterator

import numpy
import numpy.typing

from penstock.bench.judge.checks import AT_HAND, NO_STEAL, QUIET, is_no_space
from penstock.bench.judge.generator_checks import IN_TIME, NOT_THE_BOTTLENECK
from penstock.bench.statistics.own_time import OwnTimes, own_times, replay
from penstock.bench.statistics.quantiles import latencies_ns
from penstock.model.bench.load import RECORDED_FRAMES_MAX, FramesWorkload, LoadDocument
from penstock.model.bench.runs import Alone, Run, StepOutcome
from penstock.model.units import human_seconds

# Of the frames that become due: a backlog that grows by less is not told from one that does not.
GROWTH_MAX = 0.01
# Of a run whose growth can be told: ten in each of the quarters that are compared.
FRAMES_MIN = 40
# What waits of processors cannot show (caches and memory that programs share) costs a write less than this.
SURE_SHARE = 0.9

Seconds = numpy.typing.NDArray[numpy.floating]


def outcome_of(run: Run, late_limit_s: float) -> tuple[StepOutcome, list[str], Alone | None]:
    """Whether the rate of a run of frames held, why not, and what the storage alone would have made of it.

    It held where no due frame was lost, none was done more than `late_limit_s` after it was due, and the
    backlog did not grow. A run is disturbed where it did not hold, and the storage alone would have.
    An error that the storage returned decides before anything that may make a run invalid.
    """
    if run.frames is not None and run.frames.needed_hz and write_failed(run):
        return "not held", [write_error(run), *_lost(run)], alone_of(run, late_limit_s)
    failed = [check for check in run.checks if check.outcome == "failed" and check.bias != "worse"]
    if failed:
        return "invalid", [check.reported for check in failed], None
    if run.frames is None or not run.frames.needed_hz:
        worse = [check for check in run.checks if check.outcome == "failed"]
        return ("invalid" if worse else "measured"), [check.reported for check in worse], None
    shortcomings = [*_lost(run), *_late(run, late_limit_s), *_growing(run.document)]
    if not shortcomings:
        return "held", [], None
    alone = alone_of(run, late_limit_s)
    return ("not held" if alone.shortcomings else "disturbed"), shortcomings, alone


def write_failed(run: Run) -> bool:
    """Whether the storage returned an error for a frame, other than that it is full."""
    return run.frames is not None and run.frames.failed > 0 and not is_no_space(run.document)


def write_error(run: Run) -> str:
    return f"the storage returned an error: {run.document.problem or 'a write failed'}"


def _lost(run: Run) -> Iterator[str]:
    assert run.frames is not None
    lost = run.frames.due - run.frames.written
    if run.document.interrupted:  # nobody waited for what was in the queue
        lost -= run.frames.unfinished
    if lost:
        yield (
            f"{lost} of {run.frames.due} frames were lost ({run.frames.dropped} because the queue was full)"
        )


def _late(run: Run, late_limit_s: float) -> Iterator[str]:
    assert run.document.times is not None
    yield from _too_late(run.document.times.latency.max_ns * 1e-9, late_limit_s)


def _too_late(most_s: float, late_limit_s: float) -> Iterator[str]:
    if most_s > late_limit_s:
        most, limit = human_seconds(most_s), human_seconds(late_limit_s)
        yield f"a frame was written {most} after it was due; the deadline is {limit}"


def _growing(document: LoadDocument) -> Iterator[str]:
    yield from _too_much_growth(backlog_growth(document))


def _too_much_growth(growth: float | None) -> Iterator[str]:
    if growth is not None and growth > GROWTH_MAX:
        yield f"the backlog grew by {100 * growth:.1f} % of what became due"


def alone_of(run: Run, late_limit_s: float) -> Alone:
    """Of a run that did not hold: by a replay with the storage's own times."""
    assert run.frames is not None
    if run.frames.failed or (run.frames.unfinished and not run.document.interrupted):
        return Alone(hindered_share=None, shortcomings=["the storage did not complete a write"], certain=True)
    own = own_times(run.document, run.meanwhile.storage_waits if run.meanwhile is not None else None)
    if own is None:
        if _passed(run, QUIET, NO_STEAL, IN_TIME, AT_HAND, NOT_THE_BOTTLENECK):
            return Alone(
                hindered_share=None, shortcomings=["no other program used the processors"], certain=True
            )
        return Alone(hindered_share=None, shortcomings=[], certain=False, unknown=_no_times(run))
    if (unseen := _unseen(run)) and not _passed(run, QUIET, NO_STEAL):
        return Alone(hindered_share=None, shortcomings=[], certain=False, unknown=unseen)
    full = list(_alone_shortcomings(run.document, own, 1.0, late_limit_s))
    sure = list(_alone_shortcomings(run.document, own, SURE_SHARE, late_limit_s)) if full else []
    return Alone(hindered_share=own.hindered_share, shortcomings=full, certain=bool(sure))


def _alone_shortcomings(
    document: LoadDocument, own: OwnTimes, share: float, late_limit_s: float
) -> Iterator[str]:
    workload = document.plan.workload
    assert isinstance(workload, FramesWorkload)
    ranks = document.job.ranks if document.job is not None else 1
    done = replay(workload, ranks, (own.own_ns * share).astype(numpy.int64))
    if lost := int((done < 0).sum()):
        yield f"it alone would have lost {lost} of {len(done)} frames"
    latency = latencies_ns(done.tolist(), workload.rate_hz) * 1e-9
    yield from _too_late(float(latency.max(initial=0.0)), late_limit_s)
    yield from _too_much_growth(_growth(latency, len(latency) / 2 / workload.rate_hz))


def _unseen(run: Run) -> str:
    """Why waits of the storage's own threads may have been missed; empty: they were not."""
    seen = run.meanwhile
    if seen is None or seen.storage_waits is None:
        return "waits of the storage's threads were not measured"
    if seen.storage_waits.daemon_threads == 0:
        return "the process of the FUSE file system is not visible"
    if not seen.storage_waits.kernel_threads and not seen.plain:
        return "kernel threads are not visible"
    return ""


def _no_times(run: Run) -> str:
    if run.document.records is None:
        return f"the times of more than {RECORDED_FRAMES_MAX} frames are not recorded"
    return "the kernel does not report how long threads wait for a processor"


def _passed(run: Run, *names: str) -> bool:
    """A check that was not made did not find anything."""
    failed = {check.name for check in run.checks if check.outcome != "ok"}
    return QUIET in {check.name for check in run.checks} and not failed & set(names)


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
    return _growth(latency, between_s)


def _growth(latency: Seconds, between_s: float) -> float | None:
    if len(latency) < FRAMES_MIN:
        return None
    _, before, _, after = (quarter[quarter >= 0] for quarter in numpy.array_split(latency, 4))
    if not len(before) or not len(after):
        return None
    return float(numpy.median(after) - numpy.median(before)) / between_s
