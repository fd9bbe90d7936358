"""A detector of several elements, each with a stream of its own, which become one dataset."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import numpy.typing as npt
import pytest
import zmq
from detector_stream import multi_dimensional
from mid_series import kill
from plain_client import (
    ACK,
    BYE,
    CLOSED,
    END,
    ERROR,
    IMAGE,
    RESUME,
    START,
    Client,
    image_fields,
    start_fields,
)
from test_ranks import Job, check, simulate

from penstock.model.events import Rejected

Run = Callable[..., Any]
Frames = npt.NDArray[np.uint16]
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
ELEMENT = (20, 30)


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """A configuration that waits for nothing long."""
    return waiting(tmp_path, idle_s=2)


@pytest.fixture
def until_ends(tmp_path: Path) -> str:
    """A configuration for series all of whose elements end."""
    return waiting(tmp_path, idle_s=60)


def waiting(folder: Path, idle_s: float) -> str:
    config = folder / "waiting.yaml"
    config.write_text(f"end_timeout_s: 0.3\nidle_timeout_s: {idle_s}\n", encoding="ascii")
    return str(config)


def element(grid: tuple[int, int], number: int) -> dict[str, Any]:
    return {"user_data": {"penstock": {"element": {"grid": list(grid), "number": number}}}}


def whole_frames(count: int, grid: tuple[int, int]) -> Frames:
    shape = (count, grid[0] * ELEMENT[0], grid[1] * ELEMENT[1])
    return np.random.default_rng(7).integers(0, 9, shape, dtype=np.uint16)


def part_of(frame: npt.NDArray[Any], grid: tuple[int, int], number: int) -> npt.NDArray[Any]:
    row, column = divmod(number, grid[1])
    rows, columns = ELEMENT
    return frame[..., row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]


def stored(path: str | Path) -> tuple[Frames, list[int], dict[str, Any]]:
    """Pixels, states and counts."""
    with h5py.File(path) as file:
        states = file["/entry/penstock/frame_state"]
        return file["/entry/data/data"][()], list(states[()]), dict(states.attrs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elements", "options", "sent_as", "chunk"),
    [
        ("2x2", (), "none", (1, 32, 48)),
        ("4x1", (), "bslz4", (1, 16, 96)),
        ("2x3", ("--chunk", "16x16"), "bslz4", (1, 16, 16)),
        ("1x2", ("--chunk", "20x48"), "none", (1, 20, 48)),
        ("2x1", ("--chunk", "20x48"), "none", (1, 32, 96)),  # does not divide an element
    ],
)
def test_elements_become_whole_frames(
    record: Callable[..., Any],
    run: Run,
    tmp_path: Path,
    elements: str,
    options: tuple[str, ...],
    sent_as: str,
    chunk: tuple[int, ...],
) -> None:
    recorder = record(tmp_path, *options)
    target = f"tcp://{recorder.address}"
    sent = simulate(
        run, target, "--frames", "51", "--series-name", "s", "--elements", elements, "--encoding", sent_as
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.late, end.problem) == (51, 0, 0, None)
    file = tmp_path / "s.h5"
    checked = run("check", str(file), "--against", "recorded", "--require-complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "51 frames compared pixel by pixel, 0 different" in checked.stdout + checked.stderr
    rows, columns = map(int, elements.split("x"))
    with h5py.File(file) as content:
        assert content["/entry/data/data"].shape == (51, 64, 96)
        assert content["/entry/data/data"].chunks == chunk
        assert list(content["/entry/penstock/frame_state"].attrs["received_by_element"]) == [51] * (
            rows * columns
        )


@pytest.mark.slow
@pytest.mark.parametrize(("mpi", "elements"), [("openmpi", "1x2"), ("mpich", "2x2")])
def test_each_element_goes_to_its_rank(run: Run, tmp_path: Path, mpi: str, elements: str) -> None:
    job = Job(tmp_path, 2, "--mpi", mpi, "--threads", "1", "--pool", "256MiB")
    try:
        for series in ("first", "second"):
            sent = simulate(
                run, job.target, "--frames", "203", "--series-name", series, "--elements", elements
            )
            assert sent.returncode == 0, sent.stderr
            end = job.until("series_end")
            assert (end["frames_received"], end["missing"], end["late"], end["problem"]) == (203, 0, 0, None)
            report = check(run, tmp_path / f"{series}.h5", 203)
            assert isinstance(report["segments"], int)
            assert report["segments"] >= 2, "both ranks wrote"
        assert job.stop() == 0, "".join(job.log)
    finally:
        job.close()


def test_elements_that_come_late_or_lack_frames(
    record: Callable[..., Any], tmp_path: Path, until_ends: str
) -> None:
    """Frames are whole when all elements are in; each element is acknowledged for itself."""
    grid = (2, 1)
    frames = whole_frames(5, grid)
    recorder = record(tmp_path, until_ends)
    with Client(recorder.address) as upper, Client(recorder.address) as lower:
        upper.start("s", 5, ELEMENT, **element(grid, 0))
        for number, frame in enumerate(frames):
            upper.image("s", number, part_of(frame, grid, 0))
        while upper.until(ACK)["safe_below"] < 5:
            pass
        send_end(upper)
        time.sleep(0.8)  # longer than late frames are waited for: the other one has not even begun
        lower.start("s", 5, ELEMENT, **element(grid, 1))
        for number in (0, 2, 3):
            lower.image("s", number, part_of(frames[number], grid, 1))
        closed = [lower.end("s"), upper.until(CLOSED)]
    assert [each["problem"] for each in closed] == [None, None]
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.partial, end.late, end.problem) == (3, 2, 2, 0, None)
    assert end.frames_written == 3, "halves of frames are no frames"
    pixels, states, counts = stored(end.file)
    assert states == [1, 5, 1, 1, 5]
    assert list(counts["received_by_element"]) == [5, 3]
    for number, frame in enumerate(frames):
        assert np.array_equal(part_of(pixels[number], grid, 0), part_of(frame, grid, 0))
        expected = part_of(frame, grid, 1) if states[number] == 1 else np.full(ELEMENT, 0xFFFF, np.uint16)
        assert np.array_equal(part_of(pixels[number], grid, 1), expected)


def test_an_element_that_comes_back_sends_again(
    record: Callable[..., Any], tmp_path: Path, until_ends: str
) -> None:
    grid = (1, 2)
    frames = whole_frames(4, grid)
    recorder = record(tmp_path, until_ends)
    with Client(recorder.address) as left:
        left.start("s", 4, ELEMENT, **element(grid, 0))
        with Client(recorder.address) as right:
            right.start("s", 4, ELEMENT, **element(grid, 1))
            for number in range(2):
                right.image("s", number, part_of(frames[number], grid, 1))
            right.hang_up()
        for number in range(4):
            left.image("s", number, part_of(frames[number], grid, 0))
        send_end(left)
        with Client(recorder.address) as right:
            right.start("s", 4, ELEMENT, RESUME, **element(grid, 1))
            for number in range(4):
                right.image("s", number, part_of(frames[number], grid, 1))
            assert right.end("s")["problem"] is None
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.duplicate) == (4, 0, 2)
    assert np.array_equal(stored(end.file)[0], frames)


def test_elements_of_a_recorder_that_was_killed_are_recovered(
    record: Callable[..., Any], run: Run, tmp_path: Path
) -> None:
    """What was acknowledged is there; where one element of a frame is there, it is not lost."""
    grid = (1, 2)
    frames = whole_frames(40, grid)
    recorder = record(tmp_path, "--durability", "segment")
    with Client(recorder.address) as left, Client(recorder.address) as right:
        left.start("s", 40, ELEMENT, **element(grid, 0))
        right.start("s", 40, ELEMENT, **element(grid, 1))
        for number in range(30):
            left.image("s", number, part_of(frames[number], grid, 0))
            if number != 7:
                right.image("s", number, part_of(frames[number], grid, 1))
        while left.until(ACK)["safe_below"] < 30:
            pass
        while right.until(ACK)["safe_below"] < 30:
            pass
        kill(recorder)
    file = tmp_path / "s.h5"
    done = run("recover", str(file))
    assert done.returncode == 0, done.stderr
    data, states, counts = stored(file)
    assert [number for number, state in enumerate(states) if state == 1] == [*range(7), *range(8, 30)]
    assert counts["missing"] == 11
    for number in range(30):
        assert (part_of(data[number], grid, 0) == part_of(frames[number], grid, 0)).all(), number
        if number != 7:
            assert (data[number] == frames[number]).all(), number
    assert (part_of(data[7], grid, 1) == 0xFFFF).all()
    assert run("check", str(file)).returncode == 0


def test_masks_of_elements_are_put_together(record: Callable[..., Any], tmp_path: Path) -> None:
    grid = (2, 2)
    mask = np.random.default_rng(3).integers(0, 3, (40, 60), dtype=np.uint32)
    recorder = record(tmp_path)
    clients = [Client(recorder.address) for _ in range(4)]
    for number, client in enumerate(clients):
        part = np.ascontiguousarray(part_of(mask, grid, number))
        fields: dict[str, Any] = {"pixel_mask": {"a": multi_dimensional(part)}} if number != 2 else {}
        client.start("s", 1, ELEMENT, **element(grid, number), **fields)
        client.image("s", 0, np.zeros(ELEMENT, np.uint16))
    for client in clients:
        send_end(client)
    for client in clients:
        assert client.until(CLOSED)["problem"] is None
        client.connection.close()
    with h5py.File(recorder.series_end().file) as file:
        stored_mask = file["/entry/instrument/detector/pixel_mask"][()]
    part_of(mask, grid, 2)[...] = 0
    assert np.array_equal(stored_mask, mask)


def test_elements_over_zeromq(
    record: Callable[..., Any], tmp_path: Path, until_ends: str, free_port: int
) -> None:
    """Detectors that know nothing of Penstock but a user_data that their users set."""
    grid = (1, 2)
    frames = whole_frames(6, grid)
    endpoints = [f"tcp://127.0.0.1:{free_port}", "ipc://" + str(tmp_path / "right")]
    listen = [part for endpoint in endpoints for part in ("--zmq", endpoint)]
    recorder = record(tmp_path, until_ends, *listen, "--series", "1", listen=False)
    identity = {"series_id": 1, "series_unique_id": "s"}
    with zmq.Context() as context:
        sockets = [context.socket(zmq.PUSH) for _ in endpoints]
        for number, (socket, endpoint) in enumerate(zip(sockets, endpoints, strict=True)):
            socket.setsockopt(zmq.SNDTIMEO, 20_000)
            socket.setsockopt(zmq.LINGER, 10_000)
            socket.bind(endpoint)
            start = start_fields("s", 6, ELEMENT) | element(grid, number)
            socket.send(cbor2.dumps(cbor2.CBORTag(55799, start)))
            for image, frame in enumerate(frames):
                part = np.ascontiguousarray(part_of(frame, grid, number))
                message = {
                    "type": "image",
                    **identity,
                    "image_id": image,
                    "data": {"a": multi_dimensional(part)},
                }
                socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))
            socket.send(cbor2.dumps(cbor2.CBORTag(55799, {"type": "end", **identity})))
        end = recorder.series_end()
        for socket in sockets:
            socket.close()
    assert (end.frames_received, end.missing, end.problem) == (6, 0, None)
    assert np.array_equal(stored(end.file)[0], frames)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"grid": [2, 1], "number": 2}, "element.number is 2, expected 0 to 1"),
        ({"grid": [2, 1]}, "element.number is null"),
        ({"grid": [0, 1], "number": 0}, "element.grid is [0,1]"),
        ({"grid": [8, 8], "number": 0}, "element.grid is [8,8]; it exceeds the maximum of 32"),
        ({"grid": 4, "number": 0}, "element.grid is 4"),
        ({"grid": [-1, 2], "number": 0}, "element.grid is [-1,2]"),
        ("left", "element.grid is null"),
    ],
)
def test_an_element_that_cannot_be_is_refused(
    record: Callable[..., Any], tmp_path: Path, fields: object, says: str
) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        start = start_fields("s", 2, ELEMENT) | {"user_data": {"penstock": {"element": fields}}}
        client.send(START, start)
        assert says in client.until(ERROR)["message"]


def send_end(client: Client) -> None:
    client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})


def test_a_connection_is_of_one_element(record: Callable[..., Any], tmp_path: Path) -> None:
    """Image messages do not say which: two in one stream could not be told apart."""
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        client.start("s", 2, ELEMENT, **element((2, 1), 0))
        client.send(START, start_fields("s", 2, ELEMENT) | element((2, 1), 1))
        assert "requires a separate" in client.until(ERROR)["message"]


def test_two_clients_bring_one_element(record: Callable[..., Any], tmp_path: Path) -> None:
    """It ends with the second of them; a bye does as well."""
    recorder = record(tmp_path)
    frames = whole_frames(4, (2, 1))
    with Client(recorder.address) as upper, Client(recorder.address, client="lower") as even:
        odd = Client(recorder.address, client="lower")
        upper.start("s", 0, ELEMENT, **element((2, 1), 0))
        even.start("s", 0, ELEMENT, **element((2, 1), 1))
        odd.start("s", 0, ELEMENT, RESUME, **element((2, 1), 1))
        for number, frame in enumerate(frames):
            upper.image("s", number, part_of(frame, (2, 1), 0))
        for number in (0, 2):
            even.image("s", number, part_of(frames[number], (2, 1), 1))
        send_end(upper)
        send_end(even)
        time.sleep(0.5)
        for number in (1, 3):
            odd.image("s", number, part_of(frames[number], (2, 1), 1))
        odd.send(BYE, {"type": "bye"})
        odd.connection.close()
        assert [client.until(CLOSED)["problem"] for client in (upper, even)] == [None, None]
    told = recorder.series_end()
    assert (told.frames_received, told.missing) == (4, 0)
    assert np.array_equal(stored(told.file)[0], frames)


def test_an_element_that_comes_after_the_close_replaces_nothing(
    record: Callable[..., Any], tmp_path: Path, quick: str
) -> None:
    recorder = record(tmp_path, quick, "--overwrite")
    frames = whole_frames(3, (2, 1))
    for late in (False, True):
        with Client(recorder.address) as client:
            if late:
                client.send(START, start_fields("s", 3, ELEMENT) | element((2, 1), 1))
                assert "arrived too late" in client.until(ERROR)["message"]
                break
            client.start("s", 3, ELEMENT, **element((2, 1), 0))
            for number, frame in enumerate(frames):
                client.image("s", number, part_of(frame, (2, 1), 0))
            assert client.end("s")["problem"] is None
    file = recorder.series_end().file
    assert np.array_equal(part_of(stored(file)[0], (2, 1), 0), part_of(frames, (2, 1), 0))
    with Client(recorder.address) as client:
        client.start("s", 3, ELEMENT, **element((2, 1), 0))  # another series, which may replace it


def test_an_end_of_no_element_ends_nothing(record: Callable[..., Any], tmp_path: Path, quick: str) -> None:
    recorder = record(tmp_path, quick)
    frames = whole_frames(2, (2, 1))
    with (
        Client(recorder.address) as upper,
        Client(recorder.address) as lower,
        Client(recorder.address) as other,
    ):
        upper.start("s", 0, ELEMENT, **element((2, 1), 0))
        send_end(other)
        time.sleep(0.5)
        lower.start("s", 0, ELEMENT, **element((2, 1), 1))
        for number, frame in enumerate(frames):
            upper.image("s", number, part_of(frame, (2, 1), 0))
            lower.image("s", number, part_of(frame, (2, 1), 1))
        send_end(upper)
        assert lower.end("s")["problem"] is None
    assert recorder.series_end().frames_received == 2


def test_what_one_element_tells_stays(record: Callable[..., Any], tmp_path: Path) -> None:
    """Times of exposure and metadata, in whatever order the elements come."""
    grid = (2, 1)
    recorder = record(tmp_path)
    frames = whole_frames(4, grid)
    told = {
        "user_data": {"temperature": 21.5},
        "start_time": [3, 1],
        "stop_time": [4, 1],
        "real_time": [1, 1],
    }
    with Client(recorder.address) as upper, Client(recorder.address) as lower:
        upper.start("s", 4, ELEMENT, **element(grid, 0))
        lower.start("s", 4, ELEMENT, **element(grid, 1))
        for number, frame in enumerate(frames):
            clients = [(upper, 0, told), (lower, 1, {})]
            for client, part, more in (
                clients if number % 2 else [clients[0], clients[1]][:: 1 if number == 0 else -1]
            ):
                pixels = part_of(frame, grid, part)
                fields = image_fields(1, "s", number, list(pixels.shape), 2 * pixels.size) | more
                client.send(IMAGE, fields, pixels.astype("<u2").tobytes())
                time.sleep(0.02)
            time.sleep(0.3)  # rows go in batches
        send_end(upper)
        assert lower.end("s")["problem"] is None
    with h5py.File(recorder.series_end().file) as file:
        assert list(file["/entry/metadata/temperature"][()]) == [21.5] * 4
        assert list(file["/entry/penstock/timing/exposure_start"][()]) == [3_000_000_000] * 4


def test_a_stale_element_harms_nobody(
    record: Callable[..., Any], tmp_path: Path, quick: str, free_port: int
) -> None:
    """A stream goes on under the name of a series that another one has begun anew, without elements."""
    old, others = f"tcp://127.0.0.1:{free_port}", [f"ipc://{tmp_path}/{number}" for number in range(4)]
    pulled = [text for endpoint in (old, *others) for text in ("--zmq", endpoint)]
    recorder = record(tmp_path, quick, *pulled, "--overwrite", listen=False)
    pixels = multi_dimensional(np.zeros(ELEMENT, np.uint16))
    identity = {"series_id": 1, "series_unique_id": "s"}

    def send(socket: Any, message: dict[str, object]) -> None:
        socket.send(cbor2.dumps(cbor2.CBORTag(55799, message)))

    with zmq.Context() as context:
        sockets = [context.socket(zmq.PUSH) for _ in range(5)]
        for socket, endpoint in zip(sockets, (old, *others), strict=True):
            socket.setsockopt(zmq.SNDTIMEO, 20_000)
            socket.setsockopt(zmq.LINGER, 1000)
            socket.bind(endpoint)
        send(sockets[0], start_fields("s", 1, ELEMENT) | element((1, 32), 31))
        send(sockets[0], {"type": "image", **identity, "image_id": 0, "data": {"a": pixels}})
        send(sockets[0], {"type": "end", **identity})
        assert recorder.series_end().file.endswith("s.h5")
        send(sockets[1], start_fields("s", 2, ELEMENT))
        time.sleep(0.5)
        for number in range(2):
            send(sockets[0], {"type": "image", **identity, "image_id": number, "data": {"a": pixels}})
        time.sleep(0.5)
        for number in range(2):
            send(sockets[1], {"type": "image", **identity, "image_id": number, "data": {"a": pixels}})
        send(sockets[1], {"type": "end", **identity})
        told = recorder.series_end()
        for socket in sockets:
            socket.close()
    assert (told.frames_received, told.missing) == (2, 0)
    refused = [event.message for event in recorder.events if isinstance(event, Rejected)]
    assert any('image 0 belongs to a series "s" that is closed' in message for message in refused), refused


@pytest.mark.slow
def test_elements_over_zeromq_need_one_rank(tmp_path: Path, free_port: int) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port}"
    job = Job(tmp_path, 2, "--zmq", endpoint)
    try:
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.setsockopt(zmq.LINGER, 1000)
            socket.bind(endpoint)
            start = start_fields("s", 2, ELEMENT) | element((1, 2), 0)
            socket.send(cbor2.dumps(cbor2.CBORTag(55799, start)))
            assert "require one rank, or TCP" in str(job.until("rejected")["message"])
    finally:
        job.close()


def test_elements_that_disagree_are_refused(record: Callable[..., Any], tmp_path: Path) -> None:
    grid = (2, 1)
    recorder = record(tmp_path)
    with Client(recorder.address) as first, Client(recorder.address) as second:
        first.start("s", 2, ELEMENT, **element(grid, 0))
        for shape, told, says in (
            (ELEMENT, element(grid, 0), "element 0 of series"),
            (ELEMENT, element((1, 2), 1), "a different shape"),
            ((20, 31), element(grid, 1), "a different shape"),
            (ELEMENT, {}, "has started already"),
        ):
            second.send(START, start_fields("s", 2, shape) | told)
            assert says in second.until(ERROR)["message"]
        # A stream without a start is belongs to no element.
        second.image("s", 0, np.zeros(ELEMENT, np.uint16))
        assert "belongs to no element" in second.until(ERROR)["message"]
        second.start("s", 2, ELEMENT, **element(grid, 1))
        second.image("s", 0, np.zeros(ELEMENT, np.uint16))
        while second.until(ACK)["safe_below"] < 1:
            pass


def test_the_simulator_says_which_grids_are_possible(run: Run) -> None:
    for grid, says in (
        ("3x1", "choose numbers that divide 64"),
        ("2", "is not a grid"),
        ("9x9", "at most 32"),
    ):
        refused = simulate(run, "tcp://127.0.0.1:1", "--elements", grid)
        assert refused.returncode == 2
        assert re.sub(r"\s+", " ", says) in re.sub(r"\s+", " ", refused.stderr)
    dry = simulate(run, "tcp://127.0.0.1:1", "--elements", "2x2", "--dry-run")
    assert dry.returncode == 0
    assert "2 x 2, one stream each" in dry.stdout + dry.stderr
