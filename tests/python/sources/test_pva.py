"""Frames of a real pvAccess server are in the file as they were posted, and what was lost is seen to be."""

import importlib.util
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, RecordCommand
from mid_series import native_recorder
from ports import free_ports
from pva_server import CHANNEL, PvaServer, compressed, image, images

from penstock.model.errors import PenstockError
from penstock.model.events import (
    Event,
    FrameProblem,
    PvaChannel,
    PvaProgress,
    PvaSeriesEnd,
    Rejected,
)
from penstock.model.pva import PvaPlan
from penstock.pva.source import run_source

WAIT_S = 30
# As many as a test posts at once: pvAccess itself loses none then.
QUEUE = 256


@pytest.fixture(scope="module")
def running() -> Iterator[PvaServer]:
    with PvaServer(free_ports(2)) as found:
        yield found


@pytest.fixture
def server(running: PvaServer, monkeypatch: pytest.MonkeyPatch) -> PvaServer:
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    running.restart_if_dead()
    return running


@pytest.fixture
def recorder(record: Record, tmp_path: Path) -> RecordCommand:
    """It does not wait for frames behind an end."""
    settings = tmp_path / "recorder.yaml"
    settings.write_text("end_timeout_s: 0\n")
    return record(tmp_path, str(settings))


class Source:
    """run_source in a thread, with the events that it told."""

    def __init__(self, address: str, **settings: Any) -> None:
        self.plan = PvaPlan(**({"channel": CHANNEL, "to": address, "queue_frames": QUEUE} | settings))
        self.inbox: queue.Queue[Event] = queue.Queue()
        self.events: list[Event] = []
        self.ended: list[list[str] | PenstockError] = []
        self.stop, self.at_once = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.ended.append(run_source(self.plan, self.inbox.put, self.stop, self.at_once))
        except PenstockError as error:
            self.ended.append(error)

    def until(self, is_it: Callable[[Event], bool]) -> Event:
        give_up = time.monotonic() + WAIT_S
        while time.monotonic() < give_up:
            try:
                self.events.append(self.inbox.get(timeout=0.2))
            except queue.Empty:
                assert self.thread.is_alive(), (self.ended, self.events)
                continue
            if is_it(self.events[-1]):
                return self.events[-1]
        raise AssertionError(self.events)

    def connected(self) -> "Source":
        self.until(lambda event: isinstance(event, PvaChannel) and event.state == "connected")
        return self

    def received(self, count: int) -> None:
        """Of the open series."""
        self.until(lambda event: isinstance(event, PvaProgress) and event.frames_received >= count)

    def end(self) -> list[str]:
        self.stop.set()
        self.thread.join(WAIT_S)
        while not self.inbox.empty():
            self.events.append(self.inbox.get())
        (found,) = self.ended
        if isinstance(found, PenstockError):
            raise found
        return found

    def series(self) -> list[PvaSeriesEnd]:
        return sorted(
            (event for event in self.events if isinstance(event, PvaSeriesEnd)), key=lambda each: each.time
        )

    def problems(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, FrameProblem)]


Watch = Callable[..., Source]


@pytest.fixture
def watch(server: PvaServer) -> Iterator[Watch]:
    started: list[Source] = []

    def start(recorder: RecordCommand, **settings: Any) -> Source:
        started.append(Source(recorder.address, **settings))
        return started[-1].connected()

    yield start
    for source in started:
        source.at_once.set()
        source.stop.set()
        source.thread.join(WAIT_S)


def stored(folder: Path, name: str) -> Any:
    with h5py.File(folder / f"{name}.h5") as file:
        return file["/entry/data/data"][...]


