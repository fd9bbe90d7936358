"""A series as the recorder sees it: a connection, another one when that is lost, what is not acknowledged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.connection import Connection, LostError, parse_address
from penstock.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    RefusedError,
    SeriesProblemError,
)
from penstock.client.window import Kept, Window
from penstock.client.wire import RESUME, Kind, Reply, header, self_described

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0  # between attempts to connect
_HELLO_TIMEOUT_S = 10.0
_WAIT_S = 0.1
# Connections lost one after another without a word on the series: the recorder will not have it.
_FRUITLESS_MAX = 5
_REFUSALS_KEPT = 1000
_REFUSAL_TEXT_MAX = 1000
_RECENT = 4096  # frames whose numbers are known by their messages, whether acknowledged or not


@dataclass(frozen=True)
class Refusal:
    """A frame that the recorder would not have: it is not in the file.

    `number` is -1 where the answer came thousands of frames later, after an acknowledgement that covers it.
    """

    number: int
    code: str
    text: str


@dataclass(frozen=True)
class Opening:
    """What each connection begins with, encoded."""

    name: str
    hello: bytes
    start: bytes
    end: bytes


@dataclass(frozen=True)
class Patience:
    """Seconds."""

    connect: float
    reconnect: float
    answer: float  # to the start, and for something to be taken
    close: float


class Session:
    """Sends what the window has. One thread at a time; starts none."""

    def __init__(
        self, address: str, opening: Opening, window: Window, patience: Patience, *, resume: bool
    ) -> None:
        self.where, self._address = address, parse_address(address)
        self._opening, self._patience = opening, patience
        self.window = window
        self.safe_below = self.acknowledged = self.resent = self.reconnects = self.refused_count = 0
        self.refused: list[Refusal] = []
        self.over = False
        self._ending = False
        self._closed: Reply | None = None
        self._connection: Connection | None = None
        self._greeted = self._answered = False
        self._start_sequence = self._end_sequence = -1
        self._recent: dict[int, tuple[int, int]] = {}  # sequence and number, by the sequence modulo _RECENT
        self._fruitless = 0
        self._flags = RESUME if resume else 0
        self._pause = 0.0
        self._acknowledged_before = -1
        try:
            self._connect(patience.connect)
        except BaseException:
            self.abandon()
            raise
        self._flags = RESUME

    def check_open(self) -> None:
        """The recorder still wants frames."""
        if self._closed is not None and not self._ending:
            raise self._problem()
        if self.over or self._ending:
            raise ClientError(f"the series {self._opening.name!r} is over")

    def make_room(self, size: int, timeout: float | None, what: str) -> None:
        if self.window.is_full(size):
            self._wait_for(lambda: not self.window.is_full(size), timeout, what)

    def flush(self) -> None:
        """Sends what the window has that is not sent."""
        self._persist(self._send_rest)

    def poll(self) -> None:
        if not self.over:
            self._persist(lambda: self._live().receive())

    def wait_acknowledged(self, timeout: float | None) -> None:
        if not self.over:
            self._wait_for(lambda: not len(self.window), timeout, "not all frames are acknowledged")

    def close(self) -> None:
        """Sends the end and waits for the recorder's last word on the series."""
        self._ending = True
        try:
            self._wait_for(lambda: self._closed is not None, self._patience.close, "the series is not closed")
            self._say_bye()
        finally:
            self.abandon()
        if self._closed is not None and (self._closed.text or len(self.window)):
            raise self._problem()

    def abandon(self) -> None:
        self.over = True
        self._drop_connection()

    def _problem(self) -> SeriesProblemError:
        why = self._closed.text if self._closed is not None and self._closed.text else "complete"
        left = f"; {len(self.window)} frames were not acknowledged" if len(self.window) else ""
        return SeriesProblemError(
            f"{self.where}: the recorder closed the series {self._opening.name!r}: {why}{left}"
        )

    # Connecting.

    def _live(self) -> Connection:
        if self._connection is None:
            raise LostError("no connection")
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _say_bye(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(LostError, ClientError):
                self._connection.send_message(Kind.BYE, self_described({"type": "bye"}))

    def _connect(self, patience_s: float) -> None:
        give_up = time.monotonic() + patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                self._connect_once(max(give_up - time.monotonic(), _WAIT_S))
                return
            except LostError as problem:
                self._drop_connection()
                if time.monotonic() + pause > give_up:
                    kept = len(self.window)
                    raise ConnectionLostError(
                        f"{self.where}: no recorder answered for {patience_s:g} s: {problem}"
                        + (f"; {kept} frames are not acknowledged" if kept else "")
                    ) from problem
                time.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_S)
            except BaseException:
                self._drop_connection()
                raise

    def _connect_once(self, timeout_s: float) -> None:
        self._greeted = self._answered = False
        self._start_sequence = self._end_sequence = -1
        self.window.rewind()
        self._recent.clear()
        connection = Connection(self._address, timeout_s, self._patience.answer, self._handle)
        self._connection = connection
        connection.send_message(Kind.HELLO, self._opening.hello)
        self._await(connection, lambda: self._greeted, min(timeout_s, _HELLO_TIMEOUT_S), "hello")
        self._start_sequence = connection.sequence
        connection.send_message(Kind.START, self._opening.start, flags=self._flags)
        try:
            self._await(connection, lambda: self._answered, self._patience.answer, "start")
        except LostError as problem:
            self._fruitless += 1
            if self._fruitless > _FRUITLESS_MAX:
                raise ClientError(
                    f"{self.where}: lost {self._fruitless} connections in a row without an answer to the "
                    f"start of series {self._opening.name!r}, the last one so: {problem}; the recorder's "
                    "log may tell why"
                ) from problem
            raise

    def _await(self, connection: Connection, done: Callable[[], bool], seconds: float, what: str) -> None:
        give_up = time.monotonic() + seconds
        while not done():
            if time.monotonic() > give_up:
                raise LostError(f"no answer to {what} in {seconds:.0f} s")
            connection.wait(_WAIT_S)

    def _persist(self, step: Callable[[], None]) -> None:
        """Runs `step` until it succeeds, with a new connection each time one is lost."""
        while True:
            try:
                return step()
            except LostError:
                self._drop_connection()
            except BaseException:
                # A message may be cut short; the next call begins with a new connection.
                self._drop_connection()
                raise
            if self._closed is not None:
                if self._ending:
                    return None
                raise self._problem()
            self._reconnect()

    def _reconnect(self) -> None:
        # Connections that bring nothing follow each other slowly.
        if self.acknowledged > self._acknowledged_before:
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE_S), _LAST_PAUSE_S)
            time.sleep(self._pause)
        self._acknowledged_before = self.acknowledged
        self._connect(self._patience.reconnect)
        self.reconnects += 1

    # Sending.

    def _send_rest(self) -> None:
        connection = self._live()
        while frame := self.window.next_unsent():
            self._send_frame(connection, frame)
        if self._ending and self._end_sequence < 0 and self._closed is None:
            self._end_sequence = connection.sequence
            connection.send_message(Kind.END, self._opening.end)

    def _send_frame(self, connection: Connection, frame: Kept) -> None:
        frame.sequence = connection.sequence
        self._recent[frame.sequence % _RECENT] = (frame.sequence, frame.number)
        head = header(
            Kind.IMAGE,
            frame.sequence,
            len(frame.message),
            frame.message_crc,
            pixels_bytes=frame.pixels_bytes,
        )
        connection.send([head + frame.message, *frame.pixels])
        self.window.mark_sent(frame)
        if frame.sent_before:
            self.resent += 1

    def _wait_for(self, done: Callable[[], bool], timeout: float | None, what: str) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout

        def step() -> None:
            self._send_rest()
            if not done():
                self._live().wait(_WAIT_S if give_up is None else min(_WAIT_S, give_up - time.monotonic()))

        while True:
            self._persist(step)
            if done():
                return
            if not self._ending:
                self.check_open()
            if give_up is not None and time.monotonic() > give_up:
                raise ClientTimeoutError(
                    f"{self.where}: series {self._opening.name!r}: {what} after {timeout:g} s; "
                    f"{len(self.window)} frames of {self.window.pixels_bytes} bytes are not acknowledged"
                )

    # What the recorder says.

    def _handle(self, reply: Reply) -> None:
        if reply.kind is Kind.HELLO:
            self._greeted = True
        elif reply.kind is Kind.BYE:
            raise LostError("the recorder stops")
        elif reply.kind is Kind.ERROR:
            self._handle_error(reply)
        elif reply.kind in (Kind.ACK, Kind.CLOSED) and reply.series == self._opening.name:
            self._answered = True
            self._fruitless = 0
            self.safe_below = max(self.safe_below, reply.safe_below)
            self.acknowledged += self.window.acknowledge(reply.safe_below)
            if reply.kind is Kind.CLOSED:
                self._closed = reply

    def _handle_error(self, reply: Reply) -> None:
        why = f"{reply.text} ({reply.code})"
        name = self._opening.name
        if not self._greeted:
            raise RefusedError(f"{self.where}: the recorder refuses the connection: {why}")
        if reply.sequence == 0:
            raise LostError(f"the recorder ends the connection: {why}")
        if reply.sequence == self._start_sequence:
            raise RefusedError(f"{self.where}: the recorder refuses the series {name!r}: {why}")
        if reply.sequence == self._end_sequence:
            raise SeriesProblemError(f"{self.where}: the recorder cannot end the series {name!r}: {why}")
        frame = self.window.refuse(reply.sequence)
        # One error for each channel may come: the first one takes it out here.
        recent = self._recent.get(reply.sequence % _RECENT, (-1, -1))
        if recent[0] == reply.sequence:
            del self._recent[reply.sequence % _RECENT]
        if frame is None:
            # An acknowledgement that covers it may come first. What was refused is not in the file.
            if recent[0] != reply.sequence and reply.sequence + _RECENT > self._live().sequence:
                return
            self.acknowledged -= 1
        number = frame.number if frame is not None else recent[1] if recent[0] == reply.sequence else -1
        self.refused_count += 1
        if len(self.refused) < _REFUSALS_KEPT:
            self.refused.append(Refusal(number, reply.code, reply.text[:_REFUSAL_TEXT_MAX]))
