"""Whether a run moved: few false alarms on series that hang together, and none of what matters missed."""

from collections.abc import Callable

import numpy
import pytest
from comparable import Numbers
from scipy.signal import lfilter

from penstock.bench.statistics.steady import VALUES_MIN, bandwidth_movement, movement_of

TRIALS = 400
ALARMS_MAX = TRIALS * 0.05


def stationary(numbers: numpy.random.Generator, count: int, correlation: float, heavy: bool) -> Numbers:
    """Latencies of a median of 1, skewed, each like the one before it by `correlation`."""
    noise = numbers.standard_t(3, count + 300) if heavy else numbers.normal(0, 1, count + 300)
    line = lfilter([(1 - correlation**2) ** 0.5], [1, -correlation], noise)[300:]
    return numpy.asarray(numpy.exp(0.3 * line))


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(
    ("count", "correlation"), [(40, 0.0), (60, 0.5), (300, 0.5), (300, 0.9), (3000, 0.98)]
)
def test_stationary_series_are_called_moving_in_one_of_twenty_at_most(
    count: int, correlation: float, heavy: bool
) -> None:
    numbers = numpy.random.default_rng([count, int(100 * correlation), heavy])
    found = [movement_of(stationary(numbers, count, correlation, heavy)) for _ in range(TRIALS)]
    assert sum(each is not None and each.moved for each in found) <= ALARMS_MAX


CHANGES: dict[str, Callable[[Numbers], Numbers]] = {
    "falls by 30 % half-way": lambda share: numpy.where(share < 0.5, 1.0, 0.7),
    "falls by 30 % after a third": lambda share: numpy.where(share < 0.33, 1.0, 0.7),
    "falls by 30 % after two thirds": lambda share: numpy.where(share < 0.67, 1.0, 0.7),
    "rises all the time": lambda share: 1 + share,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_what_falls_or_rises_is_found(change: str, correlation: float) -> None:
    numbers, found = numpy.random.default_rng(5), 0
    for _ in range(100):
        line = stationary(numbers, 300, correlation, False) ** 0.3  # scatters by a tenth
        moved = movement_of(line * CHANGES[change](numpy.arange(300) / 300))
        assert moved is not None
        found += moved.moved
    assert found >= (99 if "half-way" in change else 90)


def test_bandwidth_is_what_each_tenth_of_the_frames_took() -> None:
    numbers = numpy.random.default_rng(6)
    periods = 1e7 * stationary(numbers, 400, 0.5, False) ** 0.3
    steady = bandwidth_movement(periods.cumsum())
    assert steady is not None
    assert not steady.moved
    assert steady.before == pytest.approx(1e9 / periods.mean(), rel=0.05)
    periods[200:] /= 0.7
    falls = bandwidth_movement(numbers.permutation(periods.cumsum()))  # writers end in any order
    assert falls is not None
    assert falls.moved
    assert falls.change == pytest.approx(-0.3, abs=0.03)


def test_changes_that_are_sure_and_small_are_none() -> None:
    line = numpy.r_[numpy.full(100, 1.0), numpy.full(100, 1.05)] + 1e-6 * numpy.arange(200) % 3
    found = movement_of(line)
    assert found is not None
    assert found.probable < 1e-6
    assert not found.moved


def test_few_values_and_a_level_line_say_nothing() -> None:
    assert movement_of(numpy.ones(VALUES_MIN - 1)) is None
    assert bandwidth_movement(numpy.arange(VALUES_MIN - 1.0)) is None
    level = movement_of(numpy.zeros(VALUES_MIN))
    assert level is not None
    assert not level.moved
