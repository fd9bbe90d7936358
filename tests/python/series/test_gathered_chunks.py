"""Chunks of several frames: whole programs, and readers that know nothing of Penstock."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, RecordCommand, Recorded
from detector_stream import start_message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from mid_series import ended_in_mid_series, native_recorder, stamps_are_right
from plain_client import ACK, CLOSED, END, ERROR, HELLO, RESUME, START, Client, start_fields
from test_independent_scanner import CHUNKS, walk

from penstock.model.events import Note

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FILL = 65535
RECEIVED = 1  # docs/reference/file.md
FRAMES = numpy.random.default_rng(11).poisson(3, (27, 30, 40)).astype(numpy.uint16)
ANNOUNCED = {**start_message("uint16", len(FRAMES)), "image_size_y": 30, "image_size_x": 40}
del ANNOUNCED["pixel_mask"]


def check(run: Run, file: Path, *options: str) -> dict[str, object]:
    done = run("check", str(file), "--json", *options)
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    # What the start message of an example does not tell is none of the chunks' business.
    findings: list[dict[str, str]] = report["findings"]  # type: ignore[assignment]
    assert not [each for each in findings if each["level"] == "error" and "NXmx" not in each["expected"]]
    return report


@pytest.mark.usefixtures("nothing_stays_open")
@pytest.mark.parametrize(
    ("frames", "shape", "codec"),
    [
        (4, "frame", "bslz4"),
        (32, "frame", "none"),
        (5, "16x40", "zstd"),
        (8, "13x17", "bslz4"),
        (2, "9x9", "none"),
    ],
)
def test_blocks_are_read_by_plain_h5py_and_checked_pixel_by_pixel(
    recorded: Recorded, run: Run, tmp_path: Path, frames: int, shape: str, codec: str
) -> None:
    quick = tmp_path / "quick.yaml"
    quick.write_text("end_timeout_s: 0.5\n", encoding="ascii")
    options = ("--chunk", shape, "--chunk-frames", str(frames), "--codec", codec)
    file = recorded(FRAMES, str(quick), *options, leave_out=(2, 13), start=ANNOUNCED)
    expected = FRAMES.copy()
    expected[[2, 13]] = FILL
    tile = (30, 40) if shape == "frame" else tuple(int(extent) for extent in shape.split("x"))
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.chunks == (min(frames, 27), *tile)
        assert data.shape == FRAMES.shape, "not a multiple of the chunk"
        assert numpy.array_equal(data[...], expected)
        assert numpy.array_equal(data[:, 7, 11], expected[:, 7, 11])
        assert list(numpy.flatnonzero(content["/entry/penstock/frame_state"][...] != 1)) == [2, 13]
        assert (content["/entry/penstock/timing/written"][...] > 0).sum() == 25
    numpy.save(tmp_path / "sent.npy", FRAMES)
    report = check(run, file, "--against", str(tmp_path / "sent.npy"))
    assert (report["frames"], report["missing"], report["compared_frames"]) == (27, 2, 25)
    assert report["different_frames"] == 0
    told = run("info", str(file), "--json")
    assert told.returncode == 0, told.stderr


def test_a_check_finds_what_is_wrong_in_a_block(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    file = recorded(FRAMES, "--chunk-frames", "8", "--codec", "none", start=ANNOUNCED)
    wrong = FRAMES.copy()
    wrong[9, 3, 4] += 1
    numpy.save(tmp_path / "other.npy", wrong)
    report = json.loads(run("check", str(file), "--json", "--against", str(tmp_path / "other.npy")).stdout)
    (finding,) = [each for each in report["findings"] if each["level"] == "error"]
    assert "frame 9, row 3, column 4" in finding["where"]
    with h5py.File(file) as content:
        at = content["/entry/data/data"].id.get_chunk_info_by_coord((8, 0, 0)).byte_offset
    with file.open("r+b") as damaged:
        damaged.seek(at + 1000)
        damaged.write(b"\xaa\xaa")
    report = json.loads(run("check", str(file), "--json").stdout)
    assert any("frames 8 to 15" in each["where"] for each in report["findings"] if each["level"] == "error")


def test_where_a_record_is_lost_the_states_say_which_frames_are_there(
    recorded: Recorded, run: Run, tmp_path: Path
) -> None:
    quick = tmp_path / "quick.yaml"
    quick.write_text("end_timeout_s: 0.5\nstore: {segment_bytes: 64 KiB}\n", encoding="ascii")
    options = ("--chunk-frames", "8", "--codec", "none")
    file = recorded(FRAMES, str(quick), *options, leave_out=(10,), start=ANNOUNCED)
    content = bytearray(file.read_bytes())
    damaged = [segment for segment in walk(bytes(content)) if segment.kind == CHUNKS]
    for segment in damaged:
        content[segment.address + 50] ^= 1
    file.write_bytes(content)
    report = json.loads(run("check", str(file), "--json").stdout)
    told = {each["what"] for each in report["findings"] if each["level"] == "error"}
    assert "an indexed chunk is in no segment" in told
    assert not [what for what in told if "marked" in what]
    assert report["missing"] == 1


@pytest.mark.parametrize("encoding", ["none", "bslz4"])
def test_a_simulated_detectors_frames_gather(record: Record, run: Run, tmp_path: Path, encoding: str) -> None:
    """Open-ended for the recorder's workers: several at once, and frames that come compressed."""
    recorder = record(tmp_path, "--chunk-frames", "16", "--chunk", "20x48", "--threads", "3")
    simulated = ("custom", "--rows", "48", "--columns", "96", "--frames", "500", "--series-name", "g")
    sent = run(
        "simulate", *simulated, "--rate", "max", "--encoding", encoding, "--to", f"tcp://{recorder.address}"
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.frames_written, end.problem) == (500, 500, None)
    _, log = recorder.stop()
    assert ("has several frames" in log) == (encoding == "bslz4")
    report = check(run, tmp_path / "g.h5", "--against", "recorded")
    assert (report["compared_frames"], report["different_frames"]) == (500, 0)


