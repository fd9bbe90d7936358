"""Whether runs move through time while nothing is meant to change, and by how much."""

import math
from collections.abc import Sequence

import numpy

from penstock.bench.statistics.intervals import Difference, Values

# Residuals of fewer degrees of freedom say nothing of a line.
_DEGREES_MIN = 3


def common_slope(numbers: Sequence[Values], places: Sequence[Values]) -> Difference | None:
    """The slope of parallel lines through several sets, each with a level of its own.

    Known as the analysis of covariance. `places` are where each number stands in time, in runs. None where
    there are too few for a line.
    """
    away = numpy.concatenate([each - each.mean() for each in places])
    off = numpy.concatenate([each - each.mean() for each in numbers])
    degrees = len(away) - len(numbers) - 1
    spread = float(away @ away)
    if degrees < _DEGREES_MIN or spread == 0:
        return None
    slope = float(away @ off) / spread
    rest = off - slope * away
    return Difference(slope, math.sqrt(float(rest @ rest) / degrees / spread), degrees)


def without_drift(plain: Difference, slope: Difference, distance: float) -> Difference:
    """`plain`, less what the slope alone would make of it over `distance` runs, and less sure by that."""
    return Difference(
        plain.estimate - slope.estimate * distance,
        math.hypot(plain.error, slope.error * distance),
        min(plain.degrees, slope.degrees),
    )
