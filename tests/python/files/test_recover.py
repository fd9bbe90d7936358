"""A recorder that is killed with SIGKILL in mid-series, as a user meets it: what the file holds then, what
`penstock recover` makes of it, and what plain h5py reads afterwards."""

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy
import pytest
from conftest import Record, RecordCommand, Recorded
from detector_stream import frames_of as images_of
from mid_series import ended_in_mid_series, kill, native_recorder, stamps_are_right
from plain_client import Client, frames_of

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def left(record: Record, tmp_path: Path) -> Path:
    """The file of a recorder that was killed after some hundred frames."""
    return ended_in_mid_series(record, tmp_path, frames=300)


@contextlib.contextmanager
def sent_frames(recorder: RecordCommand, frames: int, of: int, pause_s: float = 0) -> Iterator[Client]:
    """A client that has sent the first frames of the series s, with a pause after each."""
    with Client(recorder.address) as client:
        client.start("s", of, (30, 40))
        for number, frame in enumerate(frames_of(frames)):
            client.image("s", number, frame)
            time.sleep(pause_s)
        yield client


def test_recovery_keeps_what_another_program_wrote_where_the_seal_was(recorded: Recorded, run: Run) -> None:
    """HDF5 gives the end of its structures to new data, and there lies the seal. Its header stays where a
    program writes no values."""
    page_bytes, header_bytes = 4096, 128
    file = recorded(images_of("uint16"))
    values = numpy.arange(20_000, dtype="i4")
    with h5py.File(file, "r+") as content:
        added = content.create_dataset("results", values.shape, values.dtype)
        added[-1] = values[-1]  # gives it a place
        begin = added.id.get_offset()
        seal = -begin % page_bytes
        assert file.read_bytes()[begin + seal :].startswith(b"\x89PENSEG")
    require_changed_and_whole(run("check", str(file), "--json"))
    with h5py.File(file, "r+") as content:
        behind = (seal + header_bytes) // values.itemsize + 1
        content["results"][behind:] = values[behind:]
    require_changed_and_whole(run("check", str(file), "--json"))
    assert run("recover", str(file)).returncode == 0
    with h5py.File(file) as content:
        assert numpy.array_equal(content["results"][behind:], values[behind:])


RECEIVED = "/entry/penstock/timing/received"
CHANGE_AND_DIE = """
import os, sys, h5py, numpy
content = h5py.File(sys.argv[1], "r+")
content["results"] = numpy.arange(10)
del content[sys.argv[2]]
content.flush()
os._exit(0 if sys.argv[3:] else content.close() or 0)
"""


@pytest.mark.parametrize("dies", [(), ("dies",)], ids=["closed", "left open"])
def test_a_finished_file_is_not_rebuilt_unasked(recorded: Recorded, run: Run, dies: tuple[str, ...]) -> None:
    """A rebuild would drop what another program added to it."""
    file = recorded(images_of("uint16"))
    subprocess.run([sys.executable, "-c", CHANGE_AND_DIE, file, RECEIVED, *dies], check=True)
    refused = run("recover", str(file))
    assert refused.returncode == 1
    assert f"{RECEIVED} is missing" in refused.stderr
    if not dies:
        assert (
            run("check", str(file)).stdout.splitlines()[-1]
            == f"no damage, but CHANGED since it was closed: {RECEIVED} missing"
        )
        with h5py.File(file) as content:
            assert (content["results"][:] == numpy.arange(10)).all()
    assert run("recover", str(file), "--rebuild").returncode == 1  # the column's rows are lost
    with h5py.File(file) as content:
        assert "results" not in content
        assert content["/entry/data/data"].shape[0] == len(images_of("uint16"))


def test_a_file_of_a_series_is_not_rebuilt_unasked_either(recorded: Recorded, run: Run) -> None:
    """Nothing is written to the first file meanwhile: its states would say that these frames never came."""
    file = recorded(images_of("uint16"), "--frames-per-file", "2")
    states = h5py.File(file)["/entry/penstock/frame_state"][:]
    with h5py.File(file.with_name("s_member_1.h5"), "r+") as content:
        del content["/entry/data/data"]
    refused = run("recover", str(file))
    assert refused.returncode == 1
    assert "s_member_1.h5" in refused.stderr
    with h5py.File(file) as content:
        assert (content["/entry/penstock/frame_state"][:] == states).all()
    assert run("recover", str(file), "--rebuild").returncode == 0
    assert run("check", str(file), "--require-complete").returncode == 0


@pytest.mark.slow
def test_a_recovery_says_that_h5clear_may_have_cut_off_frames(left: Path, run: Run) -> None:
    subprocess.run(["h5clear", "-s", left], check=True)
    recovered = run("recover", str(left))
    assert recovered.returncode == 1
    assert "the file lacks the mark of an unfinished file" in recovered.stdout, recovered.stdout


