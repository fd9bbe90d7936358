"""`python -m penstock.pva.values --plan -`: values of EPICS channels to a collector, until SIGINT or SIGTERM.

Takes a plan (penstock.model.pva.ValuesPlan), and reports which channels connect and disconnect.
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.client import Values
from penstock.client.errors import ClientError, FrameError
from penstock.model.errors import PenstockError
from penstock.model.pva import ValuesPlan
from penstock.model.values import INVALID, SEVERITY, UNITS_BYTES_MAX, VALUE_BYTES_MAX
from penstock.pva.program import Stop, run_program, say

_WAITING_MAX = 100_000  # updates, between pvAccess's threads and the connection
_LOOK_S = 0.2
_FLUSH_S = 1.0
_SEARCH_S = 3.0  # until a channel without an answer is reported
_AWAY = "is not connected"
_IS_INVALID = "has the alarm INVALID: its values are not attached to frames"
_SEVERITY_MAX = 255
_NS_MAX = (1 << 63) - 1
_IMAGE, _ENUMERATION = "epics:nt/NTNDArray:", "enum_t"
_TAKEN = "numbers, texts, enumerations and arrays of numbers are supported"


@dataclass(frozen=True)
class Update:
    """What a channel said: a value with its time, or why there is none."""

    channel: str
    value: Any = None
    time_ns: int = 0
    problem: str = ""
    severity: int = 0  # of its alarm
    units: str = ""


@dataclass
class _Severity:
    """Of one channel's alarm."""

    began_ns: int  # the time of the first value, whatever the order in which they come
    now: int = 0
    is_reported: bool = False


class Source:
    """Updates of all channels come in on pvAccess's threads; run() is for one thread."""

    def __init__(self, plan: ValuesPlan) -> None:
        # Only here: it starts threads, and its libraries take a while to load.
        self._p4p: Any = importlib.import_module("p4p.client.thread")
        self._plan = plan
        self._updates: queue.Queue[Update] = queue.Queue(_WAITING_MAX)
        self._reported: dict[str, str] = {}  # by channel: what is wrong with it
        self._sought = dict.fromkeys(plan.channels)  # that have not been there yet
        self._units: dict[str, str] = {}
        self._severities: dict[str, _Severity] = {}
        self._lost = 0  # updates that did not fit into the queue

    def run(self, stop: threading.Event) -> list[str]:
        """What went wrong. A ClientError where the collector is lost, or has refused batches."""
        context = self._p4p.Context("pva", nt=False, useenv=True)
        try:
            with Values(self._plan.to, token=self._plan.token, name="penstock collect --pva") as values:
                # Whoever lets go of a subscription ends it.
                subscriptions = [
                    context.monitor(channel, partial(self._note, channel), notify_disconnect=True)
                    for channel in self._plan.channels
                ]
                self._send(values, stop)
                for subscription in subscriptions:
                    subscription.close()
                self._send_the_rest(values)
        finally:
            context.close()
        return [f"{self._lost} updates arrived faster than they could be sent, and are lost"] * (
            self._lost > 0
        )

    def _note(self, channel: str, update: Any) -> None:
        """On pvAccess's threads. What waits is small, whatever the channel shows."""
        if isinstance(update, self._p4p.Disconnected):
            found = Update(channel, problem=_AWAY)
        elif isinstance(update, Exception):
            found = Update(channel, problem=f"is not available: {update}")
        else:
            found = update_of(channel, update)
        try:
            self._updates.put_nowait(found)
        except queue.Full:
            self._lost += 1
            if self._lost == 1:
                say(
                    "warning",
                    f"updates arrive faster than they can be sent; the first lost one is of {channel}",
                )

    def _send(self, values: Values, stop: threading.Event) -> None:
        """Until it is stopped, and a moment longer: what was posted before is on its way."""
        began = flushed = time.monotonic()
        until = float("inf")
        while time.monotonic() < until:
            if stop.is_set():
                until = min(until, time.monotonic() + _LOOK_S)
            if stop.is_set() or time.monotonic() - began > _SEARCH_S:
                self._end_search()
            with contextlib.suppress(queue.Empty):
                self._take(values, self._updates.get(timeout=_LOOK_S))
            if time.monotonic() - flushed > _FLUSH_S:
                values.flush()
                flushed = time.monotonic()

    def _send_the_rest(self, values: Values) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(values, self._updates.get_nowait())

    def _end_search(self) -> None:
        for channel in self._sought:
            self._notify(channel, _AWAY)
        self._sought = {}

    def _take(self, values: Values, update: Update) -> None:
        problem = update.problem
        if problem == _AWAY and update.channel in self._sought:
            return  # each begins so
        self._sought.pop(update.channel, None)
        if not problem:
            try:
                if update.units and self._units.get(update.channel) != update.units:
                    values.set_units({update.channel: update.units})
                    self._units[update.channel] = update.units
                values.send({update.channel: update.value}, time_ns=update.time_ns)
                self._send_severity(values, update)
                problem = _IS_INVALID if update.severity >= INVALID else ""
            except FrameError as error:
                problem = f"has a value that cannot be sent: {error}"
        self._notify(update.channel, problem)

    def _send_severity(self, values: Values, update: Update) -> None:
        """As a channel of its own, where it changes: most channels never have an alarm."""
        known = self._severities.setdefault(update.channel, _Severity(update.time_ns))
        if update.severity == known.now:
            known.began_ns = min(known.began_ns, update.time_ns)
            return
        name = update.channel + SEVERITY
        if not known.is_reported and known.began_ns < update.time_ns:
            values.send({name: np.uint8(known.now)}, time_ns=known.began_ns)
        values.send({name: np.uint8(update.severity)}, time_ns=update.time_ns)
        known.now, known.is_reported = update.severity, True

    def _notify(self, channel: str, problem: str) -> None:
        """Once, until it is another one or none."""
        before = self._reported.pop(channel, "")
        if problem:
            self._reported[channel] = problem
        if problem != before:
            say("warning" if problem else "info", f"{channel} {problem or 'sends values'}")


