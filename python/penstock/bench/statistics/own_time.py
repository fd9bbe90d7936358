"""The time that the storage took of each write, and what it alone would have made of a run.

A write's own time is its duration, less the time in which something that it may have needed waited for a
processor: its own thread, threads of other writes (which may hold a lock of the file system meanwhile), what
the storage needs on this machine, and the generator as a whole while it was stopped. Of the storage's
threads the longest wait counts, as a write waits for one at a time: on a machine with many processors those
of all of them together take longer than the run. These waits count in full, as if none overlapped and each
delayed the write: what remains is the least that the storage can have taken. The *shared* time is what it is
expected to have taken: there, each write has its own thread's waits, and its share of those of the storage,
which belong to all writes under way. Decision 49 has the reasons.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing

from penstock.model.bench.load import FramesWorkload, LoadDocument
from penstock.model.bench.runs import StorageWaits

Nanoseconds = numpy.typing.NDArray[numpy.int64]
DROPPED = -2
# Samples of waits are a tenth of a second apart, or as far as the time without waits.
_FAR_NS = 250_000_000


@dataclass(frozen=True)
class OwnTimes:
    """Of each frame of a run, in its order; of one that was not written, the median of the others."""

    own_ns: Nanoseconds
    shared_ns: Nanoseconds
    took_ns: Nanoseconds
    written: numpy.typing.NDArray[numpy.bool_]

    @property
    def hindered_share(self) -> float:
        """Of the time of all writes, that was not the storage's own."""
        took = int(self.took_ns[self.written].sum())
        return 1 - int(self.own_ns[self.written].sum()) / took if took else 0.0


def own_times(document: LoadDocument, waits: StorageWaits | None) -> OwnTimes | None:
    """None where the times of frames were not recorded, or the kernel does not report waits."""
    records, generator = document.records, document.generator
    if records is None or records.waited_ns is None or generator is None:
        return None
    start, done, waited = (
        numpy.asarray(column, dtype=numpy.int64)
        for column in (records.start_ns, records.done_ns, records.waited_ns)
    )
    written = done >= 0
    if not written.any() or (waited[written] < 0).any():
        return None
    took = numpy.where(written, done - start, 0)
    each = start[written], done[written]
    hindered = _interpolated(_of_all(*each, waited[written]), start, done)
    shared = numpy.where(written, waited, 0)
    if (pauses := _of_pauses(generator.stood_still_ns)) is not None:
        stopped = _interpolated(pauses, start, done)
        hindered, shared = hindered + stopped, shared + stopped
    if (storage := _of_storage(waits, generator.start_ns)) is not None:
        of_all, longest = (_between(clock, start, done) for clock in storage)
        under_way = _interpolated(_of_all(*each, each[1] - each[0]), start, done) / numpy.maximum(1, took)
        hindered += longest
        shared = shared + numpy.minimum(longest, (of_all / numpy.maximum(1, under_way)).astype(numpy.int64))
    own, expected = (_rest(took, less, written) for less in (hindered, shared))
    return OwnTimes(own, expected, took, written)


def _rest(took: Nanoseconds, waited: Nanoseconds, written: numpy.typing.NDArray[numpy.bool_]) -> Nanoseconds:
    rest: Nanoseconds = numpy.clip(took - waited, 0, None)
    rest[~written] = int(numpy.median(rest[written]))
    return rest


Clock = tuple[Nanoseconds, Nanoseconds | numpy.typing.NDArray[numpy.floating]]


def _of_all(start: Nanoseconds, done: Nanoseconds, waited: Nanoseconds) -> Clock:
    """Waits of all writes together; within a write, its wait is taken for evenly spread."""
    share = waited / numpy.maximum(1, done - start)
    at = numpy.concatenate((start, done))
    order = numpy.argsort(at, kind="stable")
    at, shares = at[order], numpy.cumsum(numpy.concatenate((share, -share))[order])
    total = numpy.concatenate(([0.0], numpy.cumsum(shares[:-1] * numpy.diff(at))))
    return at, total


def _of_storage(waits: StorageWaits | None, start_ns: int) -> tuple[Clock, Clock] | None:
    """Times since the first frame was due, and the waits until then: of all threads, and the longest ones."""
    if waits is None or not start_ns or len(waits.at_ns) < 2:
        return None
    at = numpy.asarray(waits.at_ns, dtype=numpy.int64) - start_ns
    waited, longest = (
        numpy.asarray(each, dtype=numpy.int64)
        for each in (waits.waited_ns, waits.longest_ns or waits.waited_ns)
    )
    return (at, waited), (at, longest)


def _of_pauses(stood_still_ns: Sequence[tuple[int, int]]) -> Clock | None:
    if not stood_still_ns:
        return None
    times: list[int] = []
    total = [0]
    for begin, end in sorted(stood_still_ns):
        after = max([begin, *times[-1:]])  # ranks may have stood still at once
        if end > after:
            times += [after, end]
            total += [total[-1], total[-1] + end - after]
    return numpy.asarray(times, dtype=numpy.int64), numpy.asarray(total[1:], dtype=numpy.int64)


def _interpolated(clock: Clock, start: Nanoseconds, done: Nanoseconds) -> Nanoseconds:
    at, total = clock
    return numpy.ceil(numpy.interp(done, at, total) - numpy.interp(start, at, total)).astype(numpy.int64)


def _between(clock: Clock, start: Nanoseconds, done: Nanoseconds) -> Nanoseconds:
    """A wait between two samples that are far apart counts whole in each write that it may have been in."""
    at, total = clock
    more = numpy.diff(total)
    far = numpy.diff(at) > _FAR_NS
    near_total = numpy.concatenate(([0.0], numpy.cumsum(numpy.where(far, 0, more))))
    far_total = numpy.concatenate(([0.0], numpy.cumsum(numpy.where(far, more, 0))))
    passed = numpy.interp(done, at, near_total) - numpy.interp(start, at, near_total)
    first = numpy.clip(numpy.searchsorted(at, start, side="right") - 1, 0, len(at) - 1)
    last = numpy.clip(numpy.searchsorted(at, done, side="left"), 0, len(at) - 1)
    return numpy.ceil(passed + far_total[last] - far_total[first]).astype(numpy.int64)


def replay(workload: FramesWorkload, ranks: int, own_ns: Nanoseconds) -> Nanoseconds:
    """When each frame would have been done, had all come on schedule and nothing waited for a processor.

    DROPPED where the queue would have been full. Frames are dealt to the ranks in turn, each with its share
    of the queue, as the generator does; a frame is in the queue until it is written.
    """
    done = numpy.full(len(own_ns), DROPPED, dtype=numpy.int64)
    for rank in range(ranks):
        frames = range(rank, len(own_ns), ranks)
        _replay_rank(workload, math.ceil(workload.buffer_frames / ranks), frames, own_ns, done)
    return done


def _replay_rank(
    workload: FramesWorkload, capacity: int, frames: range, own_ns: Nanoseconds, done: Nanoseconds
) -> None:
    free_at = [0] * workload.writers
    held: list[int] = []  # ends of the frames in the queue
    for frame in frames:
        due = int(frame * 1e9 / workload.rate_hz)
        while held and held[0] <= due:
            heapq.heappop(held)
        if len(held) >= capacity:
            continue
        end = max(due, free_at[0]) + int(own_ns[frame])
        heapq.heapreplace(free_at, end)
        heapq.heappush(held, end)
        done[frame] = end
