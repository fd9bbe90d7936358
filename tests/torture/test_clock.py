"""The machine's clock steps back and forth while a series is recorded. Realtime is a label; every timer is
monotonic. libfaketime moves the clock of the recorder alone."""

import time
from functools import partial
from pathlib import Path

import h5py
import pytest
from rounds import Setup, assert_clean, assert_right, recording, say
from sender import Frames, Sender, sending

from penstock.model.events import RecorderSeriesEnd
from penstock.programs.locate import find_program

STEPS_S = (3600, -86_400, 0, 10 * 365 * 86_400, -3600)
FRAMES = 500


@pytest.fixture
def offset_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the recorder's clock finds by how much it is wrong."""
    library = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
    if not library.exists():
        pytest.skip("libfaketime is not installed (Debian: faketime)")
    offset = tmp_path / "offset"
    offset.write_text("+0", encoding="ascii")
    programs = tmp_path / "bin"
    programs.mkdir()
    settings = f"LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={offset}"
    settings += " FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1"
    wrapper = programs / "penstock-recorder"
    wrapper.write_text(
        f'#!/bin/sh\nexec env {settings} {find_program("penstock-recorder")} "$@"\n', encoding="utf-8"
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(programs))
    return offset


def is_safe(sender: Sender, end: int) -> bool:
    return sender.links[0].safe_below >= end


def has_sent(sender: Sender, frames: int) -> bool:
    return sender.sent > frames


def test_a_clock_that_steps(offset_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Frames(11)
    store = {"durability": "interval", "sync_interval_ms": 20, "flush_interval_ms": 20}
    part = FRAMES // len(STEPS_S)
    with (
        recording(tmp_path, Setup(store=store)) as recorder,
        sending(recorder.ports, "clock", frames, FRAMES + 1) as sender,
    ):
        monkeypatch.undo()
        sender.begin()
        sender.wait_started()
        for position, step in enumerate(STEPS_S):
            sender.deal(position * part, (position + 1) * part, 0.0005)
            half = position * part + part // 2
            sender.until(partial(has_sent, sender, half), "frames are on their way", 20)
            offset_file.write_text(f"{step:+d}", encoding="ascii")
            sender.join()
            # Small segments leave by a timer, syncs come by another: none of them waits for the clock.
            safe = partial(is_safe, sender, (position + 1) * part)
            sender.until(safe, f"frames of step {step}", 20)
        sender.end()  # a frame is missing, so that the end comes by a timer as well
        series_end = recorder.until(RecorderSeriesEnd, 20)
    assert isinstance(series_end, RecorderSeriesEnd)
    assert series_end.problem is None
    assert series_end.missing == 1
    assert 0 <= series_end.latency_ms.max < 60_000, "a latency is no difference of labels"
    assert series_end.seconds < 60
    file = tmp_path / "clock.h5"
    assert_clean(file)
    assert assert_right(file, frames) == set(range(FRAMES))
    with h5py.File(file) as content:
        received = content["/entry/penstock/timing/received"][...] * 1e-9
    # The labels are those of the clock as it was: the first frames of a part come before its own step.
    for position, step in enumerate(STEPS_S[:-1]):
        label = received[(position + 1) * part]
        assert abs(label - time.time() - step) < 300, f"step {position}"
    latency = series_end.latency_ms.max
    say(f"the clock stepped by {STEPS_S} s: {len(received)} frames, latency at most {latency:.0f} ms")
