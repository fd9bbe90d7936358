"""The pvAccess source: from the channel to the recorder, until it is stopped by SIGTERM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.model.events import Event, FrameProblem, PvaChannel
from penstock.model.pva import PvaPlan
from penstock.pva.errors import BadFrameError
from penstock.pva.frames import is_empty, read_frame, unique_id_of
from penstock.pva.monitor import Monitor
from penstock.pva.numbers import FrameNumbers
from penstock.pva.series import SeriesSender

_LOOK_S = 0.1
_PROGRESS_S = 1.0
# Of the memory for frames, before they are sent.
_INBOX_SHARE = 4


def run_source(
    plan: PvaPlan, report: Callable[[Event], None], stop: threading.Event, stop_at_once: threading.Event
) -> list[str]:
    """Blocks until `stop` is set, or all series that were wanted have ended; what went wrong, in words.

    What had come by then is sent, unless `stop_at_once` is set too. Raises a PenstockError.
    """
    lock = threading.Lock()

    def notify(event: Event) -> None:
        with lock:
            report(event)

    sender = SeriesSender(plan, notify, stop_at_once.is_set)
    try:
        with Monitor(
            plan.channel,
            pipeline=plan.pipeline,
            queue_frames=plan.queue_frames,
            inbox_bytes=plan.buffer_bytes // _INBOX_SHARE,
        ) as monitor:
            _Loop(plan, sender, monitor, notify).run(stop, stop_at_once)
        if not sender.finish("the source was stopped"):
            sender.failures.append("it was stopped before all files were closed")
    finally:
        sender.abandon()
    return sender.failures


class _Loop:
    def __init__(
        self, plan: PvaPlan, sender: SeriesSender, monitor: Monitor, notify: Callable[[Event], None]
    ) -> None:
        self._plan, self._sender, self._monitor, self._notify = plan, sender, monitor, notify
        self._numbers = FrameNumbers(self._warn)
        self._connected = False
        self._is_first = False  # the next update is what the channel had when it was connected
        self._ticked = self._progressed = time.monotonic()

    def run(self, stop: threading.Event, stop_at_once: threading.Event) -> None:
        while not stop.is_set() and not self._sender.is_done:
            self._step(_LOOK_S)
        self._monitor.stop()
        while not stop_at_once.is_set() and not self._sender.is_done and self._step(0.0):
            pass

    def _step(self, timeout_s: float) -> bool:
        update = self._monitor.next(timeout_s)
        self._tell_connection()
        if update is not None:
            self._take(update)
        now = time.monotonic()
        if now - self._ticked >= _LOOK_S:
            self._ticked = now
            since = self._monitor.disconnected_since
            self._sender.tick(None if since is None else now - since)
        if now - self._progressed >= _PROGRESS_S:
            self._progressed = now
            self._sender.progress()
        return update is not None

    def _tell_connection(self) -> None:
        connected = self._monitor.disconnected_since is None
        if connected != self._connected:
            self._connected = self._is_first = connected
            state: Any = "connected" if connected else "disconnected"
            self._notify(PvaChannel(event="channel", channel=self._plan.channel, state=state))

    def _take(self, update: Any) -> None:
        is_first, self._is_first = self._is_first, False
        try:
            if is_first and self._plan.initial == "skip" and not self._goes_on(update):
                return
            if is_empty(update) and not unique_id_of(update):
                return
            frame = read_frame(update, self._plan.frame_bytes_max, self._numbers.next(update))
        except BadFrameError as problem:
            self._sender.problem(problem.unique_id, str(problem))
            return
        self._sender.take(frame, at_connection=is_first)

    def _goes_on(self, update: Any) -> bool:
        """What came while nobody was connected belongs to the open series; all else is old."""
        unique_id = unique_id_of(update)
        return unique_id is not None and self._sender.is_open and self._sender.goes_on(unique_id)

    def _warn(self, text: str) -> None:
        self._notify(FrameProblem(event="frame_problem", unique_id=None, message=text))
