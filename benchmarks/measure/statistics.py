"""What repetitions say: medians, and how sure they are.

Two subjects are measured in the same blocks, so a block's two figures share the machine's mood. The
bootstrap therefore draws blocks, not single figures: the interval holds for the ratio, whatever the
machine did to both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20_11


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval; an interval of one repetition is unknown (not a number)."""

    value: float
    low: float
    high: float


def _ratio_of_medians(ours: np.ndarray, peer: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.asarray(np.median(ours, axis=axis) / np.median(peer, axis=axis))


def _median(samples: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.asarray(np.median(samples, axis=axis))


def ratio_of_medians(ours: Sequence[float], peer: Sequence[float]) -> Estimate:
    """Median of `ours` over median of `peer`; entry n of both comes from block n."""
    if len(ours) != len(peer):
        raise ValueError(f"{len(ours)} figures beside {len(peer)}: blocks have one of each")
    value = float(_ratio_of_medians(np.asarray(ours), np.asarray(peer)))
    if len(ours) < 2:
        return Estimate(value, math.nan, math.nan)
    interval = bootstrap(
        (np.asarray(ours), np.asarray(peer)),
        _ratio_of_medians,
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))


def median(samples: Sequence[float]) -> Estimate:
    value = float(np.median(samples))
    if len(samples) < 2:
        return Estimate(value, math.nan, math.nan)
    interval = bootstrap(
        (np.asarray(samples),),
        _median,
        vectorized=True,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))


def verdict(estimate: Estimate, target: float, at_least: bool) -> str:
    """`yes` and `no` where the whole interval says so, else `cannot tell`."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return "cannot tell"
    if at_least:
        return "yes" if estimate.low >= target else "no" if estimate.high < target else "cannot tell"
    return "yes" if estimate.high <= target else "no" if estimate.low > target else "cannot tell"
