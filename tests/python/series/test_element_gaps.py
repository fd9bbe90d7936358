"""Elements that do not touch: their frames are stored as they came, and read with the gaps between them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import numpy.typing as npt
import nxmx
import pytest
from conftest import Record, RecordCommand
from detector_stream import multi_dimensional
from mid_series import kill
from plain_client import ACK, CLOSED, ERROR, RESUME, START, Client, start_fields
from pusher import Pusher
from test_element_sources import END, IDENTITY, endpoints, images, pull, rejected, start, zmq_source
from test_elements import ELEMENT, Frames, part_of, send_end, whole_frames
from test_ranks import Job, check, simulate

from penstock.client.messages import user_data_of
from penstock.model.configuration import Configuration
from penstock.model.events import SeriesStart

Run = Callable[..., Any]
Gap = list[int] | dict[str, int | list[int]]
Gaps = tuple[list[int], list[int]]
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
STORED = "/entry/penstock/elements/data"
MASK = "/entry/instrument/detector/pixel_mask"
FILL = 0xFFFF


def apart(grid: tuple[int, int], number: int, gap: object) -> dict[str, Any]:
    return {"user_data": {"penstock": {"element": {"grid": list(grid), "number": number, "gap": gap}}}}


def with_gaps(touching: npt.NDArray[Any], gaps: Gaps, fill: float) -> npt.NDArray[Any]:
    """The frames, or a mask, that a detector with these gaps has: made here, pixel row by pixel row."""
    result = touching
    for axis, between in ((-2, gaps[0]), (-1, gaps[1])):
        bands = np.split(result, len(between) + 1, axis=axis)
        pieces: list[npt.NDArray[Any]] = [bands[0]]
        for width, band in zip(between, bands[1:], strict=True):
            shape = list(band.shape)
            shape[axis] = width
            pieces += [np.full(shape, fill, touching.dtype), band]
        result = np.concatenate(pieces, axis=axis)
    return result


def gap_mask(grid: tuple[int, int], gaps: Gaps) -> npt.NDArray[np.uint32]:
    touching = np.zeros((grid[0] * ELEMENT[0], grid[1] * ELEMENT[1]), np.uint32)
    return with_gaps(touching, gaps, 1).astype(np.uint32)


@contextmanager
def elements_of(
    recorder: RecordCommand, frames: int, grid: tuple[int, int], gap: Gap, **fields: Any
) -> Iterator[list[Client]]:
    """A client for each, which has begun."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(recorder.address)) for _ in range(grid[0] * grid[1])]
        for number, client in enumerate(clients):
            client.start("s", frames, ELEMENT, **apart(grid, number, gap), **fields)
        yield clients


def send_all(clients: list[Client], frames: Frames, grid: tuple[int, int]) -> None:
    for number, frame in enumerate(frames):
        for element, client in enumerate(clients):
            client.image("s", number, part_of(frame, grid, element))


def close_all(clients: list[Client]) -> None:
    for client in clients:
        send_end(client)
    for client in clients:
        assert client.until(CLOSED)["problem"] is None


