"""What a workload's function is given: its storage, the common start and stop, and who counts."""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from penstock.bench.science.jobs.words import Done, Ready
from penstock.bench.science.storage.storage import Storage

_REPORTS_EVERY_NS = 50_000_000


class Job:
    """One process's. A function of a workload prepares, calls `begin`, and works until `stopping`.

    `done` may be called by one thread only.
    """

    def __init__(
        self, number: int, storage: Storage, say: Callable[[Ready | Done], None], go: threading.Event
    ) -> None:
        self.number, self.storage = number, storage
        self.spent_s: dict[str, float] = defaultdict(float)
        self._say, self._go = say, go
        self._stop = threading.Event()
        self._units, self._reported_ns = 0, 0
        self._is_unreported = False

    def begin(self) -> None:
        """Waits for the common start. What came before counts nowhere."""
        self._say(Ready())
        self._go.wait()
        self.storage.counts.clear()

    @property
    def stopping(self) -> bool:
        """It is to return what it has."""
        return self._stop.is_set()

    def done(self, units: int) -> None:
        """Counts so many units more; a report follows now and then."""
        self._units += units
        now = time.monotonic_ns()
        self._is_unreported = True
        if now - self._reported_ns >= _REPORTS_EVERY_NS:
            self._report(now)

    @contextlib.contextmanager
    def spending(self, what: str) -> Iterator[None]:
        """Counts the time inside under `what`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.spent_s[what] += time.monotonic() - begun

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """Reports what was not reported yet."""
        if self._is_unreported:
            self._report(time.monotonic_ns())

    def _report(self, now: int) -> None:
        counts = self.storage.counts
        self._say(
            Done(
                at_ns=now,
                units=self._units,
                asked_bytes=counts.asked_bytes,
                received_bytes=counts.received_bytes,
                calls=counts.calls,
            )
        )
        self._reported_ns, self._is_unreported = now, False
