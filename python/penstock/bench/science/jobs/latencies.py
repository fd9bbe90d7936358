"""Durations of calls, in buckets of at most 0.4 % of themselves. Not for several threads at a time."""

from collections import Counter
from collections.abc import Iterable

from penstock.model.bench.load import Histogram

_EXACT_BITS = 9
Bucket = tuple[int, int]
"""shift, and the duration's leading bits"""


class Latencies:
    def __init__(self) -> None:
        self._buckets: Counter[Bucket] = Counter()
        self._max_ns = 0

    def add(self, nanoseconds: int) -> None:
        shift = max(0, nanoseconds.bit_length() - _EXACT_BITS)
        self._buckets[shift, nanoseconds >> shift] += 1
        self._max_ns = max(self._max_ns, nanoseconds)

    def histogram(self) -> Histogram:
        counted = [
            (bits << shift, ((bits + 1) << shift) - 1, count)
            for (shift, bits), count in self._buckets.items()
        ]
        return Histogram(count=self._buckets.total(), max_ns=self._max_ns, buckets=sorted(counted))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """The durations of all of them."""
    buckets: Counter[tuple[int, int]] = Counter()
    max_ns = 0
    for histogram in histograms:
        max_ns = max(max_ns, histogram.max_ns)
        for lowest, highest, count in histogram.buckets:
            buckets[lowest, highest] += count
    counted = sorted((lowest, highest, count) for (lowest, highest), count in buckets.items())
    return Histogram(count=buckets.total(), max_ns=max_ns, buckets=counted)