@pytest.mark.parametrize(
    ("grid", "gap", "gaps"),
    [
        ((2, 1), [7, 0], ([7], [])),
        ((1, 2), [5, 36], ([], [36])),
        ((2, 3), {"rows": 3, "columns": [2, 11]}, ([3], [2, 11])),
        ((2, 2), {"columns": 4}, ([0], [4])),
    ],
)
def test_frames_have_the_gaps(
    record: Record, run: Run, tmp_path: Path, grid: tuple[int, int], gap: Gap, gaps: Gaps
) -> None:
    recorder = record(tmp_path)
    frames = whole_frames(5, grid)
    with elements_of(recorder, 5, grid, gap) as clients:
        send_all(clients, frames, grid)
        close_all(clients)
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (5, 0, None)
    expected = with_gaps(frames, gaps, FILL)
    with h5py.File(end.file) as file:
        shown, stored = file["/entry/data/data"], file[STORED]
        assert np.array_equal(shown[()], expected)
        assert shown == file["/entry/instrument/detector/data"], "one dataset of two names"
        assert np.array_equal(shown[2, 3:, 1:-1], expected[2, 3:, 1:-1])
        assert shown.fillvalue == FILL
        assert np.array_equal(stored[()], frames)
        assert stored.chunks == (1, *ELEMENT)
        assert np.array_equal(file[MASK][()], gap_mask(grid, gaps))
        assert file[MASK].dtype == np.uint32
        told = file["/entry/penstock/elements"].attrs
        assert tuple(told["grid"]) == grid
        assert (list(told["row_gaps"]), list(told["column_gaps"])) == gaps
    checked = run("check", str(end.file))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "virtual" not in checked.stdout + checked.stderr
    info = json.loads(run("info", str(end.file), "--json").stdout)
    assert info["data"]["path"] == "/entry/data/data"
    assert info["data"]["shape"] == list(expected.shape)
    assert info["data"]["chunks"] == [1, *ELEMENT]
    assert info["data"]["raw_bytes"] == frames.nbytes


def test_gaps_of_the_configuration(record: Record, tmp_path: Path) -> None:
    """Of a detector whose modules know nothing of each other."""
    upper, lower = endpoints(2)
    frames = whole_frames(6, (2, 1))
    sources = [zmq_source(upper, 0), zmq_source(lower, 1)]
    sources[0]["element"]["gap"] = [8, 3]  # there are no neighbours to the right
    sources[1]["element"]["gap"] = {"rows": [8]}
    recorder = pull(record, tmp_path, sources)
    with Pusher(upper) as first, Pusher(lower) as second:
        first.send(start(6), *images(frames, 0), END)
        second.send(start(6) | apart((2, 1), 1, [8, 0]), *images(frames, 1), END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing) == (6, 0)
    assert rejected(recorder) == []
    with h5py.File(ended.file) as file:
        assert np.array_equal(file["/entry/data/data"][()], with_gaps(frames, ([8], []), FILL))


def test_a_start_message_with_another_gap_is_refused(record: Record, tmp_path: Path) -> None:
    upper, lower = endpoints(2)
    frames = whole_frames(2, (2, 1))
    sources = [zmq_source(upper, 0), zmq_source(lower, 1)]
    for source in sources:
        source["element"]["gap"] = [8, 0]
    recorder = pull(record, tmp_path, sources)
    with Pusher(upper) as first, Pusher(lower) as second:
        first.send(start(2), *images(frames, 0), END)
        recorder.until(SeriesStart)
        second.send(start(2) | apart((2, 1), 1, [9, 0]), *images(frames, 1), END)
        recorder.series_end()
    why = rejected(recorder)[0]
    assert 'series "s"' in why
    message, configuration = why.split("configuration of this source")
    assert "element 1 of [2, 1] with a gap of [9, 0] (user_data.penstock.element)" in message
    assert "element 1 of [2, 1] with a gap of [8, 0]" in configuration


@pytest.mark.parametrize(("other", "shown"), [([7, 1], "[7, 0]"), (None, "[0, 0]")])
def test_elements_that_disagree_about_gaps_are_refused(
    record: Record, tmp_path: Path, other: Gap | None, shown: str
) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as upper, Client(recorder.address) as lower:
        upper.start("s", 1, ELEMENT, **apart((2, 1), 0, [8, 0]))
        fields = apart((2, 1), 1, other)
        if other is None:
            del fields["user_data"]["penstock"]["element"]["gap"]
        lower.send(START, start_fields("s", 1, ELEMENT) | fields)
        why = lower.until(ERROR)["message"]
        assert f"gap between elements is {shown};" in why
        assert 'series "s" started with [8, 0]' in why


