"""What a job asked of its storage."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.bench.science.jobs.latencies import Latencies


class Counts:
    """Bytes that were asked for and received (or given, when writing), calls and their durations.

    Several threads may add to it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self.asked_bytes = self.received_bytes = self.calls = 0
            self.latencies = Latencies()

    def add(self, asked: int, received: int, nanoseconds: int) -> None:
        with self._lock:
            self.asked_bytes += asked
            self.received_bytes += received
            self.calls += 1
            self.latencies.add(nanoseconds)

    def ask(self, more: int) -> None:
        """Counts bytes that were asked for and came from no call; fewer than 0: that were not asked for."""
        with self._lock:
            self.asked_bytes += more

    def moved(self, nbytes: int) -> None:
        """Counts bytes of a library's calls, whose number and durations are unknown."""
        with self._lock:
            self.asked_bytes += nbytes
            self.received_bytes += nbytes

    @contextmanager
    def timed(self, nbytes: int) -> Iterator[None]:
        """Counts a call that moves all of `nbytes`, unless it raises."""
        begun = time.monotonic_ns()
        yield
        self.add(nbytes, nbytes, time.monotonic_ns() - begun)