def test_a_filter_plug_in_gets_the_whole_block(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "blosc.yaml"
    path.write_text("codec: {filter: blosc}\nchunk: {shape: [24, 40], frames: 4}\n", encoding="ascii")
    file = recorded(FRAMES, str(path), start=ANNOUNCED)
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.id.get_create_plist().get_filter(0)[2][3] == 4 * 24 * 40 * 2
        assert numpy.array_equal(data[...], FRAMES)
    check(run, file)


def test_readers_of_the_growing_file_see_whole_blocks(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "fast.yaml"
    path.write_text("store: {flush_interval_ms: 50}\n", encoding="ascii")
    recorder = record(tmp_path, str(path), "--chunk-frames", "8")
    with Client(recorder.address) as client:
        client.start("live", 0, (30, 40))
        for number in range(20):
            client.image("live", number, FRAMES[number])
        assert acknowledged(client, 16) == 16
        deadline = time.monotonic() + 10
        with h5py.File(tmp_path / "live.h5", swmr=True) as file:
            data, states = file["/entry/data/data"], file["/entry/penstock/frame_state"]
            # Blocks may be indexed in any order: a frame is there once its state says so.
            while time.monotonic() < deadline and (len(data) < 16 or list(states[:16]) != [RECEIVED] * 16):
                time.sleep(0.05)
                states.refresh()
                data.refresh()
            data.refresh()  # after the states were read
            assert data.shape == (16, 30, 40)
            assert numpy.array_equal(data[...], FRAMES[:16])
        assert client.end("live")["safe_below"] == 20
    with h5py.File(recorder.series_end().file) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], FRAMES[:20])


def acknowledged(client: Client, wanted: int) -> int:
    safe = 0
    while safe < wanted:
        safe = int(client.until(ACK)["safe_below"])
    return safe