def test_an_element_that_comes_back_has_the_same_gap(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as lower:
        with Client(recorder.address) as upper:
            upper.start("s", 1, ELEMENT, **apart((2, 1), 0, [8, 0]))
            lower.start("s", 1, ELEMENT, **apart((2, 1), 1, [8, 0]))
        with Client(recorder.address) as upper:
            upper.send(START, start_fields("s", 1, ELEMENT) | apart((2, 1), 0, [7, 0]), flags=RESUME)
            said = upper.until(ERROR)["message"]
            assert "gap between elements is [7, 0];" in said
            assert 'series "s" started with [8, 0]' in said
            upper.start("s", 1, ELEMENT, RESUME, **apart((2, 1), 0, {"rows": 8}))


def test_each_channel_has_the_gaps(record: Record, tmp_path: Path) -> None:
    """Those of further channels, and a mask for each, lie where they do without gaps."""
    left, right = endpoints(2)
    grid = (1, 2)
    gaps: Gaps = ([], [3])
    frames = {name: whole_frames(2, grid) + offset for name, offset in (("a", 0), ("b", 9))}
    sources = [zmq_source(left, 0, grid), zmq_source(right, 1, grid)]
    for source in sources:
        source["element"]["gap"] = [0, 3]
    recorder = pull(record, tmp_path, sources)
    with Pusher(left) as first, Pusher(right) as second:
        for number, pusher in enumerate((first, second)):
            shown = [
                {
                    "type": "image",
                    **IDENTITY,
                    "image_id": image,
                    "data": {
                        name: multi_dimensional(np.ascontiguousarray(part_of(stack[image], grid, number)))
                        for name, stack in frames.items()
                    },
                }
                for image in range(2)
            ]
            pusher.send(start(2) | {"channels": ["a", "b"]}, *shown, END)
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing) == (2, 0)
    with h5py.File(ended.file) as file:
        for path, name in (("data", "a"), ("channel_1_b", "b")):
            assert np.array_equal(file[f"/entry/data/{path}"][()], with_gaps(frames[name], gaps, FILL))
            assert file[f"/entry/data/{path}"].attrs["channel"] == name
            assert np.array_equal(file[f"/entry/penstock/elements/{path}"][()], frames[name])
        for path in (MASK, MASK + "_b"):
            assert np.array_equal(file[path][()], gap_mask(grid, gaps))


def test_a_scan_has_the_gaps(record: Record, run: Run, tmp_path: Path) -> None:
    grid = (2, 1)
    gaps: Gaps = ([5], [])
    frames = whole_frames(6, grid)
    recorder = record(tmp_path)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(recorder.address)) for _ in range(2)]
        for number, client in enumerate(clients):
            fields = apart(grid, number, [5, 0])
            axes = [{"name": "y", "points": 2}, {"name": "x", "points": 3}]
            fields["user_data"]["penstock"]["scan"] = {"axes": axes}
            client.start("s", 6, ELEMENT, **fields)
        send_all(clients, frames, grid)
        close_all(clients)
    path = recorder.series_end().file
    with h5py.File(path) as file:
        shown = file["/entry/data/data"]
        assert np.array_equal(shown[()], with_gaps(frames, gaps, FILL).reshape(2, 3, 45, 30))
        assert list(file["/entry/data"].attrs["axes"]) == ["y", "x", ".", "."]
    assert run("check", path).returncode == 0


def test_what_an_element_did_not_bring_reads_as_the_fill_value(
    record: Record, run: Run, tmp_path: Path
) -> None:
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.3\nidle_timeout_s: 1\n", encoding="ascii")
    grid = (1, 2)
    gaps: Gaps = ([], [6])
    recorder = record(tmp_path, str(config))
    frames = whole_frames(4, grid)
    with elements_of(recorder, 4, grid, [0, 6]) as clients:
        for number, frame in enumerate(frames):
            clients[0].image("s", number, part_of(frame, grid, 0))
            if number not in (1, 3):
                clients[1].image("s", number, part_of(frame, grid, 1))
        close_all(clients)
    end = recorder.series_end()
    assert (end.frames_received, end.missing) == (2, 2)
    for number in (1, 3):
        part_of(frames[number], grid, 1)[...] = FILL
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/data/data"][()], with_gaps(frames, gaps, FILL))
    assert run("check", str(end.file)).returncode == 0


