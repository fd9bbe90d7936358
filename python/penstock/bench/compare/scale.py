"""On which scale values are compared, and what it is called in the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.bench.statistics.intervals import median_interval
from penstock.bench.statistics.values import Value
from penstock.model.bench.comparisons import Middle

_EXPONENT_MAX = 700.0


@dataclass(frozen=True)
class Scale:
    """Logarithms, whose differences are ratios; plain numbers where one is a share or may be 0."""

    as_ratio: bool

    @classmethod
    def of(cls, values: Sequence[Value]) -> "Scale":
        return cls(all(value.unit != "share" and value.value > 0 for value in values))

    def number(self, value: Value) -> float:
        return math.log(value.value) if self.as_ratio else value.value

    def error(self, value: Value) -> float:
        return value.error / value.value if self.as_ratio else value.error

    def effect(self, number: float) -> float:
        """A ratio, or a difference. Bounded, so that documents have no infinities."""
        return math.exp(max(-_EXPONENT_MAX, min(_EXPONENT_MAX, number))) if self.as_ratio else number

    def change(self, number: float) -> float:
        """A share of what it was, or a difference."""
        return self.effect(number) - 1 if self.as_ratio else number


# An interval beyond this factor on both sides excludes nothing that is plausible.
_PLAUSIBLE_FACTOR = 10.0


def is_undetermined(low: float, high: float, scale: Literal["ratio", "difference"]) -> bool:
    """Whether an interval of effects reaches from less than a tenth to more than ten times."""
    return scale == "ratio" and low < 1 / _PLAUSIBLE_FACTOR and high > _PLAUSIBLE_FACTOR


def middle_of(values: Sequence[float]) -> Middle:
    found = median_interval(values)
    return Middle(
        runs=len(values), low=found.low, median=found.middle, high=found.high, confidence=found.confidence
    )
