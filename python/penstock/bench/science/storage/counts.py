"""What a job asked of its storage."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.bench.science.jobs.latencies import Latencies

_SYNC_S = 1800.0
"""in which the caches of a large machine are written to a slow storage"""


class Counts:
    """Bytes that were asked for and received (or given, when writing), calls and their durations.

    Several threads may add to it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps, self._syncing_until = 0, 0.0
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

    def step(self) -> None:
        """Notes work in a call that has not ended."""
        with self._lock:
            self._steps += 1

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """A call that says nothing until bytes are on the storage is work, for half an hour at most."""
        self._syncing_until = time.monotonic() + _SYNC_S
        try:
            yield
        finally:
            self._syncing_until = 0.0

    def pulse(self) -> int:
        """Returns another number than before if there was work since then."""
        if time.monotonic() < self._syncing_until:
            self.step()
        return self._steps + self.received_bytes

    @contextmanager
    def timed(self, nbytes: int) -> Iterator[None]:
        """Counts a call that moves all of `nbytes`, unless it raises."""
        begun = time.monotonic_ns()
        yield
        self.add(nbytes, nbytes, time.monotonic_ns() - begun)
