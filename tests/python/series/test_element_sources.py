"""A detector of several elements that do not say which they are: the recorder's configuration does."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Record, RecordCommand
from detector_stream import multi_dimensional
from plain_client import Client, start_fields
from ports import free_ports
from pusher import Pusher
from test_elements import ELEMENT, Frames, element, part_of, stored, whole_frames

from penstock.model.configuration import Configuration
from penstock.model.events import Listening, Rejected, SeriesRefused, SeriesStart, Stopped

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
GRID = (2, 1)
IDENTITY = {"series_id": 1, "series_unique_id": "s"}
END = {"type": "end", **IDENTITY}


def endpoints(count: int) -> list[str]:
    first = free_ports(count)
    return [f"tcp://127.0.0.1:{first + i}" for i in range(count)]


def pull(record: Record, folder: Path, sources: list[dict[str, Any]], **settings: Any) -> RecordCommand:
    """From these sources, as YAML (of which JSON is a part) has them."""
    config = folder / "elements.yaml"
    given = {"sources": sources, "end_timeout_s": 0.5, "idle_timeout_s": 2, "series_limit": 1} | settings
    config.write_text(json.dumps(given), encoding="ascii")
    recorder = record(folder, str(config), listen=False)
    recorder.until(Listening)
    return recorder


def zmq_source(endpoint: str, number: int, grid: tuple[int, int] = GRID, **more: object) -> dict[str, Any]:
    return {"kind": "zmq", "endpoint": endpoint, "element": {"grid": list(grid), "number": number}, **more}


def start(frames: int) -> dict[str, Any]:
    return start_fields("s", frames, ELEMENT)


def images(frames: Frames, number: int) -> list[dict[str, Any]]:
    parts = [np.ascontiguousarray(part_of(frame, GRID, number)) for frame in frames]
    return [
        {"type": "image", **IDENTITY, "image_id": image, "data": {"a": multi_dimensional(part)}}
        for image, part in enumerate(parts)
    ]


def rejected(recorder: RecordCommand) -> list[str]:
    return [event.message for event in recorder.events if isinstance(event, Rejected)]


@pytest.mark.parametrize("told", [False, True])
def test_each_endpoint_is_of_its_element(record: Record, tmp_path: Path, told: bool) -> None:
    """Whether their start messages say so as well or nothing."""
    upper, lower = endpoints(2)
    frames = whole_frames(6, GRID)
    recorder = pull(record, tmp_path, [zmq_source(lower, 1), zmq_source(upper, 0)])
    with Pusher(upper) as first, Pusher(lower) as second:
        for number, pusher in enumerate((first, second)):
            more = element(GRID, number) if told else {}
            pusher.send(start(6) | more, *images(frames, number), END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.problem, ended.ended_by) == (6, 0, None, "message")
    pixels, states, counts = stored(ended.file)
    assert np.array_equal(pixels, frames)
    assert states == [1] * 6
    assert list(counts["received_by_element"]) == [6, 6]
    assert rejected(recorder) == []


def test_a_start_message_that_says_another_element_is_refused(record: Record, tmp_path: Path) -> None:
    """With both values; its frames would lie in the wrong place."""
    upper, lower = endpoints(2)
    frames = whole_frames(3, GRID)
    recorder = pull(record, tmp_path, [zmq_source(upper, 0), zmq_source(lower, 1)])
    with Pusher(upper) as first, Pusher(lower) as second:
        first.send(start(3) | element(GRID, 0), *images(frames, 0), END)
        recorder.until(SeriesStart)
        second.send(start(3) | element(GRID, 0), *images(frames, 1), END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.duplicate) == (0, 3, 0)
    assert list(stored(ended.file)[2]["received_by_element"]) == [3, 0]
    told = rejected(recorder)
    why = told[0]
    assert 'series "s"' in why
    message, configuration = why.split("configuration of this source")
    assert "element 0 of [2, 1] (user_data.penstock.element)" in message
    assert "element 1 of [2, 1]" in configuration
    assert told == [why] + [
        f'image {number} belongs to series "s", whose start was rejected: {why}' for number in range(3)
    ]
    assert lost_elements(recorder) == [why]


def lost_elements(recorder: RecordCommand) -> list[str]:
    """Why starts of elements were refused; the recorder ends, and its exit code is 1."""
    stopped = recorder.until(Stopped)
    assert isinstance(stopped, Stopped)
    recorder.process.communicate(timeout=60)
    assert recorder.process.returncode == 1
    refused = [event.message for event in recorder.events if isinstance(event, SeriesRefused)]
    assert stopped.refused_series == len(refused)
    return refused


def plain(*endpoints: str, bind: bool = False) -> list[dict[str, Any]]:
    return [{"kind": "zmq", "endpoint": endpoint, "bind": bind} for endpoint in endpoints]


def test_two_endpoints_of_one_element_are_not_mixed(record: Record, tmp_path: Path) -> None:
    """One of them says a number that is not its own: its frames would lie in the other's place."""
    left, right = endpoints(2)
    frames = whole_frames(3, GRID)
    recorder = pull(record, tmp_path, plain(left, right))
    with Pusher(left) as first, Pusher(right) as second:
        first.send(start(3) | element(GRID, 0))
        recorder.until(SeriesStart)
        second.send(start(3) | element(GRID, 0), *images(frames, 1), END)
        for _ in range(4):
            recorder.until(Rejected)
        first.send(*images(frames, 0), END)
        ended = recorder.series_end()
    pixels, _, counts = stored(ended.file)
    assert np.array_equal(pixels[:, : ELEMENT[0]], frames[:, : ELEMENT[0]])
    assert list(counts["received_by_element"]) == [3, 0]
    (why,) = lost_elements(recorder)
    assert f'element 0 of series "s" already comes from {left}, but {right} claims the same element' in why
    assert "user_data.penstock.element" in why
    assert rejected(recorder)[1:] == [
        f'image {number} belongs to series "s", whose start was rejected: {why}' for number in range(3)
    ]