def require_changed_and_whole(checked: "subprocess.CompletedProcess[str]") -> None:
    """`checked`: by `penstock check --json`."""
    assert checked.returncode == 0, checked.stdout
    found = [each["what"] for each in json.loads(checked.stdout)["findings"]]
    assert found == ["the file was changed since it was closed"]


@pytest.mark.slow
def test_a_killed_recorders_file_is_completed(left: Path, run: Run) -> None:
    with contextlib.suppress(OSError), h5py.File(left) as _:
        pytest.fail("a file that was left open opens without a word")
    before = json.loads(run("check", str(left), "--json").stdout)
    assert before["unfinished"]
    assert run("check", str(left), "--require-complete").returncode == 1
    size = left.stat().st_size

    tried = json.loads(run("recover", str(left), "--dry-run", "--json").stdout)
    assert (tried["way"], tried["written"], left.stat().st_size) == ("repair", False, size)
    there = tried["frames"] - tried["missing"]
    assert before["recoverable"] == before["frames"] - before["missing"] == there > 300
    advice = f"{there} of 100000 frames can be recovered (the recorder did not close the file)"
    for command in ("check", "info"):
        said = run(command, str(left)).stdout
        assert advice in said, said
        assert f"with --resume; otherwise: penstock recover {left}" in said
    assert json.loads(run("info", str(left), "--json").stdout)["data"]["stored_bytes"] > 0

    done = run("recover", str(left))
    assert done.returncode == 0, done.stderr
    assert " of 100000 frames are complete" in done.stdout
    after = json.loads(run("check", str(left), "--against", "recorded", "--json").stdout)
    assert not [finding for finding in after["findings"] if finding["level"] == "error"], after
    assert after["different_frames"] == 0
    assert not after["unfinished"]
    assert after["missing"] <= before["missing"]
    assert stamps_are_right(left) == after["frames"] - after["missing"] > 300
    with h5py.File(left) as content:
        assert content["/entry/data/data"].shape[0] == 100000
        assert content["/entry/end_time"][()]
        received = content["/entry/penstock/timing/received"][...]
        assert (received[content["/entry/penstock/frame_state"][...] == 1] > 0).all()

    again = json.loads(run("recover", str(left), "--json").stdout)
    assert (again["way"], again["written"]) == ("nothing", False)


@pytest.mark.slow
def test_a_file_that_is_being_recorded_is_no_case_for_a_recovery(
    record: Record, run: Run, tmp_path: Path
) -> None:
    said: dict[str, subprocess.CompletedProcess[str]] = {}

    def inspect_and_kill(recorder: RecordCommand) -> None:
        for command in ("info", "check", "recover"):
            said[command] = run(command, str(tmp_path / "left.h5"))
        said["strict check"] = run("check", str(tmp_path / "left.h5"), "--require-complete")
        kill(recorder)

    file = ended_in_mid_series(record, tmp_path, end=inspect_and_kill)
    for command in ("info", "check"):
        shown = said[command].stdout
        assert re.search("being recorded now: [0-9]+ of 100000 frames so far", shown), shown
        assert "recovered" not in shown
        assert "what to do" not in shown
        assert "missing" not in shown
    assert "warning" not in said["check"].stdout
    assert [said[command].returncode for command in ("check", "strict check", "recover")] == [0, 1, 1]
    assert "is in use by another process" in said["recover"].stderr

    left = run("check", str(file)).stdout
    assert left.startswith("warning the series is not finished\n"), left
    assert left.count(f"penstock recover {file}") == left.count("what to do: if the sender still runs") == 1
    assert "leave them out" not in left


def test_the_end_is_when_the_last_frame_came(record: Record, run: Run, tmp_path: Path) -> None:
    """The newest segment was sealed later."""
    recorder = record(tmp_path, "--codec", "none")
    with sent_frames(recorder, 4, of=8, pause_s=0.3):
        wait_for_times(tmp_path / "s.h5", 4)
        kill(recorder)
    done = run("recover", str(tmp_path / "s.h5"))
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "s.h5") as file:
        received = file["/entry/penstock/timing/received"][...]
        assert (file["/entry/penstock/frame_state"][...] == 1).sum() == 4
        end = datetime.datetime.fromisoformat(file["/entry/end_time"].asstr()[()])
        assert abs(end.timestamp() - received.max() / 1e9) < 0.001