@pytest.mark.parametrize(("dtype", "fill"), [("float32", float("nan")), ("int32", -1), ("uint8", 0xFF)])
def test_gaps_read_as_missing_frames_do(record: Record, tmp_path: Path, dtype: str, fill: float) -> None:
    config = tmp_path / "quick.yaml"
    config.write_text("end_timeout_s: 0.3\nidle_timeout_s: 1\n", encoding="ascii")
    recorder = record(tmp_path, str(config))
    with elements_of(recorder, 2, (2, 1), [1, 0], image_dtype=dtype) as clients:
        close_all(clients)
    with h5py.File(recorder.series_end().file) as file:
        frames = file["/entry/data/data"][()]
    assert frames.shape == (2, 41, 30)
    assert np.array_equal(frames, np.full(frames.shape, fill, dtype), equal_nan=True)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_killed_recorders_file_shows_the_gaps(
    record: Record, run: Run, tmp_path: Path, rebuild: bool
) -> None:
    """Before and after it is recovered, also where nothing of HDF5's structures is left."""
    grid = (2, 2)
    gaps: Gaps = ([3], [5])
    frames = whole_frames(20, grid)
    recorder = record(tmp_path, "--durability", "segment")
    with elements_of(recorder, 40, grid, [3, 5]) as clients:
        for number, frame in enumerate(frames):
            for element, client in enumerate(clients):
                if (number, element) != (7, 2):
                    client.image("s", number, part_of(frame, grid, element))
        for client in clients:
            while client.until(ACK)["safe_below"] < 20:
                pass
        kill(recorder)
    path = tmp_path / "s.h5"
    done = run("recover", str(path), *(["--rebuild"] if rebuild else []))
    assert done.returncode == (1 if rebuild else 0), "a rebuild cannot bring all columns back: " + done.stdout
    part_of(frames[7], grid, 2)[...] = FILL
    with h5py.File(path) as file:
        shown = file["/entry/data/data"]
        assert np.array_equal(shown[:20], with_gaps(frames, gaps, FILL))
        assert np.array_equal(file[STORED][:20], frames)
        states = list(file["/entry/penstock/frame_state"][:20])
        assert [number for number, state in enumerate(states) if state != 1] == [7]
        if not rebuild:
            assert np.array_equal(file[MASK][()], gap_mask(grid, gaps)), "known before any frame"
    assert run("check", str(path)).returncode == 0


def test_readers_follow_a_growing_file(record: Record, tmp_path: Path) -> None:
    grid = (1, 2)
    frames = whole_frames(30, grid)
    expected = with_gaps(frames, ([], [4]), FILL)
    recorder = record(tmp_path)
    with elements_of(recorder, 0, grid, [0, 4]) as clients:
        send_all(clients, frames[:10], grid)
        deadline = time.monotonic() + 60
        with h5py.File(tmp_path / "s.h5", "r", swmr=True) as file:
            shown, states = file["/entry/data/data"], file["/entry/penstock/frame_state"]
            for until, more in ((10, frames[:0]), (30, frames[10:])):
                for number, frame in enumerate(more, 10):
                    for element, client in enumerate(clients):
                        client.image("s", number, part_of(frame, grid, element))
                # The index may have a later frame first: a frame is there once its state says so.
                while list(states[:until]) != [1] * until:
                    assert time.monotonic() < deadline, shown.shape
                    time.sleep(0.2)
                    states.refresh()
                shown.refresh()  # after the states were read
                assert np.array_equal(shown[:until], expected[:until])
        close_all(clients)
    with h5py.File(recorder.series_end().file) as file:
        assert np.array_equal(file["/entry/data/data"][()], expected)