def update_of(channel: str, structure: Any) -> Update:
    """Of a `p4p.Value`, which may be a structure of anybody's making."""
    try:
        return _update_of(channel, structure)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as problem:
        return Update(channel, problem=f"cannot be decoded: {problem}")


def _update_of(channel: str, structure: Any) -> Update:
    name = structure.getID() or "structure"
    value = structure.get("value")
    if name.startswith(_IMAGE):
        problem = "has images: record them with `penstock record --pva`"
        return Update(channel, problem=problem)
    if hasattr(value, "getID") and value.getID() == _ENUMERATION:
        value = value.get("index")
    if isinstance(value, np.ndarray | list) and not len(value):
        return Update(channel, problem="has an empty array")
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        if value.nbytes > VALUE_BYTES_MAX:
            problem = f"has an array of {value.nbytes} bytes; the maximum is {VALUE_BYTES_MAX}"
            return Update(channel, problem=problem)
        value = np.array(value)  # of its own: pvAccess may keep all of the structure for it
    elif not isinstance(value, bool | int | float | str):
        return Update(channel, problem=f"is of the type {name}; {_TAKEN}")
    return Update(
        channel, value, time_ns_of(structure), severity=_severity_of(structure), units=_units_of(structure)
    )


def _severity_of(structure: Any) -> int:
    found = structure.get("alarm.severity")
    return found if isinstance(found, int) and 0 <= found <= _SEVERITY_MAX else 0


def _units_of(structure: Any) -> str:
    """Returns the units of the display; none if a file cannot hold them."""
    found = structure.get("display.units")
    fits = isinstance(found, str) and found.isprintable() and len(found.encode()) <= UNITS_BYTES_MAX
    return found if fits else ""


def time_ns_of(structure: Any) -> int:
    """The channel's own time, since 1970; now where it has none."""
    stamp = structure.get("timeStamp")
    seconds = 0 if stamp is None else int(stamp.get("secondsPastEpoch", 0))
    reported = seconds * 1_000_000_000 + (int(stamp.get("nanoseconds", 0)) if seconds > 0 else 0)
    return reported if 0 < reported <= _NS_MAX else time.time_ns()


def _work(plan: ValuesPlan, stop: Stop) -> list[str]:
    try:
        return Source(plan).run(stop.asked)
    except ClientError as problem:
        raise PenstockError(str(problem)) from problem


if __name__ == "__main__":
    sys.exit(run_program(__doc__, ValuesPlan, _work))
