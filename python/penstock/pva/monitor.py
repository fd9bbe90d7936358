"""A subscription to one channel, through p4p (pvAccess)."""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from typing import Any

from penstock.model.errors import PenstockError

_TYPE = "epics:nt/NTNDArray:1."
_INBOX_FRAMES_MIN = 4
_SEARCH_S = 1.0


class Monitor:
    """Updates in the order in which they came. Use as a context manager; next() is for one thread.

    EPICS's own variables configure the search for servers (EPICS_PVA_ADDR_LIST, …). pvAccess holds
    `queue_frames` updates, and beyond them replaces the newest: what is lost is seen by its uniqueId alone.
    Behind it `inbox_bytes` are taken over: the size of frames bounds what may wait, not their number.
    """

    def __init__(self, channel: str, *, pipeline: bool, queue_frames: int, inbox_bytes: int) -> None:
        # Only here: it starts threads, and its libraries take a while to load.
        self._p4p: Any = importlib.import_module("p4p.client.raw")
        self._channel = channel
        self._lock = threading.Lock()
        self._there = threading.Event()
        self._inbox: deque[Any] = deque()
        self._inbox_bytes, self._inbox_bytes_max = 0, inbox_bytes
        self._searched = time.monotonic()
        self._more = False  # in pvAccess's queue, perhaps
        self._subscription: Any = None
        self.disconnected_since: float | None = time.monotonic()
        self._context = self._p4p.Context("pva", nt=False, useenv=True)
        options = f"queueSize={queue_frames}" + (",pipeline=true" if pipeline else "")
        self._subscription = self._context.monitor(channel, self._move, request=f"record[{options}]")
        self._move()

    def _move(self) -> None:
        """From pvAccess's queue into ours, as far as it has room. On pvAccess's thread and on ours."""
        with self._lock:
            if self._subscription is None:
                return
            while self._has_room():
                update = self._subscription.pop()
                if update is None:
                    self._more = False
                    break
                self._inbox.append(update)
                self._inbox_bytes += _bytes_of(update)
            else:
                self._more = True
        if self._inbox:
            self._there.set()

    def _has_room(self) -> bool:
        return len(self._inbox) < _INBOX_FRAMES_MIN or self._inbox_bytes < self._inbox_bytes_max

    def next(self, timeout_s: float) -> Any | None:
        """The next update, a `p4p.Value`; None where none came in time, or the connection came or went.

        Raises PenstockError if the channel is not an NTNDArray.
        """
        if not self._inbox:
            if self._more:
                self._move()
            self._search()
            self._there.wait(timeout_s)
        with self._lock:
            self._there.clear()
            if not self._inbox:
                return None
            update = self._inbox.popleft()
            self._inbox_bytes -= _bytes_of(update)
        if self._more:
            self._move()
        if isinstance(update, Exception):
            self._note(update)
            return None
        if self.disconnected_since is not None:
            self._check_type(update)
            self.disconnected_since = None
        return update

    def _search(self) -> None:
        """pvAccess itself asks ever less often, down to every half minute: frames would be lost."""
        now = time.monotonic()
        if self.disconnected_since is not None and now - self._searched > _SEARCH_S:
            self._searched = now
            self._context.hurryUp()

    def _note(self, update: Exception) -> None:
        if isinstance(update, self._p4p.Disconnected | self._p4p.Finished):
            if self.disconnected_since is None:
                self.disconnected_since = time.monotonic()
        else:
            raise PenstockError(
                f"the channel {self._channel} cannot be monitored: {update}", "see the log of its server"
            )

    def _check_type(self, update: Any) -> None:
        found = update.getID()
        if not found.startswith(_TYPE):
            raise PenstockError(
                f"the channel {self._channel} has the type {found or 'structure'!r}; {_TYPE}0 is expected",
                "name the channel of an NDPluginPva: its PvName, for example 13SIM1:Pva1:Image",
            )

    def stop(self) -> None:
        """Nothing more comes; what came already can be had with next()."""
        with self._lock:
            subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()
        self._more = False

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._context.close()


def _bytes_of(update: Any) -> int:
    pixels = None if isinstance(update, Exception) else update.get("value")
    return getattr(pixels, "nbytes", 0)
