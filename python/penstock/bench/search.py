"""The highest rate that holds: bisection in the logarithm of the rate.

Outcomes near the limit are chance, so the result is a bracket: the highest rate that held and the lowest one
that did not, each a single run.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.model.runs import SearchEnd, StepOutcome, TopReason

# The ends of the bracket are near enough where the upper one is so much above the lower one.
WIDTH = 0.05
STEPS_MAX = 12


@dataclass(frozen=True)
class Bracket:
    """None where no rate was found that held, or none that did not. Each end was tried."""

    held_hz: float | None = None
    not_held_hz: float | None = None

    def with_outcome(self, rate_hz: float, held: bool) -> "Bracket":
        return replace(self, held_hz=rate_hz) if held else replace(self, not_held_hz=rate_hz)


@dataclass(frozen=True)
class Limits:
    """What is tried at all. `bottom_hz` counts as held without being tried."""

    bottom_hz: float
    top_hz: float
    guess_hz: float | None
    """the rate as fast as it goes: near it the limit is looked for first, and beyond it if need be"""
    seconds_max: float
    step_s: Callable[[float], float]
    """how long a step at a rate takes"""


def limits_of(
    needed_hz: float,
    full_speed_hz: float | None,
    times_max: float,
    fits_hz: float,
    seconds_max: float,
    step_s: Callable[[float], float],
) -> tuple[Limits, TopReason]:
    """`fits_hz` is the highest rate whose step fits into the free space."""
    asked_hz = times_max * needed_hz
    limits = Limits(
        bottom_hz=needed_hz / times_max,
        top_hz=min(fits_hz, asked_hz),
        guess_hz=full_speed_hz,
        seconds_max=seconds_max,
        step_s=step_s,
    )
    return limits, "space" if fits_hz < asked_hz else "asked"


def next_rate(bracket: Bracket, limits: Limits) -> float | None:
    """None where the bracket is narrow, or nothing is left to try."""
    low = bracket.held_hz if bracket.held_hz is not None else limits.bottom_hz
    if bracket.not_held_hz is not None:
        return _between(low, bracket.not_held_hz)
    if low >= limits.top_hz:
        return None
    guess = limits.guess_hz
    if guess is None or guess >= limits.top_hz:
        return limits.top_hz
    if low >= guess:
        return min(limits.top_hz, 2 * low)  # it was too low
    return _between(low, guess) or min(limits.top_hz, low * (1 + WIDTH))


def _between(low: float, high: float) -> float | None:
    # Rounding must not make a bracket of just the right width a wide one.
    return math.sqrt(low * high) if high > low * (1 + WIDTH) * (1 + 1e-9) else None


def search(
    outcome_at: Callable[[float], StepOutcome | None],
    bracket: Bracket,
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Bracket, SearchEnd]:
    """`outcome_at` makes a step at a rate; None where the measurement is to end.

    A step that is invalid is made once more; where it is invalid again, the search ends with what is known.
    """
    ends_at = clock() + limits.seconds_max
    invalid = 0
    for _ in range(STEPS_MAX):
        rate_hz = next_rate(bracket, limits)
        if rate_hz is None:
            return bracket, _nothing_left(bracket)
        if clock() + limits.step_s(rate_hz) > ends_at:
            return bracket, "time"
        outcome = outcome_at(rate_hz)
        if outcome is None:
            return bracket, "cut short"
        invalid = invalid + 1 if outcome == "invalid" else 0
        if invalid == 2:
            return bracket, "invalid"
        if not invalid:
            bracket = bracket.with_outcome(rate_hz, outcome == "held")
    return bracket, _nothing_left(bracket) if next_rate(bracket, limits) is None else "steps"


def _nothing_left(bracket: Bracket) -> SearchEnd:
    if bracket.held_hz is None:
        return "bottom"
    return "top" if bracket.not_held_hz is None else "narrow"
