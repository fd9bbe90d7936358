"""What a run says about the faults of servers that came and went during it."""

from collections.abc import Sequence

import numpy

from penstock.bench.degraded.dip import Dip, Seconds, dip_of
from penstock.bench.degraded.schedule import Disturbance
from penstock.model.bench.load import FramesWorkload, LoadDocument
from penstock.model.bench.runs import FaultFigures


def fault_figures(document: LoadDocument, zero: float, found: Sequence[Disturbance]) -> list[FaultFigures]:
    """`zero`: begin of the run, by the monotonic clock; frames say theirs exactly."""
    frames = _frame_times(document)
    if document.generator is not None and document.generator.start_ns:
        zero = document.generator.start_ns * 1e-9
    figures = []
    for each in found:
        began_s = each.began.monotonic_ns * 1e-9 - zero
        ended_s = None if each.ended is None else each.ended.monotonic_ns * 1e-9 - zero
        assert each.fault.fault != "heal"
        dip = None if frames is None else dip_of(*frames, began_s, ended_s)
        figures.append(
            FaultFigures(
                server=each.fault.server,
                fault=each.fault.fault,
                began_s=began_s,
                ended_s=ended_s,
                healed_s=each.healed_s,
                **({} if dip is None else _of_dip(dip)),
            )
        )
    return figures


def _of_dip(dip: Dip) -> dict[str, float | None]:
    return {
        "before_hz": dip.before_hz,
        "lowest_hz": dip.lowest_hz,
        "dip_s": dip.dip_s,
        "returned_s": dip.returned_s,
        "caught_up_s": dip.caught_up_s,
    }


def _frame_times(document: LoadDocument) -> tuple[Seconds, Seconds] | None:
    """When each written frame was due and done; None without a rate, or where that was not recorded."""
    workload, records = document.plan.workload, document.records
    if not isinstance(workload, FramesWorkload) or not workload.rate_hz or records is None:
        return None
    done = numpy.asarray(records.done_ns, numpy.float64) * 1e-9
    due = numpy.arange(len(done)) / workload.rate_hz
    written = done >= 0
    return (due[written], done[written]) if written.any() else None
