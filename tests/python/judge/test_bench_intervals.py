"""Intervals and differences of few repetitions, beside other ways to the same numbers and by simulation."""

import math
from collections.abc import Callable

import numpy
import pytest
from comparable import Numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from penstock.bench.statistics.intervals import (
    BOOTSTRAP_VALUES_MIN,
    difference_apart,
    difference_in_blocks,
    holm,
    median_interval,
)

FINITE = st.floats(-1e9, 1e9, allow_subnormal=False)


@pytest.mark.parametrize(("count", "confidence"), [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)])
def test_few_values_have_their_range_and_say_how_sure_it_is(count: int, confidence: float) -> None:
    found = median_interval([float(each) for each in range(count)])
    assert (found.low, found.high, found.confidence) == (0, count - 1, confidence)


@pytest.mark.parametrize("count", [6, 9, 14, 20, 29])
def test_order_statistics_hold_the_median_by_sums_of_binomials(count: int) -> None:
    def held(k: int) -> float:
        return 1 - 2 * sum(math.comb(count, i) for i in range(k)) / float(2**count)

    k = max(k for k in range(1, count // 2 + 1) if held(k) >= 0.95)
    found = median_interval([float(each) for each in range(1, count + 1)])
    assert (found.low, found.high, found.confidence) == (k, count + 1 - k, 0.95)


@given(st.lists(FINITE, min_size=1, max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_an_interval_lies_in_its_values_and_around_their_median(
    values: list[float], shuffling: object
) -> None:
    found = median_interval(values)
    assert min(values) <= found.low <= found.middle <= found.high <= max(values)
    assert found.middle == numpy.median(values)
    shuffled = sorted(values, key=lambda _: shuffling.random())  # type: ignore[attr-defined]
    if len(values) < BOOTSTRAP_VALUES_MIN:
        assert median_interval(shuffled) == found
    assert median_interval(values) == found


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_what_is_no_sample_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="not a sample"):
        median_interval(values)


DISTRIBUTIONS: dict[str, Callable[[numpy.random.Generator, int], Numbers]] = {
    "normal": lambda numbers, n: numbers.normal(0, 1, n),
    "skewed": lambda numbers, n: numbers.lognormal(0, 1, n) - 1,
    "heavy tails": lambda numbers, n: numbers.standard_t(2, n),
}


@pytest.mark.parametrize("count", [2, 3, 6, 10, 30])
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_intervals_hold_the_median_as_often_as_they_say(kind: str, count: int) -> None:
    """150 intervals: less than told by more than three standard deviations is once in 700 seeds."""
    numbers, trials = numpy.random.default_rng([2, count]), 150
    found = [median_interval(DISTRIBUTIONS[kind](numbers, count)) for _ in range(trials)]
    told = found[0].confidence
    held = sum(each.low <= 0 <= each.high for each in found)
    allowed = 0.01 if count >= BOOTSTRAP_VALUES_MIN else 0.0  # the bootstrap is not exact
    assert held >= trials * (told - allowed) - 3 * math.sqrt(trials * told * (1 - told))


def test_differences_are_students_and_welchs() -> None:
    numbers = numpy.random.default_rng(3)
    base, other = numbers.normal(0, 1, 7), numbers.normal(0.5, 2, 7)
    paired, apart = difference_in_blocks(base, other), difference_apart(base, other[:5])
    assert paired is not None
    assert apart is not None
    expected = stats.ttest_rel(other, base)
    assert paired.p_value() == pytest.approx(expected.pvalue)
    assert paired.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    expected = stats.ttest_ind(other[:5], base, equal_var=False)
    assert apart.p_value() == pytest.approx(expected.pvalue)
    assert apart.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_what_blocks_share_cancels() -> None:
    mood = numpy.array([1.0, 5, 2, 9, 4, 7])
    found = difference_in_blocks(mood, mood + numpy.array([0.1, 0.12, 0.09, 0.1, 0.11, 0.1]))
    assert found is not None
    assert found.p_value() < 1e-4
    apart = difference_apart(mood, mood + 0.1)
    assert apart is not None
    assert apart.p_value() > 0.9


def test_values_that_agree_because_they_are_rounded_are_no_proof() -> None:
    base, other = [2.0, 2.0, 2.0], [2.01, 2.01, 2.01]
    for difference in (difference_in_blocks, difference_apart):
        exact, rounded = difference(base, other), difference(base, other, 0.01)
        assert exact is not None
        assert rounded is not None
        assert exact.p_value() == pytest.approx(0, abs=1e-12)
        assert rounded.p_value() > 0.05


@pytest.mark.parametrize("count", [3, 6, 12])
def test_the_smallest_detectable_difference_is_detected_four_times_of_five(count: int) -> None:
    numbers, trials, found = numpy.random.default_rng(count), 1000, 0
    known = difference_in_blocks(numpy.zeros(count), numpy.zeros(count), math.sqrt(0.5))  # a spread of 1
    assert known is not None
    for _ in range(trials):
        apart = numbers.normal(known.detectable(), 1, count)
        tested = difference_in_blocks(numpy.zeros(count), apart)
        assert tested is not None
        found += tested.p_value() < 0.05
    assert 0.72 <= found / trials <= 0.88


def test_a_margin_is_what_does_not_count() -> None:
    numbers = numpy.random.default_rng(4)
    found = difference_in_blocks(numpy.zeros(8), numbers.normal(0.1, 0.01, 8))
    assert found is not None
    assert found.p_value() < 1e-4
    assert found.p_value(0.2) == 1
    assert found.p_value(found.estimate - found.error * stats.t.ppf(0.975, 7)) == pytest.approx(0.05)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_steps_down_and_stops_at_the_first_that_is_not_sure(p_values: list[float]) -> None:
    """By the definition: the i-th smallest of m is compared with alpha / (m - i), until one is above it."""
    alpha, rejected = 0.05, set()
    for place, number in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        if p_values[number] * (len(p_values) - place) >= alpha:
            break
        rejected.add(number)
    assert {number for number, adjusted in enumerate(holm(p_values)) if adjusted < alpha} == rejected


def test_too_few_have_no_difference() -> None:
    assert difference_in_blocks([1.0], [2.0]) is None
    assert difference_apart([1.0], [2.0, 3.0]) is None
    with pytest.raises(ValueError, match="2 values beside 1"):
        difference_in_blocks([1.0, 2.0], [1.0])
