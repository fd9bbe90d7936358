"""The highest rate that holds: bisection in the logarithm of the rate, then both ends once more.

Outcomes near the limit are chance, so what is found is a bracket: every run at its lower end and below held,
every run at its upper end and above did not. Both ends are run twice. Where one does not repeat it lies
between the ends, and the search goes on around it.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.model.bench.runs import SearchEnd, StepOutcome

# Outcomes of steps that are made once more.
SAYS_NOTHING: tuple[StepOutcome, ...] = ("invalid", "disturbed")

# The ends of the bracket are near enough where the upper one is so much above the lower one.
WIDTH = 0.05
STEPS_MAX = 18
RUNS_OF_AN_END = 2
# The search starts at this share of the unpaced rate: a storage rarely sustains that one in open loop.
_FIRST_SHARE = 0.8
# A rate whose runs say nothing so often is given up, and so is the search after so many such rates.
_INVALID_MAX, GIVEN_UP_MAX = 2, 3


@dataclass(frozen=True)
class Bracket:
    """What follows from the runs at rates, which stand in the order in which they were made."""

    runs: tuple[tuple[float, StepOutcome], ...] = ()

    def with_outcome(self, rate_hz: float, outcome: StepOutcome) -> "Bracket":
        return Bracket((*self.runs, (rate_hz, outcome)))

    def rates(self, outcome: StepOutcome) -> list[float]:
        """Of each run that had it."""
        return [rate_hz for rate_hz, found in self.runs if found == outcome]

    @property
    def lowest_failed_hz(self) -> float:
        """In any run; infinite where none failed."""
        return min(self.rates("not held"), default=math.inf)

    @property
    def highest_held_hz(self) -> float:
        """In any run; 0 where none held."""
        return max(self.rates("held"), default=0.0)

    @property
    def held_hz(self) -> float | None:
        """The lower end: the highest rate that held, of those below each that did not; None: none did."""
        return max((rate for rate in self.rates("held") if rate < self.lowest_failed_hz), default=None)

    @property
    def not_held_hz(self) -> float | None:
        """The upper end: the lowest rate that did not hold, of those above each that did."""
        return min((rate for rate in self.rates("not held") if rate > self.highest_held_hz), default=None)

    @property
    def held_runs(self) -> int:
        return sum(rate == self.held_hz for rate in self.rates("held"))

    @property
    def not_held_runs(self) -> int:
        return sum(rate == self.not_held_hz for rate in self.rates("not held"))

    @property
    def chance_hz(self) -> list[float]:
        """Rates between the ends, in a range where one run held and another did not."""
        low = 0.0 if self.held_hz is None else self.held_hz
        high = math.inf if self.not_held_hz is None else self.not_held_hz
        return sorted({rate for rate in self.rates("held") + self.rates("not held") if low < rate < high})

    @property
    def given_up_hz(self) -> list[float]:
        """Rates at which no valid run could be made."""
        invalid = [rate_hz for rate_hz, outcome in self.runs if outcome in SAYS_NOTHING]
        return sorted({rate for rate in invalid if invalid.count(rate) >= _INVALID_MAX})


@dataclass(frozen=True)
class Limits:
    """What is tried at all. `bottom_hz` counts as held without being tried."""

    bottom_hz: float
    top_hz: float
    guess_hz: float | None
    """the rate unpaced: near it the limit is looked for first, and beyond it if need be"""
    seconds_max: float
    step_s: Callable[[float], float]
    """how long a step at a rate takes"""


def limits_of(
    needed_hz: float,
    full_speed_hz: float | None,
    times_max: float,
    rate_max_hz: float,
    seconds_max: float,
    step_s: Callable[[float], float],
) -> Limits:
    return Limits(
        bottom_hz=needed_hz / times_max,
        top_hz=min(rate_max_hz, times_max * needed_hz),
        guess_hz=full_speed_hz,
        seconds_max=seconds_max,
        step_s=step_s,
    )


def next_rate(bracket: Bracket, limits: Limits) -> float | None:
    """The next one to be tried; None where the bracket is narrow, or nothing is left to try."""
    given_up = bracket.given_up_hz
    if len(given_up) >= GIVEN_UP_MAX:
        return None
    low = limits.bottom_hz if bracket.held_hz is None else bracket.held_hz
    if (first_hz := _first(low, bracket, limits)) is not None:
        return first_hz
    rate_hz = _middle(low, bracket.lowest_failed_hz, given_up)
    if rate_hz is not None:
        return rate_hz
    high = max(limits.bottom_hz, bracket.highest_held_hz)
    if bracket.not_held_hz is not None:
        return _middle(high, bracket.not_held_hz, given_up)
    if any(rate > high for rate in given_up):
        return _middle(high, math.inf, given_up)
    return _beyond(high, limits)


def _first(low: float, bracket: Bracket, limits: Limits) -> float | None:
    """Near the unpaced rate, wherever that is, while nothing that was tried says more."""
    if limits.guess_hz is None:
        return None
    first_hz = min(limits.top_hz, _FIRST_SHARE * limits.guess_hz)
    is_inside = low * (1 + WIDTH) < first_hz < bracket.lowest_failed_hz / (1 + WIDTH)
    return first_hz if is_inside and first_hz not in bracket.given_up_hz else None


def _middle(low: float, high: float, given_up: list[float]) -> float | None:
    """Below the lowest rate in between that was given up, if there is one.

    None: nothing bounds it, or it is narrow.
    """
    high = min((rate for rate in given_up if low < rate < high), default=high)
    return _between(low, high) if math.isfinite(high) else None


def _beyond(low: float, limits: Limits) -> float | None:
    """While nothing above `low` has failed."""
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


def repeats(bracket: Bracket) -> list[float]:
    """The ends that have to be run once more, in turn: first the one that was not run last."""
    ends = ((bracket.held_hz, bracket.held_runs), (bracket.not_held_hz, bracket.not_held_runs))
    missing = [
        rate
        for rate, runs in ends
        if rate is not None and runs < RUNS_OF_AN_END and rate not in bracket.given_up_hz
    ]
    return sorted(missing, key=lambda rate: rate == bracket.runs[-1][0])


class _Budget:
    """The time, and the steps, that are left. Steps take longer than planned, as those before did."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._began_at = clock()
        self._planned_s = 0.0
        self.steps = 0

    def take(self, rate_hz: float) -> None:
        """A step was made."""
        self.steps += 1
        self._planned_s += self._limits.step_s(rate_hz)

    def lacks(self, rates: list[float]) -> SearchEnd | None:
        """What is too little for steps at all of `rates`; None: nothing is."""
        if self.steps + len(rates) > STEPS_MAX:
            return "steps"
        passed_s = self._clock() - self._began_at
        slower = max(1.0, passed_s / self._planned_s) if self._planned_s else 1.0
        wanted_s = slower * sum(self._limits.step_s(rate) for rate in rates)
        return "time" if passed_s + wanted_s > self._limits.seconds_max else None


