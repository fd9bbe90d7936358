"""`penstock.client` beside real recorders: what it hands over is in the file, whatever happens on the way."""

import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bitshuffle
import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import numpy.typing as npt
import pytest
from conftest import Record
from mid_series import native_recorder
from plain_client import crc32c

from penstock.client import (
    ClientError,
    ClientTimeoutError,
    Compressed,
    ConnectionLostError,
    FrameError,
    FramesRefusedError,
    RefusedError,
    Series,
    SeriesProblemError,
)
from penstock.client.crc32c import crc32c as fast_crc32c
from penstock.client.messages import ImageMessages
from penstock.client.pixels import spec_of
from penstock.client.wire import Kind, header
from penstock.model.events import Rejected

SHAPE = (30, 40)
Images = npt.NDArray[np.uint16]


def images_of(count: int, shape: tuple[int, int] = SHAPE) -> Images:
    return np.random.default_rng(count).integers(0, 9, (count, *shape), dtype=np.uint16)


def small(address: str, name: str = "s", **options: Any) -> Series:
    return Series(address, **({"dtype": "uint16", "shape": SHAPE, "name": name} | options))


def test_the_checksum_is_that_of_the_protocol() -> None:
    assert fast_crc32c(b"123456789") == 0xE3069283
    data = random.Random(1).randbytes(2000)
    for size in (*range(12), 511, 512, 513, 514, 515, 516, 1024, 1025, 2000):
        assert fast_crc32c(data[:size]) == crc32c(data[:size]), size


def test_checksums_that_are_not_made_anew() -> None:
    """Of headers and messages in which only numbers differ."""
    for name in ("s", "x" * 256):
        images = ImageMessages(1, name, spec_of("uint16", SHAPE), "2026-01-02T03:04:05Z")
        for number in (0, 1, 23, 24, 255, 256, 65535, 65536, 1 << 32, (1 << 63) - 1) * 2:
            text, checksum = images.encode(number, {"0": ("", 2400)}, None, {})
            assert checksum == crc32c(text), number
            head = header(Kind.IMAGE, number, len(text), checksum, pixels_bytes=2400)
            assert struct.unpack("<I", head[60:]) == (crc32c(head[:60]),), number
    images = ImageMessages(1, "y" * 256, spec_of("uint16", SHAPE), "2026-01-02T03:04:05Z")
    for number in range(3):
        text, checksum = images.encode(number, {"c" * 250: ("", 2400)}, None, {})
        assert len(text) > 512
        assert checksum == crc32c(text)


def test_it_needs_numpy_and_cbor2_only() -> None:
    heavy = "{'pydantic', 'h5py', 'typer', 'yaml', 'scipy', 'penstock.model', 'penstock.programs'}"
    program = f"import sys, penstock.client; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_kinds_of_images(record: Record, tmp_path: Path) -> None:
    """Two channels; arrays of any layout and byte order, and compressed bytes; metadata and times."""
    recorder = record(tmp_path)
    images = images_of(6)
    header = struct.pack(">QI", images[0].nbytes, 8192)
    packed = header + bitshuffle.compress_lz4(images[4], 4096).tobytes()
    wide = np.zeros((30, 80), np.uint16)
    wide[:, ::2] = images[2]
    low: list[Any] = [
        images[0],
        np.asfortranarray(images[1]),
        wide[:, ::2],
        images[3].astype(">u2"),
        Compressed(packed),
        images[5],
    ]
    with small(
        recorder.address,
        frames=6,
        channels=["low", "high"],
        metadata={
            "count_time": 0.5,
            "pixel_mask": {"low": np.ones(SHAPE, np.uint32), "high": np.zeros(SHAPE, np.uint32)},
        },
        user_data={"sample": "lysozyme"},
    ) as series:
        for number, image in enumerate(low):
            taken = series.send(
                {"low": image, "high": images[number] + 1},
                metadata={"temperature": np.float32(20.5), "step": np.int16(number), "lamp": "on"},
                start_time_ns=number * 10**9,
                stop_time_ns=number * 10**9 + 5 * 10**8,
            )
            assert taken == number
        series.wait_acknowledged(timeout=20)
        assert not series.refused
        assert (series.sent, series.acknowledged, series.waiting, series.waiting_bytes) == (6, 6, 0, 0)
        assert series.safe_below == 6
    assert (series.resent, series.reconnects, series.refused) == (0, 0, [])
    end = recorder.series_end()
    assert (end.frames_written, end.missing, end.problem) == (6, 0, None)
    with h5py.File(end.file) as file:
        assert b"lysozyme" in file["/entry/penstock/user_data"][()]
        assert file["/entry/instrument/detector/count_time"][()] == 0.5
        assert np.array_equal(file["/entry/metadata/step"][...], np.arange(6))
        assert set(file["/entry/metadata/lamp"].asstr()[...]) == {"on"}
        assert np.allclose(file["/entry/metadata/temperature"][...], 20.5)
        found = [dataset for dataset in datasets(file) if dataset.shape == (6, *SHAPE)]
        assert len(found) == 2
        by_first = sorted((dataset[...] for dataset in found), key=lambda data: int(data[0].sum()))
        assert np.array_equal(by_first[0], images)
        assert np.array_equal(by_first[1], images + 1)


