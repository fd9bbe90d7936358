"""Whether a file has the traces of a survey, each unchanged, in order of CDP and offset."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import numpy.typing

from penstock.bench.science.seismic.pipe import Traces, raw, room_for
from penstock.bench.science.seismic.segy import (
    BY_CDP,
    DATA_AT,
    Keys,
    Rows,
    added,
    file_header,
    hashes_of,
    key_text,
    keys_of,
    trace_bytes,
)
from penstock.bench.science.seismic.survey import Truth
from penstock.bench.science.storage.counts import Counts
from penstock.bench.science.storage.direct import DirectReader, aligned
from penstock.model.errors import PenstockError

_BLOCK_BYTES = 16 << 20
_PROBES = 16

_HEADERS = 1 << 16
"""that segyio reads at once"""
_BUCKET_BITS, _BUCKETS_SEEN = 12, 8
_SPREADS = numpy.uint64(0x9E3779B97F4A7C15)

Numbers = numpy.typing.NDArray[numpy.uint64]


@dataclass
class _Contents:
    """What is kept of the traces of a file, which may be more than fit into memory."""

    traces: int = 0
    buckets: Numbers = field(default_factory=lambda: numpy.zeros(1 << _BUCKET_BITS, numpy.uint64))
    """sums of the hashes of traces, by their keys"""
    key_digest: Any = field(default_factory=hashlib.blake2b)
    falls: int = 0
    first_fall: str = ""
    _last: Keys = field(default_factory=lambda: numpy.empty(0, numpy.int64))

    def take(self, rows: Rows) -> None:
        keys = keys_of(rows)
        numpy.add.at(self.buckets, _buckets(keys), hashes_of(rows))
        self.key_digest.update(keys.data)
        self._look_for_falls(keys)
        self.traces += len(rows)

    def _look_for_falls(self, keys: Keys) -> None:
        begin, both = self.traces - len(self._last), numpy.concatenate([self._last, keys])
        falls = numpy.flatnonzero(both[1:] < both[:-1]) + 1
        if len(falls) and not self.falls:
            at = int(falls[0])
            after, before = key_text(int(both[at])), key_text(int(both[at - 1]))
            self.first_fall = f"trace {begin + at} ({after}) comes after {before}"
        self.falls += len(falls)
        self._last = keys[-1:].copy()

    def is_of(self, truth: Truth) -> bool:
        return self.traces == truth.traces and added(0, self.buckets) == truth.checksum


def _buckets(keys: Keys) -> Numbers:
    return (keys.view(numpy.uint64) * _SPREADS) >> numpy.uint64(64 - _BUCKET_BITS)


def problem_of(
    path: Path,
    source: Path,
    samples: int,
    truth: Truth,
    counts: Counts,
    on_traces: Callable[[int], None] = lambda _count: None,
) -> str:
    """Returns what is wrong with the sorted file, and "" if nothing is. `source` has the unsorted traces."""
    try:
        found = _contents(path, samples, counts, on_traces)
    except PenstockError as error:
        return error.message
    if problem := _header_problem(path, samples, counts):
        return problem
    if found.falls:
        return f"{found.first_fall}; {found.falls} such places"
    if found.is_of(truth):
        return _segyio_problem(path, samples, found)
    before = _contents(source, samples, counts, on_traces)
    if not before.is_of(truth):
        return f"{source} is not what was written into it: traces changed before they were sorted"
    differ = numpy.flatnonzero(before.buckets != found.buckets)[:_BUCKETS_SEEN]
    wrong = _difference(_part(source, samples, differ, counts), _part(path, samples, differ, counts))
    return f"{found.traces} traces of {truth.traces}; {wrong}"


def _contents(path: Path, samples: int, counts: Counts, on_traces: Callable[[int], None]) -> _Contents:
    found = _Contents()
    for rows in _blocks(path, samples, counts):
        found.take(rows)
        on_traces(len(rows))
    return found


def _blocks(path: Path, samples: int, counts: Counts) -> Iterator[Rows]:
    block = max(1, _BLOCK_BYTES // trace_bytes(samples))
    with DirectReader(path, counts) as reader, ThreadPoolExecutor(1) as ahead:
        traces = Traces(reader, path, samples, DATA_AT)
        memory = [room_for(block, samples) for _ in range(2)]
        future = None
        for turn, first in enumerate(range(0, traces.count, block)):
            count = min(block, traces.count - first)
            rows = future.result() if future is not None else traces.read(memory[turn % 2], first, count)
            after = first + block
            future = None
            if after < traces.count:
                count = min(block, traces.count - after)
                future = ahead.submit(traces.read, memory[(turn + 1) % 2], after, count)
            yield rows


def _header_problem(path: Path, samples: int, counts: Counts) -> str:
    memory = aligned(DATA_AT)
    with DirectReader(path, counts) as reader:
        reader.read(memoryview(memory), 0)
    return "" if memory[:DATA_AT] == file_header(samples, BY_CDP) else f"{path}: the file's header is wrong"


def _segyio_problem(path: Path, samples: int, found: _Contents) -> str:
    """Whether the usual library finds the same in it."""
    import segyio  # noqa: PLC0415

    with segyio.open(str(path), ignore_geometry=True) as file:
        if (file.tracecount, len(file.samples)) != (found.traces, samples):
            return f"segyio finds {file.tracecount} traces of {len(file.samples)} samples in {path}"
        cdp, offset = (file.attributes(each) for each in (segyio.TraceField.CDP, segyio.TraceField.offset))
        keys = hashlib.blake2b()
        for first in range(0, found.traces, _HEADERS):
            of_block = slice(first, min(first + _HEADERS, found.traces))
            block = (cdp[of_block].astype(numpy.int64) << 32) + offset[of_block] + (1 << 31)
            keys.update(block.data)
        if keys.digest() != found.key_digest.digest():
            return f"segyio finds other CDPs or offsets in {path}"
        for number in numpy.linspace(0, found.traces - 1, _PROBES).astype(int):
            read = numpy.abs(file.trace[int(number)])
            if not ((read >= 1) & (read < 2)).all():
                return f"segyio finds wrong samples in trace {number} of {path}"
    return ""


@dataclass(frozen=True)
class _Part:
    """Some traces of a file: their numbers in it, and what is known of them."""

    numbers: numpy.typing.NDArray[numpy.int64]
    keys: Keys
    hashes: Numbers

    def first_beyond(self, other: "_Part") -> str:
        """Names a trace that is not in the other part; "" if each is."""
        beyond = numpy.flatnonzero(~numpy.isin(self.hashes, other.hashes))
        return f"{self.numbers[beyond[0]]} ({key_text(int(self.keys[beyond[0]]))})" if len(beyond) else ""


def _part(path: Path, samples: int, buckets: Any, counts: Counts) -> _Part:
    """The traces of these buckets."""
    numbers, keys, hashes = [], [], []
    first = 0
    for rows in _blocks(path, samples, counts):
        of_rows = keys_of(rows)
        inside = numpy.flatnonzero(numpy.isin(_buckets(of_rows), buckets))
        numbers.append(first + inside)
        keys.append(of_rows[inside])
        hashes.append(hashes_of(raw(rows)[inside].view(rows.dtype)))
        first += len(rows)
    return _Part(numpy.concatenate(numbers), numpy.concatenate(keys), numpy.concatenate(hashes))


def _difference(before: _Part, after: _Part) -> str:
    """Names a trace that is lost, changed or there twice."""
    lost, new = before.first_beyond(after), after.first_beyond(before)
    said = [f"trace {lost} of the input is missing"] if lost else []
    if new:
        said.append(f"trace {new} is not one of the input's")
    return "; ".join(said) or "some are there twice"
