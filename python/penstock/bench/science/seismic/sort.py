"""Makes sorted runs of a file's traces, and merges them: each trace is read twice and written twice."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from penstock.bench.science.seismic.pipe import Output, Traces, raw, room_for
from penstock.bench.science.seismic.plan import CHUNKS, SortPlan
from penstock.bench.science.seismic.segy import DATA_AT, Keys, Rows, keys_of
from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.direct import DirectReader

_READERS = 2

OnTraces = Callable[[int], bool]
"""takes the number of traces just written; returns whether to continue"""


class StoppedError(Exception):
    """The job is to stop."""


@dataclass
class Sort:
    """`is_direct`: all files were read and written around the page cache."""

    plan: SortPlan
    counts: Counts
    on_traces: OnTraces
    is_direct: bool = True

    def _moved(self, count: int) -> None:
        if not self.on_traces(count):
            raise StoppedError

    def make_runs(self, source: Path, runs: list[Path]) -> None:
        plan = self.plan
        with (
            DirectReader(source, self.counts) as reader,
            Output(plan.samples, plan.chunk_bytes, CHUNKS, self.counts) as output,
            ThreadPoolExecutor(1) as ahead,
        ):
            traces = Traces(reader, source, plan.samples, DATA_AT)
            memory = [room_for(plan.run_traces, plan.samples) for _ in range(2)]

            def begin(number: int) -> "Future[Rows]":
                first = number * plan.run_traces
                count = min(plan.run_traces, traces.count - first)
                return ahead.submit(traces.read, memory[number % 2], first, count)

            coming = begin(0)
            for number, path in enumerate(runs):
                rows = coming.result()
                if number + 1 < len(runs):
                    coming = begin(number + 1)
                output.begin(path)
                self._put_sorted(rows, output)
                output.end()
            output.wait()
            self.is_direct &= reader.direct and output.is_direct

    def _put_sorted(self, rows: Rows, output: Output) -> None:
        order, source = numpy.argsort(keys_of(rows), kind="stable"), raw(rows)
        at = 0
        while at < len(order):
            room = output.room(len(order) - at)
            numpy.take(source, order[at : at + len(room)], out=raw(room), mode="clip")
            output.filled(len(room))
            at += len(room)
            self._moved(len(room))

    def merge(self, runs: list[Path], target: Path, header: bytes) -> None:
        plan = self.plan
        with ExitStack() as stack:
            readers = [stack.enter_context(DirectReader(path, self.counts)) for path in runs]
            output = stack.enter_context(Output(plan.samples, plan.chunk_bytes, CHUNKS, self.counts))
            ahead = stack.enter_context(ThreadPoolExecutor(_READERS))
            sources = [
                _Run(Traces(reader, path, plan.samples, 0), plan, ahead)
                for reader, path in zip(readers, runs, strict=True)
            ]
            for run in sources:
                run.advance()
            output.begin(target, header)
            for parts in _rounds(sources):
                self._put_merged(parts, output)
            output.end()
            output.wait()
            self.is_direct &= output.is_direct and all(reader.direct for reader in readers)

    def _put_merged(self, parts: list["_Part"], output: Output) -> None:
        """Each part is sorted: where its rows go to are rising places."""
        order = numpy.argsort(numpy.concatenate([part.keys for part in parts]), kind="stable")
        places = numpy.empty(len(order), numpy.int64)
        places[order] = numpy.arange(len(order))
        begins = numpy.cumsum([0, *(len(part.keys) for part in parts)])
        at = 0
        while at < len(order):
            room = output.room(len(order) - at)
            out = raw(room)
            for part, begin in zip(parts, begins, strict=False):
                into = places[begin : begin + len(part.keys)]
                low, high = numpy.searchsorted(into, [at, at + len(room)])
                out[into[low:high] - at] = raw(part.rows[low:high])
            output.filled(len(room))
            at += len(room)
            self._moved(len(room))


@dataclass(frozen=True)
class _Part:
    rows: Rows
    keys: Keys


@dataclass
class _Run:
    """A run while it is merged: a block whose rows are next, and one that is read meanwhile.

    `advance` comes first.
    """

    traces: Traces
    plan: SortPlan
    ahead: ThreadPoolExecutor
    at: int = 0
    rows: Rows = field(init=False)
    keys: Keys = field(init=False)
    _asked: int = 0
    _coming: "Future[Rows] | None" = None

    def __post_init__(self) -> None:
        self._memory = [room_for(self.plan.block_traces, self.plan.samples) for _ in range(2)]
        self._turn = 0
        self._ask()

    def _ask(self) -> None:
        count = min(self.plan.block_traces, self.traces.count - self._asked)
        self._coming = None
        if count > 0:
            memory = self._memory[self._turn % 2]
            self._coming = self.ahead.submit(self.traces.read, memory, self._asked, count)
        self._asked += count
        self._turn += 1

    def advance(self) -> bool:
        """To the next block, once all rows of this one are out. Returns whether there is one."""
        if self._coming is None:
            return False
        self.rows = self._coming.result()
        self.keys, self.at = keys_of(self.rows), 0
        self._ask()
        return True

    @property
    def has_more(self) -> bool:
        """Blocks after this one."""
        return self._coming is not None

    def taken_until(self, bound: int) -> _Part:
        end = int(numpy.searchsorted(self.keys, bound, side="right"))
        part = _Part(self.rows[self.at : end], self.keys[self.at : end])
        self.at = end
        return part


_NO_BOUND = numpy.iinfo(numpy.int64).max


def _rounds(runs: list[_Run]) -> Iterator[list[_Part]]:
    """What can be merged without a further block: up to the least of the blocks' last keys."""
    live = runs
    while live:
        bound = min((int(run.keys[-1]) for run in live if run.has_more), default=_NO_BOUND)
        yield [part for run in live if len((part := run.taken_until(bound)).keys)]
        live = [run for run in live if run.at < len(run.keys) or run.advance()]
