"""An element's frames come from one sender: two are not mixed, and one that comes back is welcome."""

import ctypes
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Record
from plain_client import ACK, CLOSED, ERROR, RESUME, START, Client, start_fields
from relay import Relay
from test_elements import ELEMENT, element, part_of, send_end, stored, whole_frames

from penstock.client import RefusedError, Series
from penstock.model.events import Listening, Note, SeriesRefused

GRID = (2, 1)
SAYS = "claims the same element"


@pytest.fixture
def quick(tmp_path: Path) -> str:
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.3\nidle_timeout_s: 2\n", encoding="ascii")
    return str(config)


def bring(client: Client, frames: Any, number: int, wanted: range) -> None:
    for image in wanted:
        client.image("s", image, part_of(frames[image], GRID, number))


def refused_start(client: Client, flags: int) -> str:
    client.send(START, start_fields("s", 4, ELEMENT) | element(GRID, 0), flags=flags)
    message = client.until(ERROR)["message"]
    assert isinstance(message, str)
    return message


@pytest.mark.parametrize("flags", [0, RESUME])
@pytest.mark.parametrize("name", ["", "other"])
@pytest.mark.parametrize("endpoints", [1, 2])
def test_a_second_sender_of_an_element_is_refused(
    record: Record, tmp_path: Path, quick: str, endpoints: int, name: str, flags: int
) -> None:
    listening = ["--listen", "127.0.0.1:0"] * endpoints
    recorder = record(tmp_path, quick, *listening, listen=False)
    event = recorder.until(Listening)
    assert isinstance(event, Listening)
    addresses = [each.removeprefix("tcp://") for each in event.sources]
    frames = whole_frames(4, GRID)
    with (
        Client(addresses[0], client="upper") as upper,
        Client(addresses[0]) as lower,
        Client(addresses[-1], client=name) as wrong,
    ):
        upper.start("s", 4, ELEMENT, **element(GRID, 0))
        bring(upper, frames, 0, range(2))
        why = refused_start(wrong, flags)
        assert SAYS in why
        assert f"already comes from 127.0.0.1:{upper.connection.getsockname()[1]}, but 127.0.0.1:" in why
        assert "user_data.penstock.element" in why
        wrong.image("s", 2, np.full(ELEMENT, 99, np.uint16))
        assert "no start message that names one" in wrong.until(ERROR)["message"]
        lower.start("s", 4, ELEMENT, **element(GRID, 1))
        bring(upper, frames, 0, range(2, 4))
        bring(lower, frames, 1, range(4))
        for client in (upper, lower):
            send_end(client)
        assert [client.until(CLOSED)["problem"] for client in (upper, lower)] == [None, None]
    end = recorder.series_end()
    assert (end.frames_received, end.duplicate, end.problem) == (4, 0, None)
    assert np.array_equal(stored(end.file)[0], frames)
    assert [event.code for event in recorder.events if isinstance(event, SeriesRefused)] == ["mismatch"]
    code, log = recorder.stop()
    assert code == 1, "a part of what came is in no file"
    assert SAYS in log


def test_a_sender_that_says_who_it_is_comes_back_before_its_loss_was_noticed(
    record: Record, tmp_path: Path, quick: str
) -> None:
    recorder = record(tmp_path, quick)
    frames = whole_frames(4, GRID)
    with (
        Client(recorder.address, client="upper") as before,
        Client(recorder.address, client="upper") as after,
        Client(recorder.address) as lower,
    ):
        before.start("s", 4, ELEMENT, **element(GRID, 0))
        lower.start("s", 4, ELEMENT, **element(GRID, 1))
        bring(before, frames, 0, range(3))
        while before.until(ACK)["safe_below"] < 3:
            pass
        after.start("s", 4, ELEMENT, RESUME, **element(GRID, 0))
        bring(after, frames, 0, range(1, 4))
        bring(lower, frames, 1, range(4))
        for client in (after, lower, before):
            send_end(client)
        assert [client.until(CLOSED)["problem"] for client in (after, lower)] == [None, None]
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.duplicate) == (4, 0, 2)
    assert np.array_equal(stored(end.file)[0], frames)
    code, log = recorder.stop()
    assert code == 0, log


class Filter(ctypes.Structure):
    """sock_fprog of one instruction that takes no byte of any packet."""

    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    @classmethod
    def nothing(cls) -> "tuple[Filter, Any]":
        code = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 0, 0]), 8)  # BPF_RET | BPF_K, 0
        return cls(1, ctypes.cast(code, ctypes.c_void_p)), code


def cut_off(connection: socket.socket) -> None:
    """What the other end sends does not arrive, as where the machine is dead: not even its system answers."""
    program, code = Filter.nothing()
    attach_filter = 26
    connection.setsockopt(socket.SOL_SOCKET, attach_filter, bytes(program))
    assert code


def test_a_sender_whose_machine_is_dead_makes_room(record: Record, tmp_path: Path, quick: str) -> None:
    """Nobody tells that the next one is the same sender."""
    recorder = record(tmp_path, quick)
    frames = whole_frames(4, GRID)
    with (
        Client(recorder.address) as dead,
        Client(recorder.address) as after,
        Client(recorder.address) as lower,
    ):
        dead.start("s", 4, ELEMENT, **element(GRID, 0))
        lower.start("s", 4, ELEMENT, **element(GRID, 1))
        bring(dead, frames, 0, range(2))
        while dead.until(ACK)["safe_below"] < 2:
            pass
        cut_off(dead.connection)
        time.sleep(0.5)  # what it was to acknowledge before that
        began = time.monotonic()
        after.start("s", 4, ELEMENT, RESUME, **element(GRID, 0))
        assert 1 < time.monotonic() - began < 45, "a connection is given up after a minute of silence"
        bring(after, frames, 0, range(4))
        bring(lower, frames, 1, range(4))
        for client in (after, lower):
            send_end(client)
        assert [client.until(CLOSED)["problem"] for client in (after, lower)] == [None, None]
    end = recorder.series_end()
    assert (end.frames_received, end.missing) == (4, 0)
    assert np.array_equal(stored(end.file)[0], frames)
    assert any(
        "which has disconnected" in event.message for event in recorder.events if isinstance(event, Note)
    )


def test_the_client_comes_back_and_another_one_is_refused(record: Record, tmp_path: Path, quick: str) -> None:
    recorder = record(tmp_path, quick)
    frames = whole_frames(4, GRID)
    what: dict[str, Any] = {"dtype": "uint16", "shape": ELEMENT, "frames": 4, "name": "s"}
    with Relay(recorder.address) as relay:
        upper = Series(relay.address, element=(*GRID, 0), **what)
        lower = Series(recorder.address, element=(*GRID, 1), **what)
        with pytest.raises(RefusedError, match=SAYS):
            Series(recorder.address, element=(*GRID, 0), resume=True, **what)
        for image in range(2):
            upper.send(part_of(frames[image], GRID, 0))
        relay.cut()
        for image in range(2, 4):
            upper.send(part_of(frames[image], GRID, 0))
        for image in range(4):
            lower.send(part_of(frames[image], GRID, 1))
        upper.wait_acknowledged(20)
        assert (upper.reconnects, relay.passed) == (1, 2)
        lower.wait_acknowledged(20)
        lower.abandon()
        upper.abandon()
    code, log = recorder.stop()
    assert code == 1, log  # the refused one
    data, states, _ = stored(tmp_path / "s.h5")
    assert states == [1] * 4
    assert np.array_equal(data, frames)
