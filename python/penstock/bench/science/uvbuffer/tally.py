"""What one process did within the window, kind by kind of operation."""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from penstock.bench.science.jobs.job import Job
from penstock.bench.science.uvbuffer.buffer import Buffer, Due

_PAUSE_S = 0.05
_PROBLEMS_MAX = 3

CREATE, WRITE, OPEN, READ, DELETE = "create", "write", "open", "read", "delete"
OWN, EARLY, LIST = "own work", "early", "list"


class Tally:
    """Operations become due at times: `wait` waits for that, however late the ones before were."""

    def __init__(self, job: Job, buffer: Buffer) -> None:
        self._job = job
        self._window, self._interval_s = buffer.window, buffer.interval_s
        self._begun = time.monotonic()
        self._taken_s: dict[str, float] = defaultdict(float)
        self._counts: Counter[str] = Counter()
        self._late = 0
        self._problems: list[str] = []
        self._wrong = 0

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._begun

    @property
    def stopping(self) -> bool:
        return self._job.stopping

    def wait(self, due: Due) -> bool:
        """Returns False if the job is to stop."""
        self.sleep_until(due.at_s)
        return not self.stopping

    def sleep_until(self, at_s: float) -> None:
        with self._job.spending("waiting until due"):
            while not self.stopping and (rest := at_s - self.now_s) > 0:
                time.sleep(min(rest, _PAUSE_S))

    def wait_for(self, what: Callable[[], Any], until_s: float) -> Any:
        """Asks with growing pauses until the answer is not None; returns None at `until_s` or at a stop."""
        pause_s = 0.001
        while (found := what()) is None and self.now_s < until_s and not self.stopping:
            with self._job.spending("waiting for files"):
                time.sleep(pause_s)
            pause_s = min(_PAUSE_S, 1.5 * pause_s)
        return found

    @contextlib.contextmanager
    def taking(self, kind: str) -> Iterator[None]:
        """Counts the time inside as that of one operation."""
        begun = time.monotonic()
        yield
        self.took(kind, time.monotonic() - begun)

    def took(self, kind: str, taken: float) -> None:
        """Counts the part of an operation that ends now which is within the window."""
        self._job.spent_s[kind] += taken
        now = self.now_s
        self._taken_s[kind] += max(0.0, min(now, self._window[1]) - max(now - taken, self._window[0]))

    def done(self, due: Due) -> None:
        now = self.now_s
        if self._is_inside(now):
            self._counts["done"] += 1
            self._late += now - due.at_s > self._interval_s
        self._job.done(1)

    def count(self, what: str) -> None:
        self._counts[what] += 1

    def wrong(self, problem: str) -> None:
        self._wrong += 1
        if len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(problem)

    def result(self, role: str) -> dict[str, Any]:
        return {
            "role": role,
            "counts": dict(self._counts),
            "taken_s": dict(self._taken_s),
            "late": self._late,
            "wrong": self._wrong,
            "problems": self._problems,
        }

    def _is_inside(self, at_s: float) -> bool:
        return self._window[0] <= at_s < self._window[1]
