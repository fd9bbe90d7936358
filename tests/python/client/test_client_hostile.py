"""`penstock.client` beside made-up recorders: what real ones never or seldom say."""

import contextlib
import ctypes
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cbor2
import pytest
from plain_client import ACK, BYE, CLOSED, ERROR, HELLO, IMAGE, START, crc32c, message
from test_client import images_of, small

from penstock.client import ClientError, FramesRefusedError, RefusedError
from penstock.client.connection import Connection


@contextmanager
def made_up_recorder(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Takes connections one after another until the end, and lets `answer` have them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(30)
                    try:
                        answer(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def read_until_images(connection: socket.socket, count: int) -> None:
    """Reads messages until this many of them were images."""
    with connection.makefile("rb") as stream:
        while count > 0:
            kind, _, text_bytes, pixel_bytes = struct.unpack_from("<HIIQ", stream.read(64), 6)
            stream.read(text_bytes + pixel_bytes)
            count -= kind == IMAGE


def altered(place: int, value: bytes) -> bytes:
    """A hello whose header has other bytes at one place, and the right checksum."""
    whole = bytearray(message(HELLO, 0, {"type": "hello", "name": "x"}))
    whole[place : place + len(value)] = value
    whole[60:64] = struct.pack("<I", crc32c(bytes(whole[:60])))
    return bytes(whole)


def raw(kind: int, text: bytes) -> bytes:
    """A message whose CBOR part is any bytes."""
    head = struct.pack("<4sHHIIQQII20x", b"PNST", 1, kind, 0, len(text), 0, 0, crc32c(text), 0)
    return head + struct.pack("<I", crc32c(head)) + text


def test_client_that_others_crowd_out_connects_again() -> None:
    answers = iter(
        [
            message(ERROR, 0, {"type": "error", "code": "no_place", "message": "64 connections are open"}),
            message(ERROR, 0, {"type": "error", "code": "timed_out", "message": "hello: did not arrive"}),
            message(ERROR, 0, {"type": "error", "code": "refused", "message": "wrong token"}),
        ]
    )

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(next(answers))

    with made_up_recorder(answer) as address, pytest.raises(RefusedError, match="wrong token"):
        small(address)


ANSWERS: list[tuple[bytes, str]] = [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 64, "not a message of Penstock"),
    (altered(4, b"\x09\x00"), "version 9 and kind 1"),
    (altered(6, b"\x63\x00"), "version 1 and kind 99"),
    (altered(12, b"\xff\xff\xff\x7f"), "announces an answer of 2147483647"),
    (altered(16, b"\x01"), r"\+ 1 bytes"),
    (altered(32, b"\x00\x00\x00\x00"), "checksum of its message hello"),
    (message(ERROR, 0, {"type": "error", "code": [1], "message": "m"}), "is not text"),
    (message(ERROR, 0, {"type": "error", "sequence": -1}), "is not a count"),
    (message(ERROR, 0, {"type": "error", "sequence": "0"}), "is not a count"),
    (message(ERROR, 0, {"sequence": 1 << 64}), "is not a count"),
    (message(ERROR, 0, {"code": "refused", "message": "go away"}), r"go away \(refused\)"),
    (raw(HELLO, cbor2.dumps([1])), "is not a map"),
    (raw(HELLO, b"\xff\xff"), "is not CBOR"),
    (b"", "no connection to a recorder"),
]


@pytest.mark.parametrize(("said", "why"), ANSWERS)
def test_hostile_answers(said: bytes, why: str) -> None:
    with (
        made_up_recorder(lambda connection: connection.sendall(said)) as address,
        pytest.raises(ClientError, match=why),
    ):
        small(address, connect_timeout=30 if said else 0.3)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """The C client, as any language calls it."""
    root = Path(__file__).resolve().parents[3]
    return ctypes.CDLL(str(root / "build" / "release" / "native" / "client" / "libpenstock.so"))


def c_series(library: ctypes.CDLL) -> ctypes.c_void_p:
    """Of 30 x 40 pixels in 16 bits, without an address."""
    library.penstock_new.restype = library.penstock_error.restype = ctypes.c_void_p
    series = ctypes.c_void_p(library.penstock_new())
    shape = (ctypes.c_uint64 * 2)(30, 40)
    library.penstock_set_name(series, b"s")
    library.penstock_set_type(series, 2)
    library.penstock_set_shape(series, shape, ctypes.c_size_t(2))
    return series


@pytest.mark.parametrize("said", [said for said, _ in ANSWERS])
def test_hostile_answers_to_the_c_client(library: ctypes.CDLL, said: bytes) -> None:
    """It ends each time, with a status and words."""
    series = c_series(library)
    library.penstock_set_timeout(series, 1, ctypes.c_int64(30_000 if said else 300))
    with made_up_recorder(lambda connection: connection.sendall(said)) as address:
        library.penstock_set_address(series, address.encode())
        status = library.penstock_begin(series)
    words = ctypes.string_at(library.penstock_error(series)).decode()
    library.penstock_free(series)
    if not said:
        assert (status, "no connection to a recorder" in words) == (2, True)
    elif b"go away" in said:
        assert (status, "the connection" in words, "go away" in words) == (3, True, True)
    else:
        assert (status, "this is not a recorder" in words) in ((8, True), (3, False))


def test_a_refusal_after_an_acknowledgement_that_covers_it_is_told() -> None:
    """As a recorder may say it; once for each of two channels."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(message(HELLO, 0, {"type": "hello", "name": "x"}))
        ack = {"type": "ack", "series_unique_id": "s"}
        connection.sendall(message(ACK, 1, ack | {"safe_below": 0}))
        refusal = message(ERROR, 3, {"type": "error", "sequence": 3, "code": "dropped", "message": "full"})
        read_until_images(connection, 3)
        connection.sendall(message(ACK, 2, ack | {"safe_below": 3}) + refusal + refusal)
        connection.sendall(message(CLOSED, 5, ack | {"safe_below": 3, "problem": None}))
        while connection.recv(1 << 16):
            pass

    with made_up_recorder(answer) as address:
        series = small(address)
        for image in images_of(3):
            series.send(image)
        with pytest.raises(FramesRefusedError, match="refused 1 of 3"):
            series.close()
    assert (series.acknowledged, series.waiting) == (2, 0)
    assert [refusal.number for refusal in series.refused] == [1]


def says_safe(below: int, kind: int) -> Callable[[socket.socket], None]:
    """A recorder that calls frames below `below` safe when it has all but the last of them."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(message(HELLO, 0, {"type": "hello", "name": "x"}))
        reply = {"type": "ack", "series_unique_id": "s"}
        connection.sendall(message(ACK, 1, reply | {"safe_below": 0}))
        read_until_images(connection, below - 1)
        connection.sendall(message(kind, 2, reply | {"safe_below": below, "problem": None}))
        while connection.recv(1 << 16):
            pass

    return answer


@pytest.mark.parametrize("kind", [ACK, CLOSED])
def test_an_acknowledgement_of_what_was_not_sent_is_not_believed(kind: int) -> None:
    with made_up_recorder(says_safe(4, kind)) as address:
        series = small(address)

        def send_all() -> None:  # it may come while the last frame is sent
            for image in images_of(3):
                series.send(image)
            series.wait_acknowledged(60)

        with pytest.raises(ClientError, match=r'frames below 4 of series "s", but only frames below 3'):
            send_all()
    assert (series.acknowledged, series.waiting, series.safe_below) == (0, 3, 0)


@pytest.mark.parametrize("kind", [ACK, CLOSED])
def test_nor_is_it_by_the_c_client(library: ctypes.CDLL, kind: int) -> None:
    with made_up_recorder(says_safe(2, kind)) as address:
        series = c_series(library)
        library.penstock_set_address(series, address.encode())
        assert library.penstock_begin(series) == 0
        pixels = bytes(2 * 30 * 40)
        status = library.penstock_send_image(series, pixels, ctypes.c_uint64(len(pixels)))
        if status == 0:  # it may come while the frame is sent
            status = library.penstock_wait_acknowledged(series, ctypes.c_int64(60_000))
    words = ctypes.string_at(library.penstock_error(series)).decode()
    library.penstock_free(series)
    assert (status, 'frames below 2 of series "s", but only frames below 1' in words) == (8, True)


ACKNOWLEDGED, RESENT = 2, 6  # enum penstock_count_of
GREETED = message(HELLO, 0, {"type": "hello", "name": "x"})
STARTED = message(ACK, 1, {"type": "ack", "series_unique_id": "s", "safe_below": 0})


def send_three_by(client: str, library: ctypes.CDLL, address: str) -> tuple[int, int]:
    """Begins, sends and ends a series; returns how many frames were acknowledged and sent again."""
    if client == "Python":
        with small(address) as python_series:
            for image in images_of(3):
                python_series.send(image)
        return python_series.acknowledged, python_series.resent
    library.penstock_count.restype = ctypes.c_uint64
    series = c_series(library)
    library.penstock_set_address(series, address.encode())
    pixels = bytes(2 * 30 * 40)
    statuses = [library.penstock_begin(series)]
    for _ in range(3):
        statuses.append(library.penstock_send_image(series, pixels, ctypes.c_uint64(len(pixels))))
    statuses.append(library.penstock_end(series))
    words = ctypes.string_at(library.penstock_error(series)).decode()
    counts = [library.penstock_count(series, which) for which in (ACKNOWLEDGED, RESENT)]
    library.penstock_free(series)
    assert statuses == [0] * 5, words
    return counts[0], counts[1]


@pytest.mark.parametrize("client", ["Python", "C"])
def test_client_that_comes_back_to_a_closed_series_resends_nothing(library: ctypes.CDLL, client: str) -> None:
    """The series has frames of other clients, too; a late error does not concern frames that are safe."""
    connections = iter([1, 2])

    def answer(connection: socket.socket) -> None:
        connection.sendall(GREETED)
        if next(connections) == 1:
            connection.sendall(STARTED)
            read_until_images(connection, 3)
            return
        assert flags_of_start(connection) == 1
        late = {"type": "error", "sequence": 2, "code": "out_of_order", "message": "closed"}
        closed = {"type": "closed", "series_unique_id": "s", "safe_below": 5, "problem": None}
        connection.sendall(message(CLOSED, 1, closed) + message(ERROR, 2, late))
        while data := connection.recv(1 << 16):
            extra.append(data)

    extra: list[bytes] = []
    with made_up_recorder(answer) as address:
        assert send_three_by(client, library, address) == (3, 0)
    assert len(b"".join(extra)) < 200  # bye alone


@pytest.mark.parametrize("client", ["Python", "C"])
def test_last_acknowledgement_counts_though_the_connection_ends_with_it(
    library: ctypes.CDLL, client: str
) -> None:
    connections: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        connections.append(connection)
        if len(connections) > 1:
            return
        connection.sendall(GREETED + STARTED)
        read_until_images(connection, 1)
        time.sleep(0.5)  # the client waits by now
        full = {"type": "error", "sequence": 0, "code": "no_space", "message": "storage full: waiting"}
        safe = {"type": "ack", "series_unique_id": "s", "safe_below": 1}
        connection.sendall(message(ACK, 2, safe) + message(ERROR, 3, full))
        connection.recv(1 << 16)

    with made_up_recorder(answer) as address:
        if client == "Python":
            python_series = small(address, reconnect_timeout=2)
            python_series.send(images_of(1)[0])
            python_series.wait_acknowledged(timeout=60)
            python_series.abandon()
        else:
            series = c_series(library)
            library.penstock_set_address(series, address.encode())
            library.penstock_set_timeout(series, 2, ctypes.c_int64(2000))
            pixels = bytes(2 * 30 * 40)
            assert library.penstock_begin(series) == 0
            assert library.penstock_send_image(series, pixels, ctypes.c_uint64(len(pixels))) == 0
            status = library.penstock_wait_acknowledged(series, ctypes.c_int64(60_000))
            library.penstock_free(series)
            assert status == 0
    assert len(connections) == 1


def flags_of_start(connection: socket.socket) -> int:
    """Of the message behind hello."""
    with connection.makefile("rb") as stream:
        for _ in range(2):
            kind, flags, text_bytes, pixel_bytes = struct.unpack_from("<HIIQ", stream.read(64), 6)
            stream.read(text_bytes + pixel_bytes)
    assert kind == START
    return int(flags)


def begin_by(client: str, library: ctypes.CDLL, address: str) -> None:
    if client == "Python":
        small(address).abandon()
    else:
        series = c_series(library)
        library.penstock_set_address(series, address.encode())
        status = library.penstock_begin(series)
        library.penstock_free(series)
        assert status == 0


@pytest.mark.parametrize("client", ["Python", "C"])
def test_start_is_resumed_if_its_answer_was_lost_with_the_connection(
    library: ctypes.CDLL, client: str
) -> None:
    flags: list[int] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(GREETED)
        flags.append(flags_of_start(connection))
        if len(flags) > 1:
            connection.sendall(STARTED)
            connection.recv(1)

    with made_up_recorder(answer) as address:
        begin_by(client, library, address)
    assert flags == [0, 1]


def test_c_client_resumes_only_what_it_started(library: ctypes.CDLL) -> None:
    """A program may call penstock_begin() until there is a recorder."""
    flags: list[int] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(GREETED + STARTED)
        flags.append(flags_of_start(connection))
        connection.recv(1)

    series = c_series(library)
    library.penstock_set_timeout(series, 1, ctypes.c_int64(100))
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    library.penstock_set_address(series, f"127.0.0.1:{closed}".encode())
    assert library.penstock_begin(series) == 2
    library.penstock_set_timeout(series, 1, ctypes.c_int64(60_000))
    with made_up_recorder(answer) as address:
        library.penstock_set_address(series, address.encode())
        status = library.penstock_begin(series)
        library.penstock_free(series)
    assert (status, flags) == (0, [0])


def test_recorder_that_was_stopped_and_started_again_while_a_client_connects(library: ctypes.CDLL) -> None:
    """It says bye to a client that waits for its hello; the next one is there for all of its connections."""
    served = iter(["cut", "bye", "cut", "acknowledge"])

    def answer(connection: socket.socket) -> None:
        how = next(served)
        if how == "bye":
            connection.sendall(message(BYE, 0, {"type": "bye"}))
            return
        connection.sendall(GREETED + STARTED)
        read_until_images(connection, 1)
        if how == "acknowledge":
            connection.sendall(message(ACK, 2, {"type": "ack", "series_unique_id": "s", "safe_below": 1}))
            connection.recv(1)

    series = c_series(library)
    with made_up_recorder(answer) as address:
        library.penstock_set_address(series, address.encode())
        assert library.penstock_begin(series) == 0
        pixels = bytes(2 * 30 * 40)
        assert library.penstock_send_image(series, pixels, ctypes.c_uint64(len(pixels))) == 0
        assert library.penstock_wait_acknowledged(series, ctypes.c_int64(60_000)) == 0
        library.penstock_free(series)


def test_what_comes_without_end_is_not_listened_to_without_end() -> None:
    """And ends where it is no message of the protocol."""

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"\xff" * (1 << 20))

    with made_up_recorder(answer) as address:
        host, port = address.rsplit(":", 1)
        connection = Connection((host, int(port)), 5, 5, lambda _: None, peer="recorder")
        try:
            with pytest.raises(ClientError, match="not a message of Penstock"):
                connection.wait(5)
            assert len(connection._received) <= 1 << 20
        finally:
            connection.close()


def test_a_recorder_that_never_answers_the_start_is_given_up() -> None:
    """Connection after connection is cut once the start came."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(message(HELLO, 0, {"type": "hello", "name": "x"}))
        connection.recv(1 << 16)

    with (
        made_up_recorder(answer) as address,
        pytest.raises(ClientError, match="without an answer to the start"),
    ):
        small(address, connect_timeout=30)
