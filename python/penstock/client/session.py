"""A series as the recorder sees it: a connection, another one when that is lost, what is not acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.connection import Connection, EndedByPeerError, LostError, StoppedError
from penstock.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectionLostError,
    RefusedError,
    SeriesProblemError,
)
from penstock.client.link import FIRST_PAUSE_S, LAST_PAUSE_S, WAIT_S, Link
from penstock.client.window import Kept, Window
from penstock.client.wire import RESUME, Kind, Reply, header

# Connections lost one after another without a word on the series: the recorder will not have it.
_FRUITLESS_MAX = 5
_REFUSALS_KEPT = 1000
_REFUSAL_TEXT_MAX = 1000
# Why the recorder closed a series that is not over, by its word for that.
_ENDED_BY = {"stop": "the recorder was stopped", "command": "the recorder ended it on request"}
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
        self.where = address
        self._link = Link(address, "recorder", opening.hello, stall_s=patience.answer, on_reply=self._handle)
        self._opening, self._patience = opening, patience
        self.window = window
        self.safe_below = self.acknowledged = self.resent = self.reconnects = self.refused_count = 0
        self.refused: list[Refusal] = []
        self.state = ""  # what keeps the recorder from taking frames, in its own words
        self._stopped = False
        self.over = False
        self._ending = False
        self._closed: Reply | None = None
        self._answered = False
        self._closed_at_start = False  # the answer to the start, with the flag to resume
        self._resumes = False  # the start of this connection has the flag to resume
        self._start_sequence = self._end_sequence = -1
        self._sent_below = 0  # one past the highest number of which anything was sent
        # Sequence, number, and whether it was sent as damaged, by the sequence modulo _RECENT.
        self._recent: dict[int, tuple[int, int, bool]] = {}
        self._fruitless = 0
        self._flags = RESUME if resume else 0
        self._pause = 0.0
        self._acknowledged_before = -1
        try:
            self._connect(patience.connect)
        except BaseException:
            self.abandon()
            raise

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
            self._persist(lambda: self._link.live().receive())

    def wait_acknowledged(self, timeout: float | None) -> None:
        if not self.over:
            self._wait_for(lambda: not len(self.window), timeout, "not all frames are acknowledged")

    def close(self) -> None:
        """Sends the end and waits for the recorder's last word on the series."""
        self._ending = True
        try:
            self._wait_for(lambda: self._closed is not None, self._patience.close, "the series is not closed")
            self._link.close()
        finally:
            self.abandon()
        if not self._is_whole():
            raise self._problem()

    def abandon(self) -> None:
        self.over = True
        self._link.drop()

    def _is_whole(self) -> bool:
        """All that was sent is in the file, and nothing went wrong."""
        return self._closed is not None and not self._closed.text and not len(self.window)

    def _problem(self) -> SeriesProblemError:
        closed = self._closed if self._closed is not None else Reply(Kind.CLOSED)
        if self._closed_at_start and self._sent_below == 0:
            text = closed.text or _ENDED_BY.get(closed.ended_by, "nothing more can be added to its file")
            return SeriesProblemError(
                f"{self.where}: the series {self._opening.name!r} had been closed already; {text}"
            )
        why = closed.text or _ENDED_BY.get(closed.ended_by, "it was ended early")
        left = f"; {self.acknowledged} frames were acknowledged"
        left += f", {len(self.window)} were not" if len(self.window) else ""
        return SeriesProblemError(
            f"{self.where}: the recorder closed the series {self._opening.name!r}: {why}{left}"
        )

    # Connecting.

    def _connect(self, patience_s: float) -> None:
        self._link.connect(patience_s, reset=self._rewind, start=self._start, left=self._left)

    def _left(self) -> str:
        kept = len(self.window)
        return f"{kept} frames are not acknowledged{self._said()}" if kept else ""

    def _said(self) -> str:
        return f"; the last state of the recorder:  {self.state}" if self.state else ""

    def _rewind(self) -> None:
        self._answered = False
        self._start_sequence = self._end_sequence = -1
        self.window.rewind()
        self._recent.clear()

    def _start(self, connection: Connection) -> None:
        self._start_sequence = connection.sequence
        # Set first: the connection may be lost while the start goes out, and its answer with it.
        flags, self._flags = self._flags, RESUME
        self._resumes = flags == RESUME
        connection.send_message(Kind.START, self._opening.start, flags=flags)
        try:
            self._link.wait_for(lambda: self._answered, self._patience.answer, "start")
        except LostError as problem:
            self._fruitless += 1
            if self._fruitless > _FRUITLESS_MAX:
                raise ClientError(
                    f"{self.where}: lost {self._fruitless} connections in a row without an answer to the "
                    f"start of series {self._opening.name!r}, the last one because: {problem}; see the"
                    f" recorder's log"
                ) from problem
            raise

    def _persist(self, step: Callable[[], None]) -> None:
        """Runs `step` until it succeeds, with a new connection each time one is lost."""
        while not self._attempt(step):
            self._reconnect()

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Runs `step` once. Returns False if the connection was lost and a new one may succeed."""
        try:
            step()
            return True
        except LostError as problem:
            self._drop()
            self._note_end(problem)
        except BaseException:
            # A message may be cut short; the next call begins with a new connection.
            self._drop()
            raise
        if self._closed is not None:
            if self._ending or self._is_whole():
                return True
            raise self._problem()
        if self._stopped:
            raise ConnectionLostError(
                f"{self.where}: the recorder was stopped, and has not closed the series "
                f"{self._opening.name!r}; {len(self.window)} frames are not acknowledged"
            )
        return False

    def _drop(self) -> None:
        self._link.drop()
        self.window.rewind()
        self._let_go_safe()

    def _note_end(self, problem: LostError) -> None:
        """Of a connection."""
        if isinstance(problem, EndedByPeerError):
            self.state = str(problem)
        self._stopped = self._stopped or isinstance(problem, StoppedError)

    def _reconnect(self) -> None:
        # Connections that bring nothing follow each other slowly.
        if self.acknowledged > self._acknowledged_before:
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, FIRST_PAUSE_S), LAST_PAUSE_S)
            time.sleep(self._pause)
        self._acknowledged_before = self.acknowledged
        self._connect(self._patience.reconnect)
        self.reconnects += 1

    # Sending.

    def _send_rest(self) -> None:
        connection = self._link.live()
        while self._closed is None and (frame := self.window.next_unsent()):
            self._send_frame(connection, frame)
        if self._ending and self._end_sequence < 0 and self._closed is None:
            self._end_sequence = connection.sequence
            connection.send_message(Kind.END, self._opening.end)

    def _send_frame(self, connection: Connection, frame: Kept) -> None:
        frame.sequence = connection.sequence
        self._sent_below = max(self._sent_below, frame.number + 1)
        self._recent[frame.sequence % _RECENT] = (frame.sequence, frame.number, frame.damaged)
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
        self._let_go_safe()  # its acknowledgement may have come while it was being sent
        connection.look()

    def _wait_for(self, done: Callable[[], bool], timeout: float | None, what: str) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout

        def step() -> None:
            self._send_rest()
            if not done():
                self._link.live().wait(WAIT_S if give_up is None else min(WAIT_S, give_up - time.monotonic()))

        while True:
            # A thread that had no processor until then looks once more.
            late = give_up is not None and time.monotonic() > give_up
            is_connected = self._attempt(step)
            if done():
                return
            if not is_connected:
                self._reconnect()
                continue
            if not self._ending:
                self.check_open()
            if late:
                raise ClientTimeoutError(
                    f"{self.where}: series {self._opening.name!r}: {what} after {timeout:g} s; "
                    f"{len(self.window)} frames of {self.window.pixels_bytes} bytes are not acknowledged"
                    f"{self._said()}"
                )

    # What the recorder says.

    def _handle(self, reply: Reply) -> None:
        if reply.kind is Kind.ERROR:
            self._handle_error(reply)
        elif reply.kind in (Kind.ACK, Kind.CLOSED) and reply.series == self._opening.name:
            safe_below = self._safe_below_of(reply)
            if safe_below > self._sent_below:
                raise ClientError(
                    f"{self.where}: the recorder acknowledged frames below {safe_below} of series"
                    f' "{self._opening.name}", but only frames below {self._sent_below} were sent: its'
                    f" acknowledgements are not reliable"
                )
            if reply.kind is Kind.CLOSED:
                self._closed_at_start = not self._answered
            self._answered = True
            self._fruitless = 0
            self.safe_below = max(self.safe_below, safe_below)
            if self._let_go_safe() or reply.kind is Kind.CLOSED:
                self.state = ""
            if reply.kind is Kind.CLOSED:
                self._closed = reply

    def _safe_below_of(self, reply: Reply) -> int:
        """Below which frame this client's are safe.

        The recorder closes a series that is resumed with what all clients sent.
        """
        is_of_all = reply.kind is Kind.CLOSED and self._resumes
        return min(reply.safe_below, self._sent_below) if is_of_all else reply.safe_below

    def _let_go_safe(self) -> int:
        """Lets go the frames that are known to be safe; how many these were."""
        acknowledged = self.window.acknowledge(self.safe_below)
        self.acknowledged += acknowledged
        return acknowledged

    def _handle_error(self, reply: Reply) -> None:
        if self._closed is not None:
            return  # what is not acknowledged now is lost, and counted
        why, name = reply.why, self._opening.name
        if reply.sequence == self._start_sequence:
            # Its text starts with the name, too.
            why = why.removeprefix(f'series "{name}": ')
            raise RefusedError(f"{self.where}: the recorder rejects the series {name!r}: {why}")
        if reply.sequence == self._end_sequence:
            raise SeriesProblemError(f"{self.where}: the recorder cannot end the series {name!r}: {why}")
        frame = self.window.refuse(reply.sequence)
        # One error for each channel may come: the first one takes it out here.
        recent = self._recent.get(reply.sequence % _RECENT, (-1, -1, False))
        if recent[0] == reply.sequence:
            del self._recent[reply.sequence % _RECENT]
            if recent[2]:
                return  # it was meant to be
        if frame is None:
            # An acknowledgement that covers it may come first. What was refused is not in the file.
            if recent[0] != reply.sequence and reply.sequence + _RECENT > self._link.live().sequence:
                return
            self.acknowledged -= 1
        number = frame.number if frame is not None else recent[1] if recent[0] == reply.sequence else -1
        self.refused_count += 1
        if len(self.refused) < _REFUSALS_KEPT:
            self.refused.append(Refusal(number, reply.code, reply.text[:_REFUSAL_TEXT_MAX]))
