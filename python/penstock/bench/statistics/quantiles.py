"""Figures out of counts and histograms."""

import math
from collections.abc import Sequence

import numpy
import numpy.typing

from penstock.model.bench.load import Histogram
from penstock.model.bench.percentiles import Percentiles

Times = numpy.typing.NDArray[numpy.int64]


def share_bound(hits: int, trials: int, confidence: float = 0.95) -> float:
    """The share that is not exceeded with `confidence`, after Clopper and Pearson, one-sided.

    0 of 12 000 is below 2.5 in 10 000. It holds where trials do not hang together.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} of {trials} is not a share")
    if hits == trials:
        return 1.0
    # Loading it takes as long as the rest of a command: those that measure nothing do without.
    from scipy.special import betaincinv  # noqa: PLC0415

    return float(betaincinv(hits + 1, trials - hits, confidence))


def quantile_ns(histogram: Histogram, share: float) -> int:
    """The upper end of the bucket with the value of rank ceil(share · count), at most the maximum."""
    rank = max(1, math.ceil(share * histogram.count))
    seen = 0
    for _, highest, count in histogram.buckets:
        seen += count
        if seen >= rank:
            return min(highest, histogram.max_ns)
    return histogram.max_ns


def sum_s(histogram: Histogram) -> float:
    """Of all values, each taken for the middle of its bucket."""
    return sum((lowest + highest) / 2 * count for lowest, highest, count in histogram.buckets) * 1e-9


def percentiles(histogram: Histogram) -> Percentiles:
    p50, p90, p99, p999 = (quantile_ns(histogram, share) * 1e-6 for share in (0.5, 0.9, 0.99, 0.999))
    return Percentiles(p50=p50, p90=p90, p99=p99, p999=p999, max=histogram.max_ns * 1e-6)


def latencies_ns(done_ns: Sequence[int], rate_hz: float) -> Times:
    """From when each frame was due until it was done; -1 where it never was."""
    done = numpy.asarray(done_ns, dtype=numpy.int64)
    due = numpy.floor(numpy.arange(len(done), dtype=numpy.longdouble) * 1e9 / rate_hz).astype(numpy.int64)
    return numpy.where(done >= 0, done - due, -1)


def recovery_s(
    done_ns: Sequence[int], rate_hz: float, late_after_s: float, stall_end_s: float
) -> float | None:
    """After a stall, until a frame was done in time again; None where that never was."""
    done = numpy.asarray(done_ns, dtype=numpy.int64)
    in_time = (done >= 0) & (latencies_ns(done_ns, rate_hz) <= late_after_s * 1e9)
    after = done[in_time & (done > stall_end_s * 1e9)]
    return float(after.min() * 1e-9 - stall_end_s) if len(after) else None
