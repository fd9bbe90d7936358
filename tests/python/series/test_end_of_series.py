"""How series begin late and come to their end: real clients of both transports, files as they are read."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import zmq
from conftest import Record, RecordCommand, Run
from detector_stream import multi_dimensional
from plain_client import CLOSED, END, ERROR, RESUME, START, Client, frames_of, start_fields
from test_ranks import Job
from warm_command import popen

from penstock.model.events import RecorderSeriesEnd, Rejected, SeriesStart

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
PIXELS = frames_of(40)
SHAPE = (30, 40)
MISSING, RECEIVED, DROPPED = 0, 1, 3


@pytest.fixture
def quick(tmp_path: Path) -> str:
    return waiting(tmp_path, end_s=0.6, idle_s=3)


def waiting(folder: Path, end_s: float, idle_s: float = 60) -> str:
    config = folder / "waiting.yaml"
    config.write_text(f"end_timeout_s: {end_s}\nidle_timeout_s: {idle_s}\n", encoding="ascii")
    return str(config)


class Pusher:
    """A detector's socket, of which there may be several."""

    def __init__(self, context: "zmq.Context[Any]", endpoint: str, connect: bool = False) -> None:
        self.socket = context.socket(zmq.PUSH)
        self.socket.setsockopt(zmq.SNDTIMEO, 20_000)
        self.socket.setsockopt(zmq.LINGER, 10_000)
        (self.socket.connect if connect else self.socket.bind)(endpoint)

    def send(self, kind: str, name: str = "s", **fields: object) -> None:
        message = {"type": kind, "series_id": 1, "series_unique_id": name, **fields}
        self.socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))

    def start(self, frames: int, name: str = "s", **fields: object) -> None:
        self.send("start", name, **{**start_fields(name, frames, SHAPE), **fields})

    def image(self, number: int, name: str = "s") -> None:
        self.send("image", name, image_id=number, data={"a": multi_dimensional(PIXELS[number])})


@contextmanager
def pushers(*endpoints: str, connect: bool = False) -> Iterator[list[Pusher]]:
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        made = [Pusher(context, endpoint, connect) for endpoint in endpoints]
        for each in made:
            stack.callback(each.socket.close)
        yield made


def listening_on(*endpoints: str) -> list[str]:
    return [part for endpoint in endpoints for part in ("--zmq", endpoint)]


def states_of(end: RecorderSeriesEnd) -> list[int]:
    """Of a file whose received frames are those that were sent, and whose others are blank."""
    with h5py.File(end.file) as file:
        assert file["/entry/penstock/ended_by"].asstr()[()] == end.ended_by
        states = file["/entry/penstock/frame_state"][()]
        for number, frame in enumerate(file["/entry/data/data"]):
            wanted = PIXELS[number] if states[number] == RECEIVED else np.full(SHAPE, 0xFFFF, np.uint16)
            assert np.array_equal(frame, wanted), number
        return [int(state) for state in states]


def test_a_series_that_is_whole_needs_no_end_message(record: Record, tmp_path: Path, quick: str) -> None:
    recorder = record(tmp_path, quick)
    with Client(recorder.address) as client:
        client.start("s", 5, SHAPE)
        for number in range(5):
            client.image("s", number, PIXELS[number])
        assert client.until(CLOSED)["problem"] is None
        client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})  # not refused
        client.start("t", 0, SHAPE)  # with a number it might be closed before its end message
        client.image("t", 0, PIXELS[0])
        assert client.end("t")["problem"] is None
    ends = [recorder.series_end(), recorder.series_end()]
    assert [end.ended_by for end in ends] == ["count", "message"]
    assert states_of(ends[0]) == [RECEIVED] * 5
    assert not [event for event in recorder.events if isinstance(event, Rejected)]


