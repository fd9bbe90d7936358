"""Several series of one name: detectors that start anew, and pushers that follow each other."""

import time
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
from conftest import Record
from detector_stream import multi_dimensional
from pulled_series import FRAMES, counts, end, endpoints, image, pull, rejected, start
from pusher import Pusher


def test_a_second_series_of_one_name_has_its_own_file(record: Record, tmp_path: Path) -> None:
    """Behind the end of one that lacks a frame, and of a whole one; nobody waits for what never comes."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=3, settings="end_timeout_s: 60\n")
    orders = [(0, 1, 3), (2, 3, 0, 1), (0, 1, 2, 3)]
    with Pusher(endpoint) as pusher:
        for order in orders:
            pusher.send(start(frames=4), *(image(number) for number in order), end())
        ends = [recorder.series_end() for _ in orders]
    assert [counts(ended) for ended in ends] == [(3, 1, 0, 0, 0), (4, 0, 0, 0, 0), (4, 0, 0, 0, 0)]
    assert [Path(ended.file).name for ended in ends] == ["s.h5", "s-2.h5", "s-3.h5"]
    assert {ended.ended_by for ended in ends} == {"message"}
    assert rejected(recorder) == []
    assert recorder.process.wait(timeout=30) == 0
    with h5py.File(ends[0].file) as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, 1, 0, 1]
    for ended in ends[1:]:
        with h5py.File(ended.file) as file:
            assert (file["/entry/data/data"][...] == FRAMES[:4]).all()


def armed(minute: int) -> dict[str, Any]:
    return {"arm_date": cbor2.CBORTag(0, f"2026-11-20T10:{minute:02}:00Z")}


def test_a_detector_that_dies_and_counts_its_series_anew_loses_no_frame(
    record: Record, tmp_path: Path
) -> None:
    """Three times the same name, and no end; what it sends meanwhile waits in ZeroMQ."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=3, settings="end_timeout_s: 60\n")
    for life in range(3):
        with Pusher(endpoint) as detector:
            detector.send(start(frames=6, **armed(life)), *(image(frame) for frame in range(2 * life + 2)))
            if life == 2:
                detector.send(end())
    ends = [recorder.series_end() for _ in range(3)]
    assert [counts(ended)[:2] for ended in ends] == [(2, 4), (4, 2), (6, 0)]
    assert [ended.ended_by for ended in ends] == ["new_start", "new_start", "message"]
    assert rejected(recorder) == []
    for ended in ends:
        with h5py.File(ended.file) as file:
            frames = ended.frames_received
            assert (file["/entry/data/data"][:frames] == FRAMES[:frames]).all()


def test_pushers_that_all_start_anew_make_one_file_together(record: Record, tmp_path: Path) -> None:
    """Each at a time of its own: the first waits for the others, and no frame gets into the wrong file."""
    first, second, third = endpoints(3)
    settings = "end_timeout_s: 30\nidle_timeout_s: 60\n"
    recorder = pull(record, tmp_path, first, second, third, series=2, settings=settings)
    with Pusher(first) as one, Pusher(second) as two, Pusher(third) as three:
        pushers = (one, two, three)
        for pusher in pushers:
            pusher.send(start(frames=6, **armed(0)))
        for number, pusher in enumerate(pushers):
            pusher.send(image(number, data=multi_dimensional(FRAMES[number] + 1)))
        for number, pusher in enumerate(pushers):
            if number == 2:
                pusher.send(image(5, data=multi_dimensional(FRAMES[5] + 1)))
            pusher.send(start(frames=6, **armed(1)), image(number), image(number + 3))
            time.sleep(0.5)
        for pusher in pushers:
            pusher.send(end())
        ends = [recorder.series_end() for _ in range(2)]
    assert [counts(ended) for ended in ends] == [(4, 2, 0, 0, 0), (6, 0, 0, 0, 0)]
    assert [ended.ended_by for ended in ends] == ["new_start", "message"]
    assert rejected(recorder) == []
    with h5py.File(ends[0].file) as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, 1, 1, 0, 0, 1]
        assert (file["/entry/data/data"][:3] == FRAMES[:3] + 1).all()
    with h5py.File(ends[1].file) as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
        assert file["/entry/start_time"][()] == b"2026-11-20T10:01:00Z"


def test_a_series_that_waits_for_its_name_is_given_up_when_the_recorder_is_stopped(
    record: Record, tmp_path: Path
) -> None:
    one, other = endpoints(2)
    recorder = pull(record, tmp_path, one, other, settings="idle_timeout_s: 600\n")
    with Pusher(one) as first, Pusher(other) as second:
        second.send(start())
        first.send(start(), image(0), start(**armed(1)))
        assert recorder.process.stderr is not None
        waits = "another series of the same name starts, and waits until this one is closed"
        assert any(waits in line for line in recorder.process.stderr)
        code, log = recorder.stop()  # which fails where the recorder goes on waiting
    assert code == 0, log
    assert [path.name for path in tmp_path.glob("*.h5")] == ["s.h5"]


def test_a_start_that_is_sent_twice_is_one_series(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=3), image(0), start(frames=3), image(1), image(2), end())
        assert recorder.series_end().frames_received == 3