def datasets(file: h5py.File) -> list[h5py.Dataset]:
    """Every dataset once, however many links lead to it."""
    found: list[h5py.Dataset] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def test_killed_with_minus_nine_nothing_is_lost(record: Record, tmp_path: Path, free_port: int) -> None:
    """Two kills at random moments, in a stream that goes on; what was acknowledged before is there after."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    address = f"127.0.0.1:{free_port}"

    def start() -> Any:
        command = record(tmp_path, "--listen", address, "--resume", listen=False)
        command.listening()
        return command

    running = [start()]
    images = images_of(500)
    is_over = threading.Event()
    # On a busy machine a recorder is stopped while more than 500 frames are sent.
    series = small(address, copy=True)
    problems: list[BaseException] = []

    def send() -> None:
        try:
            with series:
                while not is_over.wait(0.0004):
                    series.send(images[series.sent % 500])
        except BaseException as error:
            problems.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(2):
            time.sleep(choice.uniform(0.1, 0.5))
            pid = native_recorder(running[-1].process.pid)
            os.kill(pid, signal.SIGSTOP)
            wait_until_more_is_sent(series)  # none of that is acknowledged
            os.kill(pid, signal.SIGKILL)
            running[-1].process.wait(60)
            running.append(start())
    finally:
        is_over.set()
        sender.join(90)
    assert problems == []
    assert series.reconnects >= 1  # the second kill may come while it still tries
    assert series.resent >= 1
    assert (series.acknowledged, series.waiting) == (series.sent, 0)
    end = running[-1].series_end()
    assert (end.missing, end.problem) == (0, None)
    with h5py.File(tmp_path / "s.h5") as file:
        data = file["/entry/data/data"][...]
    assert np.array_equal(data, images[np.arange(series.sent) % 500])


def wait_until_more_is_sent(series: Series) -> None:
    """Gives up after five seconds: a client that still connects sends nothing."""
    sent, deadline = series.sent, time.monotonic() + 5
    while series.sent < sent + 10 and time.monotonic() < deadline:
        time.sleep(0.01)


def test_an_acknowledgement_that_comes_before_the_send_returns_is_not_lost(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sendmsg = socket.socket.sendmsg

    def slow_to_return(connection: socket.socket, pieces: list[Any]) -> int:
        sent = sendmsg(connection, pieces)
        select.select([connection], [], [], 60)
        return sent

    with small(record(tmp_path).address, frames=2) as series:
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "sendmsg", slow_to_return)
            series.send(images_of(1)[0])
        series.wait_acknowledged(timeout=60)
        assert series.acknowledged == 1
        series.send(images_of(1)[0])


@pytest.mark.parametrize("call", ["poll", "wait_acknowledged"])
def test_recorder_that_is_gone_once_the_series_is_whole_is_no_problem(
    record: Record, tmp_path: Path, call: str
) -> None:
    quick = tmp_path / "quick.yaml"
    quick.write_text("end_timeout_s: 0\n", encoding="ascii")
    recorder = record(tmp_path, str(quick), "--series", "1")
    with small(recorder.address, frames=2) as series:
        for image in images_of(2):
            series.send(image)
        recorder.process.wait(60)
        getattr(series, call)()
        series.wait_acknowledged(timeout=60)
        assert series.acknowledged == 2


def test_memory_for_resending_is_bounded(record: Record, tmp_path: Path) -> None:
    """A recorder that stands still: send() waits at the bound, and goes on with it."""
    recorder = record(tmp_path)
    images = images_of(8)
    pid = native_recorder(recorder.process.pid)
    with small(recorder.address, resend_bytes=3 * images[0].nbytes) as series:
        os.kill(pid, signal.SIGSTOP)
        try:
            for image in images[:3]:
                series.send(image)
            with pytest.raises(
                ClientTimeoutError, match=r"frame 3 did not fit into the window after 0.2 s; 3 frames of 7200"
            ):
                series.send(images[3], timeout=0.2)
            with pytest.raises(ClientTimeoutError, match="not all frames are acknowledged"):
                series.wait_acknowledged(timeout=0.1)
            assert (series.sent, series.waiting, series.waiting_bytes) == (3, 3, 7200)
        finally:
            os.kill(pid, signal.SIGCONT)
        for image in images[3:]:
            series.send(image, timeout=20)
            assert series.waiting <= 3
    assert series.acknowledged == 8
    with pytest.raises(ClientError, match="is over"):
        series.send(images[0])
    with h5py.File(recorder.series_end().file) as file:
        assert np.array_equal(file["/entry/data/data"][...], images)


def test_an_array_that_is_still_kept_is_not_taken_again(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    pid = native_recorder(recorder.process.pid)
    buffer = np.zeros(SHAPE, np.uint16)
    with (
        small(recorder.address, name="kept") as series,
        small(recorder.address, "copied", copy=True) as other,
    ):
        os.kill(pid, signal.SIGSTOP)
        try:
            series.send(buffer)
            other.send(buffer)
            buffer += 1
            with pytest.raises(FrameError, match=r"frame 1 .* memory of frame 0.*copy=True"):
                series.send(buffer)
            other.send(buffer)
        finally:
            os.kill(pid, signal.SIGCONT)
        series.wait_acknowledged(timeout=20)
        series.send(buffer)
    with h5py.File(tmp_path / "copied.h5") as file:
        assert file["/entry/data/data"][:, 0, 0].tolist() == [0, 1]


def test_an_exception_does_not_end_the_series(record: Record, tmp_path: Path) -> None:
    """Another series with `resume` goes on in it, with the numbers that are left."""
    recorder = record(tmp_path)
    images = images_of(6)

    def fail_in_the_middle() -> None:
        with small(recorder.address, frames=6) as series:
            for image in images[:3]:
                series.send(image)
            series.wait_acknowledged(timeout=20)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    with pytest.raises(RefusedError, match="has started already"):
        small(recorder.address, frames=6)
    with small(recorder.address, frames=6, resume=True) as series:
        for number in range(3, 6):
            series.send(images[number], number=number)
    end = recorder.series_end()
    assert (end.frames_written, end.missing, end.problem) == (6, 0, None)
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/data/data"][...], images)


def test_resuming_a_closed_series_says_that_it_is_closed(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    images = images_of(2)
    with small(recorder.address, frames=2) as series:
        for image in images:
            series.send(image)
    again = small(recorder.address, frames=2, resume=True)
    with pytest.raises(SeriesProblemError) as caught:
        again.send(images[0])
    what = "the series 's' had been closed already; nothing more can be added to its file"
    assert str(caught.value) == f"{recorder.address}: {what}"


def test_restarted_program_that_sends_all_again_completes_the_series(record: Record, tmp_path: Path) -> None:
    """It does not know what was acknowledged: `safe_below` is 0 again. The recorder recognizes its frames."""
    recorder = record(tmp_path)
    images = images_of(4)
    first = small(recorder.address, frames=4)
    for image in images[:2]:
        first.send(image)
    first.wait_acknowledged(timeout=20)
    first.abandon()
    with small(recorder.address, frames=4, resume=True) as second:
        assert second.safe_below == 0
        for number, image in enumerate(images):
            second.send(image, number=number)
    end = recorder.series_end()
    assert (end.frames_written, end.missing, end.problem) == (4, 0, None)
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/data/data"][...], images)


def test_without_what_windows_lacks(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sendmsg() nor poll()."""
    monkeypatch.setattr("penstock.client.connection._HAS_SENDMSG", False)
    monkeypatch.setattr("penstock.client.connection._HAS_POLL", False)
    recorder = record(tmp_path)
    images = images_of(3, (900, 1000))
    with small(recorder.address, shape=(900, 1000)) as series:
        for number, image in enumerate(images):
            assert series.send(image, number=np.int64(2 * number)) == 2 * number
    end = recorder.series_end()
    assert (end.frames_written, end.missing) == (3, 2)
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/data/data"][::2], images)


