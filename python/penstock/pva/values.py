"""`python -m penstock.pva.values --plan -`: values of EPICS channels to a collector, until SIGINT or SIGTERM.

Takes a plan (penstock.model.pva.ValuesPlan), and tells on standard error which channels come and go.
"""

import argparse
import importlib
import os
import queue
import signal
import sys
import threading
import time
from functools import partial
from typing import Any

import numpy as np

from penstock.client import Values
from penstock.client.errors import ClientError, FrameError
from penstock.model.errors import ExitCode
from penstock.model.pva import ValuesPlan

_WAITING_MAX = 100_000  # updates, between pvAccess's threads and the connection
_LOOK_S = 0.2
_FLUSH_S = 1.0


class Source:
    """Updates of all channels come in on pvAccess's threads; run() is for one thread."""

    def __init__(self, plan: ValuesPlan) -> None:
        # Only here: it starts threads, and its libraries take a while to load.
        self._p4p: Any = importlib.import_module("p4p.client.thread")
        self._plan = plan
        self._updates: queue.Queue[tuple[str, Any]] = queue.Queue(_WAITING_MAX)
        self._unsuitable: set[str] = set()
        self.lost = 0  # updates for which there was no room

    def run(self, stop: threading.Event) -> None:
        """A ClientError where the collector is lost, or has refused batches."""
        context = self._p4p.Context("pva", useenv=True)
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
        finally:
            context.close()

    def _note(self, channel: str, update: Any) -> None:
        try:
            self._updates.put_nowait((channel, update))
        except queue.Full:
            self.lost += 1

    def _send(self, values: Values, stop: threading.Event) -> None:
        """What waits when it is stopped goes out as well."""
        flushed = time.monotonic()
        while True:
            try:
                channel, update = self._updates.get(timeout=_LOOK_S)
                self._take(values, channel, update)
            except queue.Empty:
                if stop.is_set():
                    return
            if time.monotonic() - flushed > _FLUSH_S:
                values.flush()
                flushed = time.monotonic()

    def _take(self, values: Values, channel: str, update: Any) -> None:
        if isinstance(update, Exception):
            gone = isinstance(update, self._p4p.Disconnected)
            _say(f"{channel} is {'not connected' if gone else f'not to be had: {update}'}")
            return
        value, time_ns = value_of(update), time_ns_of(update)
        if value is None:
            if channel not in self._unsuitable:
                self._unsuitable.add(channel)
                _say(
                    f"{channel} is a {type(update).__name__}; numbers, texts and arrays of numbers are taken"
                )
            return
        try:
            values.send({channel: value}, time_ns=time_ns)
        except FrameError as problem:
            _say(f"{channel}: {problem}")


def value_of(update: Any) -> Any:
    """A number (also of an enumeration), a text or an array of numbers; None where it is nothing of these."""
    if isinstance(update, str):
        ntstr: Any = update
        return str(ntstr.raw["value"])  # its own text has the time in front
    if isinstance(update, bool | int | float | np.number | np.bool_):
        return update + 0
    if isinstance(update, np.ndarray) and update.dtype.kind in "biuf":
        return np.asarray(update)
    return None


def time_ns_of(update: Any) -> int:
    """The channel's own time, since 1970; now where it has none."""
    stamp = update.raw.get("timeStamp")
    seconds = 0 if stamp is None else int(stamp["secondsPastEpoch"])
    return seconds * 1_000_000_000 + int(stamp["nanoseconds"]) if seconds > 0 else time.time_ns()


def _say(text: str) -> None:
    print(f"[penstock-pva] [warning] {' '.join(text.split())}", file=sys.stderr, flush=True)


def _watch_parent(pid: int, stop: threading.Event) -> None:
    while os.getppid() == pid and not stop.is_set():
        time.sleep(_LOOK_S)
    stop.set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, choices=["-"], help="from standard input, as JSON")
    parser.add_argument("--for", dest="parent", type=int, default=0, help="ends with this process")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    if options.parent:
        threading.Thread(target=_watch_parent, args=(options.parent, stop), daemon=True).start()
    source = Source(ValuesPlan.model_validate_json(sys.stdin.buffer.read()))
    try:
        source.run(stop)
    except ClientError as problem:
        print(f"[penstock-pva] [critical] {problem}", file=sys.stderr, flush=True)
        return ExitCode.FAILED
    if source.lost:
        _say(f"{source.lost} updates came faster than they could be sent, and are lost")
    return ExitCode.FAILED if source.lost else ExitCode.FINE


if __name__ == "__main__":
    sys.exit(main())
