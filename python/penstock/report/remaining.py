"""How long something still takes, by the pace of the last half minute."""

import math
from collections import deque

from penstock.model.units import human_seconds

_WINDOW_S, _SAMPLE_S, _KNOWN_AFTER_S = 30.0, 0.5, 2.0


class Pace:
    """The pace at which `done` approaches a total. Times are in seconds, of one monotonic clock."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def left_s(self, now: float, done: float, total: float) -> float | None:
        """Notes what is done; returns the remaining time, or None while the pace is not known.

        Its pace is unknown for 2 s, while nothing is done, and where the total is 0 (unknown).
        """
        samples = self._samples
        if samples and done < samples[-1][1]:
            samples.clear()  # another iteration
        if not samples or now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, done))
        while len(samples) > 2 and now - samples[1][0] >= _WINDOW_S:
            samples.popleft()
        seconds, more = now - samples[0][0], done - samples[0][1]
        if seconds < _KNOWN_AFTER_S or more <= 0 or done >= total:
            return None
        return (total - done) * seconds / more


def left_text(seconds: float) -> str:
    """ "42 s left", "3 min left", rounded up: whole seconds up to a minute, then 10 s, then minutes."""
    step = 1 if seconds <= 60 else 10 if seconds <= 110 else 60
    return f"{human_seconds(step * max(1, math.ceil(seconds / step)))} left"