def test_an_element_that_comes_back_at_its_endpoint_is_the_same(record: Record, tmp_path: Path) -> None:
    """As when its detector was restarted; and several that deal its frames may share one socket."""
    upper, lower = endpoints(2)
    frames = whole_frames(6, GRID)
    recorder = pull(record, tmp_path, plain(upper, lower))
    with Pusher(upper) as first:
        first.send(start(6) | element(GRID, 0))
        recorder.until(SeriesStart)
        with Pusher(lower) as second:
            second.send(start(6) | element(GRID, 1), *images(frames, 1)[:3])
        with Pusher(lower) as second:
            second.send(start(6) | element(GRID, 1), *images(frames, 1)[3:], END)
            first.send(*images(frames, 0), END)
            ended = recorder.series_end()
    assert (ended.frames_received, ended.missing) == (6, 0)
    assert np.array_equal(stored(ended.file)[0], frames)
    assert rejected(recorder) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (element((1, 2), 1), 'the grid of elements is [1, 2]; series "s" started with [2, 1]'),
        (element(GRID, 1) | {"image_dtype": "uint32"}, "image_dtype is uint32"),
        (element(GRID, 1) | {"number_of_images": 7}, 'number_of_images is 7; series "s" started with 3'),
        ({}, 'the grid of elements is [1, 1]; series "s" started with [2, 1]'),
    ],
)
def test_an_element_that_contradicts_the_others_is_a_refused_start(
    record: Record, tmp_path: Path, more: dict[str, Any], says: str
) -> None:
    upper, lower = endpoints(2)
    frames = whole_frames(3, GRID)
    recorder = pull(record, tmp_path, plain(upper, lower))
    with Pusher(upper) as first, Pusher(lower) as second:
        first.send(start(3) | element(GRID, 0), *images(frames, 0), END)
        recorder.until(SeriesStart)
        second.send(start(3) | more, *images(frames, 1), END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing) == (0, 3)
    (why,) = lost_elements(recorder)
    assert says in why
    assert rejected(recorder)[1] == f'image 0 belongs to series "s", whose start was rejected: {why}'


@pytest.mark.slow
def test_a_contradiction_before_the_others_begin_is_counted_too(record: Record, tmp_path: Path) -> None:
    upper, lower = endpoints(2)
    frames = whole_frames(3, GRID)
    sources = [zmq_source(upper, 0), zmq_source(lower, 1)]
    recorder = pull(record, tmp_path, sources, series_limit=2)
    with Pusher(upper) as first, Pusher(lower) as second:
        second.send(start(3) | element(GRID, 0))
        recorder.until(SeriesRefused)
        first.send(start(3), *images(frames, 0), END)
        recorder.series_end()
    recorder.process.send_signal(signal.SIGTERM)
    assert len(lost_elements(recorder)) == 1


