"""How sure a median is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Interval:
    """Low and high bound `middle` with a confidence; all three are the same where there is one value."""

    low: float
    middle: float
    high: float


def median_interval(values: Sequence[float], seed: int = 1, confidence: float = 0.95) -> Interval:
    """By the bootstrap, with percentiles. A ValueError without values."""
    if not values:
        raise ValueError("no values have no median")
    middle = float(numpy.median(values))
    if len(set(values)) == 1:
        return Interval(middle, middle, middle)
    # Loading it takes as long as the rest of a command.
    from scipy.stats import bootstrap  # noqa: PLC0415

    found = bootstrap(
        (numpy.asarray(values),),
        numpy.median,
        confidence_level=confidence,
        method="percentile",
        rng=numpy.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), middle, float(found.high))
