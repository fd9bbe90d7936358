"""The layouts of files: one reader for all of them, missing members, crashes, names that are taken."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record
from plain_client import ACK, Client, frames_of
from test_ranks import WAIT_S, Job, check, detector, simulate

from penstock.programs.locate import find_program

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LOST = 4
LAYOUTS = {
    "one": (),
    "per_writer": ("--files", "per_writer"),
    "split": ("--frames-per-file", "40"),
}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(ranks: int, *options: str) -> Job:
        jobs.append(Job(tmp_path, ranks, *options))
        return jobs[-1]

    yield make
    for made in jobs:
        made.close()


def stamps(file: Path) -> list[int]:
    """The reader: it knows no layout. The detector wrote each frame's number into its first pixels."""
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data == content["/entry/instrument/detector/data"]
        return [int(numpy.ascontiguousarray(frame[0, :4]).view("uint64")[0]) for frame in data]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_one_reader_reads_all_layouts(
    job: Callable[..., Job], run: Run, tmp_path: Path, layout: str, ranks: int
) -> None:
    recorder = job(ranks, *LAYOUTS[layout])
    sent = simulate(run, recorder.target, "--frames", "203", "--series-name", "s")
    assert sent.returncode == 0, sent.stderr
    end = recorder.until("series_end")
    assert (end["frames_received"], end["missing"], end["lost"], end["problem"]) == (203, 0, 0, None)
    assert recorder.stop() == 0, "".join(recorder.log)
    files = {"one": 1, "per_writer": 1 + ranks, "split": 1 + 6 * ranks}[layout]
    assert len(list(tmp_path.iterdir())) == files
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in tmp_path.glob("*.h5"):
        shutil.move(file, moved)
    assert stamps(moved / "s.h5") == list(range(203))
    check(run, moved / "s.h5", 203)


