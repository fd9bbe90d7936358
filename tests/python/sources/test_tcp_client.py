"""A client written from docs/reference/tcp.md alone sends a series; the page's examples are its bytes."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from plain_client import (
    ACK,
    CLOSED,
    END,
    ERROR,
    HELLO,
    IMAGE,
    RESUME,
    START,
    Client,
    crc32c,
    frames_of,
    image_fields,
    message,
    start_fields,
)

from penstock.model.events import SeriesRefused

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "tcp.md"


def examples() -> list[bytes]:
    return [
        bytes.fromhex(block) for block in re.findall(r"```hex\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    ]


def test_the_examples_are_what_the_client_sends() -> None:
    hello, image, ack = examples()
    assert crc32c(b"123456789") == 0xE3069283
    assert message(HELLO, 0, {"type": "hello", "name": "example 1.0", "token": "secret"}) == hello
    pixels = np.arange(1, 7, dtype="<u2").tobytes()
    assert message(IMAGE, 2, image_fields(7, "01ABC", 5, [2, 3], 12), pixels) == image
    assert message(ACK, 1, {"type": "ack", "series_unique_id": "01ABC", "safe_below": 6}) == ack


def recorded(path: str) -> npt.NDArray[np.uint16]:
    import hdf5plugin  # noqa: F401

    with h5py.File(path) as file:
        data: npt.NDArray[np.uint16] = file["/entry/data/data"][()]
        return data


def test_the_client_records_a_series(record: Callable[..., Any], tmp_path: Path) -> None:
    recorder = record(tmp_path)
    frames = frames_of(5)
    with Client(recorder.address) as client:
        client.start("series-a", 5, (30, 40))
        for number, frame in enumerate(frames):
            client.image("series-a", number, frame)
        closed = client.end("series-a")
    assert closed["problem"] is None
    assert closed["safe_below"] == 5
    assert np.array_equal(recorded(recorder.series_end().file), frames)


def test_a_client_that_comes_back_loses_nothing(record: Callable[..., Any], tmp_path: Path) -> None:
    recorder = record(tmp_path)
    frames = frames_of(6)
    with Client(recorder.address) as client:
        client.start("series-b", 6, (30, 40))
        for number in range(3):
            client.image("series-b", number, frames[number])
        half = message(IMAGE, client.sequence, image_fields(1, "series-b", 3, [30, 40], 2400), bytes(2400))[
            :1000
        ]
        client.connection.sendall(half)
    with Client(recorder.address) as client:
        client.start("series-b", 6, (30, 40), RESUME)
        for number in range(1, 6):
            client.image("series-b", number, frames[number])
        closed = client.end("series-b")
    assert closed["problem"] is None
    end = recorder.series_end()
    assert np.array_equal(recorded(end.file), frames)
    assert end.frames_written == 6
    assert end.duplicate == 2


def test_clients_of_one_series_are_told_of_their_own_frames(
    record: Callable[..., Any], tmp_path: Path
) -> None:
    """And the series ends when both have ended it."""
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.2\n", encoding="ascii")
    recorder = record(tmp_path, str(config))
    frames = frames_of(6)
    with Client(recorder.address) as even, Client(recorder.address) as odd:
        even.start("series-e", 6, (30, 40))
        odd.start("series-e", 6, (30, 40), RESUME)
        for number in (0, 2, 4):
            even.image("series-e", number, frames[number])
        while even.until(ACK)["safe_below"] < 5:
            pass
        even.send(END, {"type": "end", "series_id": 1, "series_unique_id": "series-e"})
        time.sleep(1)  # longer than late frames are waited for
        for number in (1, 3):
            odd.image("series-e", number, frames[number])
        first = 0
        while first < 2:  # the first one may come before frame 1 is safe
            first = odd.until(ACK)["safe_below"]
        assert first in (2, 3, 4), "what the other one sent is none of its own"
        odd.image("series-e", 5, frames[5])
        closed = [odd.end("series-e"), even.until(CLOSED)]
    assert [(each["problem"], each["safe_below"]) for each in closed] == [(None, 6), (None, 5)]
    end = recorder.series_end()
    assert (end.missing, end.problem) == (0, None)
    assert np.array_equal(recorded(end.file), frames)


def test_a_client_that_is_gone_ends_nothing_and_holds_up_nobody(
    record: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.2\nidle_timeout_s: 1\n", encoding="ascii")
    recorder = record(tmp_path, str(config))
    frames = frames_of(6)
    with Client(recorder.address) as stays:
        stays.start("series-f", 6, (30, 40))
        with Client(recorder.address) as goes:
            goes.start("series-f", 6, (30, 40), RESUME)
            stays.image("series-f", 0, frames[0])
            goes.image("series-f", 1, frames[1])
            while goes.until(ACK)["safe_below"] < 2:
                pass
            stays.send(END, {"type": "end", "series_id": 1, "series_unique_id": "series-f"})
        assert stays.until(CLOSED)["problem"] is None
    assert recorder.series_end().missing == 4


def test_a_second_start_says_resume(record: Callable[..., Any], tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as first, Client(recorder.address) as second:
        first.start("series-g", 6, (30, 40))
        second.send(START, start_fields("series-g", 6, (30, 40)))
        assert "has started already" in second.until(ERROR)["message"]


def test_a_start_that_is_refused_is_a_refused_series(record: Callable[..., Any], tmp_path: Path) -> None:
    """It counts, until another start brings the series."""
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        for _ in range(2):
            client.send(START, start_fields("s", 1, (30, 40)) | {"image_dtype": "uint12"})
            assert "uint12" in client.until(ERROR)["message"]
        client.send(START, start_fields("late", 1, (30, 40)) | {"image_size_x": 0})
        client.until(ERROR)
        client.start("late", 1, (30, 40))
        client.image("late", 0, frames_of(1)[0])
        client.end("late")
    recorder.series_end()
    refused = [event for event in recorder.events if isinstance(event, SeriesRefused)]
    assert [event.series_unique_id for event in refused] == ["s", "late"]
    assert recorder.process.poll() is None
    code, log = recorder.stop()
    assert code == 1, log
    assert "s was rejected" in log


def test_an_error_names_the_message_at_fault(record: Callable[..., Any], tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        client.start("series-c", 2, (30, 40))
        sequence = client.image("series-c", 0, np.zeros((30, 41), np.uint16))
        error = client.until(ERROR)
        assert error["sequence"] == sequence
        assert "41" in error["message"]