def test_a_source_that_falls_silent(record: Record, run: Run, tmp_path: Path, free_port: int) -> None:
    """A trigger may be waited for; behind the first frame, silence ends the series. The file is valid."""
    endpoint = f"tcp://127.0.0.1:{free_port}"
    patient = waiting(tmp_path, end_s=0.6)
    recorder = record(tmp_path, patient, *listening_on(endpoint), "--end-after", "2", listen=False)
    with pushers(endpoint) as (detector,):
        detector.start(30)
        time.sleep(2.7)
        for number in range(12):
            detector.image(number)
        end = recorder.series_end()
        detector.start(0, "t")
        detector.image(3, "t")
        second = recorder.series_end()
    assert (end.ended_by, end.frames_received, end.missing) == ("silence", 12, 18)
    assert states_of(end) == [RECEIVED] * 12 + [MISSING] * 18
    assert (second.ended_by, second.frames_received, second.missing) == ("silence", 1, 3)
    checked = run("check", end.file)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_command_ends_the_series_and_the_next_one_is_recorded(
    record: Record, tmp_path: Path, quick: str, ranks: int
) -> None:
    """Also where its client goes on: it hears that the series is closed."""

    def one_series(address: str, name: str, pid: int) -> None:
        with Client(address) as client:
            client.start(name, 0, SHAPE)
            for number in range(7):
                client.image(name, number, PIXELS[number])
            while client.receive()[1].get("safe_below", 0) < 7:
                pass
            os.kill(pid, signal.SIGUSR2)
            assert client.until(CLOSED)["problem"] is None

    if ranks == 1:
        recorder = record(tmp_path, quick)
        for name in ("s", "t"):
            one_series(recorder.address, name, recorder.process.pid)
            end = recorder.series_end()
            assert (end.series_unique_id, end.ended_by) == (name, "command")
            assert states_of(end) == [RECEIVED] * 7
        assert recorder.stop()[0] == 0
        return
    job = Job(tmp_path, ranks, "--threads", "1", "--pool", "256MiB")
    try:
        for name in ("s", "t"):
            one_series(job.target.split(",")[-1], name, job.process.pid)  # of the rank that does not lead
            told = job.until("series_end")
            assert (told["ended_by"], told["frames_received"]) == ("command", 7)
        assert job.stop() == 0, "".join(job.log)
    finally:
        job.close()


@pytest.mark.parametrize(("frames", "end_timeout_s"), [(40, 60), (0, 3)])
def test_the_end_overtakes_the_tail(
    record: Record, tmp_path: Path, free_port: int, frames: int, end_timeout_s: int
) -> None:
    """Two sockets of one detector: the first says start and end, and the frames come through the other."""
    endpoints = [f"tcp://127.0.0.1:{free_port}", f"ipc://{tmp_path}/second"]
    recorder = record(tmp_path, waiting(tmp_path, end_timeout_s), *listening_on(*endpoints), listen=False)
    with pushers(*endpoints) as (first, second):
        first.start(frames)
        for number in range(0, 40, 2):
            first.image(number)
        first.send("end")
        for number in range(1, 40, 2):
            time.sleep(0.03)
            second.image(number)
        end = recorder.series_end()
    assert (end.ended_by, end.frames_received, end.missing) == ("message", 40, 0)
    assert states_of(end) == [RECEIVED] * 40


def test_the_end_of_one_client_is_not_that_of_another(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path, waiting(tmp_path, end_s=0.6))
    with Client(recorder.address) as one, Client(recorder.address) as other:
        one.start("s", 0, SHAPE)
        other.start("s", 0, SHAPE, RESUME)
        one.image("s", 0, PIXELS[0])
        one.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        time.sleep(0.9)
        for number in range(1, 4):
            other.image("s", number, PIXELS[number])
        assert other.end("s")["problem"] is None
    end = recorder.series_end()
    assert (end.ended_by, states_of(end)) == ("message", [RECEIVED] * 4)


def test_a_series_that_ends_early(record: Record, run: Run, tmp_path: Path, quick: str) -> None:
    """The dataset has the length that was announced; the ledger tells what is there."""
    recorder = record(tmp_path, quick)
    with Client(recorder.address) as client:
        client.start("s", 40, SHAPE)
        for number in range(25):
            client.image("s", number, PIXELS[number])
        assert client.end("s")["problem"] is None
    end = recorder.series_end()
    assert (end.frames_announced, end.frames_received, end.missing) == (40, 25, 15)
    assert states_of(end) == [RECEIVED] * 25 + [MISSING] * 15
    assert run("check", end.file).returncode == 0
    assert run("check", end.file, "--require-complete").returncode != 0


@pytest.mark.parametrize(("options", "expected"), [((), 0), (("--require-complete",), 1)])
def test_frames_that_are_missing_are_a_failure_when_asked(
    record: Record, tmp_path: Path, quick: str, free_port: int, options: tuple[str, ...], expected: int
) -> None:
    """Series that have all frames are none."""
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, quick, *listening_on(endpoint), *options, listen=False)
    with pushers(endpoint) as (detector,):
        for name, numbers in (("whole", range(3)), ("gap", (0, 2))):
            detector.start(3, name)
            for number in numbers:
                detector.image(number, name)
            detector.send("end", name)
            recorder.series_end()
    code, log = recorder.stop()
    assert (code, "1 of 2 series are incomplete: gap lacks 1 frame" in log) == (expected, bool(expected))
    remedy = f"`penstockcheck{tmp_path / 'gap.h5'}`liststhemissingframes"  # lines may end anywhere
    assert (remedy in "".join(log.split())) == bool(expected)


def test_frames_before_the_start_are_counted(
    record: Record, tmp_path: Path, quick: str, free_port: int
) -> None:
    """As for a recorder that is started in mid-series, whose source sends its start message again."""
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, quick, *listening_on(endpoint), listen=False)
    with pushers(endpoint) as (detector,):
        for number in range(6):
            detector.image(number)
        detector.start(10)
        for number in (5, 6, 7, 8, 9):
            detector.image(number)
        detector.send("end")
        end = recorder.series_end()
    assert (end.frames_received, end.missing, end.dropped) == (5, 5, 6)
    assert states_of(end) == [DROPPED] * 5 + [RECEIVED] * 5
    _, log = recorder.stop()
    assert re.search(r'frames of series "s" arrive, from number 0 on.* has not started', log), log
    assert "6 frames arrived before the series started" in log


