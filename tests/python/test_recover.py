"""A recorder that is killed with SIGKILL in mid-series, as a user meets it: what the file holds then, what
`penstock recover` makes of it, and what plain h5py reads afterwards."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record

from penstock.model.events import RecorderProgress, SeriesStart

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def left(record: Record, tmp_path: Path) -> Path:
    """The file of a recorder that was killed after some hundred frames."""
    recorder = record(tmp_path)
    command = [sys.executable, "-m", "penstock", "simulate", "custom", "--rows", "64", "--columns", "96"]
    command += ["--frames", "100000", "--rate", "400", "--series-name", "left", "--connect-timeout", "1"]
    detector = subprocess.Popen(
        [*command, "--to", f"tcp://{recorder.address}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        recorder.until(SeriesStart)
        while True:
            progress = recorder.until(RecorderProgress)
            assert isinstance(progress, RecorderProgress)
            if progress.frames_written > 300:
                break
        os.killpg(native_recorder(recorder.process.pid), signal.SIGKILL)
        recorder.process.communicate(timeout=60)
    finally:
        detector.terminate()
        detector.communicate(timeout=60)
    return tmp_path / "left.h5"


def native_recorder(parent: int) -> int:
    """The process id of the recorder behind `penstock record`; it leads a process group of its own."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    found = [
        int(child)
        for child in children
        if b"penstock-recorder" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert len(found) == 1, children
    return found[0]


def stamps_are_right(file: Path) -> int:
    """Every frame that is marked as received carries its number; how many there are."""
    with h5py.File(file) as content:
        states = content["/entry/penstock/frame_state"][...]
        received = numpy.flatnonzero(states == 1)
        for number in received:
            frame = content["/entry/data/data"][number]
            assert numpy.ascontiguousarray(frame[0, :4]).view("uint64")[0] == number
        return len(received)


def test_a_killed_recorders_file_is_completed(left: Path, run: Run) -> None:
    with contextlib.suppress(OSError), h5py.File(left) as _:
        pytest.fail("a file that was left open opens without a word")
    before = json.loads(run("check", str(left), "--json").stdout)
    size = left.stat().st_size

    tried = json.loads(run("recover", str(left), "--dry-run", "--json").stdout)
    assert (tried["way"], tried["written"], left.stat().st_size) == ("repair", False, size)

    done = run("recover", str(left))
    assert done.returncode == 0, done.stderr
    assert "frames are there" in done.stdout
    after = json.loads(run("check", str(left), "--against", "recorded", "--json").stdout)
    assert not [finding for finding in after["findings"] if finding["level"] == "error"], after
    assert after["different_frames"] == 0
    assert after["missing"] <= before["missing"]
    assert stamps_are_right(left) == after["frames"] - after["missing"] > 300
    with h5py.File(left) as content:
        assert content["/entry/data/data"].shape[0] == 100000
        assert content["/entry/end_time"][()]
        received = content["/entry/penstock/timing/received"][...]
        assert (received[content["/entry/penstock/frame_state"][...] == 1] > 0).all()

    again = json.loads(run("recover", str(left), "--json").stdout)
    assert (again["way"], again["written"]) == ("nothing", False)


def test_a_file_without_its_structure_comes_back_from_its_segments(left: Path, run: Run) -> None:
    with left.open("r+b") as file:
        file.write(b"\0" * 2048)  # superblock and root group
    assert run("check", str(left)).returncode == 1
    report = json.loads(run("recover", str(left), "--json").stdout)
    assert report["way"] == "rebuild"
    assert stamps_are_right(left) == report["recovered"] > 300


def test_what_cannot_be_recovered_is_said(record: Record, run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.h5").write_bytes(b"not of Penstock" * 1000)
    refused = run("recover", str(tmp_path / "other.h5"))
    assert refused.returncode == 1
    assert "description segment" in refused.stderr
    assert run("recover", str(tmp_path / "nowhere.h5")).returncode == 2
    with h5py.File(tmp_path / "busy.h5", "w") as _:
        busy = run("recover", str(tmp_path / "busy.h5"))
    assert busy.returncode == 1
    assert "another process" in busy.stderr
