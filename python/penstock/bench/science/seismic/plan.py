"""How a sort spends its memory."""

from dataclasses import dataclass

from penstock.bench.science.seismic.segy import trace_bytes
from penstock.bench.science.storage.direct import PAGE, page_end
from penstock.model.errors import UsageError
from penstock.model.units import format_size

CHUNKS = 3
_CHUNK_MAX, _CHUNKS_SHARE = 8 << 20, 16
_BLOCK_MIN = 256 << 10
# Of each trace in memory: keys and orders, several at a time.
_NUMBERS_BYTES = 64
# What allocators and threads take beside the buffers.
_REST_SHARE, _REST_BYTES = 0.06, 512 << 10


@dataclass(frozen=True)
class SortPlan:
    """`run_traces`: in a run, two of which are in memory. `block_traces`: of a run, in the merge."""

    samples: int
    traces: int
    memory_bytes: int
    chunk_bytes: int
    run_traces: int
    block_traces: int

    @property
    def runs(self) -> int:
        return -(-self.traces // self.run_traces)


def sort_plan(traces: int, samples: int, memory_bytes: int) -> SortPlan:
    """Raises UsageError if the memory does not suffice for a merge in one pass."""
    size = trace_bytes(samples)
    chunk = page_end(max(2 * size, min(_CHUNK_MAX, memory_bytes // _CHUNKS_SHARE // CHUNKS)))
    usable = int(memory_bytes * (1 - _REST_SHARE)) - _REST_BYTES - CHUNKS * chunk
    a_trace = size + _NUMBERS_BYTES
    run = (usable // 2 - 2 * PAGE) // a_trace
    runs = -(-traces // max(1, run))
    block = (usable // (2 * runs) - 2 * PAGE) // a_trace
    if block * size < min(_BLOCK_MIN, 4 * size) or run < 1:
        raise UsageError(
            f"memory: {format_size(memory_bytes)} is too little to merge {runs} runs in one pass",
            "use more --memory, or a smaller --size",
        )
    return SortPlan(samples, traces, memory_bytes, chunk, run, min(block, run))
