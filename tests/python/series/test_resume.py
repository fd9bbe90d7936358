"""A recorder that is killed and started again with `--resume`: same senders, same file, every frame."""

import contextlib
import datetime
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, RecordCommand
from mid_series import native_recorder
from plain_client import ERROR, RESUME, START, Client, Pixels, frames_of, start_fields
from ports import free_ports
from warm_command import popen

from penstock.client import Series
from penstock.model.events import RecorderProgress, RecorderSeriesEnd, SeriesStart
from penstock.programs.locate import find_program

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SHAPE = (30, 40)


class Recorders:
    """One recorder after another at the same address."""

    def __init__(self, record: Record, folder: Path, port: int, *options: str) -> None:
        self.record, self.folder, self.port = record, folder, port
        self.options = options
        self.current = self.start()

    def start(self, *more: str) -> RecordCommand:
        address = f"127.0.0.1:{self.port}"
        self.current = self.record(
            self.folder, "--listen", address, "--resume", *self.options, *more, listen=False
        )
        self.current.listening()
        return self.current

    def kill(self) -> None:
        """As the kernel does it when memory runs out: the native program, without a word."""
        process = self.current.process
        os.kill(native_recorder(process.pid), signal.SIGKILL)
        process.wait(timeout=60)  # not until its pipes close: a helper that it leaves behind has them open

    def kill_command(self) -> None:
        """`penstock record` itself, as somebody does who looks for it by its name."""
        process = self.current.process
        recorder = Path(f"/proc/{native_recorder(process.pid)}")
        process.kill()
        process.wait(timeout=60)
        deadline = time.monotonic() + 30
        while recorder.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not recorder.exists(), "it does not outlive its command"