def test_masks_and_flat_fields_have_the_gaps(record: Record, tmp_path: Path) -> None:
    """An element that brings no mask masks nothing but the gaps."""
    grid = (2, 2)
    gaps: Gaps = ([2], [3])
    random = np.random.default_rng(3)
    mask = random.integers(0, 9, (40, 60), dtype=np.uint32)
    flat = random.normal(1, 0.1, (40, 60)).astype("float32")
    recorder = record(tmp_path)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(recorder.address)) for _ in range(4)]
        for number, client in enumerate(clients):
            part = multi_dimensional(np.ascontiguousarray(part_of(mask, grid, number)))
            fields: dict[str, Any] = {"pixel_mask": {"a": part}} if number != 2 else {}
            fields["flatfield"] = {"a": multi_dimensional(np.ascontiguousarray(part_of(flat, grid, number)))}
            client.start("s", 1, ELEMENT, **apart(grid, number, [2, 3]), **fields)
            client.image("s", 0, np.zeros(ELEMENT, np.uint16))
        close_all(clients)
    part_of(mask, grid, 2)[...] = 0
    with h5py.File(recorder.series_end().file) as file:
        assert np.array_equal(file[MASK][()], with_gaps(mask, gaps, 1))
        stored = file["/entry/instrument/detector/flatfield"][()]
        assert np.array_equal(stored, with_gaps(flat, gaps, 1))
        assert file["/entry/data/data"].shape[1:] == stored.shape


def test_nexus_readers_see_the_assembled_frame(record: Record, tmp_path: Path) -> None:
    """Its size, where its first pixel is, and which pixels are none."""
    grid = (2, 1)
    gaps: Gaps = ([10], [])
    recorder = record(tmp_path)
    frames = whole_frames(3, grid)
    geometry: dict[str, Any] = {
        "pixel_size_x": 75e-6,
        "pixel_size_y": 75e-6,
        "beam_center_x": 15.0,
        "beam_center_y": 25.0,
        "detector_translation": [0.0, 0.0, -0.2],
        "sensor_thickness": 4.5e-4,
        "sensor_material": "Si",
    }
    with elements_of(recorder, 3, grid, [10, 0], **geometry) as clients:
        send_all(clients, frames, grid)
        close_all(clients)
    parse: Any = nxmx.NXmx
    with h5py.File(recorder.series_end().file) as file:
        entry = parse(file).entries[0]
        detector = entry.instruments[0].detectors[0]
        assert [list(module.data_size) for module in detector.modules] == [[50, 30]]
        assert [list(module.data_origin) for module in detector.modules] == [[0, 0]]
        assert np.array_equal(detector.pixel_mask, gap_mask(grid, gaps))
        shown = entry.data[0][entry.data[0].signal]
        assert np.array_equal(shown[()], with_gaps(frames, gaps, FILL))


@pytest.mark.parametrize(
    ("gap", "says"),
    [
        (-1, "element.gap is -1"),
        ([-1, 0], "element.gap is [-1,0]"),
        ([1], "element.gap is [1]"),
        ([1, 2, 3], "element.gap is [1,2,3]"),
        ([1.5, 0], "element.gap is [1.5,0]"),
        ([float("nan"), 0], "element.gap is [null,0]"),
        (float("nan"), "element.gap is null"),
        (None, "element.gap is null"),
        ([65536, 0], "element.gap is [65536,0]"),
        ([2**64 - 1, 0], "element.gap is [18446744073709551615,0]"),
        ([1e300, 0], "element.gap is [1e+300,0]"),
        ([2**70, 0], "element.gap is "),
        ([True, 0], "element.gap is [true,0]"),
        ({}, "element.gap is {}"),
        ({"left": 3}, 'element.gap is {"left":3}'),
        ({"rows": 1, "left": 3}, "element.gap is "),
        ({"rows": [1]}, "element.gap.rows is [1]; expected pixels from 0 to 65535, or a list of 3"),
        ({"rows": [1, 2, -3]}, "element.gap.rows is [1,2,-3]"),
        ({"columns": "8"}, 'element.gap.columns is "8"'),
        ("wide", 'element.gap is "wide"'),
        ([65535, 65535], "element.gap is [65535, 65535]: with its gaps the frame has 196685 × 458985 pixels"),
    ],
)
def test_a_gap_that_cannot_be_is_refused(record: Record, tmp_path: Path, gap: object, says: str) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        client.send(START, start_fields("s", 2, ELEMENT) | apart((4, 8), 0, gap))
        assert says in client.until(ERROR)["message"]
    assert list(tmp_path.glob("*.h5")) == []