@pytest.mark.slow
def test_a_member_is_a_file_of_its_own_and_one_that_is_missing_reads_as_fill(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    recorder = job(1, *LAYOUTS["split"])
    assert simulate(run, recorder.target, "--frames", "100", "--series-name", "s").returncode == 0
    recorder.until("series_end")
    recorder.stop()
    member = tmp_path / "s_member_1.h5"
    with h5py.File(member) as content:
        assert content.attrs["penstock_first_frame"] == 40
        data = content["/entry/data/data"]
        assert [int(frame[0, :4].view("uint64")[0]) for frame in data[...]] == list(range(40, 80))
    alone = run("check", str(member), "--json")
    assert (alone.returncode, json.loads(alone.stdout)["chunks"]) == (0, 40), alone.stdout
    assert "3 others" in run("info", str(tmp_path / "s.h5")).stdout

    member.rename(tmp_path / "elsewhere")
    with h5py.File(tmp_path / "s.h5") as content:
        data = content["/entry/data/data"]
        assert data.shape[0] == 100
        assert (data[40:80] == 65535).all()
        assert int(data[99, 0, :4].view("uint64")[0]) == 99
    checked = run("check", str(tmp_path / "s.h5"), "--against", "recorded", "--json")
    assert checked.returncode == 1
    report = json.loads(checked.stdout)
    assert (report["compared_frames"], report["different_frames"]) == (60, 0), (
        "those that are there are checked"
    )
    assert "s_member_1.h5" in {finding["where"] for finding in report["findings"]}, checked.stdout
    assert "s_member_1.h5" in run("info", str(tmp_path / "s.h5")).stdout
    before = (tmp_path / "s.h5").read_bytes()
    for more in (("--dry-run",), (), ("--json",)):
        recovered = run("recover", str(tmp_path / "s.h5"), *more)
        assert recovered.returncode == 1, "a part of the series is missing"
        assert "s_member_1.h5" in recovered.stdout
        assert more == ("--json",) or "not all of the series: 1 error, see above" in recovered.stdout
    assert (tmp_path / "s.h5").read_bytes() == before, "the member may come back"

    (tmp_path / "elsewhere").rename(member)
    assert run("recover", str(tmp_path / "s.h5"), "--dry-run").returncode == 0
    with h5py.File(member) as content:
        chunk = content["/entry/data/data"].id.get_chunk_info(3)
    with member.open("r+b") as damaged:
        damaged.seek(chunk.byte_offset + 20)
        damaged.write(b"damage")
    checked = run("check", str(tmp_path / "s.h5"), "--json")
    assert checked.returncode == 1
    assert any("s_member_1.h5" in finding["where"] for finding in json.loads(checked.stdout)["findings"])


@pytest.mark.slow
def test_names_that_are_taken_are_told_before_the_first_frame(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    taken = tmp_path / "s_member_1.h5"
    taken.write_text("somebody's", encoding="ascii")
    recorder = job(2, *LAYOUTS["per_writer"])
    sent = simulate(run, recorder.target, "--frames", "10", "--series-name", "s")
    assert sent.returncode == 1
    assert "s_member_1.h5" in sent.stderr, sent.stderr
    assert not (tmp_path / "s.h5").exists()
    assert taken.read_text(encoding="ascii") == "somebody's"
    recorder.stop()


def test_overwriting_replaces_a_series_with_all_of_its_files_or_nothing(
    job: Callable[..., Job], run: Run, tmp_path: Path
) -> None:
    def record(frames: int) -> "subprocess.CompletedProcess[str]":
        recorder = job(1, *LAYOUTS["split"], "--overwrite")
        sent = simulate(run, recorder.target, "--frames", str(frames), "--series-name", "s")
        recorder.stop()
        return sent

    assert record(200).returncode == 0
    assert len(list(tmp_path.iterdir())) == 1 + 5
    foreign = tmp_path / "s_member_7.h5"
    foreign.write_text("somebody's", encoding="ascii")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    refused = record(50)
    assert refused.returncode == 1
    assert "s_member_7.h5" in refused.stderr, refused.stderr
    assert "remove it" in refused.stderr, refused.stderr
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before

    foreign.unlink()
    replaced = record(50)
    assert replaced.returncode == 0, replaced.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"s.h5", "s_member_0.h5", "s_member_1.h5"}
    check(run, tmp_path / "s.h5", 50)


def test_a_frame_whose_file_is_closed_is_dropped_and_holds_no_acknowledgement_back(
    record: Record, tmp_path: Path
) -> None:
    recorder = record(tmp_path, "--frames-per-file", "10", "--threads", "1")
    pixels = frames_of(40)
    with Client(recorder.address) as client:

        def send(*numbers: int) -> None:
            for number in numbers:
                client.image("late", number, pixels[number])

        def wait_for_acknowledgement(below: int) -> None:
            while client.until(ACK)["safe_below"] < below:
                pass

        client.start("late", 40, (30, 40))
        absent = (3, 13, 23)
        send(*(number for number in range(30) if number not in absent))
        wait_for_acknowledgement(30)
        time.sleep(2.5)  # the first file is given up no earlier
        send(30)
        wait_for_acknowledgement(31)
        send(3, *range(31, 40))
        wait_for_acknowledgement(40)
        closed = client.end("late")
    assert re.match(r"image 3 .* late_member_0\.h5 was closed", closed["problem"]), closed
    end = recorder.series_end()
    assert (end.dropped, end.lost, end.frames_written) == (1, 0, 37)
    assert end.problem == closed["problem"]
    with h5py.File(end.file) as content:
        states = content["/entry/penstock/frame_state"][...]
        assert [states[number] for number in absent] == [3, 0, 0]
        assert (numpy.delete(states, absent) == 1).all()
        data = content["/entry/data/data"][...]
    assert (data[3] == 65535).all()
    assert numpy.array_equal(numpy.delete(data, absent, 0), numpy.delete(pixels, absent, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "ranks"), [("split", 1), ("per_writer", 2)])
def test_what_was_acknowledged_survives_a_killed_recorder(
    job: Callable[..., Job], run: Run, tmp_path: Path, layout: str, ranks: int
) -> None:
    recorder = job(ranks, *LAYOUTS[layout])
    assert simulate(run, recorder.target, "--frames", "10", "--series-name", "other").returncode == 0
    recorder.until("series_end")
    many = ("--rate", "400", "--frames", "100000", "--series-name", "killed")
    sender = detector(*many, "--connect-timeout", "1", "--json", "--to", recorder.target)
    while int(str(recorder.until("progress")["frames_written"])) < 300:
        pass
    master = tmp_path / "killed.h5"
    if layout == "split":
        assert frames_shown(master) >= 240, "readers follow"
        with h5py.File(tmp_path / "killed_member_0.h5") as content:
            assert content["/entry/data/data"].shape[0] == 40, "complete, while the series goes on"
    os.kill(rank_of(tmp_path, ranks - 1), signal.SIGKILL)
    recorder.process.wait(WAIT_S)
    events, _ = sender.communicate(timeout=WAIT_S)
    end = [json.loads(line) for line in events.splitlines() if '"series_end"' in line][-1]
    acknowledged = end["acknowledged"]
    assert acknowledged > 100

    if layout == "split":
        told = run("info", str(master), "--json")
        assert told.returncode == 0, told.stderr
        data = json.loads(told.stdout)["data"]
        # The last part may be half made: then HDF5 shows nothing of all of them, until a recovery.
        assert (data["shape"][0] >= 240) if all_parts_open(master) else data is None

    # One that is elsewhere during a recovery is taken when it is back.
    member, elsewhere = tmp_path / "killed_member_1.h5", tmp_path / "elsewhere"
    member.rename(elsewhere)
    foreign = tmp_path / "killed_member_900.h5"
    shutil.copy(tmp_path / "other_member_0.h5", foreign)
    before = foreign.read_bytes()
    done = run("recover", str(master), "--json")
    assert done.returncode == 1
    assert "killed_member_900.h5" in {finding["where"] for finding in json.loads(done.stdout)["findings"]}
    assert foreign.read_bytes() == before, "another series' file is left alone"
    foreign.unlink()
    if layout == "split":
        with h5py.File(master) as content:
            assert (content["/entry/penstock/frame_state"][40:80] == LOST).all()
    elsewhere.rename(member)
    done = run("recover", str(master), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(master) as content:
        states = content["/entry/penstock/frame_state"][...]
        received = numpy.flatnonzero(states == 1)
        data = content["/entry/data/data"]
        found = [int(numpy.ascontiguousarray(data[n, 0, :4]).view("uint64")[0]) for n in received]
    assert found == list(received), "no false frame"
    assert set(range(acknowledged)) <= set(received), "no acknowledged frame is lost"
    again = run("recover", str(master), "--json")
    assert json.loads(again.stdout)["way"] == "nothing", again.stdout
    assert run("check", str(master)).returncode == 0


def frames_shown(master: Path) -> int:
    """By a series that grows; a look may fall into the moment in which a file is begun."""
    for _ in range(1000):
        try:
            with h5py.File(master, swmr=True) as content:
                return int(content["/entry/data/data"].shape[0])
        except (OSError, RuntimeError):
            continue
    raise AssertionError(master)


def all_parts_open(master: Path) -> bool:
    """Of a series whose recorder is gone."""
    try:
        with h5py.File(master, swmr=True) as content:
            return bool(content["/entry/data/data"].shape)
    except (OSError, RuntimeError):
        return False


def rank_of(folder: Path, rank: int) -> int:
    """The process of this test's recorder, which has the folder in its plan's pipe or its open files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")[0]
            environment = (process / "environ").read_bytes()
            files = [link.readlink() for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if b"penstock-recorder" not in command or not any(file.is_relative_to(folder) for file in files):
            continue
        if rank == 0 or b"\0OMPI_COMM_WORLD_RANK=%d\0" % rank in environment:
            found.append(int(process.name))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "arguments",
    [("--files", "split"), ("--files", "per_writer", "--frames-per-file", "5"), ("--files", "many")],
)
def test_a_layout_that_cannot_be_is_told_with_its_remedy(
    run: Run, tmp_path: Path, arguments: tuple[str]
) -> None:
    done = run("record", "--folder", str(tmp_path), "--dry-run", *arguments)
    assert done.returncode == 2
    assert "--files" in done.stderr, done.stderr


def test_a_plan_with_a_layout_that_cannot_be_is_refused(run: Run, tmp_path: Path) -> None:
    shown = run("record", "--folder", str(tmp_path), "--dry-run", "--json")
    plan = json.loads(shown.stdout) | {"files": {"layout": "one", "frames": 5}}
    program = find_program("penstock-recorder")
    done = subprocess.run(
        [program, "--plan", "-"], input=json.dumps(plan), text=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert "files.frames: 5 must be 0" in done.stderr
