"""Frames of which a channel never comes, and images with a channel that nobody declared."""

import json
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, Run
from detector_stream import multi_dimensional
from mid_series import kill
from pulled_series import FRAMES, end, endpoints, image, noted, pull, start
from pusher import Pusher

from penstock.model.events import RecorderProgress

CHANNELS = ["low", "high"]
PARTIAL = 5


def image_of(frame: int, *channels: str) -> dict[str, object]:
    return {**image(frame), "data": {channel: multi_dimensional(FRAMES[frame]) for channel in channels}}


def send_most(pusher: Pusher) -> None:
    """Of frame 1 one channel is never sent, of frame 2 nothing, and frame 3 has one channel too many."""
    pusher.send(
        start(frames=4, channels=CHANNELS),
        image_of(0, "low", "high"),
        image_of(1, "low"),
        image_of(3, "low", "other", "high"),
    )


def assert_partial(path: Path, run: Run) -> None:
    with h5py.File(path) as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, PARTIAL, 0, 1]
        assert file["/entry/penstock/frame_state"].attrs["partial"] == 1
        low, high = file["/entry/data/data"], file["/entry/data/channel_1_high"]
        assert numpy.array_equal(low[1], FRAMES[1])
        assert not numpy.array_equal(high[1], FRAMES[1])
        assert numpy.array_equal(low[3], FRAMES[3])
        assert numpy.array_equal(high[3], FRAMES[3])
    checked = run("check", str(path), "--json")
    report = json.loads(checked.stdout)
    assert (report["ok"], report["missing"], report["partial"]) == (True, 2, 1), report
    (lack,) = (each for each in report["findings"] if "lack a channel" in each["what"])
    assert (lack["where"], lack["actual"]) == ("/entry/data/channel_1_high", "1, the first is frame 1")
    assert "2 missing (1 partial)" in run("info", str(path)).stdout


def test_a_frame_that_lacks_a_channel_has_a_state_of_its_own(
    record: Record, run: Run, tmp_path: Path
) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, settings="end_timeout_s: 0.3\n")
    with Pusher(endpoint) as pusher:
        send_most(pusher)
        pusher.send(end())
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.partial) == (2, 2, 1)
    recorder.process.wait(60)
    undeclared, lacking = noted(recorder)
    assert 'image 3 of series "s": image: data: channel "other"' in undeclared
    assert "[low, high]" in undeclared
    assert 'lack channel "high", the first is frame 1' in lacking
    assert_partial(tmp_path / "s.h5", run)


@pytest.mark.parametrize("rebuild", [False, True])
def test_recovery_knows_a_frame_that_lacks_a_channel(
    record: Record, run: Run, tmp_path: Path, rebuild: bool
) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, settings="end_timeout_s: 60\n")
    with Pusher(endpoint) as pusher:
        send_most(pusher)
        for _ in range(200):
            event = recorder.until(RecorderProgress)
            assert isinstance(event, RecorderProgress)
            if event.frames_written == 2:
                break
        kill(recorder)
    path = tmp_path / "s.h5"
    done = run("recover", str(path), *(["--rebuild"] if rebuild else []))
    assert done.returncode == (1 if rebuild else 0), "a rebuild cannot bring all columns back: " + done.stdout
    assert_partial(path, run)
