"""The benchmarks' statistics beside the same figures worked out another way: the standard library's
medians, and every bootstrap sample that there can be instead of a draw of them."""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
import statistics
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    path = ROOT / "benchmarks" / "measure" / "statistics.py"
    spec = importlib.util.spec_from_file_location("benchmark_statistics", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


measured = load()

OURS = [2.61, 2.55, 2.70, 2.40, 2.64, 2.58, 2.66]
PEER = [1.93, 2.05, 2.01, 1.70, 2.11, 1.98, 1.90]


def quantile(ordered: list[float], share: float) -> float:
    """Linear between the two neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def all_ratios(ours: list[float], peer: list[float]) -> list[float]:
    """The ratio of each of the n to the power of n ways to draw n blocks of n with replacement."""
    blocks = range(len(ours))
    return sorted(
        statistics.median(ours[block] for block in drawn) / statistics.median(peer[block] for block in drawn)
        for drawn in itertools.product(blocks, repeat=len(ours))
    )


def test_the_value_is_the_ratio_of_the_medians() -> None:
    estimate = measured.ratio_of_medians(OURS, PEER)
    assert estimate.value == pytest.approx(statistics.median(OURS) / statistics.median(PEER), rel=1e-12)


@pytest.mark.parametrize("count", [5, 6])
def test_the_interval_is_that_of_all_bootstrap_samples(count: int) -> None:
    """Draws of blocks come close to the exact distribution: the share of exact ratios below each end
    differs from 2.5 % by no more than what 10 000 draws and ties leave open."""
    ours, peer = OURS[:count], PEER[:count]
    exact = all_ratios(ours, peer)
    estimate = measured.ratio_of_medians(ours, peer)
    assert quantile(exact, 0.015) <= estimate.low <= quantile(exact, 0.035)
    assert quantile(exact, 0.965) <= estimate.high <= quantile(exact, 0.985)


def test_blocks_stay_together() -> None:
    """Where each block doubles ours and the peer's alike, the ratio is sure, however much they vary."""
    peer = [1.0, 4.0, 2.0, 8.0, 3.0]
    estimate = measured.ratio_of_medians([2 * figure for figure in peer], peer)
    assert (estimate.low, estimate.value, estimate.high) == (2.0, 2.0, 2.0)


def test_the_interval_of_a_median_is_that_of_all_bootstrap_samples() -> None:
    samples = OURS[:6]
    exact = sorted(statistics.median(drawn) for drawn in itertools.product(samples, repeat=len(samples)))
    estimate = measured.median(samples)
    assert estimate.value == pytest.approx(statistics.median(samples), rel=1e-12)
    assert quantile(exact, 0.015) <= estimate.low <= quantile(exact, 0.035)
    assert quantile(exact, 0.965) <= estimate.high <= quantile(exact, 0.985)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """Seven blocks of a known ratio, 200 times: the bootstrap of so few is a little too narrow, so a
    share clearly below 95 % is allowed, but not one that would make the interval worthless."""
    numbers = random.Random(20)
    held = 0
    for _ in range(200):
        mood = [numbers.lognormvariate(0, 0.1) for _ in range(7)]
        peer = [factor * numbers.lognormvariate(0, 0.05) for factor in mood]
        ours = [1.5 * factor * numbers.lognormvariate(0, 0.05) for factor in mood]
        estimate = measured.ratio_of_medians(ours, peer)
        held += estimate.low <= 1.5 <= estimate.high
    assert 0.85 <= held / 200 <= 1.0


def test_the_same_samples_give_the_same_interval() -> None:
    assert measured.ratio_of_medians(OURS, PEER) == measured.ratio_of_medians(OURS, PEER)


def test_one_block_has_no_interval() -> None:
    estimate = measured.ratio_of_medians([3.0], [2.0])
    assert estimate.value == 1.5
    assert math.isnan(estimate.low)
    assert measured.verdict(estimate, 1.0, at_least=True) == "cannot tell"


def test_blocks_that_lack_a_figure_are_refused() -> None:
    with pytest.raises(ValueError, match="2 figures beside 1"):
        measured.ratio_of_medians([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("low", "high", "at_least", "expected"),
    [
        (1.31, 1.50, True, "yes"),
        (1.30, 1.50, True, "yes"),
        (1.20, 1.50, True, "cannot tell"),
        (1.10, 1.29, True, "no"),
        (1.10, 1.30, False, "yes"),
        (1.20, 1.50, False, "cannot tell"),
        (1.31, 1.50, False, "no"),
    ],
)
def test_a_verdict_asks_the_whole_interval(low: float, high: float, at_least: bool, expected: str) -> None:
    estimate = measured.Estimate((low + high) / 2, low, high)
    assert measured.verdict(estimate, 1.3, at_least) == expected