def test_the_command_records_until_ctrl_c(server: PvaServer, record: Record, tmp_path: Path) -> None:
    """Gaps are missing frames, attributes are columns, and the start file tells the rest."""
    start = tmp_path / "start.yaml"
    start.write_text(
        "pixel_size_x: 75e-6\npixel_size_y: 75.0e-6\ncount_time: {attribute: Temperature, scale: 0.001}\n"
        "sensor_material: Si\nuser_data: {sample: lysozyme}\n".replace("75e-6", "0.000075")
    )
    server.post([900])  # old when the source comes
    recorder = record(
        tmp_path, "--pva", CHANNEL, "--pva-name", "{channel}", "--pva-start", str(start), listen=False
    )
    recorder.until(PvaChannel)
    ids = [*range(11, 21), *range(24, 31)]
    server.post(ids, attributes={"Shutter": "open"})
    recorder.until(PvaProgress)
    code, log = recorder.stop(signal.SIGINT)
    assert code == 0, log
    # stop() has taken what was left of the events.
    with h5py.File(tmp_path / "TEST-Pva1-Image.h5") as file:
        data, state = file["/entry/data/data"][...], file["/entry/penstock/frame_state"][...]
        there = np.array(ids) - 11
        assert state.tolist() == [1 if number in there else 0 for number in range(20)]
        assert np.array_equal(data[there], images(ids))
        columns = file["/entry/metadata"]
        assert columns["NDArrayUniqueId"][there].tolist() == ids
        assert columns["Temperature"][there].tolist() == [20.5 + each for each in ids]
        assert columns["Lamp"].asstr()[12 + 1] == "lamp 24"
        assert columns["Vector"].asstr()[0] == "[11,12,13]"
        assert columns["NDArrayTimeStamp"][0] == 1_700_000_011.5 - 631_152_000
        assert columns["NDArrayEpicsTSSec"][0] == 1_700_000_011 - 631_152_000
        assert columns["NDArrayEpicsTSnSec"][0] == 250_000_000
        detector = file["/entry/instrument/detector"]
        assert detector["x_pixel_size"][()] == 75e-6
        assert detector["count_time"][()] == pytest.approx(0.0315)
        user_data = file["/entry/penstock/user_data"].asstr()[()]
        assert '"sample":"lysozyme"' in user_data
        assert '"first_unique_id":11' in user_data
        assert '"fullSize":80' in user_data


CODECS = ["bslz4", "lz4", "lz4hdf5", "zlib", "blosc", "jpeg"]
TYPES = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def test_codecs_and_types(server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path) -> None:
    """Where one of them changes a series ends and the next begins."""
    source = watch(recorder, name="s")
    counter = itertools.count(1)
    expected = []
    for codec in CODECS:
        ids, dtype = list(itertools.islice(counter, 3)), "uint8" if codec == "jpeg" else "uint16"
        server.post(ids, codec=codec, dtype=dtype, behind=40)
        expected.append((ids, dtype, codec))
    for dtype in TYPES:
        ids = list(itertools.islice(counter, 2))
        server.post(ids, dtype=dtype)
        expected.append((ids, dtype, ""))
    coloured = list(itertools.islice(counter, 2))
    server.post(coloured, shape=(3, 4, 5), attributes={"ColorMode": 4})
    last = f"s-{len(expected) + 1}"
    source.until(
        lambda event: (
            isinstance(event, PvaProgress) and (event.series_unique_id, event.frames_received) == (last, 2)
        )
    )
    assert source.end() == [], source.problems()
    assert source.problems() == []
    ended = [recorder.series_end() for _ in range(len(expected) + 1)]
    assert all((end.missing, end.problem) == (0, None) for end in ended)
    names = [f"s-{number}" if number > 1 else "s" for number in range(1, len(expected) + 1)]
    for name, (ids, dtype, codec) in zip(names, expected, strict=True):
        found = stored(tmp_path, name)
        assert found.dtype == dtype, name
        wanted = images(ids, dtype)
        if codec == "jpeg":
            assert np.abs(found.astype(int) - wanted).mean() < 8
        else:
            assert np.array_equal(found, wanted), (name, codec)
    assert np.array_equal(stored(tmp_path, last), images(coloured, shape=(3, 4, 5)))
    with h5py.File(tmp_path / "s.h5") as file:  # not a byte of it was touched
        chunk = file["/entry/data/data"].id.read_direct_chunk((1, 0, 0))[1]
        assert chunk[12:] == compressed("bslz4", image(2))
        assert chunk[:12] == (2400).to_bytes(8, "big") + (8192).to_bytes(4, "big")


