"""A disk, or a quota, that is full in mid-series and has space again later: the series goes on, what was lost
is in the ledger and may be sent again, and what was acknowledged is there."""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import cbor2
import h5py
import numpy
import psutil
import pytest
from detector_stream import IDENTITY, multi_dimensional
from places import MIB, command, ext4_with_quota, full_ext4, mounted, tmpfs
from plain_client import RESUME
from pusher import Pusher
from rounds import (
    Recorder,
    Setup,
    assert_clean,
    assert_right,
    errors_of,
    is_long,
    judge,
    long_run,
    recording,
    say,
)
from sender import Frames, Sender, sending, start_fields

from penstock.client import Series
from penstock.model.events import RecorderSeriesEnd
from penstock.programs.locate import find_program

SHAPE = (256, 300)  # 150 KiB
FRAMES = 300
LOST = 4


PLACES = {"tmpfs": tmpfs, "ext4": full_ext4, "quota": ext4_with_quota}


@pytest.fixture
def without_privilege(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write beyond a quota; the recorder runs without that right."""
    programs = tmp_path / "bin"
    programs.mkdir()
    real = find_program("penstock-recorder")
    wrapper = programs / "penstock-recorder"
    wrapper.write_text(
        f'#!/bin/sh\nexec setpriv --bounding-set -sys_resource {real} "$@"\n', encoding="utf-8"
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(programs))


def settled(recorder: Recorder) -> bool:
    """Whether the recorder has said that there was no space."""
    return any("no space left" in line or "disk quota" in line for line in recorder.program.log)


def send_until_full(recorder: Recorder, sender: Sender) -> int:
    """How many frames were sent."""
    for number in range(FRAMES):
        # The recorder ends the connection when the storage is full, at whatever moment of a message.
        with contextlib.suppress(ConnectionError):
            sender.put(sender.links[0], number)
        if settled(recorder):
            return number + 1
    # What was sent may still be on its way to the storage.
    for _ in range(100):
        if settled(recorder):
            return FRAMES
        time.sleep(0.1)
    raise AssertionError(f"the storage is not full; the log: {list(recorder.program.log)}")


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["none", "interval", "segment"] if is_long() else ["segment"])
@pytest.mark.parametrize("kind", list(PLACES) if is_long() else ["tmpfs"])
@pytest.mark.usefixtures("without_privilege")
def test_the_series_goes_on(
    kind: str, durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "at"
    at.mkdir()
    store = {"durability": durability, "segment_bytes": MIB, "extent_bytes": 4 * MIB}
    frames = Frames(3, SHAPE)
    with PLACES[kind](at) as place:
        with (
            recording(place.folder, Setup(encoding="none", store=store)) as recorder,
            sending(recorder.ports, "full", frames, FRAMES) as sender,
        ):
            sender.begin()
            sender.wait_started()
            sent = send_until_full(recorder, sender)
            place.space()
            monkeypatch.undo()  # the other programs are where they always are
            # The recorder ends the connection, so that what was lost comes again.
            sender.until(sender.links[0].over.is_set, "the connection ends")
            acknowledged = sender.acknowledged()
            with sending(recorder.ports, "full", frames, FRAMES) as again:
                again.begin(RESUME)
                again.wait_started()
                again.deal(len(acknowledged), FRAMES)
                again.join()
                again.end()
                end = recorder.until(RecorderSeriesEnd)
                again.until(again.is_closed, "the series is closed")
                acknowledged |= again.acknowledged()
        assert isinstance(end, RecorderSeriesEnd)
        assert end.lost > 0
        assert end.missing == 0, "what was lost and sent again is there"
        assert end.problem is None, "and then the file is complete"
        file = place.folder / "full.h5"
        assert_clean(file)
        received = assert_right(file, frames)
        assert acknowledged == received == set(range(FRAMES))
    say(f"full {kind}, {durability}: {sent} sent until full, {end.lost} lost and sent again")


@pytest.mark.slow
@pytest.mark.usefixtures("without_privilege")
def test_a_detector_sends_again_what_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "at"
    at.mkdir()
    store = {"durability": "segment", "segment_bytes": MIB, "extent_bytes": 4 * MIB}
    with tmpfs(at) as place:
        with recording(place.folder, Setup(encoding="none", store=store)) as recorder:
            monkeypatch.undo()  # the other programs are where they always are
            command = [sys.executable, "-m", "penstock", "simulate", "custom", "--rows", str(SHAPE[0])]
            command += ["--columns", str(SHAPE[1]), "--frames", str(FRAMES), "--series-name", "full"]
            command += ["--rate", "500", "--to", f"tcp://127.0.0.1:{recorder.ports[0]}"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as detector:
                try:
                    deadline = time.monotonic() + 60
                    while not settled(recorder):
                        assert time.monotonic() < deadline, "the storage is not full"
                        time.sleep(0.05)
                    place.space()
                    end = recorder.until(RecorderSeriesEnd)
                finally:
                    detector.terminate()
        assert isinstance(end, RecorderSeriesEnd)
        assert end.lost > 0
        assert (end.missing, end.problem) == (0, None), "what was lost came again by itself"
        assert_clean(place.folder / "full.h5")


def with_metadata(number: int, frames: Frames) -> dict[str, object]:
    """An image whose metadata is six times as large as its pixels."""
    arrays = {f"array_{i}": cbor2.CBORTag(86, numpy.full(512, number + i, "<f8").tobytes()) for i in range(4)}
    data = {"a": multi_dimensional(frames[number])}
    image = {"type": "image", **IDENTITY, "series_unique_id": "full", "image_id": number, "data": data}
    return {**image, "user_data": arrays}


def wait_for_rows(path: Path, rows: int) -> None:
    """Waits until a growing file contains this many rows of metadata: they are written in batches."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, KeyError), h5py.File(path, swmr=True) as file:
            if numpy.isfinite(file["/entry/metadata/array_0"][:, 0]).sum() >= rows:
                return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not contain {rows} rows of metadata")


@pytest.mark.usefixtures("without_privilege")
def test_a_disk_that_metadata_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What frames bring along cannot be written: the recorder lives and tells it, and keeps what it had."""
    at = tmp_path / "at"
    at.mkdir()
    frames = Frames(5, (32, 40))
    count = 2500
    store = {"durability": "segment", "segment_bytes": MIB // 4, "extent_bytes": MIB}
    with tmpfs(at) as place:
        with recording(place.folder, Setup(encoding="none", transport="zmq", store=store)) as recorder:
            monkeypatch.undo()
            with Pusher(f"tcp://127.0.0.1:{recorder.ports[0]}") as detector:
                detector.send(start_fields("full", frames, count))
                sent = 0
                while sent < count and not settled(recorder):
                    detector.send(with_metadata(sent, frames))
                    sent += 1
                    if sent == 600:
                        wait_for_rows(place.folder / "full.h5", 550)  # while there is room
                detector.send({"type": "end", **IDENTITY, "series_unique_id": "full"})
                end = recorder.until(RecorderSeriesEnd)
            assert psutil.pid_exists(recorder.pids[0])
            log = list(recorder.program.log)
        assert isinstance(end, RecorderSeriesEnd)
        assert end.problem is not None
        assert sent > 500
        assert len(log) < 100, "it is told a few times, and then now and then"
        place.space()
        file = place.folder / "full.h5"
        verdict = judge(file, frames, set(), at_least=end.frames_written)
        with h5py.File(file) as content:
            column = content["/entry/metadata/array_0"][...]
        # Of the rows that waited for room to the end, those of some columns may have found it.
        right = 0
        for number in sorted(verdict.received):
            assert numpy.isnan(column[number]).all() or (column[number] == number).all(), number
            right += bool((column[number] == number).all())
        assert right > 500
    say(f"full of metadata: {sent} sent, {verdict}, {end.problem}")


@long_run
@pytest.mark.parametrize("kind", list(PLACES))
@pytest.mark.usefixtures("without_privilege")
def test_what_was_lost_is_in_the_ledger(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "at"
    at.mkdir()
    frames = Frames(4, SHAPE)
    with PLACES[kind](at) as place:
        with (
            recording(place.folder, Setup(encoding="none", store={"segment_bytes": MIB})) as recorder,
            sending(recorder.ports, "full", frames, FRAMES) as sender,
        ):
            sender.begin()
            sender.wait_started()
            sent = send_until_full(recorder, sender)
            place.space()
            monkeypatch.undo()
            sender.until(sender.links[0].over.is_set, "the connection ends")
            with sending(recorder.ports, "full", frames, FRAMES) as again:  # a client that has kept nothing
                again.begin(RESUME)
                again.wait_started()
                again.deal(sent, FRAMES)
                again.join()
                again.end()
                end = recorder.until(RecorderSeriesEnd)
        assert isinstance(end, RecorderSeriesEnd)
        file = place.folder / "full.h5"
        assert errors_of(file) == ["frames are lost"]
        received = assert_right(file, frames)
        assert sender.acknowledged() <= received
        assert received >= set(range(sent, FRAMES)), "the series goes on"
        with h5py.File(file) as content:
            states = content["/entry/penstock/frame_state"][...]
        lost = set(map(int, numpy.flatnonzero(states == LOST)))
        assert len(lost) == end.lost > 0
        assert received | lost == set(range(FRAMES))
        assert end.problem is not None
    say(f"full {kind}: {end.lost} of {FRAMES} frames are lost, and in the ledger")


@pytest.mark.slow
@pytest.mark.parametrize(("mib", "encoding"), [(50, "bslz4"), (24, "none")])
def test_a_client_waits_until_room_is_made(mib: int, encoding: str, tmp_path: Path) -> None:
    """The index finds no room either while frames are sent again and again; it goes on with them."""
    at = tmp_path / "at"
    at.mkdir()
    shape, count = (512, 512), 120
    frames = numpy.random.default_rng(7).integers(0, 65000, (count, *shape), "uint16")  # hardly compresses
    store = {} if encoding == "bslz4" else {"extent_bytes": 8 * MIB}
    with mounted(at, "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs"):
        with recording(at, Setup(encoding=encoding, store=store)) as recorder:
            series = Series(f"127.0.0.1:{recorder.ports[0]}", dtype="uint16", shape=shape, name="full")
            room = threading.Timer(7, command, ("mount", "-o", "remount,size=300m", str(at)))
            room.start()
            for frame in frames:
                series.send(frame)
            series.wait_acknowledged(60)
            room.join()
            series.close()  # all came again: no problem is told
            assert series.acknowledged == count
            end = recorder.until(RecorderSeriesEnd)
            log = list(recorder.program.log)
        assert isinstance(end, RecorderSeriesEnd)
        assert end.lost > 0, "the storage was full"
        assert (end.missing, end.problem) == (0, None)
        assert not [line for line in log if "index stops" in line]
        file = at / "full.h5"
        assert_clean(file)
        with h5py.File(file) as content:
            assert numpy.array_equal(content["/entry/data/data"][...], frames)
        assert file.stat().st_blocks * 512 < 1.5 * frames.nbytes, "nothing is written again and again"
