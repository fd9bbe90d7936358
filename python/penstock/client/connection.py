"""One connection to a recorder or a collector: messages out, replies in. Starts no thread."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Sequence

from penstock.client.errors import ClientError
from penstock.client.wire import HEADER_BYTES, Kind, ProtocolError, Reply, message, parse_header, parse_reply

LOOK_INTERVAL_S = 0.001  # between looks for replies while sending
_SEND_BUFFER_BYTES = 1 << 20
# A peer whose machine is gone is noticed within half a minute.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_RECEIVE_BYTES = 64 << 10
_RECEIVES_AT_ONCE = 16
_HAS_SENDMSG = hasattr(socket.socket, "sendmsg")  # not on Windows
_HAS_POLL = hasattr(select, "poll")


class LostError(Exception):
    """The connection is gone; a new one may be better."""


class EndedByPeerError(LostError):
    """The peer has ended the connection and said why: its storage is full, say."""


class StoppedError(LostError):
    """The peer was stopped on purpose; it will not come back by itself."""


Address = tuple[str, int]


def parse_address(address: str) -> Address:
    """`host:port`, `[::1]:port`, with or without `tcp://`."""
    host, colon, port = address.removeprefix("tcp://").rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ClientError(f"the address {address!r} is not host:port; write for example 'localhost:9900'")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _why_not_connected(problem: OSError) -> str:
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused: check the port, or start a recorder with `penstock record`"
    if isinstance(problem, socket.gaierror):
        return "the host name is unknown: check the address"
    if isinstance(problem, TimeoutError):
        return "the host does not answer: check the address and the firewall"
    return str(problem)


class Connection:
    """Every reply goes to `on_reply`, on the thread that calls, from within send() and wait().

    No message is half sent while the caller is elsewhere: send() returns when all of it is on its way. A
    peer that takes nothing for `stall_s` seconds counts as lost. `peer` is what errors call it.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        stall_s: float,
        on_reply: Callable[[Reply], None],
        *,
        peer: str,
    ) -> None:
        try:
            self._socket = socket.create_connection(address, timeout=timeout_s)
        except OSError as problem:
            raise LostError(_why_not_connected(problem)) from problem
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE.items():
            if hasattr(socket, option):  # not on every system
                self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._socket.setblocking(False)
        self._poll: dict[bool, select.poll] = {}
        if _HAS_POLL:
            for writing in (False, True):
                poll = select.poll()
                poll.register(self._socket, select.POLLIN | (select.POLLOUT if writing else 0))
                self._poll[writing] = poll
        self._on_reply, self._peer = on_reply, peer
        self._stall_s = stall_s
        self._received = bytearray()
        self._looked = time.monotonic()
        self.sequence = 0  # of the next message

    def close(self) -> None:
        self._socket.close()

    def send_message(self, kind: Kind, text: bytes, *, flags: int = 0) -> int:
        """A message without pixels; its sequence number."""
        sequence = self.sequence
        self.send([message(kind, sequence, text, flags=flags)])
        self.look()
        return sequence

    def send(self, pieces: Sequence[bytes | memoryview]) -> None:
        """One message. Has not looked for replies since all of it is on its way."""
        self.sequence += 1
        rest: list[bytes | memoryview] = list(pieces)
        total = sum(map(len, rest))
        stalled = 0.0
        while total > 0:
            try:
                sent = self._socket.sendmsg(rest) if _HAS_SENDMSG else self._socket.send(rest[0])
            except BlockingIOError:
                sent = 0
            except OSError as problem:
                self._last_words()
                raise LostError(str(problem)) from problem
            total -= sent
            if total > 0:
                stalled = 0.0 if sent else stalled or time.monotonic()
                if stalled and time.monotonic() - stalled > self._stall_s:
                    raise LostError(f"the {self._peer} did not receive anything for {self._stall_s:g} s")
                rest = _without(rest, sent)
                self.wait(0.1, writing=True)

    def look(self) -> None:
        """Handles what has come, if the last look is a while ago."""
        if time.monotonic() - self._looked > LOOK_INTERVAL_S:
            self.receive()

    def wait(self, seconds: float, *, writing: bool = False) -> None:
        """Waits until data arrives, at most this long; with `writing` also until data can be sent."""
        if self._poll:
            ready = self._poll[writing].poll(max(0.0, seconds) * 1000)
            readable = any(event & ~select.POLLOUT for _, event in ready)
        else:
            writers = [self._socket] if writing else []
            readable = bool(select.select([self._socket], writers, [], max(0.0, seconds))[0])
        if readable:
            self.receive()

    def receive(self) -> None:
        """Handles what has come, without waiting."""
        self._looked = time.monotonic()
        # Whoever sends without end is not listened to without end.
        for _ in range(_RECEIVES_AT_ONCE):
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as problem:
                raise LostError(str(problem)) from problem
            if not data:
                raise LostError(f"the {self._peer} closed the connection")
            self._received += data
            try:
                self._handle_received()
            except ProtocolError as problem:
                raise ClientError(
                    f"this is not a {self._peer} of Penstock, or it has another version: {problem}"
                ) from problem
            if len(data) < _RECEIVE_BYTES:
                return

    def _handle_received(self) -> None:
        while len(self._received) >= HEADER_BYTES:
            kind, size, crc = parse_header(self._received)
            if len(self._received) < HEADER_BYTES + size:
                return
            text = bytes(self._received[HEADER_BYTES : HEADER_BYTES + size])
            del self._received[: HEADER_BYTES + size]
            self._on_reply(parse_reply(kind, text, crc))

    def _last_words(self) -> None:
        """They may say why."""
        with contextlib.suppress(LostError):
            self.receive()


def _without(pieces: list[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """Returns what remains after this many bytes."""
    for place, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[place + 1 :]]
        sent -= len(piece)
    return []
