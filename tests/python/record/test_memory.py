"""How much memory a recorder takes, whatever it is sent, and who may read what it writes."""

import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import cbor2
import h5py
import numpy
import pytest
from conftest import Record
from plain_client import ACK, CLOSED, END, IMAGE, Client, frames_of, image_fields
from pusher import Pusher
from warm_command import popen

from penstock.client import Series
from penstock.model.events import SeriesStart

POOL_MIB = 64
BESIDE_MIB = 200
TEXTS, FRAMES = 1000, 3000


def peak_mib(pid: int) -> int:
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) // 1024


def recorder_of(pid: int) -> int:
    return native_child(pid, "penstock-rec")


def native_child(pid: int, name: str) -> int:
    """The native program that the command has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = (int(child) for child in children if Path(f"/proc/{child}/comm").read_text().startswith(name))
    return found


@pytest.mark.slow
def test_a_thousand_texts_a_frame_take_no_more_memory_than_is_promised(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, "--pool", f"{POOL_MIB}MiB", "--zmq", endpoint, listen=False)
    frame = frames_of(1)[0]
    pixels = frame.astype("<u2").tobytes()
    texts = {f"value{number:04}": "x" * 20 for number in range(TEXTS)}
    image = {
        "type": "image", "series_id": 1, "series_unique_id": "s", "image_id": 0,
        "data": {"1": cbor2.CBORTag(40, [list(frame.shape), cbor2.CBORTag(69, pixels)])},
        "user_data": texts,
    }  # fmt: skip
    start = {
        "type": "start", "series_id": 1, "series_unique_id": "s", "number_of_images": FRAMES,
        "image_dtype": "uint16", "image_size_x": frame.shape[1], "image_size_y": frame.shape[0],
        "channels": ["1"],
    }  # fmt: skip
    whole = cbor2.dumps(cbor2.CBORTag(55799, image | {"image_id": 70_000}))
    number = cbor2.dumps(70_000)
    assert whole.count(number) == 1
    with Pusher(endpoint) as detector:
        detector.send(start)
        for image_id in range(FRAMES):
            four_bytes = b"\x1a" + image_id.to_bytes(4, "big")
            detector.socket.send(whole.replace(number, four_bytes))
        detector.send({"type": "end", "series_id": 1, "series_unique_id": "s"})
        end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (FRAMES, 0, None)
    assert peak_mib(recorder_of(recorder.process.pid)) < POOL_MIB + BESIDE_MIB
    with h5py.File(tmp_path / "s.h5") as file:
        last = file[f"/entry/metadata/value{TEXTS - 1:04}"]
        assert last.shape == (FRAMES,)
        assert last[FRAMES - 1] == b"x" * 20


@pytest.mark.parametrize(
    ("series", "count", "late", "limit_mib"),
    [
        (4, 1, 0, 140),
        pytest.param(60, 3, 0, POOL_MIB + BESIDE_MIB, marks=pytest.mark.slow),
        pytest.param(60, 3, 1, POOL_MIB + BESIDE_MIB, marks=pytest.mark.slow),
    ],
)
def test_open_series_with_a_thousand_columns_each_take_a_bounded_memory(
    record: Record, tmp_path: Path, series: int, count: int, late: int, limit_mib: int
) -> None:
    # The first `late` frames lack the values.
    recorder = record(tmp_path, "--pool", f"{POOL_MIB}MiB")
    frames = frames_of(count)
    texts = {f"value{number:04}": "x" for number in range(TEXTS)}
    names = [f"s{number}" for number in range(series)]
    with ExitStack() as stack:
        clients = {name: stack.enter_context(Client(recorder.address)) for name in names}
        for name, client in clients.items():
            client.connection.settimeout(300)  # the index of all of them is one thread's at a time
            client.start(name, count, frames[0].shape)
        for number, frame in enumerate(frames):
            data = frame.astype("<u2").tobytes()
            user_data = {"user_data": texts if number >= late else {}}
            for name, client in clients.items():
                fields = image_fields(1, name, number, list(frame.shape), len(data)) | user_data
                client.send(IMAGE, fields, data)
        for name, client in clients.items():
            while client.until(ACK)["safe_below"] < count:
                pass
            client.send(END, {"type": "end", "series_id": 1, "series_unique_id": name})
        assert [client.until(CLOSED)["problem"] for client in clients.values()] == [None] * series
    assert peak_mib(recorder_of(recorder.process.pid)) < limit_mib
    for name in names:
        with h5py.File(tmp_path / f"{name}.h5") as file:
            values = file["/entry/metadata"]
            assert len(values) == TEXTS, name
            assert list(values[f"value{TEXTS - 1:04}"]) == [b""] * late + [b"x"] * (count - late)


@pytest.mark.slow
def test_long_texts_of_many_open_series_take_a_bounded_memory(record: Record, tmp_path: Path) -> None:
    # A warning for each text that is cut would fill the pipe, which nobody reads.
    recorder = record(tmp_path, "--pool", f"{POOL_MIB}MiB", "--set", "log_level=error")
    count = 3
    texts: dict[str, object] = {f"value{number:03}": "x" * 4000 for number in range(980)}
    frame = numpy.zeros((8, 8), "uint16")

    def send(name: str) -> None:
        with Series(recorder.address, dtype="uint16", shape=(8, 8), frames=count, name=name) as series:
            together.wait()  # all series are open
            for number in range(count):
                series.send(frame.copy(), number=number, metadata=texts)

    names = [f"s{number}" for number in range(60)]
    together = threading.Barrier(len(names), timeout=300)
    with ThreadPoolExecutor(len(names)) as senders:
        list(senders.map(send, names))
    for _ in names:
        assert recorder.series_end().problem is None
    assert peak_mib(recorder_of(recorder.process.pid)) < POOL_MIB + BESIDE_MIB
    with h5py.File(tmp_path / f"{names[-1]}.h5") as file:
        stored = file["/entry/metadata/value979"].asstr()[:]
        assert [set(text) for text in stored] == [{"x"}] * count  # of each the first letters


def test_short_series_of_small_frames_is_sent_with_little_memory(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    shape = ("custom", "--rows", "64", "--columns", "96", "--frames", "40", "--rate", "4")
    nothing = subprocess.DEVNULL
    command = ("simulate", *shape, "--to", f"tcp://{recorder.address}")
    with popen(*command, stdout=nothing, stderr=nothing) as sender:
        recorder.until(SeriesStart)  # all images are prepared by then
        peak = peak_mib(native_child(sender.pid, "penstock-det"))
        sender.terminate()
    assert peak < 100, "MiB: all 40 frames are half a MiB"


def test_files_have_the_mode_that_was_chosen(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--file-mode", "0640")
    (frame,) = frames_of(1)
    with Client(recorder.address) as client:
        client.start("s", 1, frame.shape)
        data = frame.astype("<u2").tobytes()
        client.send(3, image_fields(1, "s", 0, list(frame.shape), len(data)), data)
        client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        assert client.until(CLOSED)["problem"] is None
    assert stat.S_IMODE((tmp_path / "s.h5").stat().st_mode) == 0o640
