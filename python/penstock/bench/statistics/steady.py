"""Whether a run was in one state from its begin to its end, or still moved."""

import math
from dataclasses import dataclass, replace

import numpy

from penstock.bench.statistics.intervals import Values, difference_apart

BATCHES = 10
# Batches from the begin and from the end.
_WINDOWS = ((5, 5), (3, 5), (5, 3))
VALUES_MIN = 4 * BATCHES
# A run is one of many, and what is watched is one of several: one false alarm in a hundred each.
_ALPHA = 0.01
# Less does not make a metric doubtful.
CHANGE_MIN = 0.1


@dataclass(frozen=True)
class Movement:
    """From the begin of a run to its end."""

    before: float
    after: float
    probable: float  # of such a difference or a larger one where nothing moves

    @property
    def change(self) -> float:
        """As a share of what was before."""
        return self.after / self.before - 1 if self.before > 0 else 0.0

    @property
    def factor(self) -> float:
        """By which the larger end exceeds the smaller one; infinite if that is 0."""
        low, high = sorted((self.before, self.after))
        return high / low if low > 0 else math.inf if high > 0 else 1.0

    @property
    def moved(self) -> bool:
        return self.probable < _ALPHA and abs(self.change) > CHANGE_MIN


def movement_of(values: Values) -> Movement | None:
    """Of a series whose entries hang together, by their batches' medians; None below four a batch."""
    if len(values) < VALUES_MIN:
        return None
    medians = [numpy.median(part) for part in numpy.array_split(values, BATCHES)]
    return movement_of_batches(numpy.array(medians))


def movement_of_batches(batches: Values) -> Movement:
    """Whether begin and end of a run differ by more than their batches scatter; the surest of three windows.

    Geweke's diagnostic (1992), with batch means (Conway 1963) for the variance of a series that hangs
    together: where a batch is long beside the time over which it does, batches are nearly independent and
    Welch's test holds. Three pairs of windows, corrected after Bonferroni, find what happens early, half-way
    and late. Checked by simulation for a correlation of up to 0.9 from one of 300 values to the next. Where
    the memory is as long as a batch, it calls too many series moving: they are too short to decide.
    """
    found = [_between(batches[:first], batches[-last:]) for first, last in _WINDOWS]
    surest = min(found, key=lambda each: each.probable)
    return replace(surest, probable=min(1.0, surest.probable * len(found)))


def _between(before: Values, after: Values) -> Movement:
    found = difference_apart(before, after)
    probable = 1.0 if found is None or found.estimate == 0 else found.p_value()
    return Movement(float(before.mean()), float(after.mean()), probable)


def bandwidth_movement(done_ns: Values) -> Movement | None:
    """Of frames a second, from when each was done: by the time that each tenth of them took."""
    done = numpy.sort(done_ns)
    if len(done) < VALUES_MIN:
        return None
    ends = [part[-1] for part in numpy.array_split(done, BATCHES)]
    counts = [len(part) for part in numpy.array_split(done, BATCHES)]
    spans = numpy.maximum(1.0, numpy.diff(ends, prepend=0.0))
    return movement_of_batches(numpy.array(counts) / spans * 1e9)