def test_a_late_frame_is_refused_and_in_the_ledger(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--chunk-frames", "2")
    with Client(recorder.address) as client:
        client.start("late", 27, (30, 40))
        order = [0, 2, 4, 6, 8, 3, 5, 7, 9, *range(10, 27)]  # 8 has block 0 written without frame 1
        for number in order:
            client.image("late", number, FRAMES[number])
        sequence = client.image("late", 1, FRAMES[1])
        error = client.until(ERROR)
        assert error["sequence"] == sequence
        assert "too late" in error["message"]
        assert client.end("late")["safe_below"] == 27
    end = recorder.series_end()
    assert (end.dropped, end.frames_written, end.problem) == (1, 26, None)
    with h5py.File(end.file) as file:
        assert file["/entry/penstock/frame_state"][1] == 3
        assert (file["/entry/data/data"][1] == FILL).all()
        there = [number for number in range(27) if number != 1]
        assert numpy.array_equal(file["/entry/data/data"][there], FRAMES[there])
    check(run, Path(end.file))


@pytest.fixture
def gathering(record: Record, tmp_path: Path) -> Iterator[RecordCommand]:
    path = tmp_path / "quick.yaml"
    path.write_text("end_timeout_s: 0\n", encoding="ascii")
    recorder = record(tmp_path, str(path), "--chunk-frames", "4", "--chunk", "17x40")
    yield recorder
    recorder.stop()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_no_order_of_arrival_loses_a_frame_without_a_word(
    gathering: RecordCommand, data: some.DataObject
) -> None:
    """A model in a few lines says which frames come too late; the file must agree pixel by pixel."""
    total = 20
    order = data.draw(some.lists(some.integers(0, total - 1), min_size=1, max_size=40))
    name = f"s{time.monotonic_ns()}"
    with Client(gathering.address) as client:
        client.start(name, total, (30, 40))
        for number in order:
            client.image(name, number, FRAMES[number])
        client.send(4, {"type": "end", "series_id": 1, "series_unique_id": name})
        while client.receive()[0] != 7:
            pass
    open_blocks: dict[int, set[int]] = {}
    written: set[int] = set()
    there: set[int] = set()
    late: set[int] = set()
    newest = 0
    for number in order:
        block = number // 4
        if number in there:
            continue
        if block in written:
            late.add(number)
            continue
        if block not in open_blocks:
            pushed_out = [each for each in open_blocks if each + 4 <= block and block > newest]
            if len(open_blocks) - len(pushed_out) == 4:
                pushed_out = [min(open_blocks)]
            newest = max(newest, block)
            for each in pushed_out:
                written.add(each)
                del open_blocks[each]
        open_blocks.setdefault(block, set()).add(number)
        there.add(number)
        if len(open_blocks[block]) == 4:
            written.add(block)
            del open_blocks[block]
    file = gathering.series_end().file
    with h5py.File(file) as content:
        states = content["/entry/penstock/frame_state"][...]
        pixels = content["/entry/data/data"][...]
    for number in range(total):
        state = states[number]
        # A frame that comes while its block is being closed may still find room in it.
        allowed = (1,) if number in there else (1, 3) if number in late else (0,)
        assert state in allowed, f"frame {number}"
        assert numpy.array_equal(pixels[number], FRAMES[number] if state == 1 else numpy.full((30, 40), FILL))


def test_a_gap_holds_up_no_more_than_a_few_chunks(record: Record, tmp_path: Path) -> None:
    """Also of a client that says nothing of its window."""
    recorder = record(tmp_path, "--chunk-frames", "4")
    with Client(recorder.address) as client:
        client.start("gap", 0, (30, 40))
        for number in [n for n in range(17) if n != 1]:
            client.image("gap", number, FRAMES[number])
        acknowledged(client, 16)
        client.send(4, {"type": "end", "series_id": 1, "series_unique_id": "gap"})
    assert recorder.series_end().missing == 1


def test_what_was_acknowledged_survives_a_kill(record: Record, run: Run, tmp_path: Path) -> None:
    """Incomplete blocks too: where HDF5's structures are gone the segments say which frames they hold."""
    recorder = record(tmp_path, "--chunk-frames", "4", "--chunk", "16x40", "--codec", "bslz4")
    sent = [n for n in range(27) if n not in (1, 6, 7)]
    with Client(recorder.address) as client:
        client.start("left", 0, (30, 40))
        for number in [*sent, 28, 32, 36, 40, 44]:  # the last ones push the incomplete blocks out
            client.image("left", number, FRAMES[number % 27])
        safe = acknowledged(client, 24)
        os.killpg(native_recorder(recorder.process.pid), signal.SIGKILL)
        recorder.process.communicate(timeout=60)
    left = tmp_path / "left.h5"
    copy = tmp_path / "rebuilt.h5"
    copy.write_bytes(left.read_bytes())
    with copy.open("r+b") as file:
        file.write(b"\0" * 2048)
    for path, way in ((left, "repair"), (copy, "rebuild")):
        report = json.loads(run("recover", str(path), "--json").stdout)
        assert report["way"] == way
        with h5py.File(path) as content:
            data, states = content["/entry/data/data"][...], content["/entry/penstock/frame_state"][...]
            assert content["/entry/data/data"].chunks == (4, 16, 40)
        for number in sent:
            if number < safe:
                assert states[number] == 1, f"{way}: frame {number} was acknowledged"
        for number in range(len(data)):
            is_there = number < len(states) and states[number] == 1
            assert not is_there or number in [*sent, 28, 32, 36, 40, 44]
            expected = FRAMES[number % 27] if is_there else numpy.full((30, 40), FILL)
            assert numpy.array_equal(data[number], expected), f"{way}: frame {number}"
        after = check(run, path)
        assert after["missing"] == int(after["frames"]) - int((states == 1).sum())  # type: ignore[call-overload]


@pytest.mark.slow
def test_a_killed_recorders_blocks_are_recovered(record: Record, run: Run, tmp_path: Path) -> None:
    options = ["--chunk-frames", "6", "--chunk", "24x96", "--codec", "none"]
    left = ended_in_mid_series(record, tmp_path, options)
    report = json.loads(run("recover", str(left), "--json").stdout)
    assert report["way"] == "repair"
    assert check(run, left, "--against", "recorded")["different_frames"] == 0
    assert stamps_are_right(left) == report["frames"] - report["missing"] > 150
    # Nobody goes on in it.
    recorder = record(tmp_path, "--resume", "--chunk", "frame")
    simulated = ("custom", "--rows", "64", "--columns", "96", "--frames", "9", "--series-name", "left")
    sent = run("simulate", *simulated, "--rate", "max", "--to", f"tcp://{recorder.address}")
    assert sent.returncode != 0
    assert "cannot be resumed" in sent.stderr


class SmallClient(Client):
    """Says in its hello that it keeps only so many frames."""

    window: ClassVar[dict[str, int]] = {}

    def send(self, kind: int, fields: dict[str, object], pixels: bytes = b"", flags: int = 0) -> int:
        return super().send(kind, fields | self.window if kind == HELLO else fields, pixels, flags)


@pytest.mark.parametrize("window", [{"window_frames": 7}, {"window_frames": 100, "window_bytes": 18000}])
def test_a_sender_that_keeps_too_few_frames_is_told_how_many_it_needs(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: dict[str, int]
) -> None:
    monkeypatch.setattr(SmallClient, "window", window)
    recorder = record(tmp_path, "--chunk-frames", "4")
    with SmallClient(recorder.address) as client, Client(recorder.address) as other:
        client.send(START, start_fields("small", 27, (30, 40)))
        assert "at least 8" in client.until(ERROR)["message"]
        other.start("small", 27, (30, 40))
        client.send(START, start_fields("small", 27, (30, 40)), flags=RESUME)
        assert "at least 8" in client.until(ERROR)["message"]


def test_a_sender_with_the_smallest_window_is_not_held_up_by_a_gap(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for acknowledgements as a sender does, and a frame is left out."""
    monkeypatch.setattr(SmallClient, "window", {"window_frames": 8})
    recorder = record(tmp_path, "--chunk-frames", "4")
    with SmallClient(recorder.address) as client:
        client.start("gap", 27, (30, 40))
        safe, unsafe = 0, 0
        for number in [n for n in range(27) if n not in (1, 9, 10)]:
            if unsafe == 8:
                before = safe
                while safe == before:
                    safe = int(client.until(ACK)["safe_below"])
                unsafe = len([n for n in range(safe, number) if n not in (1, 9, 10)])
            client.image("gap", number, FRAMES[number])
            unsafe += 1
        assert client.end("gap")["safe_below"] == 27
    assert recorder.series_end().frames_written == 24


def test_a_dry_run_tells_of_the_frames(run: Run, tmp_path: Path) -> None:
    done = run("record", "--folder", str(tmp_path), "--dry-run", "--chunk", "8x8", "--chunk-frames", "4")
    assert done.returncode == 0, done.stderr
    assert "8 x 8 pixels of 4 frames" in done.stdout + done.stderr


@pytest.mark.parametrize("before", [40, 20, 0])
def test_senders_whose_start_waits_for_a_file_bring_every_frame(
    record: Record, tmp_path: Path, before: int
) -> None:
    """`before` of the frames come while the series waits: of one sender first, then of the other."""
    frames = numpy.resize(FRAMES, (40, 30, 40))
    recorder = record(tmp_path, "--chunk-frames", "4")
    holders = [Client(recorder.address) for _ in range(4)]
    with Client(recorder.address) as left, Client(recorder.address) as right:
        for number, holder in enumerate(holders):
            holder.start(f"held-{number}", 1, (30, 40))
        left.send(START, start_fields("s", 40, (30, 40)))
        recorder.until(Note)  # the start waits
        right.send(START, start_fields("s", 40, (30, 40)), flags=RESUME)
        time.sleep(0.3)
        for first, sender in enumerate((left, right)):
            for number in range(first, before, 2):
                sender.image("s", number, frames[number])
            time.sleep(0.3)
        for number, holder in enumerate(holders):
            holder.image(f"held-{number}", 0, frames[0])
            holder.end(f"held-{number}")
        for number in range(before, 40):
            (left, right)[number % 2].image("s", number, frames[number])
        for sender in (left, right):
            sender.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        for sender in (left, right):
            assert sender.until(CLOSED)["problem"] is None
    for holder in holders:
        holder.connection.close()
    recorder.stop()
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1] * 40
        assert numpy.array_equal(file["/entry/data/data"], frames)


@pytest.mark.slow
def test_a_frame_that_waited_and_is_rejected_is_named_to_its_sender(record: Record, tmp_path: Path) -> None:
    """Its connection stays, and the frames around it are recorded."""
    recorder = record(tmp_path, "--chunk-frames", "4")
    holders = [Client(recorder.address) for _ in range(4)]
    with Client(recorder.address) as sender:
        for number, holder in enumerate(holders):
            holder.start(f"held-{number}", 1, (30, 40))
        sender.send(START, start_fields("s", 3, (30, 40)))
        sender.image("s", 0, FRAMES[0])
        wrong = sender.image("s", 1, FRAMES[1, :20])
        sender.image("s", 2, FRAMES[2])
        time.sleep(0.3)
        for number, holder in enumerate(holders):
            holder.image(f"held-{number}", 0, FRAMES[0])
            holder.end(f"held-{number}")
        while (reply := sender.receive())[0] == ACK:
            pass
        assert (reply[0], reply[1]["sequence"], reply[1]["code"]) == (ERROR, wrong, "mismatch")
        sender.end("s")
    for holder in holders:
        holder.connection.close()
    recorder.stop()
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/entry/penstock/frame_state"][...].tolist() == [1, 2, 1]
