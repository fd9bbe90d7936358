"""A sender that remembers what it was told.

It speaks docs/reference/tcp.md with none of Penstock's code, one connection to each rank, and deals frame
after frame to them in turn. The frames are made from a seed, so that whoever knows it can tell a right one
from a false one. What was acknowledged is kept here, in a process that outlives the recorder.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cbor2
import numpy
from detector_stream import multi_dimensional, start_message
from plain_client import ACK, CLOSED, END, ERROR, HELLO, IMAGE, RESUME, START, crc32c, image_fields

WAIT_S = 60


_CRC_OF_BYTE = [crc32c(bytes([byte])) ^ crc32c(b"\0") for byte in range(256)]


def fast_crc32c(data: bytes) -> int:
    """A byte at a time, so that thousands of messages a second can be made."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_OF_BYTE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def message(
    kind: int, sequence: int, fields: dict[str, Any], pixels: bytes, flags: int = 0
) -> tuple[bytes, bytes]:
    """As docs/reference/tcp.md has it, the pixels apart."""
    part = cbor2.dumps(cbor2.CBORTag(55799, fields))
    sizes = (len(part), len(pixels), sequence, fast_crc32c(part), 0)
    head = struct.pack("<4sHHIIQQII20x", b"PNST", 1, kind, flags, *sizes)
    return head + struct.pack("<I", fast_crc32c(head)) + part, pixels


class Frames:
    """Frames of one series; the number stands in the first pixels of each."""

    def __init__(self, seed: int, shape: tuple[int, int] = (64, 96)) -> None:
        self.shape = shape
        dice = numpy.random.default_rng(seed)
        self._images = dice.poisson(0.7, (8, *shape)).astype("<u2")
        self.mask = dice.integers(0, 2, shape, dtype="uint32")

    def __getitem__(self, number: int) -> numpy.ndarray:
        image: numpy.ndarray = self._images[number % len(self._images)].copy()
        image[0, :4] = numpy.array([number], "<u8").view("<u2")
        image[1] += number % 251
        return image


def values_of(number: int) -> dict[str, object]:
    """What a frame brings along: a motor's position, and the duration of its exposure."""
    return {"user_data": {"motor": number * 0.5}, "real_time": [number + 1, 1_000_000_000]}


def start_fields(name: str, frames: Frames, count: int) -> dict[str, object]:
    """A start message from which a whole NeXus file can be made."""
    fields = {**start_message("uint16", count), "series_unique_id": name, "channels": ["a"]}
    fields["pixel_mask"] = {"a": multi_dimensional(frames.mask)}
    return {**fields, "image_size_y": frames.shape[0], "image_size_x": frames.shape[1]}


