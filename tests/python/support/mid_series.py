"""A recorder that ends in the middle of a series, as a user meets it."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
from conftest import Record, RecordCommand
from warm_command import popen

from penstock.model.events import RecorderProgress, SeriesStart

SMALL = ("custom", "--rows", "64", "--columns", "96", "--frames", "100000", "--rate", "400")


def kill(recorder: RecordCommand) -> None:
    os.killpg(native_recorder(recorder.process.pid), signal.SIGKILL)
    recorder.process.communicate(timeout=60)


def stop(recorder: RecordCommand) -> None:
    code, log = recorder.stop()
    assert code == 0, log


def ended_in_mid_series(
    record: Record,
    folder: Path,
    options: Sequence[str] = (),
    detector: Sequence[str] = SMALL,
    frames: int = 150,
    end: Callable[[RecordCommand], None] = kill,
) -> Path:
    """The file of a recorder that came to its end after some more than `frames` frames."""
    recorder = record(folder, *options)
    options = ("--series-name", "left", "--connect-timeout", "120", "--to", f"tcp://{recorder.address}")
    sender = popen("simulate", *detector, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        recorder.until(SeriesStart)
        while True:
            progress = recorder.until(RecorderProgress)
            assert isinstance(progress, RecorderProgress)
            if progress.frames_written > frames:
                break
            assert sender.poll() is None, "the sender ended before the recorder"
        end(recorder)
    finally:
        sender.terminate()
        sender.wait(60)
    return folder / "left.h5"


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