def wait_for_times(path: Path, frames: int) -> None:
    """Waits until a growing file contains the times of this many frames."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), h5py.File(path, swmr=True) as file:
            if (file["/entry/penstock/timing/received"][...] > 0).sum() >= frames:
                return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not contain the times of {frames} frames")


def test_salvage_marks_no_more_frames_as_lost_than_were_cut_off(
    record: Record, run: Run, tmp_path: Path
) -> None:
    """HDF5's datasets have room for all announced frames, whether they came or not."""
    with sent_frames(record(tmp_path, "--codec", "none"), 5, of=10000) as client:
        client.end("s")
    file = tmp_path / "s.h5"
    size = file.stat().st_size
    os.truncate(file, size * 6 // 10)
    done = json.loads(run("recover", "--salvage", "--json", str(file)).stdout)
    assert done["frames"] == 10000
    assert done["lost_frames"] <= size * 4 // 10 // frames_of(1)[0].nbytes + 1
    assert 10000 - done["missing"] + done["lost_frames"] >= 5
    for command in ("check", "recover"):
        said = run(command, str(file))
        assert said.returncode == 1
        assert f"lost or never came (the file was cut off): {done['lost_frames']}" in said.stdout
    described = run("info", str(file))
    assert (described.returncode, f"({done['lost_frames']} lost)" in described.stdout) == (0, True)


@pytest.mark.slow
def test_a_file_without_its_structure_comes_back_from_its_segments(left: Path, run: Run) -> None:
    with left.open("r+b") as file:
        file.write(b"\0" * 2048)  # superblock and root group
    assert run("check", str(left)).returncode == 1
    report = json.loads(run("recover", str(left), "--json").stdout)
    assert report["way"] == "rebuild"
    assert stamps_are_right(left) == report["recovered"] > 300


def test_what_cannot_be_recovered_is_said(record: Record, run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.h5").write_bytes(b"not of Penstock" * 1000)
    refused = run("recover", str(tmp_path / "other.h5"))
    assert refused.returncode == 1
    assert "`penstock record`" in refused.stderr  # of the remedy
    assert run("recover", str(tmp_path / "nowhere.h5")).returncode == 2
    with h5py.File(tmp_path / "busy.h5", "w") as _:
        busy = run("recover", str(tmp_path / "busy.h5"))
    assert busy.returncode == 1
    assert "another process" in busy.stderr


def test_a_recorder_that_was_killed_names_the_remedy(record: Record, run: Run, tmp_path: Path) -> None:
    logs: list[str] = []

    def kill(recorder: RecordCommand) -> None:
        os.killpg(native_recorder(recorder.process.pid), signal.SIGKILL)
        logs.append(recorder.process.communicate(timeout=60)[1])
        assert recorder.process.returncode == 1

    left = ended_in_mid_series(record, tmp_path, end=kill)
    assert "penstock-recorder was killed by SIGKILL" in logs[0]
    assert f"`penstock recover {left}`" in logs[0]
    kill(record(tmp_path))
    assert f"({tmp_path}/*.h5)" in logs[1], logs[1]
    assert "`penstock recover FILE`" in logs[1]


def test_recording_with_the_name_of_a_replacement_is_left_alone(recorded: Recorded, run: Run) -> None:
    path = recorded(images_of("uint16"))
    other = path.with_name(f".{path.name}.new")
    shutil.copy(path, other)
    assert run("recover", str(path)).returncode == 0
    assert other.read_bytes() == path.read_bytes()


def test_file_that_was_only_begun_is_named_and_removed(run: Run, tmp_path: Path) -> None:
    path, begun = tmp_path / "s.h5", tmp_path / ".s.h5.new"
    begun.write_bytes(bytes(100_000))
    for command in (["check", str(path)], ["recover", "--dry-run", str(path)]):
        named = run(*command)
        assert (named.returncode, begun.name in named.stderr) == (2, True), named.stderr
    removed = run("recover", str(path))
    assert (removed.returncode, f"{begun}, is removed" in removed.stderr) == (1, True), removed.stderr
    assert not begun.exists()


def test_flipped_bit_in_the_signature_is_named_as_damage_and_repaired(recorded: Recorded, run: Run) -> None:
    path = recorded(images_of("uint16"))
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    checked = run("check", str(path))
    assert (checked.returncode, "HDF5's signature is corrupt" in checked.stdout) == (1, True), checked.stdout
    for command in (["info", str(path)], ["export", str(path), "--for", "xds"]):
        failed = run(*command)
        assert failed.returncode == 1
        for word in ("corrupt", "signature", "`penstock recover`"):
            assert word in failed.stderr, failed.stderr
        assert "not an HDF5 file" not in failed.stdout + failed.stderr
    done = run("recover", str(path))
    assert "rebuilt" in done.stdout, done.stdout + done.stderr
    assert run("info", str(path)).returncode == 0
