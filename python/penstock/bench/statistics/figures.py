"""What follows from the document of penstock-load, and from nothing else: it can be done again."""

import statistics

from penstock.bench.statistics.quantiles import percentiles, recovery_s, share_bound
from penstock.model.bench.load import (
    BufferLevels,
    FramesWorkload,
    Histogram,
    LoadDocument,
    MetadataPhase,
    StreamPhase,
    StreamWorkload,
)
from penstock.model.bench.runs import FrameFigures, OperationFigures, StreamFigures


def frame_figures(document: LoadDocument) -> FrameFigures:
    """A ValueError where the document is not of a frames workload."""
    workload, counts, times = document.plan.workload, document.frames, document.times
    if not isinstance(workload, FramesWorkload) or None in (counts, times, document.seconds, document.buffer):
        raise ValueError("the document is not of a frames workload")
    assert counts is not None
    assert times is not None
    assert document.seconds is not None
    assert document.buffer is not None
    lost = counts.due - counts.written
    carried_s = max(
        document.seconds.completed or document.seconds.last_done or 0.0,
        # The last frame has its period, too: else 2 frames at 1 Hz would be carried at 2 a second.
        counts.due / workload.rate_hz if workload.rate_hz else 0.0,
    )
    return FrameFigures(
        needed_hz=workload.rate_hz,
        needed_bytes_per_s=workload.rate_hz * workload.frame_bytes,
        carried_bytes_per_s=counts.bytes / carried_s if carried_s else 0.0,
        **counts.model_dump(include={"due", "written", "dropped", "late", "failed", "unfinished"}),
        lost_share=lost / counts.due if counts.due else 0.0,
        lost_share_bound_95=share_bound(lost, counts.due),
        latency_ms=percentiles(times.latency),
        service_ms=percentiles(times.service),
        jitter_ms=percentiles(times.jitter),
        stall_s=document.buffer.stall_s,
        recovery_s=_recovery(document, workload, document.buffer),
        held_max=document.buffer.held_max,
    )


def _recovery(document: LoadDocument, workload: FramesWorkload, buffer: BufferLevels) -> float | None:
    """Only where there was something to recover from."""
    if document.records is None or workload.rate_hz == 0 or buffer.stall_s <= workload.late_after_s:
        return None
    return recovery_s(document.records.done_ns, workload.rate_hz, workload.late_after_s, buffer.stall_end_s)


def stream_figures(document: LoadDocument) -> list[StreamFigures]:
    """One for each phase."""
    workload = document.plan.workload
    if not isinstance(workload, StreamWorkload) or document.phases is None:
        raise ValueError("the document is not of a stream workload")
    return [_of_phase(phase) for phase in document.phases]


def _of_phase(phase: StreamPhase) -> StreamFigures:
    done = [thread.done_s for thread in phase.threads if thread.done_s is not None]
    last = max(done, default=None)
    known = phase.cached_bytes is not None and phase.bytes > 0
    return StreamFigures(
        phase=phase.phase,
        bytes=phase.bytes,
        bytes_per_s=phase.bytes / last if last else 0.0,
        first_done_s=min(done, default=None),
        last_done_s=last,
        service_ms=percentiles(phase.times.service),
        cached_share=min(1.0, (phase.cached_bytes or 0) / phase.bytes) if known else None,
        mismatches=phase.mismatches,
    )


def metadata_figures(document: LoadDocument) -> list[OperationFigures]:
    """One for each operation that an iteration completed, in the order in which they were done."""
    if document.metadata is None:
        raise ValueError("the document is not of a metadata workload")
    phases = [phase for phase in document.metadata.phases if phase.complete and phase.last_done_s]
    operations = dict.fromkeys(phase.operation for phase in phases)
    return [
        _of_operation([phase for phase in phases if phase.operation == name], document.metadata.times[name])
        for name in operations
    ]


def _of_operation(phases: list[MetadataPhase], times: Histogram) -> OperationFigures:
    rates = [phase.operations / (phase.last_done_s or 1.0) for phase in phases]
    ends = [(phase.first_done_s or 0.0) / (phase.last_done_s or 1.0) for phase in phases]
    return OperationFigures(
        operation=phases[0].operation,
        operations=phases[0].operations,
        iterations=len(phases),
        rate_max=max(rates),
        rate_min=min(rates),
        rate_mean=statistics.fmean(rates),
        rate_deviation=statistics.stdev(rates) if len(rates) > 1 else None,
        seconds=sum(phase.last_done_s or 0.0 for phase in phases),
        together=min(ends),
        latency_ms=percentiles(times),
    )
