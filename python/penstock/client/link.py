"""A peer (a recorder, a collector) by one connection after another, and what all who have one do alike."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.client.connection import (
    Connection,
    EndedByPeerError,
    LostError,
    StoppedError,
    parse_address,
)
from penstock.client.errors import ClientError, ConnectionLostError, RefusedError
from penstock.client.wire import Kind, Reply, self_described

WAIT_S = 0.1
FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 1.0  # between attempts to connect
_HELLO_TIMEOUT_S = 10.0


class EndsWithBlock(ABC):
    """For `with`: close() at its end, and abandon() where an exception ends it."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def abandon(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class Link:
    """Says hello on each connection. `peer` is what errors call the other end. One thread at a time.

    Replies go to `on_reply`, but those to hello, and those that end the connection.
    """

    def __init__(
        self, address: str, peer: str, hello: bytes, *, stall_s: float, on_reply: Callable[[Reply], None]
    ) -> None:
        self.where, self._address = address, parse_address(address)
        self._peer, self._hello, self._stall_s, self._on_reply = peer, hello, stall_s, on_reply
        self._connection: Connection | None = None
        self._greeted = False

    def live(self) -> Connection:
        """A LostError where there is none."""
        if self._connection is None:
            raise LostError("no connection")
        return self._connection

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Notifies the peer, if possible."""
        if self._connection is not None:
            with contextlib.suppress(LostError, ClientError):
                self._connection.send_message(Kind.BYE, self_described({"type": "bye"}))
        self.drop()

    def connect(
        self,
        patience_s: float,
        *,
        reset: Callable[[], None],
        start: Callable[[Connection], None] | None = None,
        left: Callable[[], str],
    ) -> None:
        """Tries until there is a connection on which `start` came to its end.

        `reset` forgets, before anything is said, what was known of the connection before. `left` says, for
        the error, what would be lost; nothing where it is empty.
        """
        give_up, pause = time.monotonic() + patience_s, FIRST_PAUSE_S
        while True:
            try:
                reset()
                connection = self._greet(max(give_up - time.monotonic(), WAIT_S))
                if start is not None:
                    start(connection)
                return
            except LostError as problem:
                self.drop()
                if time.monotonic() + pause > give_up:
                    text = f"{self.where}: no connection to a {self._peer} within {patience_s:g} s: {problem}"
                    raise ConnectionLostError(f"{text}; {left()}" if left() else text) from problem
                time.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE_S)
            except BaseException:
                self.drop()
                raise

    def wait_for(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """A LostError where the answer to `what` does not come in time."""
        connection, give_up = self.live(), time.monotonic() + seconds
        while not done():
            late = time.monotonic() > give_up
            connection.wait(WAIT_S)
            if late and not done():
                raise LostError(f"no answer to {what} in {seconds:.0f} s")

    def _greet(self, timeout_s: float) -> Connection:
        self._greeted = False
        connection = Connection(self._address, timeout_s, self._stall_s, self._handle, peer=self._peer)
        self._connection = connection
        connection.send_message(Kind.HELLO, self._hello)
        self.wait_for(lambda: self._greeted, min(timeout_s, _HELLO_TIMEOUT_S), "hello")
        return connection

    def _handle(self, reply: Reply) -> None:
        if reply.kind is Kind.HELLO:
            self._greeted = True
        elif reply.kind is Kind.BYE:
            raise StoppedError(f"the {self._peer} was stopped")
        elif reply.kind is Kind.ERROR and not self._greeted and reply.code in ("no_place", "timed_out"):
            raise LostError(reply.why)  # the next connection may get in
        elif reply.kind is Kind.ERROR and not self._greeted:
            raise RefusedError(f"{self.where}: the {self._peer} rejects the connection: {reply.why}")
        elif reply.kind is Kind.ERROR and reply.sequence == 0:
            raise EndedByPeerError(reply.why)
        else:
            self._on_reply(reply)
