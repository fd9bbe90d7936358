"""Several detectors' ends, as processes, of which one is killed in mid-series; and a recorder that is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, RecordCommand
from dealer import SHAPE, pixels_of
from mid_series import native_recorder
from ports import free_ports

from penstock.model.events import Listening, SeriesStart

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
FRAMES = 120
RECEIVED, PARTIAL = 1, 5
Dealer = subprocess.Popen[str]


def deal(endpoint: str, numbers: range, *, bind: bool, **more: Any) -> Dealer:
    plan = {"endpoint": endpoint, "series": "s", "frames": FRAMES, "pause_s": 0.005, "bind": bind}
    plan |= {"numbers": list(numbers), **more}
    script = Path(__file__).resolve().parents[1] / "support" / "dealer.py"
    command = [sys.executable, str(script), json.dumps(plan)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begin(*dealers: Dealer) -> None:
    """Has all of them begin together, once each is ready."""
    for dealer in dealers:
        assert dealer.stdout is not None
        assert dealer.stdout.readline() == "ready\n"
    for dealer in dealers:
        assert dealer.stdin is not None
        dealer.stdin.write("\n")
        dealer.stdin.flush()


@contextmanager
def dealing(*dealers: Dealer, later: Sequence[Dealer] = ()) -> Iterator[None]:
    """Begins with `dealers`; those of `later` are only ended."""
    try:
        begin(*dealers)
        yield
    finally:
        for dealer in (*dealers, *later):
            dealer.kill()
            dealer.communicate(timeout=30)


def until_sent(dealer: Dealer, number: int) -> None:
    assert dealer.stdout is not None
    for line in dealer.stdout:
        if line.strip() == str(number):
            return
    raise AssertionError(f"it ended before frame {number}")


def finish(*dealers: Dealer) -> None:
    for dealer in dealers:
        dealer.communicate(timeout=60)
        assert dealer.returncode == 0


def pull(record: Record, folder: Path, sources: list[dict[str, Any]]) -> RecordCommand:
    config = folder / "dealers.yaml"
    given = {"sources": sources, "end_timeout_s": 4, "idle_timeout_s": 60, "series_limit": 1}
    config.write_text(json.dumps(given), encoding="ascii")
    recorder = record(folder, str(config), listen=False)
    recorder.until(Listening)
    return recorder


def elements(endpoints: list[str]) -> list[dict[str, Any]]:
    return [
        {"kind": "zmq", "endpoint": endpoint, "element": {"grid": [2, 1], "number": number}}
        for number, endpoint in enumerate(endpoints)
    ]


def endpoints(count: int) -> list[str]:
    first = free_ports(count)
    return [f"tcp://127.0.0.1:{first + i}" for i in range(count)]


def test_one_of_several_into_one_socket_is_killed(record: Record, tmp_path: Path) -> None:
    """What it had sent is there or missing; nobody else's frame is touched."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, [{"kind": "zmq", "endpoint": endpoint, "bind": True}])
    dealers = [deal(endpoint, range(first, FRAMES, 3), bind=False) for first in range(3)]
    with dealing(*dealers):
        until_sent(dealers[1], 31)
        dealers[1].send_signal(signal.SIGKILL)
        finish(dealers[0], dealers[2])
        ended = recorder.series_end()
    assert (ended.problem, ended.duplicate, ended.damaged, ended.ended_by) == (None, 0, 0, "message")
    with h5py.File(ended.file) as file:
        states, data = file["/entry/penstock/frame_state"][...], file["/entry/data/data"][...]
    there = numpy.flatnonzero(states == RECEIVED)
    assert set(range(0, FRAMES, 3)) | set(range(2, FRAMES, 3)) <= set(there.tolist())
    assert len(there) == ended.frames_received
    assert ended.frames_received + ended.missing == FRAMES
    for number, frame in enumerate(data):
        expected = pixels_of(number) if number in there else numpy.full(SHAPE, 0xFFFF)
        assert (frame == expected).all(), number


def test_an_element_that_is_killed_and_begins_anew_completes_the_series(
    record: Record, tmp_path: Path
) -> None:
    where = endpoints(2)
    recorder = pull(record, tmp_path, elements(where))
    dealers = [deal(endpoint, range(FRAMES), bind=True, element=i) for i, endpoint in enumerate(where)]
    again = deal(where[1], range(FRAMES), bind=True, element=1)
    with dealing(*dealers, later=[again]):
        recorder.until(SeriesStart)
        until_sent(dealers[1], 40)
        dealers[1].send_signal(signal.SIGKILL)
        dealers[1].wait()
        begin(again)
        finish(dealers[0], again)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.problem) == (FRAMES, 0, None)
    assert ended.duplicate > 0
    with h5py.File(ended.file) as file:
        for number, frame in enumerate(file["/entry/data/data"]):
            assert (frame == numpy.vstack([pixels_of(number, 0), pixels_of(number, 1)])).all(), number


@pytest.mark.slow
def test_a_recorder_of_elements_is_killed(record: Record, run: Callable[..., Any], tmp_path: Path) -> None:
    """A frame that lacks an element is marked as partial, with the pixels that came."""
    where = endpoints(2)
    recorder = pull(record, tmp_path, elements(where))
    dealers = [
        # With both ends the series would be closed.
        deal(where[0], range(FRAMES), bind=True, element=0, pause_s=0.05),
        deal(where[1], range(0, FRAMES, 2), bind=True, element=1, pause_s=0.1),
    ]
    with dealing(*dealers):
        recorder.until(SeriesStart)
        until_sent(dealers[1], 60)
        time.sleep(1)  # partly filled segments leave
        os.kill(native_recorder(recorder.process.pid), signal.SIGKILL)
        recorder.process.wait(60)
    file = tmp_path / "s.h5"
    recovered = run("recover", str(file))
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    checked = run("check", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with h5py.File(file) as content:
        states, data = content["/entry/penstock/frame_state"][...], content["/entry/data/data"][...]
    whole = numpy.flatnonzero(states == RECEIVED).tolist()
    assert whole[:10] == list(range(0, 20, 2))
    assert set(whole) <= set(range(0, FRAMES, 2))
    partial = numpy.flatnonzero(states == PARTIAL).tolist()
    assert partial[:10] == list(range(1, 20, 2))
    for number in whole:
        assert (data[number] == numpy.vstack([pixels_of(number, 0), pixels_of(number, 1)])).all(), number
    # Of the second before the kill a frame may be known of which nothing had left the recorder.
    for number in (number for number in partial if number < 60):
        assert (data[number][: SHAPE[0]] == pixels_of(number, 0)).all(), number
        assert (data[number][SHAPE[0] :] == 0xFFFF).all(), number