def test_elements_are_parts_of_one_frame(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    images = images_of(4, (60, 40))
    with (
        small(recorder.address, frames=4, element=(2, 1, 0)) as upper,
        small(recorder.address, frames=4, element=(2, 1, 1)) as lower,
    ):
        for image in images:
            upper.send(image[:30])
            lower.send(image[30:])
        # Each close() waits for the end of all.
        other = threading.Thread(target=upper.close)
        other.start()
        lower.close()
        other.join(30)
    end = recorder.series_end()
    assert (end.missing, end.problem) == (0, None)
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/data/data"][...], images)


def test_what_the_recorder_refuses_is_told(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    images = images_of(3)
    series = small(recorder.address, frames=2)
    for image in images:
        series.send(image)
    with pytest.raises(FramesRefusedError, match="refused 1 of 3 frames; the first was frame 2"):
        series.close()
    series.close()
    assert [refusal.number for refusal in series.refused] == [2]
    assert (series.acknowledged, series.waiting) == (2, 0)
    assert recorder.series_end().problem is None


def test_a_frame_that_is_damaged_is_reported(record: Record, tmp_path: Path) -> None:
    """It is so in the file, and for the recorder, but nothing that was refused."""
    recorder = record(tmp_path)
    images = images_of(4)
    with small(recorder.address, frames=6) as series:
        series.send(images[0])
        assert series.send_damaged("the camera's buffer was torn") == 1
        series.send_damaged("x" * 10_000, number=3)
        with pytest.raises(FrameError, match="numbers must rise"):
            series.send_damaged("again", number=3)
        series.send(images[1])
        series.send(images[2])
        series.wait_acknowledged(20)
        assert (series.waiting, series.refused_count) == (0, 0)
    assert (series.sent, series.acknowledged, series.refused) == (3, 3, [])
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.damaged, end.problem) == (3, 3, 2, None)
    with h5py.File(end.file) as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1, 2, 0, 2, 1, 1]
    told = [event.message for event in recorder.events if isinstance(event, Rejected)]
    assert 'frame 1 of series "s" ' in told[0]
    assert told[0].endswith(": the camera's buffer was torn")