def test_bad_frames_are_damaged_and_told_of(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """Some in the source's eyes, one in the recorder's; all others are there."""
    source = watch(recorder, name="s")
    server.post([5], codec="bslz4")
    server.post([6], codec="bslz4", spoil={"dimension": [{"size": 40}, {"size": 31}]})
    server.post([7], codec="bslz4", spoil={"compressedSize": 10**9})
    server.post([8], codec="bslz4", spoil={"codec": {"name": "zip", "parameters": 6}})
    server.post([9], codec="bslz4")
    server.post([9], codec="bslz4")
    server.post([1], codec="bslz4", spoil={"uniqueId": -1})
    server.post([10], codec="bslz4", spoil={"compressedSize": 20})  # cut short: seen when it is framed
    server.post([11], codec="bslz4")
    source.received(4)
    failures = source.end()
    assert failures == ["5 corrupt frames"]
    (end,) = source.series()
    assert (end.frames_received, end.damaged, end.refused, end.repeated, end.missed) == (4, 5, 0, 1, 0)
    assert (end.frames_sent, end.acknowledged, end.problem) == (4, 3, None)
    whys = {
        6: "uncompressedSize is 2400",
        7: "compressedSize is 1000000000",
        8: "codec.name is 'zip'",
        None: "uniqueId is -1",
        10: "the recorder rejects it: image 5: ",
    }
    told = [event for event in source.events if isinstance(event, FrameProblem)]
    assert [each.unique_id for each in told] == list(whys)
    for each in told:
        assert each.damaged
        assert whys[each.unique_id] in each.message
    ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.damaged) == (3, 4, 4)
    rejected = [event.message for event in recorder.events if isinstance(event, Rejected)]
    for number, unique_id in ((1, 6), (2, 7), (3, 8)):
        where, why = f'frame {number} of series "s" ', f": uniqueId {unique_id}: {whys[unique_id]}"
        assert any(where in message and why in message for message in rejected), rejected
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1, 2, 2, 2, 1, 2, 1]
        assert np.array_equal(file["/entry/data/data"][[0, 4, 6]], images([5, 9, 11]))


def test_a_series_of_a_known_length_is_closed_with_its_last_frame(
    server: PvaServer, record: Record, watch: Watch, tmp_path: Path
) -> None:
    """By a recorder that would wait two minutes for others, though frames are damaged and missing."""
    settings = tmp_path / "recorder.yaml"
    settings.write_text("end_timeout_s: 120\n")
    recorder = record(tmp_path, str(settings))
    source = watch(recorder, name="s", frames=6, series_limit=2)
    server.post([1, 2])
    server.post([3], codec="bslz4", spoil={"codec": {"name": "zip", "parameters": 6}})
    server.post([4, 6])  # 5 is lost: nobody waits longer than a second
    began = time.monotonic()
    first = recorder.series_end()
    assert time.monotonic() - began < 60
    assert (first.frames_received, first.missing, first.damaged) == (4, 2, 1)
    # The last frame itself is damaged.
    server.post(range(7, 12))
    server.post([12], spoil={"dimension": [{"size": 40}, {"size": 31}]})
    began = time.monotonic()
    second = recorder.series_end()
    assert time.monotonic() - began < 60
    assert (second.frames_received, second.missing, second.damaged) == (5, 1, 1)
    source.thread.join(WAIT_S)
    assert source.end() == ["2 corrupt frames"]
    assert [end.reason for end in source.series()] == ["all its frames have arrived"] * 2


@pytest.mark.slow
def test_a_server_that_comes_back(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """Its series goes on where its numbers do, and another one begins where they begin again."""
    source = watch(recorder, name="s")
    server.post(range(1, 11))
    source.received(10)
    server.kill()
    source.until(lambda event: isinstance(event, PvaChannel) and event.state == "disconnected")
    server.start()
    source.connected()
    server.post(range(13, 21))
    source.received(18)
    server.kill()
    source.until(lambda event: isinstance(event, PvaChannel) and event.state == "disconnected")
    server.start()
    source.connected()
    server.post(range(1, 6), later=1000)
    source.received(5)
    assert source.end() == [], source.problems()
    ends = source.series()
    assert [(end.frames_sent, end.missed, end.acknowledged) for end in ends] == [(18, 2, 18), (5, 0, 5)]
    assert ends[0].reason == "uniqueId went to 1"
    ids = [*range(1, 11), *range(13, 21)]
    assert np.array_equal(stored(tmp_path, "s")[np.array(ids) - 1], images(ids))
    assert np.array_equal(stored(tmp_path, "s-2"), images(range(1, 6)))
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1] * 10 + [0] * 2 + [1] * 8


def comes_back(server: PvaServer, source: Source, initial: int, **command: Any) -> None:
    """The server goes away, and is there again with a value."""
    server.kill()
    source.until(lambda event: isinstance(event, PvaChannel) and event.state == "disconnected")
    server.start(initial, **command)
    source.connected()


