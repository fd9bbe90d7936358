"""Every statistic of a run once more, from each frame's own times, by libraries of others and by plain loops.

The runs are real ones: storage that straggles and freezes by the clock, and files on the disk of the tests.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy
import numpy.typing
import pytest
from scipy import stats

from penstock.bench.statistics.figures import frame_figures
from penstock.bench.statistics.intervals import BOOTSTRAP_VALUES_MIN, median_interval
from penstock.model.bench.load import (
    FramesWorkload,
    Histogram,
    LoadDocument,
    LoadPlan,
    NullBackend,
    PosixBackend,
)
from penstock.programs.load import load

Times = numpy.typing.NDArray[numpy.int64]
FRAME_BYTES = 20_000


def plan_of(backend: NullBackend | PosixBackend, **workload: object) -> LoadPlan:
    stated = {"frames": 400, "frame_bytes": FRAME_BYTES, "rate_hz": 200.0, "writers": 2, "buffer_frames": 30}
    frames = FramesWorkload.model_validate(stated | {"late_after_s": 0.02} | workload)
    return LoadPlan(backend=backend, workload=frames, interval_s=0.1)


@pytest.fixture(scope="module", params=["null", "posix", "posix at full speed"])
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadDocument:
    folder = str(tmp_path_factory.mktemp("load"))
    slow = NullBackend(delay_s=0.001, straggler_every=23, straggler_s=0.05, freeze_at_s=0.7, freeze_s=0.4)
    plans = {
        "null": plan_of(slow),
        "posix": plan_of(PosixBackend(folder=folder)),
        "posix at full speed": plan_of(PosixBackend(folder=folder), rate_hz=0, layout="file_a_writer"),
    }
    found = load(plans[request.param], lambda _: None)
    assert found.problem is None
    return found


class Frames:
    """The columns of the records; all times in ns since the first frame was due."""

    def __init__(self, document: LoadDocument) -> None:
        assert document.records is not None
        assert isinstance(document.plan.workload, FramesWorkload)
        self.workload = document.plan.workload
        self.offered, self.start, self.done = (
            numpy.array(column, dtype=numpy.int64)
            for column in (document.records.offered_ns, document.records.start_ns, document.records.done_ns)
        )
        rate = self.workload.rate_hz
        numbers = range(len(self.done))
        self.due = numpy.array([n * 10**9 // int(rate) for n in numbers]) if rate else self.offered
        self.written: numpy.typing.NDArray[numpy.bool_] = self.done >= 0
        self.latency: Times = (self.done - self.due)[self.written]
        late = self.latency > self.workload.late_after_s * 1e9
        self.late = late if rate else numpy.zeros_like(late)


def test_counts_are_those_of_the_records(document: LoadDocument) -> None:
    frames, counts = Frames(document), document.frames
    assert counts is not None
    assert counts.due == counts.planned == len(frames.done) == 400
    assert counts.written == frames.written.sum()
    assert counts.dropped == (frames.done == -2).sum()
    assert counts.late == frames.late.sum()
    assert counts.bytes == frames.written.sum() * FRAME_BYTES
    if isinstance(document.plan.backend, NullBackend):
        assert counts.dropped > 0
        assert counts.late > 0


def test_each_bucket_has_as_many_values_as_the_records(document: LoadDocument) -> None:
    frames, times = Frames(document), document.times
    assert times is not None
    kept = frames.written
    for histogram, values in (
        (times.latency, frames.latency),
        (times.wait, (frames.start - frames.offered)[kept]),
        (times.service, (frames.done - frames.start)[kept]),
        (times.jitter, frames.offered - frames.due),
    ):
        same_buckets(histogram, numpy.maximum(values, 0))


def same_buckets(histogram: Histogram, values: Times) -> None:
    assert histogram.count == len(values) == sum(count for _, _, count in histogram.buckets)
    assert histogram.max_ns == values.max()
    for lowest, highest, count in histogram.buckets:
        assert ((values >= lowest) & (values <= highest)).sum() == count
        assert highest - lowest <= 0.004 * max(lowest, 1)
    ends = [end for lowest, highest, _ in histogram.buckets for end in (lowest, highest)]
    assert ends == sorted(ends)


def test_percentiles_are_numpys(document: LoadDocument) -> None:
    frames, figures = Frames(document), frame_figures(document)
    kept = frames.written
    for found, values in (
        (figures.latency_ms, frames.latency),
        (figures.service_ms, (frames.done - frames.start)[kept]),
        (figures.jitter_ms, frames.offered - frames.due),
    ):
        for name, share in (("p50", 50), ("p90", 90), ("p99", 99), ("p999", 99.9)):
            exact = numpy.percentile(values, share, method="inverted_cdf") * 1e-6
            assert exact - 1e-9 <= getattr(found, name) <= exact * 1.004 + 1e-6, name
        assert found.max == pytest.approx(values.max() * 1e-6)


def test_the_share_of_lost_frames_is_bounded_as_scipy_bounds_it(document: LoadDocument) -> None:
    frames, figures = Frames(document), frame_figures(document)
    lost = int((~frames.written).sum())
    assert figures.lost_share == lost / 400
    exact = stats.binomtest(lost, 400, alternative="less").proportion_ci(0.95, method="exact")
    assert figures.lost_share_bound_95 == pytest.approx(exact.high)


def stalls_of(frames: Frames) -> Iterator[tuple[float, float]]:
    """(length, end) in ns of each time in which frames were held and none was done."""
    events = [(int(frames.offered[n]), 1) for n in range(len(frames.done)) if frames.done[n] != -2]
    events += [(int(done), -1) for done in frames.done[frames.written]]
    held, since = 0, 0
    for moment, step in sorted(events, key=lambda event: (event[0], -event[1])):
        if step < 0:
            yield moment - since, moment
            since = moment
        elif held == 0:
            since = moment
        held += step


def test_the_longest_stall_is_that_of_a_plain_loop(document: LoadDocument) -> None:
    """To the nanosecond where no thread loses its processor between a moment and the buffer's lock.

    Where one does, a frame that was done meanwhile is told of too late, and the stall is longer: by one
    frame of each writer at most. It begins and ends when frames were offered or done all the same.
    """
    frames, buffer = Frames(document), document.buffer
    assert buffer is not None
    end = round(buffer.stall_end_s * 1e9)
    begin = end - round(buffer.stall_s * 1e9)
    dones = frames.done[frames.written]
    assert end in dones
    assert begin in dones or begin in frames.offered
    assert end - begin >= max(length for length, _ in stalls_of(frames))
    assert ((dones > begin) & (dones < end)).sum() <= frames.workload.writers
    if isinstance(document.plan.backend, NullBackend):
        # A thread that waits for a processor notes that its frame is done when part of the 0.4 s has passed.
        assert buffer.stall_s >= 0.2
    assert frame_figures(document).stall_s == buffer.stall_s


def test_recovery_is_the_first_frame_in_time_after_the_stall(document: LoadDocument) -> None:
    frames, figures, buffer = Frames(document), frame_figures(document), document.buffer
    assert buffer is not None
    if not isinstance(document.plan.backend, NullBackend):
        if frames.workload.rate_hz == 0 or buffer.stall_s <= frames.workload.late_after_s:
            assert figures.recovery_s is None
        return
    in_time = [
        int(done)
        for due, done in zip(frames.due, frames.done, strict=True)
        if 0 <= done - due <= 20_000_000 and done > buffer.stall_end_s * 1e9
    ]
    if not in_time:  # a machine that was busy to the end
        assert figures.recovery_s is None
        return
    assert figures.recovery_s == pytest.approx(min(in_time) * 1e-9 - buffer.stall_end_s)


def test_each_interval_of_the_series_is_that_of_the_records(document: LoadDocument) -> None:
    frames, series = Frames(document), document.series
    assert series is not None
    width = round(series.interval_s * 1e9)
    intervals = len(series.due)
    due_in, done_in = frames.due // width, frames.done[frames.written] // width
    assert max(*due_in, *done_in) == intervals - 1
    for interval in range(intervals):
        dues, dones = due_in == interval, done_in == interval
        assert series.due[interval] == dues.sum()
        assert series.dropped[interval] == (frames.done[dues] == -2).sum()
        assert series.done[interval] == dones.sum()
        assert series.late[interval] == frames.late[dones].sum()
        assert series.bytes[interval] == dones.sum() * FRAME_BYTES
        assert series.time_max_ns[interval] == max(frames.latency[dones], default=0)
    buffer = document.buffer
    assert buffer is not None
    assert max(series.held_max) == buffer.held_max <= frames.workload.buffer_frames


def test_bandwidth_is_bytes_over_the_time_to_the_last_sync(document: LoadDocument) -> None:
    frames, figures, seconds = Frames(document), frame_figures(document), document.seconds
    assert seconds is not None
    assert seconds.completed is not None
    assert seconds.last_done is not None
    assert seconds.first_done == pytest.approx(frames.done[frames.written].min() * 1e-9)
    assert seconds.last_done == pytest.approx(frames.done.max() * 1e-9)
    assert seconds.completed >= seconds.last_done
    rate = frames.workload.rate_hz
    carried_s = max(seconds.completed, len(frames.done) / rate if rate else 0)
    assert figures.carried_bytes_per_s == pytest.approx(frames.written.sum() * FRAME_BYTES / carried_s)
    if rate:
        assert figures.carried_bytes_per_s <= rate * FRAME_BYTES
    assert document.generator is not None
    assert sum(writer.written for writer in document.generator.writers) == frames.written.sum()


def test_the_bootstrap_is_that_of_a_plain_loop(document: LoadDocument) -> None:
    """Of latencies, with numbers of its own: two bootstraps differ by what 4000 resamples leave open."""
    values = Frames(document).latency[: 2 * BOOTSTRAP_VALUES_MIN + 1] * 1e-6
    found = median_interval([float(value) for value in values])
    numbers = numpy.random.default_rng(99)
    medians = [numpy.median(numbers.choice(values, len(values))) for _ in range(4000)]
    low, high = numpy.percentile(medians, [1.5, 98.5])
    inner_low, inner_high = numpy.percentile(medians, [3.5, 96.5])
    rounding = 1 + 1e-12  # ends may be the same value, summed in another order
    assert low / rounding <= found.low <= inner_low * rounding
    assert inner_high / rounding <= found.high <= high * rounding


def test_streams_are_counted_alike(tmp_path: Path) -> None:
    plan = LoadPlan.model_validate(
        {
            "backend": {"kind": "posix", "folder": str(tmp_path), "sync": "end"},
            "workload": {"kind": "stream", "threads": 2, "thread_bytes": 8 << 20, "transfer_bytes": 1 << 20},
            "interval_s": 0.01,
        }
    )
    found = load(plan, lambda _: None)
    assert found.phases is not None
    for phase in found.phases:
        assert phase.bytes == sum(phase.series.bytes) == sum(thread.bytes for thread in phase.threads)
        assert phase.operations == phase.times.service.count == sum(phase.series.done) == 16
        assert all(a[1] < b[0] for a, b in itertools.pairwise(phase.times.service.buckets))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 16 << 20
