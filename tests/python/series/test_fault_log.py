"""The last line of a log of faults, where the simulated detector does not come to its end."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
from conftest import Record, RecordCommand, Run, end_with_family
from mid_series import native_recorder
from ports import free_ports
from warm_command import popen

from penstock.model.events import RecorderSeriesEnd, SeriesStart

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
FRAMES = 20_000  # more than a test waits for
SCENE = ("custom", "--rows", "32", "--columns", "48", "--frames", str(FRAMES), "--rate", "1000", "--no-stamp")
FAULTS = ("drop/0=5%", "late:200/1=5%", "reorder:6=2%", "duplicate=3%", "corrupt/1=3%")


@contextlib.contextmanager
def detector(log: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """With faults, some of which are held back long; it goes on beside the test."""
    faults = [part for fault in FAULTS for part in ("--fault", fault)]
    own = ["--fault-log", str(log), "--elements", "2x1", "--series-name", "s"]
    process = popen("simulate", *SCENE, "--json", *own, *faults, *options)
    try:
        yield process
    finally:
        end_with_family(process)
        process.communicate(timeout=30)


def sending(process: "subprocess.Popen[str]", frames: int) -> None:
    """Until so many are sent."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["frames_sent"] >= frames:
            return
    raise AssertionError("it ended before")


def last_line(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return found


@pytest.fixture(params=["tcp", "zmq"])
def recording(request: pytest.FixtureRequest, record: Record, tmp_path: Path) -> tuple[RecordCommand, str]:
    """A recorder, and what to send to."""
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.5\n", encoding="ascii")
    if request.param == "tcp":
        recorder = record(tmp_path, str(config), "--series", "1")
        return recorder, f"tcp://{recorder.address}"
    port = free_ports(2)
    sources = [part for n in range(2) for part in ("--zmq", f"tcp://127.0.0.1:{port + n}")]
    recorder = record(tmp_path, str(config), "--series", "1", *sources, listen=False)
    return recorder, f"zmq://127.0.0.1:{port}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_simulator_that_is_ended_tells_what_it_sent(
    recording: tuple[RecordCommand, str], tmp_path: Path, number: int
) -> None:
    """Also of what it held back; whatever it had announced, the rest is missing."""
    recorder, target = recording
    log = tmp_path / "faults.jsonl"
    with detector(log, "--to", target) as process:
        sending(process, 600)
        process.send_signal(number)
        end = recorder.until(RecorderSeriesEnd)
        assert process.wait(30) == 1
    assert isinstance(end, RecorderSeriesEnd)
    expected = last_line(log)["expected"]
    assert 500 < expected["received"] < FRAMES
    assert expected["received"] + expected["missing"] == FRAMES
    found = {key: getattr(end, key) for key in ("missing", "late", "duplicate", "damaged")}
    assert {"received": end.frames_received, **found} == {key: expected[key] for key in ("received", *found)}
    with h5py.File(end.file) as file:
        counts = file["/entry/penstock/frame_state"].attrs
        assert list(counts["received_by_element"]) == expected["received_by_element"]


def test_of_a_receiver_that_was_lost_nobody_knows_what_it_got(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    log = tmp_path / "faults.jsonl"
    with detector(log, "--to", f"tcp://{recorder.address}", "--reconnect-timeout", "0.3") as process:
        recorder.until(SeriesStart)
        sending(process, 300)
        os.kill(native_recorder(recorder.process.pid), signal.SIGKILL)
        assert process.wait(60) == 1
    told = last_line(log)
    assert told["expected"] is None
    assert recorder.address in told["reason"]


def test_nothing_is_expected_where_nobody_pulls(run: Run, tmp_path: Path, free_port: int) -> None:
    log = tmp_path / "faults.jsonl"
    sent = run(
        *("simulate", *SCENE, "--to", f"zmq://127.0.0.1:{free_port}", "--connect-timeout", "0.3"),
        *("--fault", "drop=1%", "--fault-log", str(log)),
    )
    assert sent.returncode == 1
    told = last_line(log)
    assert told["expected"] is None
    assert f":{free_port}" in told["reason"]


def test_a_simulator_that_is_killed_leaves_whole_lines(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    log = tmp_path / "faults.jsonl"
    with detector(log, "--to", f"tcp://{recorder.address}") as process:
        sending(process, 300)
        end_with_family(process)
        process.wait(30)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["frames"] == FRAMES
    assert len(lines) > 10
    assert all("fault" in line for line in lines[1:]), "no last line"