def test_the_end_of_the_only_client_is_the_end(record: Record, tmp_path: Path, free_port: int) -> None:
    """Beside another source the recorder waits for frames that are missing, unless nobody else has any."""
    for sole, waits_s in ((True, 120), (False, 1)):
        (tmp_path / "data").mkdir(exist_ok=True)
        config = tmp_path / "slow.yaml"
        sources = (
            f"[{{kind: tcp, listen: '127.0.0.1:0'}}, {{kind: zmq, endpoint: 'tcp://127.0.0.1:{free_port}'}}]"
        )
        config.write_text(f"end_timeout_s: {waits_s}\nsources: {sources}\n", encoding="ascii")
        recorder = record(tmp_path / "data", str(config), "--series", "1", listen=False)
        address = recorder.listening()
        began = time.monotonic()
        with small(address, name=f"sole-{sole}", frames=9, sole=sole) as series:
            series.send(images_of(1)[0])
        took = time.monotonic() - began
        assert recorder.series_end().missing == 8
        assert took < waits_s / 2 if sole else took >= waits_s


def test_a_recorder_that_stops_closes_the_series(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    image = images_of(1)[0]
    image.flags.writeable = False

    def go_on() -> None:
        with small(recorder.address) as series:
            series.send(image)
            series.wait_acknowledged(timeout=20)
            recorder.process.send_signal(signal.SIGTERM)
            for _ in range(1000):
                series.send(image)
                time.sleep(0.01)

    with pytest.raises(SeriesProblemError, match=r"closed the series 's'"):
        go_on()


def test_what_is_wrong_is_reported_before_anything_is_sent(
    record: Record, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConnectionLostError, match=r"no connection to a recorder .*\b0\.2 s"):
        small(f"127.0.0.1:{free_port}", connect_timeout=0.2)
    monkeypatch.setenv("PENSTOCK_TOKEN", "open sesame")
    recorder = record(tmp_path)
    with pytest.raises(RefusedError, match="token"):
        small(recorder.address, token="wrong")
    with small(recorder.address, channels=["a", "b"]) as series:
        image = images_of(1)[0]
        wrong: list[tuple[Any, dict[str, Any], str]] = [
            (image, {}, "send a dict"),
            ({"c": image}, {}, r"channels \['c'\]"),
            ({"a": image[1:]}, {}, r"\(29, 40\) instead of \(30, 40\)"),
            ({"a": image.astype(np.int16)}, {}, "int16 instead of uint16"),
            ({"a": image}, {"metadata": {"x": object()}}, "a object"),
            ({"a": image}, {"start_time_ns": -1}, "start_time is -1"),
            ({"a": image}, {"start_time_ns": 1.5}, "start_time is 1.5"),
            ({"a": Compressed(b"")}, {}, "0 bytes"),
        ]
        for images, options, why in wrong:
            with pytest.raises(FrameError, match=why):
                series.send(images, **options)
        series.send({"a": image, "b": image + 1}, number=5)
        with pytest.raises(FrameError, match="frame 5 comes after frame 5"):
            series.send({"a": image + 2}, number=5)
        assert series.sent == 1
    cases: list[tuple[dict[str, Any], str]] = [
        ({"dtype": "complex64"}, "dtype: complex64 is not supported"),
        ({"dtype": "uint17"}, "dtype: 'uint17' is not supported"),
        ({"shape": (40,)}, "shape is"),
        ({"channels": []}, "at least one"),
        ({"channels": ["a", "a"]}, "each once"),
        ({"name": ""}, "0 bytes"),
        ({"metadata": {"type": "x"}}, "metadata sets type"),
        ({"metadata": {"channels": ["x"]}}, "for channels of the series"),
        ({"element": (1, 2, 2)}, "element 2 of a grid"),
        ({"element": (-2, -3, 1)}, r"element .*: -2 is not an integer"),
        ({"element": (2.5, 2, 4)}, r"element .*: 2\.5 is not an integer"),
        ({"resend_bytes": 0}, "resend_bytes is 0"),
    ]
    for options, why in cases:
        with pytest.raises(FrameError, match=why):
            small("127.0.0.1:1", **options)
    with pytest.raises(ClientError, match="is not host:port"):
        small("nowhere")
    with pytest.raises(FrameError, match="encoding 'zip'"):
        Compressed(b"x", "zip")


def test_misspelled_field_of_the_start_message_is_warned_about() -> None:
    with pytest.warns(UserWarning, match='did you mean "pixel_size_x"'), pytest.raises(ConnectionLostError):
        small("127.0.0.1:1", metadata={"pixelsize_x": 7.5e-5}, connect_timeout=0.1)


def test_refused_connection_has_a_remedy() -> None:
    with pytest.raises(ConnectionLostError, match="start a recorder with `penstock record`"):
        small("127.0.0.1:1", connect_timeout=0.1)