@contextlib.contextmanager
def simulator(address: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    to = ("--to", f"tcp://{address}", "--reconnect-timeout", "60")
    command = ("simulate", "custom", "--rows", "64", "--columns", "96", *to, *options)
    process = popen(*command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def progress_beyond(recorder: RecordCommand, frames: int) -> None:
    while True:
        progress = recorder.until(RecorderProgress)
        assert isinstance(progress, RecorderProgress)
        if progress.frames_written >= frames:
            return


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def is_whole(run: Run, file: Path, frames: int) -> None:
    """Pixel by pixel against the simulation, and by its own ledger."""
    report = json.loads(run("check", str(file), "--against", "recorded", "--json").stdout)
    assert not [finding for finding in report["findings"] if finding["level"] == "error"], report
    assert (report["compared_frames"], report["different_frames"], report["missing"]) == (frames, 0, 0)
    with h5py.File(file) as content:
        states = content["/entry/penstock/frame_state"]
        assert (states[...] == 1).all()
        assert (states.attrs["received"], states.attrs["missing"]) == (frames, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "options"),
    [
        (Recorders.kill, ("--durability", "none")),
        (Recorders.kill, ("--durability", "interval")),
        (Recorders.kill_command, ()),
        (Recorders.kill_command, ("--ranks", "2")),
    ],
)
def test_killed_twice_at_random_moments_nothing_is_lost(
    record: Record,
    run: Run,
    tmp_path: Path,
    kill: Callable[[Recorders], None],
    options: tuple[str, ...],
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # the moments of the kills
    choice = random.Random(seed)
    # They become due for longer than both recorders need to start: several ranks take seconds. On a busy
    # machine the series may be complete before a kill; the next recorder then has nothing to resume.
    frames = 9600 if "--ranks" in options else 2400
    port = free_ports(2)  # each rank has one
    recorders = Recorders(record, tmp_path, port, *options)
    series = ("--frames", str(frames), "--rate", "1200", "--series-name", "on")
    with simulator(f"127.0.0.1:{port}", *series) as detector:
        recorders.current.until(SeriesStart)
        for after_s in (choice.uniform(0.2, 0.9), choice.uniform(0.0, 0.5)):
            time.sleep(after_s)
            kill(recorders)
            recorders.start()
        _, log = detector.communicate(timeout=120)
        assert detector.returncode == 0, log
    code, log = recorders.current.stop()
    assert code == 0, log
    ends = [event for event in recorders.current.events if isinstance(event, RecorderSeriesEnd)]
    assert [(end.frames_received, end.missing, end.problem) for end in ends] in ([], [(frames, 0, None)])
    is_whole(run, tmp_path / "on.h5", frames)


def test_acknowledged_frames_keep_their_metadata_and_lack_only_times_of_the_recorder(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    """Metadata are stored with the pixels, times of the recorder at each flush of the index."""
    config = tmp_path / "seldom.yaml"
    config.write_text("store: {flush_interval_ms: 600000}\n", encoding="ascii")
    recorders = Recorders(record, tmp_path, free_port, str(config))
    pixels = np.arange(1200, dtype=np.uint16).reshape(SHAPE)
    with Series(
        f"127.0.0.1:{free_port}", dtype="uint16", shape=SHAPE, frames=30, name="on", reconnect_timeout=60
    ) as series:
        for number in range(20):
            series.send(pixels.copy(), number=number, metadata={"temperature": 20.5, "step": number + 1})
        series.wait_acknowledged()
        recorders.kill()
        recorders.start()
        for number in range(20, 30):
            series.send(pixels.copy(), number=number, metadata={"temperature": 20.5, "step": number + 1})
    end = recorders.current.series_end()
    assert (end.frames_received, end.missing) == (30, 0)
    with h5py.File(end.file) as file:
        written = file["/entry/penstock/timing/written"][...]
        steps, temperatures = file["/entry/metadata/step"][...], file["/entry/metadata/temperature"][...]
        assert (file["/entry/penstock/timing/received"][...] > 0).all()
    lost = written < 0
    assert 0 < lost.sum() <= 20, written
    assert np.array_equal(steps, np.arange(1, 31))
    assert np.array_equal(temperatures, np.full(30, 20.5))
    told = run("check", end.file, "--require-complete")
    assert told.returncode == 0, "every frame is there"
    assert f"times of {lost.sum()} frame" in " ".join(told.stdout.split())
    assert f"when {lost.sum()} frame" in " ".join(run("info", end.file).stdout.split())


@pytest.mark.slow
def test_killed_while_it_looks_at_the_file(
    record: Record, run: Run, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("penstock-recorder", "penstock-check", "penstock-detector"):
        shutil.copy(find_program(name), programs)  # not a link: the folder may be on another file system
    began, go_on = tmp_path / "began", tmp_path / "go on"
    slow = programs / "penstock-recover"
    slow.write_text(
        f"#!/bin/sh\ntouch '{began}'\n"
        f"for i in $(seq 600); do [ -e '{go_on}' ] && break; sleep 0.05; done\n"
        f"exec '{find_program('penstock-recover')}' \"$@\"\n"
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(programs))
    folder = tmp_path / "files"
    folder.mkdir()
    recorders = Recorders(record, folder, free_port)
    options = ("--frames", "600", "--rate", "600", "--series-name", "on")
    with simulator(f"127.0.0.1:{free_port}", *options) as detector:
        progress_beyond(recorders.current, 100)
        recorders.kill()
        recorders.start()
        deadline = time.monotonic() + 30
        while not began.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        recorders.kill()
        go_on.touch()
        recorders.start()
        end = recorders.current.series_end()
        _, log = detector.communicate(timeout=60)
        assert detector.returncode == 0, log
    assert (end.frames_received, end.missing, end.problem) == (600, 0, None)
    is_whole(run, folder / "on.h5", 600)


def test_a_resumed_file_is_read_while_it_grows(record: Record, tmp_path: Path, free_port: int) -> None:
    recorders = Recorders(record, tmp_path, free_port)
    frames = frames_of(8)
    with Client(recorders.current.address) as client:
        client.start("s", 0, SHAPE)
        send(client, "s", frames, range(4))
        safe(client, 4)
        recorders.kill()
    recorders.start()
    with Client(recorders.current.address) as client:
        client.start("s", 0, SHAPE, RESUME)
        with h5py.File(tmp_path / "s.h5", swmr=True) as content:
            data = content["/entry/data/data"]
            assert np.array_equal(data[...], frames[:4])
            send(client, "s", frames, range(4, 7))
            safe(client, 7)
            deadline = time.monotonic() + 30
            states = content["/entry/penstock/frame_state"]
            # The index may have a later frame first: a frame is there once its state says so.
            while list(states[:7]) != [1] * 7 and time.monotonic() < deadline:
                time.sleep(0.01)
                states.refresh()
            data.refresh()  # after the states were read
            assert np.array_equal(data[...], frames[:7])
        send(client, "s", frames, [2, 7])
        assert client.end("s")["problem"] is None
    end = recorders.current.series_end()
    assert (end.frames_received, end.duplicate, end.problem) == (8, 1, None)
    with h5py.File(tmp_path / "s.h5") as content:
        assert np.array_equal(content["/entry/data/data"][...], frames)


def send(client: Client, series: str, frames: Pixels, numbers: "range | list[int]") -> None:
    for number in numbers:
        client.image(series, number, frames[number])


def safe(client: Client, below: int) -> None:
    while client.receive()[1]["safe_below"] < below:
        pass


def refusal(recorder: RecordCommand, series: str, frames: int, shape: tuple[int, int], flags: int = 0) -> str:
    """What the recorder answers to a start message."""
    with Client(recorder.address) as client:
        client.send(START, start_fields(series, frames, shape), flags=flags)
        kind, answer = client.receive()
        assert kind == ERROR, answer
        return str(answer["message"])


def test_a_finished_file_is_added_to_and_never_replaced(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    recorders = Recorders(record, tmp_path, free_port, "--log-level", "error")
    frames = frames_of(6)
    with Client(recorders.current.address) as client:
        client.start("s", 6, SHAPE)
        send(client, "s", frames, [0, 1, 2, 4])
        safe(client, 3)
        assert recorders.current.stop()[0] == 0  # completes the file
    file = tmp_path / "s.h5"
    before = digest(file)
    recorders.start()
    # A sender that begins anew may well have other frames under the old name.
    assert "finished" in refusal(recorders.current, "s", 6, SHAPE)
    assert digest(file) == before
    with Client(recorders.current.address) as client:
        client.start("s", 6, SHAPE, RESUME)
        other = frames.copy()
        other[1] = 7
        send(client, "s", other, [1, 3, 5])
        assert client.end("s")["problem"] is None
    end = recorders.current.series_end()
    assert (end.frames_received, end.missing, end.duplicate) == (6, 0, 1)
    with h5py.File(file) as content:
        assert np.array_equal(content["/entry/data/data"][...], frames), "what was there stays"
        assert content["/entry/penstock/frame_state"].attrs["missing"] == 0


def test_the_end_of_a_series_of_which_nothing_new_came(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    """It is when the last frame came, not when that came again."""
    recorders = Recorders(record, tmp_path, free_port)
    frames = frames_of(4)
    with Client(recorders.current.address) as client:
        client.start("s", 4, SHAPE)
        send(client, "s", frames, range(4))
        safe(client, 4)
        recorders.kill()
    time.sleep(1)
    recorders.start()
    with Client(recorders.current.address) as client:
        client.start("s", 4, SHAPE, RESUME)
        send(client, "s", frames, range(4))
        assert client.end("s")["problem"] is None
    end = recorders.current.series_end()
    assert (end.frames_received, end.duplicate) == (4, 4)
    with h5py.File(end.file) as content:
        last = content["/entry/penstock/timing/received"][...].max() / 1e9
        text = content["/entry/end_time"].asstr()[()]
    assert abs(datetime.datetime.fromisoformat(text).timestamp() - last) < 0.01


def test_what_is_not_this_series_is_left_alone(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    recorders = Recorders(record, tmp_path, free_port, "--file-name", "run-{series_id}.h5")
    file = tmp_path / "run-1.h5"
    frames = frames_of(4)
    with Client(recorders.current.address) as client:
        client.start("one", 6, SHAPE)
        send(client, "one", frames, range(4))
        safe(client, 4)
        recorders.kill()
    left = digest(file)
    recorders.start()
    assert 'the series "one", not "two"' in refusal(recorders.current, "two", 6, SHAPE)
    assert "[30, 40]" in refusal(recorders.current, "one", 6, (30, 41))
    assert "6 frames" in refusal(recorders.current, "one", 7, SHAPE)
    recorders.current.stop()
    assert digest(file) == left
    for content in (b"not of Penstock" * 1000, b"\x89HDF\r\n\x1a\n" + bytes(9000)):
        file.write_bytes(content)
        recorders.start()
        assert "already" in refusal(recorders.current, "one", 6, SHAPE)
        recorders.current.stop()
        assert file.read_bytes() == content


def test_the_codec_is_that_of_the_file(record: Record, tmp_path: Path, free_port: int) -> None:
    recorders = Recorders(record, tmp_path, free_port)
    frames = frames_of(6)
    with Client(recorders.current.address) as client:
        client.start("one", 6, SHAPE)
        send(client, "one", frames, range(3))
        safe(client, 3)
        recorders.kill()
    configuration = tmp_path / "blocks.yaml"
    configuration.write_text("codec: {block_bytes: 4096}")
    recorders.start(str(configuration))
    assert "its filters are" in refusal(recorders.current, "one", 6, SHAPE)
    recorders.current.stop()
    recorders.start("--codec", "deflate")
    with Client(recorders.current.address) as client:
        client.start("one", 6, SHAPE, flags=RESUME)
        send(client, "one", frames, range(3, 6))
        safe(client, 6)
    _, log = recorders.current.stop()
    assert f"{tmp_path / 'one.h5'}: the file uses bslz4: codec deflate is not used" in log
    with h5py.File(tmp_path / "one.h5") as file:
        assert np.array_equal(file["/entry/data/data"][:6], frames)


def test_a_file_that_is_being_recorded_is_nobody_elses(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    first = record(tmp_path, "--resume")
    second = record(tmp_path, "--resume", "--log-level", "error")
    frames = frames_of(3)
    with Client(first.address) as client:
        client.start("s", 3, SHAPE)
        send(client, "s", frames, range(2))
        assert "another process" in refusal(second, "s", 3, SHAPE, RESUME)
        client.image("s", 2, frames[2])
        assert client.end("s")["problem"] is None
    with h5py.File(tmp_path / "s.h5") as content:
        assert np.array_equal(content["/entry/data/data"][...], frames)


def test_a_file_whose_structures_are_gone_is_for_a_person(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    recorders = Recorders(record, tmp_path, free_port, "--log-level", "error")
    frames = frames_of(4)
    with Client(recorders.current.address) as client:
        client.start("s", 4, SHAPE)
        send(client, "s", frames, range(3))
        safe(client, 3)
        recorders.kill()
    file = tmp_path / "s.h5"
    with file.open("r+b") as raw:
        raw.write(b"\0" * 2048)
    before = digest(file)
    recorders.start()
    assert "penstock recover" in refusal(recorders.current, "s", 4, SHAPE, RESUME)
    assert digest(file) == before


def test_settings_that_exclude_each_other(run: Run, tmp_path: Path) -> None:
    both = run("record", "--folder", str(tmp_path), "--resume", "--overwrite")
    assert both.returncode == 2
    assert "overwrite" in both.stderr
    dated = run("record", "--folder", str(tmp_path), "--resume", "--file-name", "{date}.h5")
    assert dated.returncode == 2
    assert "{date}" in dated.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_recorder_that_is_asked_to_stop_completes_its_file_and_is_no_crash(
    record: Record, tmp_path: Path, free_port: int, how: signal.Signals
) -> None:
    recorders = Recorders(record, tmp_path, free_port)
    with Client(recorders.current.address) as client:
        client.start("s", 0, SHAPE)
        send(client, "s", frames_of(4), range(4))
        safe(client, 4)
        recorders.current.process.send_signal(how)
        end = recorders.current.series_end()
        recorders.current.process.communicate(timeout=60)
    assert (end.frames_received, end.missing, end.problem) == (4, 0, None)
    with h5py.File(tmp_path / "s.h5") as file:
        assert "end_time" in file["entry"]
