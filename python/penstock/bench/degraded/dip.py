"""Dip and return of service, from the times at which frames were written."""

from dataclasses import dataclass

import numpy
import numpy.typing

Seconds = numpy.typing.NDArray[numpy.float64]
_WINDOW_S = 1.0
# A frame is written as soon as before if its delay is at most that of nearly all frames then, and a little.
_USUAL_PERCENTILE, _SLACK_S = 99.0, 0.1


@dataclass(frozen=True)
class Dip:
    before_hz: float
    lowest_hz: float
    dip_s: float
    returned_s: float
    caught_up_s: float | None


def dip_of(received: Seconds, written: Seconds, fault: float, heal: float | None) -> Dip:
    """`received` and `written` per frame in the file; all on one clock, whose zero is the first frame.

    What counts is between the fault and the healing, or the end.
    """
    order = numpy.sort(written)
    before = order[order < fault]
    end = min(heal if heal is not None else numpy.inf, float(order[-1]) if len(order) else fault)
    after = numpy.concatenate(([fault], order[order >= fault]))
    within = after[after <= end] if heal is not None else after
    gaps = numpy.diff(after)
    # The longest silence that begins while the server is away; its end may be later.
    candidates = gaps[: max(1, len(within))]
    longest = int(numpy.argmax(candidates)) if len(candidates) else 0
    silence = float(candidates[longest]) if len(candidates) else 0.0
    back = float(after[longest + 1]) if len(candidates) else fault
    return Dip(
        before_hz=len(before) / fault if fault > 0 else 0.0,
        lowest_hz=_lowest(order, fault, end),
        dip_s=silence,
        returned_s=back - fault,
        caught_up_s=_caught_up(received, written, fault, back),
    )


def _lowest(order: Seconds, begin: float, end: float) -> float:
    starts = numpy.arange(begin, max(begin, end - _WINDOW_S) + 1e-9, 0.1)
    counts = numpy.searchsorted(order, starts + _WINDOW_S) - numpy.searchsorted(order, starts)
    return float(counts.min()) / _WINDOW_S


def _caught_up(received: Seconds, written: Seconds, fault: float, back: float) -> float | None:
    delays = written - received
    early = written < fault
    if not early.any():
        return None
    usual = float(numpy.percentile(delays[early], _USUAL_PERCENTILE)) + _SLACK_S
    late = received[(written >= back) & (delays > usual)]
    if not len(late):
        return max(0.0, back - fault)
    # The first frame after the last late one.
    rest = written[received > late.max()]
    return float(rest.min()) - fault if len(rest) else None