class Link:
    """One connection that has said hello, with a thread that reads the recorder's words as they come."""

    def __init__(self, port: int, told: Callable[[], None]) -> None:
        self._told = told
        self._lock = threading.Lock()  # of what follows
        self.sent: list[int] = []
        self.safe_below = 0
        self.errors: dict[int, dict[str, Any]] = {}  # by sequence number
        self.numbers: dict[int, int] = {}  # frame number by sequence number
        self.started = threading.Event()
        self.closed: dict[str, Any] | None = None
        self.over = threading.Event()
        self._sequence = 0
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        with contextlib.suppress(OSError):  # at once: the recorder does not wait long for it
            self.send(HELLO, {"type": "hello", "name": "torture"})

    def send(
        self,
        kind: int,
        fields: dict[str, Any],
        pixels: bytes = b"",
        number: int | None = None,
        flags: int = 0,
    ) -> None:
        """An OSError when the recorder is gone."""
        with self._lock:
            sequence = self._sequence
            self._sequence += 1
            if number is not None:
                self.numbers[sequence] = number
                self.sent.append(number)
        for piece in message(kind, sequence, fields, pixels, flags):
            self.connection.sendall(piece)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.connection.recv(size - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                head = self._exactly(64)
                kind, size = struct.unpack_from("<6xHxxxxI", head)
                part = cbor2.loads(self._exactly(size))
                self._take(kind, part.value if isinstance(part, cbor2.CBORTag) else part)
                self._told()
        self.over.set()
        self._told()

    def _take(self, kind: int, fields: dict[str, Any]) -> None:
        with self._lock:
            if kind == ACK:
                self.safe_below = max(self.safe_below, fields["safe_below"])
                self.started.set()
            elif kind == ERROR:
                self.errors[fields["sequence"]] = fields
            elif kind == CLOSED:
                self.closed = fields
                self.safe_below = max(self.safe_below, fields["safe_below"])

    def refused(self) -> set[int]:
        with self._lock:
            return {self.numbers[sequence] for sequence in self.errors if sequence in self.numbers}

    def acknowledged(self) -> set[int]:
        """The frames of which this connection was told that they are safe."""
        refused = self.refused()
        with self._lock:
            return {number for number in self.sent if number < self.safe_below and number not in refused}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._reader.join(WAIT_S)
        self.connection.close()


class Sender:
    """A series dealt to one link for each port."""

    def __init__(self, ports: list[int], name: str, frames: Frames, count: int) -> None:
        self.name, self.frames, self.count = name, frames, count
        self._changed = threading.Condition()
        self.watch: Callable[[], None] = lambda: None  # called by a link's thread after each word
        self.links: list[Link] = []
        for port in ports:
            self.links.append(Link(port, self._wake))
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    def _wake(self) -> None:
        self.watch()
        with self._changed:
            self._changed.notify_all()

    def until(self, true: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
        """An AssertionError when it does not come true in time."""
        with self._changed:
            assert self._changed.wait_for(true, wait_s), f"{what}: not within {wait_s} s"

    def begin(self, flags: int = 0) -> None:
        """Sends the start; does not wait for the answer."""
        for link in self.links:
            self._begin(link, flags)

    def begin_together(self) -> None:
        """All links take part in one series, whether the recorder knows it or not."""
        for link in self.links:
            self._begin(link, RESUME)
            self.until(link.started.is_set, "the start is acknowledged")

    def _begin(self, link: Link, flags: int) -> None:
        start = start_fields(self.name, self.frames, self.count)
        with contextlib.suppress(OSError):
            link.send(START, start, flags=flags)

    def wait_started(self) -> None:
        self.until(lambda: all(link.started.is_set() for link in self.links), "the start is acknowledged")

    def deal(self, first: int, end: int, pause_s: float = 0.0) -> None:
        """Sends [first, end) in threads of their own, one a link; join() waits for them."""
        for position, link in enumerate(self.links):
            numbers = range(first + (position - first) % len(self.links), end, len(self.links))
            self.deal_to(link, numbers, pause_s)

    def deal_to(self, link: Link, numbers: Sequence[int], pause_s: float = 0.0) -> None:
        """Sends these by one link, in a thread of its own."""
        thread = threading.Thread(target=self._send, args=(link, numbers, pause_s), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _send(self, link: Link, numbers: Sequence[int], pause_s: float) -> None:
        with contextlib.suppress(OSError):
            for number in numbers:
                if self._stopped.is_set():
                    return
                self.put(link, number)
                if pause_s:
                    time.sleep(pause_s)

    def put(self, link: Link, number: int) -> None:
        pixels = self.frames[number].tobytes()
        fields = image_fields(1, self.name, number, list(self.frames.shape), len(pixels))
        link.send(IMAGE, {**fields, **values_of(number)}, pixels, number)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a sender hangs"
        self._threads.clear()

    def end(self) -> None:
        for link in self.links:
            with contextlib.suppress(OSError):
                link.send(END, {"type": "end", "series_id": 1, "series_unique_id": self.name})

    def is_closed(self) -> bool:
        return all(link.closed is not None for link in self.links)

    def is_over(self) -> bool:
        """Each link has the last word on the series, or was cut off."""
        return all(link.closed is not None or link.over.is_set() for link in self.links)

    @property
    def started(self) -> bool:
        """The file is there: the start that opens the series is answered after that, others maybe before."""
        return all(link.started.is_set() for link in self.links)

    @property
    def sent(self) -> int:
        return sum(len(link.sent) for link in self.links)

    def safe_frames(self) -> int:
        """At least so many frames are acknowledged; cheap enough to ask after each word."""
        return sum(max(link.safe_below - 1, 0) // len(self.links) for link in self.links)

    def acknowledged(self) -> set[int]:
        return set().union(*(link.acknowledged() for link in self.links))

    def refused(self) -> set[int]:
        return set().union(*(link.refused() for link in self.links))

    def close(self) -> None:
        self._stopped.set()
        for link in self.links:
            link.close()
        self.join()


@contextlib.contextmanager
def sending(ports: list[int], name: str, frames: Frames, count: int) -> Iterator[Sender]:
    sender = Sender(ports, name, frames, count)
    try:
        yield sender
    finally:
        sender.close()