def search(
    outcome_at: Callable[[float], StepOutcome | None],
    bracket: Bracket,
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Bracket, SearchEnd]:
    """`outcome_at` makes a step at a rate; None where the measurement is to end.

    What the ends need to be repeated is kept of time and steps. A step that is invalid is made once more;
    where it is invalid again, lower rates are tried.
    """
    budget = _Budget(limits, clock)
    while True:
        rate_hz = next_rate(bracket, limits)
        lacking = None
        if rate_hz is not None:
            lacking = budget.lacks([rate_hz, *_kept_for(bracket, rate_hz, budget)])
        if rate_hz is None or lacking is not None:
            rate_hz = next(iter(repeats(bracket)), None)
            if rate_hz is None:
                return bracket, lacking or _nothing_left(bracket, limits)
            if short := budget.lacks([rate_hz]):
                return bracket, short
        outcome = outcome_at(rate_hz)
        if outcome is None:
            return bracket, "cut short"
        budget.take(rate_hz)
        bracket = bracket.with_outcome(rate_hz, outcome)


_SOUND: tuple[StepOutcome, ...] = ("held", "not held")


def _kept_for(bracket: Bracket, rate_hz: float, budget: _Budget) -> Iterator[float]:
    """The repeats that a step at a rate leads to at least, whatever its outcome. A first look comes first."""
    if budget.steps:
        after = [repeats(bracket.with_outcome(rate_hz, outcome)) for outcome in _SOUND]
        yield from max(after, key=len)


def _nothing_left(bracket: Bracket, limits: Limits) -> SearchEnd:
    sound = Bracket(tuple(run for run in bracket.runs if run[1] not in SAYS_NOTHING))
    if next_rate(sound, limits) is not None:
        return "invalid"
    if bracket.held_hz is None:
        return "bottom"
    if bracket.chance_hz:
        return "chance"
    return "top" if bracket.not_held_hz is None else "narrow"
