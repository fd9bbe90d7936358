"""How sure a median is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy


class Interval(NamedTuple):
    """`middle` is the median; the true one is between the others with the stated confidence."""

    low: float
    middle: float
    high: float


def median_interval(values: Sequence[float], seed: int, confidence: float = 0.95) -> Interval:
    """By bootstrap of percentiles; of fewer than three values their range."""
    middle = float(numpy.median(values))
    if len(values) < 3 or min(values) == max(values):
        return Interval(float(min(values)), middle, float(max(values)))
    # Loading it takes as long as the rest of a command: those that measure nothing do without.
    from scipy.stats import bootstrap  # noqa: PLC0415

    found = bootstrap(
        (numpy.asarray(values, dtype=float),),
        numpy.median,
        confidence_level=confidence,
        method="percentile",
        random_state=numpy.random.default_rng(seed),
    ).confidence_interval
    # Interpolation may round past the ends.
    return Interval(max(min(values), float(found.low)), middle, min(max(values), float(found.high)))