def test_a_start_that_comes_through_another_socket(
    record: Record, tmp_path: Path, quick: str, free_port: int
) -> None:
    endpoints = [f"tcp://127.0.0.1:{free_port}", f"ipc://{tmp_path}/second"]
    recorder = record(tmp_path, quick, *listening_on(*endpoints), listen=False)
    with pushers(*endpoints) as (first, second):
        for number in range(10):
            second.image(number)
        time.sleep(0.1)
        first.start(10)
        first.send("end")
        end = recorder.series_end()
    assert (end.frames_received, end.dropped) == (10, 0)


def test_sources_that_one_socket_hears(record: Record, tmp_path: Path, free_port: int) -> None:
    """Several detectors' sockets at one that is bound: the open end is waited for as well."""
    endpoint = f"tcp://127.0.0.1:{free_port}"
    config = tmp_path / "bound.yaml"
    config.write_text(
        f"end_timeout_s: 3\nsources: [{{kind: zmq, endpoint: '{endpoint}', bind: true}}]\n",
        encoding="ascii",
    )
    recorder: RecordCommand = record(tmp_path, str(config), listen=False)
    with pushers(endpoint, endpoint, connect=True) as (first, second):
        first.start(0)
        recorder.until(SeriesStart)
        first.image(0)
        first.send("end")
        time.sleep(0.2)  # so that the frames come after it
        for number in (1, 2):
            second.image(number)
        end = recorder.series_end()
    assert states_of(end) == [RECEIVED] * 3


@pytest.mark.parametrize("frames", [3, 0])
def test_the_end_is_that_of_the_data_and_not_of_the_file(record: Record, tmp_path: Path, frames: int) -> None:
    """The end message comes late. Without an announced number nothing is known of the end at the start."""
    recorder = record(tmp_path, "--series", "1")
    with Client(recorder.address) as client:
        client.start("s", frames, PIXELS.shape[1:], frame_time=1000.0)
        for number in range(3):
            client.image("s", number, PIXELS[number])
        while client.receive()[1]["safe_below"] < 3:
            pass
        time.sleep(1.5)
        client.end("s")
    assert recorder.series_end().problem is None
    with h5py.File(tmp_path / "s.h5") as file:
        start, estimated, end = (
            datetime.fromisoformat(file[f"/entry/{name}"].asstr()[()]).timestamp()
            for name in ("start_time", "end_time_estimated", "end_time")
        )
        last = int(file["/entry/penstock/timing/received"][2])
        assert end == pytest.approx(last / 1e9, abs=2e-6)
        assert end < (tmp_path / "s.h5").stat().st_mtime - 1
        if "clock" in file["/entry/start_time"].attrs:
            assert estimated - start == pytest.approx(1000.0 * frames, abs=2)


def test_a_series_that_was_ended_early_is_not_called_complete(
    record: Record, run: Run, tmp_path: Path
) -> None:
    """By SIGUSR2 the recorder ends it with what has come; the sender says how much of how much."""
    recorder = record(tmp_path, "--series", "1")

    def end() -> None:
        recorder.until(SeriesStart)
        time.sleep(0.5)
        recorder.process.send_signal(signal.SIGUSR2)

    ending = threading.Thread(target=end)
    ending.start()
    small = ("custom", "--rows", "30", "--columns", "40", "--frames", "1000", "--rate", "20")
    sent = run("simulate", *small, "--series-name", "early", "--to", f"tcp://{recorder.address}")
    ending.join(30)
    assert sent.returncode != 0
    assert "complete" not in sent.stderr
    words = r"ended the series early: frames below \d+ of 1000 are acknowledged"
    assert re.search(words, " ".join(sent.stderr.split())), sent.stderr


def test_what_the_recorder_says_stands_on_the_terminal_once(tmp_path: Path) -> None:
    command = ("record", "--folder", str(tmp_path), "--listen", "127.0.0.1:0", "--series", "1")
    with popen(*command, stdout=subprocess.DEVNULL) as recorder:
        assert recorder.stderr is not None
        address = recorder.stderr.readline().split()[-1].removeprefix("tcp://")
        with Client(address) as client:
            client.start("s", 1, SHAPE, pixel_size_x="wide")  # a note
            client.send(START, start_fields("t", 1, (0, 0)))  # refused
            client.until(ERROR)
            client.image("s", 0, PIXELS[0])
            client.end("s")
        told = recorder.stderr.read()
    for words in ("pixel_size_x is", "rejected from"):
        assert sum(words in line for line in told.splitlines()) == 1, told
