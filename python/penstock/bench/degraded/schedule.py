"""Lets servers of a laboratory fail and heals them, at set times beside a run."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.lab.control import ask
from penstock.lab.place import place_of
from penstock.model.bench.fault_schedules import Fault
from penstock.model.errors import PenstockError

_HEALS_WITHIN_S, _LOOKS_EVERY_S = 300.0, 0.1
_WORDS = {"fail": "is killed", "stall": "stalls", "slow": "is slow"}


@dataclass(frozen=True)
class Moment:
    """A time of both clocks: files have the wall clock's, load generators the monotonic one's."""

    wall_ns: int
    monotonic_ns: int

    @staticmethod
    def now() -> "Moment":
        return Moment(time.time_ns(), time.monotonic_ns())


@dataclass
class Disturbance:
    """A server's fault, and when it was healed."""

    fault: Fault
    began: Moment
    ended: Moment | None = None
    healed_s: float | None = None
    """from `ended` until the system had all copies; None: unknown"""


def _words_of(error: Exception) -> str:
    return error.message if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"


class FaultSchedule(threading.Thread):
    """Carries out a schedule from `begin` on. Whatever ends the block of `never_left_failed`, it heals all.

    Not a daemon: a process that is interrupted waits until the servers are up again.
    """

    def __init__(self, laboratory: str, faults: Sequence[Fault], say: Callable[[str], None]) -> None:
        super().__init__(name="faults", daemon=False)
        self._place, self._faults, self._say = place_of(laboratory), faults, say
        self._begun, self._over, self._abandoned = (threading.Event() for _ in range(3))
        self._zero = 0.0
        self._touched: set[int] = set()
        self.found: list[Disturbance] = []
        self.problem: str | None = None

    def begin(self, zero: float | None = None) -> None:
        """Times count from `zero` of the monotonic clock; None: now. Later calls change nothing."""
        if not self._begun.is_set():
            self._zero = time.monotonic() if zero is None else zero
            self._begun.set()

    def finish(self) -> None:
        """The run is over: nothing more fails. Heals what has failed; waits until all copies are there."""
        self._over.set()
        self._begun.set()
        self.join()

    @contextlib.contextmanager
    def never_left_failed(self) -> Iterator["FaultSchedule"]:
        """Starts the thread, which waits for `begin`."""
        self.start()
        try:
            yield self
        finally:
            self._abandoned.set()
            self.finish()

    def run(self) -> None:
        self._begun.wait()
        try:
            for fault in self._faults:
                if not self._wait_until(self._zero + fault.at_s):
                    break
                self._carry_out(fault)
        except Exception as error:  # whatever it is, such as a reader of messages that is gone
            self.problem = _words_of(error)
        for server in sorted(self._touched):
            self._heal(server)
        with contextlib.suppress(Exception):
            while self._is_healing() and not self._abandoned.wait(_LOOKS_EVERY_S):
                pass

    def _wait_until(self, when: float) -> bool:
        """Returns False as soon as the run is over."""
        while (left_s := when - time.monotonic()) > 0 and not self._over.is_set():
            self._over.wait(min(left_s, _LOOKS_EVERY_S) if self._is_healing() else left_s)
        return not self._over.is_set()

    def _carry_out(self, fault: Fault) -> None:
        server = fault.server
        if fault.fault == "heal":
            self._end(server)
            return
        self._touched.add(server)
        match fault.fault:
            case "fail":
                ask(self._place, "fail", number=server)
            case "stall":
                ask(self._place, "slow", number=server, stalled=True)
            case "slow":
                ask(
                    self._place,
                    "slow",
                    number=server,
                    disk_bytes_per_s=fault.disk,
                    link_bytes_per_s=fault.link,
                )
        self.found.append(Disturbance(fault, Moment.now()))
        self._say(f"server {server} {_WORDS[fault.fault]}")

    def _end(self, server: int) -> None:
        ask(self._place, "heal", number=server)
        self._touched.discard(server)
        for each in self.found:
            if each.fault.server == server and each.ended is None:
                each.ended = Moment.now()
        self._say(f"server {server} is healed")

    def _heal(self, server: int) -> None:
        try:
            self._end(server)
        except Exception as error:
            self.problem = self.problem or _words_of(error)

    def _is_healing(self) -> bool:
        """Whether copies may be missing of a server that is up again. Asks the system."""
        since = time.monotonic_ns() - round(_HEALS_WITHIN_S * 1e9)
        missing = [
            each
            for each in self.found
            if each.ended is not None and each.healed_s is None and each.ended.monotonic_ns > since
        ]
        if missing and ask(self._place, "has_healed")["has_healed"]:
            for each in missing:
                assert each.ended is not None
                each.healed_s = (time.monotonic_ns() - each.ended.monotonic_ns) * 1e-9
            self._say("the system has all copies")
            return False
        return bool(missing)
