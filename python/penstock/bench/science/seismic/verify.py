"""Whether a file has the traces of a survey, each unchanged, in order of CDP and offset."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import numpy.typing

from penstock.bench.science.seismic.pipe import Traces, room_for
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

Hashes = numpy.typing.NDArray[numpy.uint64]


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
        hashes, keys = _contents(path, samples, counts, on_traces)
    except PenstockError as error:
        return error.message
    if problem := _header_problem(path, samples, counts):
        return problem
    falls = numpy.flatnonzero(keys[1:] < keys[:-1])
    if len(falls):
        at = int(falls[0]) + 1
        return (
            f"trace {at} ({key_text(int(keys[at]))}) comes after {key_text(int(keys[at - 1]))};"
            f" {len(falls)} such places"
        )
    if len(hashes) == truth.traces and added(0, hashes) == truth.checksum:
        return _segyio_problem(path, samples, keys)
    return _difference(source, samples, truth, hashes, keys, counts)


def _contents(
    path: Path, samples: int, counts: Counts, on_traces: Callable[[int], None] = lambda _count: None
) -> tuple[Hashes, Keys]:
    hashes: list[Hashes] = []
    keys: list[Keys] = []
    for rows in _blocks(path, samples, counts):
        hashes.append(hashes_of(rows))
        keys.append(keys_of(rows))
        on_traces(len(rows))
    empty = numpy.empty(0, numpy.uint64)
    return numpy.concatenate([empty, *hashes]), numpy.concatenate([empty.astype(numpy.int64), *keys])


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


def _segyio_problem(path: Path, samples: int, keys: Keys) -> str:
    """Whether the usual library finds the same in it."""
    import segyio  # noqa: PLC0415

    with segyio.open(str(path), ignore_geometry=True) as file:
        if (file.tracecount, len(file.samples)) != (len(keys), samples):
            return f"segyio finds {file.tracecount} traces of {len(file.samples)} samples in {path}"
        cdp = file.attributes(segyio.TraceField.CDP)[:].astype(numpy.int64)
        offset = file.attributes(segyio.TraceField.offset)[:].astype(numpy.int64)
        if not numpy.array_equal((cdp << 32) + offset + (1 << 31), keys):
            return f"segyio finds other CDPs or offsets in {path}"
        for number in numpy.linspace(0, len(keys) - 1, _PROBES).astype(int):
            read = numpy.abs(file.trace[int(number)])
            if not ((read >= 1) & (read < 2)).all():
                return f"segyio finds wrong samples in trace {number} of {path}"
    return ""


def _difference(source: Path, samples: int, truth: Truth, hashes: Hashes, keys: Keys, counts: Counts) -> str:
    """Names a trace that is lost, changed or there twice."""
    before, before_keys = _contents(source, samples, counts)
    if len(before) != truth.traces or added(0, before) != truth.checksum:
        return f"{source} is not what was written into it: traces changed before they were sorted"
    new = numpy.flatnonzero(~numpy.isin(hashes, before))
    lost = numpy.flatnonzero(~numpy.isin(before, hashes))
    said = [f"{len(hashes)} traces of {truth.traces}"]
    if len(lost):
        said.append(f"trace {lost[0]} of the input ({key_text(int(before_keys[lost[0]]))}) is missing")
    if len(new):
        said.append(f"trace {new[0]} ({key_text(int(keys[new[0]]))}) is not one of the input's")
    if not len(lost) and not len(new):
        said.append("some are there twice")
    return "; ".join(said)