@pytest.mark.slow
def test_the_old_value_of_a_channel_that_comes_back_begins_no_series(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """Whether it is the last frame or a blank one without attributes, which would have no columns."""
    source = watch(recorder, name="s", idle_end_s=0.5)
    server.post(range(1, 11))
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    comes_back(server, source, 10)
    server.post(range(11, 14))
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    comes_back(server, source, 0, bare=True)
    server.post(range(1, 4), later=1000)
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    assert source.end() == [], source.problems()
    found = [(end.series_unique_id, end.first_unique_id, end.frames_sent) for end in source.series()]
    assert sorted(found) == [("s", 1, 10), ("s-2", 11, 3), ("s-3", 1, 3)]
    assert np.array_equal(stored(tmp_path, "s-2"), images(range(11, 14)))
    with h5py.File(tmp_path / "s-3.h5") as file:
        assert file["/entry/metadata/Number"][...].tolist() == [1, 2, 3]


@pytest.mark.slow
def test_the_value_of_a_channel_that_comes_back_in_a_series(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """A number that lies ahead is a frame; an old one neither is a frame nor ends the series."""
    source = watch(recorder, name="s", idle_end_s=0)
    server.post(range(1, 6))
    source.received(5)
    comes_back(server, source, 5)
    comes_back(server, source, 0, bare=True)
    comes_back(server, source, 8)
    server.post([9, 10])
    source.received(8)
    assert source.end() == [], source.problems()
    (end,) = source.series()
    assert (end.frames_sent, end.missed, end.repeated) == (8, 2, 0)
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1] * 5 + [0] * 2 + [1] * 3
        assert file["/entry/metadata/Number"][7:].tolist() == [8, 9, 10]


@pytest.mark.slow
def test_what_is_kept_at_each_connection_is_not_the_last_frame(
    server: PvaServer, recorder: RecordCommand, watch: Watch
) -> None:
    """Nor is it where no time is told, or one for several frames."""
    nothing = {"secondsPastEpoch": 0, "nanoseconds": 0}
    spoil = {"timeStamp": nothing, "dataTimeStamp": nothing}
    server.kill()
    server.start()  # without the last frame of another test
    source = watch(recorder, name="s", initial="keep", idle_end_s=0.5)
    server.post([1, 2], spoil=spoil)
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    comes_back(server, source, 2, spoil=spoil)
    comes_back(server, source, 3)
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    assert source.end() == [], source.problems()
    found = [(end.series_unique_id, end.first_unique_id, end.frames_sent) for end in source.series()]
    assert sorted(found) == [("s", 1, 2), ("s-2", 3, 1)]


def test_a_start_field_whose_attribute_is_not_there_is_told_once(
    server: PvaServer, recorder: RecordCommand, watch: Watch
) -> None:
    """For all series; so is a text where a number is wanted."""
    start = {"count_time": {"attribute": "Nope"}, "frame_time": {"attribute": "Lamp", "scale": 2.0}}
    source = watch(recorder, name="s", frames=2, start=start, series_limit=2)
    server.post(range(1, 5))
    source.thread.join(WAIT_S)
    assert source.end() == []
    assert len(source.series()) == 2
    assert source.problems() == [
        "start.count_time is to be the attribute 'Nope', which the first frame lacks: the file"
        " lacks count_time",
        "start.frame_time is to be the attribute 'Lamp', which is 'lamp 1' in the first frame: the file"
        " lacks frame_time",
    ]


def test_series_of_one_counter_have_nothing_missing_in_front(
    server: PvaServer, recorder: RecordCommand, watch: Watch
) -> None:
    """Where series have so many frames. Where an attribute begins them a first number is refused."""
    source = watch(recorder, name="s", frames=3, first_unique_id=1, series_limit=3)
    server.post([1, 2, 3, 4, 5, 6, 8, 9])
    source.thread.join(WAIT_S)
    assert source.end() == [], source.problems()
    found = [(end.first_unique_id, end.frames_sent, end.missed) for end in source.series()]
    assert sorted(found) == [(1, 3, 0), (4, 3, 0), (7, 2, 1)]
    with pytest.raises(ValueError, match="first_unique_id is 1 and name_attribute is 'Scan'"):
        PvaPlan(channel=CHANNEL, to="x:1", first_unique_id=1, name_attribute="Scan")


def test_a_frame_that_comes_again_is_told_from_a_counter_that_was_reset(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """By its time stamp, however much later it comes; without one only the last frame can come again."""
    source = watch(recorder, name="s")
    server.post([1, 2, 3, 4, 5, 2, 6, 1, 7, 7])
    server.post([7, 8, 9], later=50)  # the counter was set back to 7
    server.post([2, 5])  # once more, of the first series
    server.post([5], later=50)
    nothing = {"secondsPastEpoch": 0, "nanoseconds": 0}
    server.post([6, 7, 7, 6], spoil={"timeStamp": nothing, "dataTimeStamp": nothing})
    source.until(lambda event: isinstance(event, PvaProgress) and event.series_unique_id == "s-4")
    assert source.end() == [], source.problems()
    found = [(end.series_unique_id, end.frames_sent, end.repeated, end.reason) for end in source.series()]
    assert sorted(found) == [
        ("s", 7, 3, "uniqueId went to 7"),
        ("s-2", 3, 2, "uniqueId went to 5"),
        ("s-3", 3, 1, "uniqueId went to 6"),
        ("s-4", 1, 0, "the source was stopped"),
    ]
    assert np.array_equal(stored(tmp_path, "s"), images(range(1, 8)))
    assert np.array_equal(stored(tmp_path, "s-2"), images([7, 8, 9]))


def test_a_channel_that_does_not_count_is_recorded_as_it_arrives(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """As a group of PVXS, whose uniqueId is always 0."""
    source = watch(recorder, name="s")
    for number in range(5):
        server.post([0], later=number)
    source.received(5)
    assert source.end() == [], source.problems()
    assert [(end.frames_sent, end.missed) for end in source.series()] == [(5, 0)]
    assert [text.partition(":")[0] for text in source.problems()] == ["uniqueId is always 0"]
    assert np.array_equal(stored(tmp_path, "s"), images([0] * 5))


def test_a_recorder_that_stands_still(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """What finds no room in the source is lost at the monitor: a gap, missing in the file, and counted."""
    shape, count = (512, 512), 300
    source = watch(recorder, name="s", buffer_bytes=16 << 20, queue_frames=4)
    pid = native_recorder(recorder.process.pid)
    server.post(range(1, 4), shape=shape, pause=0.05)
    source.received(3)
    os.kill(pid, signal.SIGSTOP)
    try:
        server.post(range(4, count), shape=shape, pause=0)
    finally:
        os.kill(pid, signal.SIGCONT)
    server.post([count], shape=shape)
    # The last one has come.
    source.until(lambda event: isinstance(event, PvaProgress) and event.frames_sent + event.missed == count)
    assert source.end() == [], source.problems()
    (end,) = source.series()
    assert end.missed > 100
    assert end.frames_sent + end.missed == count
    with h5py.File(tmp_path / "s.h5") as file:
        state = file["/entry/penstock/frame_state"][...]
        assert len(state) == count
        assert (state == 0).sum() == end.missed
        there = np.flatnonzero(state == 1)
        assert file["/entry/metadata/NDArrayUniqueId"][there].tolist() == (there + 1).tolist()
        for number in (*there[:3], *there[-3:]):
            assert np.array_equal(file["/entry/data/data"][number], image(int(number) + 1, shape=shape))


def test_where_series_end(server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path) -> None:
    """A series ends after five frames, or when an attribute changes. Frames out of order are sorted."""
    source = watch(recorder, name="{attribute}", name_attribute="Scan", frames=5)
    server.post([3, 5, 4, 6, 7, 8, 10, 11, 12], attributes={"Scan": "a/1"})  # 9 is lost
    server.post([13, 14], attributes={"Scan": "b"})
    server.post([15], attributes={"Scan": 7})
    source.until(lambda event: isinstance(event, PvaProgress) and event.series_unique_id == "7")
    assert source.end() == [], source.problems()
    found = {end.series_unique_id: end for end in source.series()}
    assert {name: (end.first_unique_id, end.frames_sent, end.missed) for name, end in found.items()} == {
        "a-1": (3, 5, 0),
        "a-1-2": (8, 4, 1),
        "b": (13, 2, 0),
        "7": (15, 1, 0),
    }
    assert found["a-1"].reason == "all its frames have arrived"
    assert np.array_equal(stored(tmp_path, "a-1"), images(range(3, 8)))
    assert np.array_equal(stored(tmp_path, "a-1-2")[[0, 2, 3, 4]], images([8, 10, 11, 12]))
    # Announced were five of each; b and 7 ended before.
    assert sorted(recorder.series_end().missing for _ in range(4)) == [0, 1, 3, 4]


def test_a_series_ends_when_no_frame_comes(server: PvaServer, recorder: RecordCommand, watch: Watch) -> None:
    """Each has a single frame: no pause between frames can end it."""
    source = watch(recorder, name="s", idle_end_s=0.5, series_limit=2)
    server.post([1])
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    server.post([2])
    source.thread.join(WAIT_S)
    assert source.end() == [], source.problems()
    ends = [(end.first_unique_id, end.frames_sent, end.reason) for end in source.series()]
    assert ends == [(1, 1, "no frame for 0.5 s"), (2, 1, "no frame for 0.5 s")]


def test_the_first_number_can_be_told(
    server: PvaServer, recorder: RecordCommand, watch: Watch, tmp_path: Path
) -> None:
    """And a file whose name is taken is left alone."""
    (tmp_path / "s.h5").write_text("mine")
    source = watch(recorder, name="s", first_unique_id=1, reconnect_s=0.3)
    server.post([3, 4])
    source.received(2)
    server.kill()
    source.until(lambda event: isinstance(event, PvaSeriesEnd))
    server.start()
    assert source.end() == [], source.problems()
    (end,) = source.series()
    assert (end.first_unique_id, end.frames_sent, end.missed) == (1, 2, 2)
    assert end.reason == "the channel was disconnected for 0.3 s"
    assert (tmp_path / "s.h5").read_text() == "mine"
    assert np.array_equal(stored(tmp_path, end.series_unique_id)[2:], images([3, 4]))


def test_another_channel_is_refused(server: PvaServer, record: Record, tmp_path: Path) -> None:
    """By the command, whose recorder ends as well."""
    recorder = record(tmp_path, "--pva", "TEST:Number", listen=False)
    _, log = recorder.process.communicate(timeout=WAIT_S)
    assert recorder.process.returncode == 1
    assert "the channel TEST:Number has the type 'epics:nt/NTScalar:1.0'" in log
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_areadetectors_simulation(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pvapy's server, which has nothing to do with p4p; it begins with the first frame."""
    port = free_ports(2)
    ports = {"EPICS_PVA_SERVER_PORT": str(port), "EPICS_PVA_BROADCAST_PORT": str(port + 1)}
    for name, value in (
        ports | {"EPICS_PVA_ADDR_LIST": "127.0.0.1", "EPICS_PVA_AUTO_ADDR_LIST": "NO"}
    ).items():
        monkeypatch.setenv(name, value)
    assert importlib.util.find_spec("pvapy") is not None
    simulator = Path(sys.executable).parent / "pvapy-ad-sim-server"
    recorder = record(tmp_path, "--pva", "pvapy:image", "--pva-name", "s", listen=False)
    options = ["-cn", "pvapy:image", "-nx", "128", "-ny", "64", "-dt", "uint16", "-nf", "20", "-fps", "50"]
    environment = os.environ | {
        "EPICS_PVAS_SERVER_PORT": str(port),
        "EPICS_PVAS_BROADCAST_PORT": str(port + 1),
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
    }
    with subprocess.Popen(
        [str(simulator), *options, "-rt", "60", "-dc", "-rp", "1000"],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            while True:
                progress = recorder.until(PvaProgress)
                if isinstance(progress, PvaProgress) and progress.frames_sent > 60:
                    break
        finally:
            process.kill()
    code, log = recorder.stop()
    assert code == 0, log
    with h5py.File(tmp_path / "s.h5") as file:
        data = file["/entry/data/data"]
        state = file["/entry/penstock/frame_state"][...]
        assert data.shape[1:] == (64, 128)
        there = np.flatnonzero(state == 1)
        # It sends 20 frames round and round, each with its number.
        ids = file["/entry/metadata/NDArrayUniqueId"][there]
        assert np.array_equal(ids - ids[0], there)
        by_content: dict[bytes, set[int]] = {}
        for number in there:
            by_content.setdefault(data[number].tobytes(), set()).add(int(number) % 20)
        assert len(by_content) == 20
        assert all(len(places) == 1 for places in by_content.values())