def test_an_element_over_tcp_beside_one_over_zeromq(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    frames = whole_frames(4, GRID)
    sources = [{"kind": "tcp", "listen": "127.0.0.1:0"}, zmq_source(endpoint, 1)]
    recorder = pull(record, tmp_path, sources)
    listening = next(event for event in recorder.events if isinstance(event, Listening))
    with Pusher(endpoint) as lower, Client(listening.sources[0].removeprefix("tcp://")) as upper:
        lower.send(start(4), *images(frames, 1), END)
        upper.start("s", 4, ELEMENT, **element(GRID, 0))
        for number, frame in enumerate(frames):
            upper.image("s", number, part_of(frame, GRID, 0))
        assert upper.end("s")["problem"] is None
        ended = recorder.series_end()
    assert ended.frames_received == 4
    assert np.array_equal(stored(ended.file)[0], frames)


def test_an_element_whose_start_was_missed_still_brings_its_frames(record: Record, tmp_path: Path) -> None:
    """The others' starts tell all that is needed."""
    upper, lower = endpoints(2)
    frames = whole_frames(4, GRID)
    recorder = pull(record, tmp_path, [zmq_source(upper, 0), zmq_source(lower, 1)])
    with Pusher(upper) as first, Pusher(lower) as second:
        first.send(start(4), *images(frames, 0))
        recorder.until(SeriesStart)
        second.send(*images(frames, 1), END)
        first.send(END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing) == (4, 0)
    assert np.array_equal(stored(ended.file)[0], frames)


MISTAKES: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    ([zmq_source("tcp://a:1", 2)], {}, "number is 2; in a grid of [2, 1] it must be from 0 to 1"),
    ([zmq_source("tcp://a:1", 0, (6, 6))], {}, "grid is [6, 6], 36 elements; the maximum is 32"),
    (
        [zmq_source("tcp://a:1", 1), zmq_source("tcp://b:1", 1)],
        {},
        "sources[1].element.number 1 is already used by sources[0]",
    ),
    (
        [zmq_source("tcp://a:1", 1), zmq_source("tcp://b:1", 0, (1, 2))],
        {},
        "sources[1].element.grid is [1, 2], but sources[0] has [2, 1]",
    ),
    (
        [zmq_source("tcp://a:1", 1), {"kind": "tcp"}, zmq_source("tcp://a:1", 0)],
        {},
        "sources[2].endpoint tcp://a:1 is already used by sources[0]",
    ),
    ([zmq_source("tcp://a:1", 1)], {"resume": True}, "resume is true and a source has an element"),
    (
        [zmq_source("tcp://a:1", 1)],
        {"files": {"layout": "split", "frames": 10}},
        'files.layout is "split" and a source has an element',
    ),
]


@pytest.mark.parametrize(("sources", "settings", "says"), MISTAKES)
def test_elements_that_cannot_be_are_named(
    sources: list[dict[str, Any]], settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Configuration.model_validate({"sources": sources, **settings})
    assert says in str(refused.value)


def test_several_ranks_are_refused_before_anything_is_written(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "elements.yaml"
    config.write_text(json.dumps({"sources": [zmq_source("tcp://127.0.0.1:1", 0)]}), encoding="ascii")
    (tmp_path / "data").mkdir()
    refused = run("record", str(config), "--folder", str(tmp_path / "data"), "--ranks", "2", "--series", "1")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "elements over ZeroMQ require one rank" in " ".join(refused.stderr.split())
    assert list((tmp_path / "data").iterdir()) == []


def test_the_plan_shows_elements(run: Callable[..., Any], tmp_path: Path) -> None:
    config = tmp_path / "elements.yaml"
    config.write_text(json.dumps({"sources": [zmq_source("tcp://127.0.0.1:1", 1)]}), encoding="ascii")
    shown = run("record", str(config), "--folder", str(tmp_path), "--dry-run")
    assert "pull from tcp://127.0.0.1:1, element 1 of 2 x 1" in " ".join(
        (shown.stdout + shown.stderr).split()
    )