def test_masks_that_need_too_much_memory_are_left_out(record: Record, tmp_path: Path) -> None:
    """The frames are recorded all the same."""
    config = tmp_path / "record.yaml"
    config.write_text("tables_bytes: 32 MiB\n")
    recorder = record(tmp_path, str(config), "--pool", "128MiB")
    grid = (8, 1)
    frames = whole_frames(2, grid)
    with elements_of(recorder, 2, grid, [65535, 0]) as clients:
        send_all(clients, frames, grid)
        close_all(clients)
    with h5py.File(recorder.series_end().file) as file:
        shown = file["/entry/data/data"]
        assert shown.shape == (2, 8 * 20 + 7 * 65535, 30)
        assert np.array_equal(shown[1, -20:], frames[1, -20:])
        assert (shown[1, 20:1000] == FILL).all()
        assert MASK not in file
    noted = [getattr(event, "message", "") for event in recorder.events]
    assert any("tables_bytes (33554432)" in message and "masks" in message for message in noted), noted


@pytest.mark.parametrize("sent_as", ["none", "bslz4"])
def test_simulated_elements_stand_apart(record: Record, run: Run, tmp_path: Path, sent_as: str) -> None:
    recorder = record(tmp_path)
    sent = simulate(
        run, f"tcp://{recorder.address}", "--frames", "21", "--series-name", "s", "--encoding", sent_as,
        "--elements", "2x2", "--element-gap", "4,9",
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    checked = run("check", str(end.file), "--against", "recorded", "--require-complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "21 frames compared pixel by pixel, 0 different" in checked.stdout + checked.stderr
    with h5py.File(end.file) as file:
        frames, stored = file["/entry/data/data"], file[STORED]
        assert frames.shape == (21, 64 + 4, 96 + 9)
        assert stored.chunks == (1, 32, 48)
        assert np.array_equal(frames[()], with_gaps(stored[()], ([4], [9]), frames.fillvalue))


def test_a_check_sees_that_the_assembled_frames_are_others(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with elements_of(recorder, 1, (2, 1), [4, 0]) as clients:
        send_all(clients, whole_frames(1, (2, 1)), (2, 1))
        close_all(clients)
    path = recorder.series_end().file
    for make in (None, "touching"):
        with h5py.File(path, "r+") as file:
            if make:
                layout = h5py.VirtualLayout((1, 40, 30), "uint16")
                layout[...] = h5py.VirtualSource(".", STORED, (1, 40, 30))
                file["/entry/data"].create_virtual_dataset("data", layout)
            else:
                del file["/entry/data/data"]
        checked = run("check", path)
        assert checked.returncode == 1
        said = "differs from the description" if make else "of the description is missing from the file"
        assert said in " ".join((checked.stdout + checked.stderr).split())


def test_each_rank_writes_its_element(run: Run, tmp_path: Path) -> None:
    job = Job(tmp_path, 2, "--mpi", "openmpi", "--threads", "1", "--pool", "256MiB")
    try:
        options = ("--frames", "103", "--series-name", "s", "--elements", "1x2", "--element-gap", "0,8")
        sent = simulate(run, job.target, *options)
        assert sent.returncode == 0, sent.stderr
        end = job.until("series_end")
        assert (end["frames_received"], end["missing"], end["problem"]) == (103, 0, None)
        check(run, tmp_path / "s.h5", 103)
        assert job.stop() == 0, "".join(job.log)
    finally:
        job.close()
    with h5py.File(tmp_path / "s.h5") as file:
        frames, stored = file["/entry/data/data"], file[STORED]
        assert np.array_equal(frames[()], with_gaps(stored[()], ([], [8]), frames.fillvalue))


@pytest.mark.parametrize("layout", ["areadetector-default", "nxtomo"])
def test_a_layout_has_the_assembled_frames(record: Record, run: Run, tmp_path: Path, layout: str) -> None:
    grid = (2, 1)
    gaps: Gaps = ([6], [])
    frames = whole_frames(3, grid)
    recorder = record(tmp_path, "--layout", layout)
    with elements_of(recorder, 3, grid, [6, 0]) as clients:
        send_all(clients, frames, grid)
        close_all(clients)
    path = recorder.series_end().file
    with h5py.File(path) as file:
        assert np.array_equal(file["/entry/data/data"][()], with_gaps(frames, gaps, FILL))
        assert np.array_equal(file[STORED][()], frames)
    assert run("check", path).returncode == 0


def test_exports_have_the_assembled_frames(record: Record, run: Run, tmp_path: Path) -> None:
    """Copied: readers that know fixed names take whole frames as chunks."""
    grid = (2, 1)
    gaps: Gaps = ([6], [])
    frames = whole_frames(3, grid)
    recorder = record(tmp_path)
    geometry: dict[str, Any] = {"pixel_size_x": 75e-6, "pixel_size_y": 75e-6, "sensor_thickness": 4.5e-4}
    with elements_of(recorder, 3, grid, [6, 0], **geometry) as clients:
        send_all(clients, frames, grid)
        close_all(clients)
    path = recorder.series_end().file
    linked = run("export", path, "--for", "xds", "--output", str(tmp_path / "l_master.h5"))
    assert linked.returncode != 0
    assert "--copy" in linked.stderr
    master = tmp_path / "c_master.h5"
    copied = run("export", path, "--for", "xds", "--copy", "--output", str(master))
    assert copied.returncode == 0, copied.stderr
    with h5py.File(master) as file:
        assert np.array_equal(file["/entry/data/data_000001"][()], with_gaps(frames, gaps, FILL))
        assert np.array_equal(file["/entry/instrument/detector/pixel_mask"][()], gap_mask(grid, gaps))


def test_the_python_client_keeps_what_is_said_of_gaps() -> None:
    told = user_data_of({"run": 7, "penstock": {"element": {"gap": [8, 0]}}}, (2, 1, 1))
    assert told == {"run": 7, "penstock": {"element": {"grid": [2, 1], "number": 1, "gap": [8, 0]}}}


MISTAKES: list[tuple[object, object, str]] = [
    ([-1, 0], None, "greater than or equal to 0"),
    ([65536, 0], None, "less than or equal to 65535"),
    ([8], None, "gap is [8], expected [rows, columns]"),
    (
        {"rows": [8, 9]},
        None,
        "gap.rows is [8, 9]; a list has one value per pair of neighbours, 1 in a grid of",
    ),
    ([float("nan"), 0], None, "finite number"),
    ([8, 0], [9, 0], "sources[1].element.gap is [9, 0], but sources[0] has [8, 0]"),
    ([8, 0], None, "sources[1].element.gap is [0, 0], but sources[0] has [8, 0]"),
]


@pytest.mark.parametrize(("one", "other", "says"), MISTAKES)
def test_gaps_that_cannot_be_are_named(one: object, other: object, says: str) -> None:
    sources = [zmq_source("tcp://a:1", 0), zmq_source("tcp://b:1", 1)]
    for source, gap in zip(sources, (one, other), strict=True):
        if gap is not None:
            source["element"]["gap"] = gap
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Configuration.model_validate({"sources": sources})
    assert says in str(refused.value)


def test_gaps_that_are_the_same_may_be_written_in_two_ways() -> None:
    sources = [zmq_source("tcp://a:1", 0), zmq_source("tcp://b:1", 1)]
    sources[0]["element"]["gap"] = [8, 3]
    sources[1]["element"]["gap"] = {"rows": [8], "columns": []}
    assert len(Configuration.model_validate({"sources": sources}).sources) == 2
