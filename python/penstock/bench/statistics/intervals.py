"""What few repetitions say: medians with intervals, and differences with what could have been seen."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing

CONFIDENCE = 0.95
POWER = 0.8
# Below, the bootstrap's interval of a median is too narrow; order statistics are exact for any number.
BOOTSTRAP_VALUES_MIN = 30
_RESAMPLES = 4000

Values = numpy.typing.NDArray[numpy.float64]


@dataclass(frozen=True)
class Interval:
    """`middle` is the median. `confidence` is what the interval has: of few values less than was wanted."""

    low: float
    middle: float
    high: float
    confidence: float


def median_interval(
    values: Sequence[float] | Values, seed: int = 1, confidence: float = CONFIDENCE
) -> Interval:
    """The median of `values`, and where the median of all runs that could have been made is.

    From 30 values on: the percentile bootstrap. Below: the k-th smallest to the k-th largest value, which
    holds the median whatever the distribution is (it inverts the sign test). Where even the smallest to the
    largest value is not sure enough (n < 6 at 95 %) the interval is that range all the same, and its
    `confidence` is 1 - 2 ** (1 - n): 0 for one value, 0.5 for two, 0.75 for three. A ValueError where there
    has no value, or one is not finite.
    """
    sample = _finite(values)
    middle = float(numpy.median(sample))
    if len(sample) >= BOOTSTRAP_VALUES_MIN:
        # Loading it takes as long as the rest of a command: those that compare nothing do without.
        from scipy import stats  # noqa: PLC0415

        found = stats.bootstrap(
            (sample,),
            numpy.median,
            n_resamples=_RESAMPLES,
            confidence_level=confidence,
            method="percentile",
            rng=numpy.random.default_rng(seed),
        ).confidence_interval
        return Interval(float(found.low), middle, float(found.high), confidence)
    whole = 1 - 2.0 ** (1 - len(sample))
    if whole < confidence:
        return Interval(float(sample.min()), middle, float(sample.max()), whole)
    low, high = _ranks(len(sample), confidence)
    ordered = numpy.sort(sample)
    return Interval(float(ordered[low]), middle, float(ordered[high]), confidence)


@functools.cache
def _ranks(count: int, confidence: float) -> tuple[int, int]:
    """Of the order statistics that hold the median; from 0. They do not depend on the values."""
    from scipy import stats  # noqa: PLC0415

    places = numpy.arange(count)
    found = stats.quantile_test(places, q=0, p=0.5).confidence_interval(confidence)
    return int(found.low), int(found.high)


def _finite(values: Sequence[float] | Values) -> Values:
    sample = numpy.asarray(values, dtype=numpy.float64)
    if sample.ndim != 1 or len(sample) == 0 or not numpy.isfinite(sample).all():
        raise ValueError(f"{len(sample)} values are not a sample: at least one, and finite ones, are needed")
    return sample


@dataclass(frozen=True)
class Difference:
    """An estimated difference, its standard error and the degrees of freedom of that.

    All in the unit of what was given: of logarithms, the difference is the logarithm of a ratio.
    """

    estimate: float
    error: float
    degrees: float

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the true difference is."""
        reach = self.error * self._quantile((1 + confidence) / 2)
        return self.estimate - reach, self.estimate + reach

    def p_value(self, margin: float = 0.0) -> float:
        """How probable such a difference is at most where the true one is within ± `margin`. Two-sided."""
        from scipy import stats  # noqa: PLC0415

        beyond = abs(self.estimate) - margin
        if beyond <= 0:
            return 1.0
        if self.error == 0:
            return 0.0
        return float(min(1.0, 2 * stats.t.sf(beyond / self.error, self.degrees)))

    def detectable(self, alpha: float = 1 - CONFIDENCE, power: float = POWER) -> float:
        """The smallest difference that such a measurement finds with this `power`.

        The sum of two quantiles of Student's distribution; within 10 % of what simulation gives.
        """
        return self.error * (self._quantile(1 - alpha / 2) + self._quantile(power))

    def _quantile(self, share: float) -> float:
        from scipy import stats  # noqa: PLC0415

        return float(stats.t.ppf(share, self.degrees))


def difference_in_blocks(
    base: Sequence[float] | Values, other: Sequence[float] | Values, error: float = 0.0
) -> Difference | None:
    """Of `other` from `base`, entry n of both from block n; None where there are fewer than two blocks.

    Student's test of the blocks' differences: what a block shares cancels. Where both are the same storage,
    the differences are symmetric and peaked whatever the values' distribution is, and then the test errs on
    the safe side: strays cost it power, and no false alarms. `error` is what a value is uncertain by anyway
    (it was rounded, or counted): values that agree by chance are not a proof.
    """
    first, second = _finite(base), _finite(other)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values beside {len(second)}: blocks have one of each")
    if len(first) < 2:
        return None
    apart = second - first
    variance = max(float(apart.var(ddof=1)), 2 * error**2)
    return Difference(float(apart.mean()), math.sqrt(variance / len(apart)), len(apart) - 1)


def difference_apart(
    base: Sequence[float] | Values, other: Sequence[float] | Values, error: float = 0.0
) -> Difference | None:
    """As difference_in_blocks, of values that have nothing in common: Welch's test. None below two each."""
    first, second = _finite(base), _finite(other)
    if min(len(first), len(second)) < 2:
        return None
    parts = [max(float(each.var(ddof=1)), error**2) / len(each) for each in (first, second)]
    total = sum(parts)
    squares = sum(part**2 / (len(each) - 1) for part, each in zip(parts, (first, second), strict=True))
    degrees = total**2 / squares if squares else len(first) + len(second) - 2
    return Difference(float(second.mean() - first.mean()), math.sqrt(total), degrees)


def holm_levels(p_values: Sequence[float], alpha: float = 1 - CONFIDENCE) -> list[float]:
    """The level at which Holm's procedure decided each: below it a p-value counts.

    From the first on that does not count the level stays. An interval of 1 - level is without 0 (or beyond
    the margin) just where its value counts.
    """
    levels = numpy.empty(len(p_values))
    level, goes_on = alpha, True
    for place, index in enumerate(numpy.argsort(p_values, kind="stable")):
        level = alpha / (len(p_values) - place) if goes_on else level
        goes_on = goes_on and p_values[int(index)] < level
        levels[index] = level
    return [float(level) for level in levels]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted after Holm (1979): one that is true falls below alpha in a share alpha of families at most.

    It holds however the values hang together, as those of one run do.
    """
    order = numpy.argsort(p_values, kind="stable")
    factors = numpy.arange(len(p_values), 0, -1)
    raised = numpy.minimum(1.0, numpy.maximum.accumulate(numpy.asarray(p_values)[order] * factors))
    adjusted = numpy.empty(len(p_values))
    adjusted[order] = raised
    return [float(value) for value in adjusted]
