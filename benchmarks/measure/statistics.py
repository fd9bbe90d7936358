"""What repetitions say: medians, and how sure they are.

Two subjects are measured in the same blocks, so a block's two figures share the machine's mood: what
is estimated is the median of the blocks' ratios. Its interval is the distribution-free one of order
statistics (it inverts the sign test): whatever the figures' distribution, it holds the median in at
least 95 of 100 runs. That takes six blocks; with fewer there is no such interval, and none is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import quantile_test

CONFIDENCE = 0.95
BLOCKS_MIN = 6  # 1 - 2 * 0.5 ** 6 is the first of these to reach CONFIDENCE


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval; not a number where there are too few repetitions for one."""

    value: float
    low: float
    high: float


def median_of_ratios(ours: Sequence[float], peer: Sequence[float]) -> Estimate:
    """Median of the ratios of `ours` to `peer`; entry n of both comes from block n."""
    if len(ours) != len(peer):
        raise ValueError(f"{len(ours)} figures beside {len(peer)}: blocks have one of each")
    return median(list(np.asarray(ours, dtype=float) / np.asarray(peer, dtype=float)))


def median(samples: Sequence[float]) -> Estimate:
    """With the interval of order statistics: the k-th smallest to the k-th largest figure."""
    value = float(np.median(samples))
    if len(samples) < BLOCKS_MIN:
        return Estimate(value, math.nan, math.nan)
    interval = quantile_test(np.asarray(samples), q=value, p=0.5).confidence_interval(CONFIDENCE)
    return Estimate(value, float(interval.low), float(interval.high))


def verdict(estimate: Estimate, target: float, at_least: bool) -> str:
    """`yes` and `no` where the whole interval says so, else `cannot tell`."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return "cannot tell"
    if at_least:
        return "yes" if estimate.low >= target else "no" if estimate.high < target else "cannot tell"
    return "yes" if estimate.high <= target else "no" if estimate.low > target else "cannot tell"


def verdict_within(estimate: Estimate, low: float, high: float) -> str:
    """`yes` where the whole interval is within the bounds, `no` where all of it is outside."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return "cannot tell"
    if low <= estimate.low and estimate.high <= high:
        return "yes"
    return "no" if estimate.high < low or estimate.low > high else "cannot tell"
