"""Recorder, detector and check as a user runs them: small frames over loopback into real files."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fabio
import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record
from mid_series import kill
from warm_command import popen

from penstock.files.inspect import inspect_file
from penstock.model.events import RecorderProgress, SeriesStart

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = ("custom", "--rows", "64", "--columns", "96", "--type", "uint16")


def simulate(run: Run, address: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run("simulate", *SMALL, "--rate", "max", "--to", f"tcp://{address}", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "bslz4", "bszstd", "lz4", "zstd", "deflate"])
def test_record_simulate_check_and_read(record: Record, run: Run, tmp_path: Path, codec: str) -> None:
    recorder = record(tmp_path, "--codec", codec)
    sent = simulate(run, recorder.address, "--frames", "20", "--series-name", "one")
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.frames_written, end.problem) == (20, 20, None)
    code, log = recorder.stop()
    assert code == 0, log

    file = tmp_path / "one.h5"
    checked = run("check", str(file), "--against", "recorded", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    report = json.loads(checked.stdout)
    assert (report["compared_frames"], report["different_frames"], report["missing"]) == (20, 0, 0)
    with h5py.File(file) as content:
        data = content["/entry/data/data"][...]
    assert data.shape == (20, 64, 96)
    stamps = numpy.ascontiguousarray(data[:, 0, :4]).view("uint64").ravel()
    assert list(stamps) == list(range(20)), "every frame carries its number"
    info = inspect_file(file)
    assert info.ledger["received"] == 20
    assert {stage.stage for stage in info.timing} == {"compress", "write", "total"}
    assert run("info", str(file)).returncode == 0


def test_replayed_images_come_back_pixel_by_pixel(record: Record, run: Run, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    random = numpy.random.default_rng(5)
    for number in range(3):
        data = random.poisson(3, (30, 40)).astype("int32")
        data[10:12] = -1
        fabio.cbfimage.CbfImage(data=data).write(str(images / f"i{number}.cbf"))
    recorder = record(tmp_path)
    options = ("--replay", str(images), "--frames", "7", "--rate", "max", "--series-name", "r")
    sent = run("simulate", "pilatus-6m", *options, "--to", f"tcp://{recorder.address}")
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    recorder.stop()
    good = run("check", str(tmp_path / "r.h5"), "--against", str(images), "--json")
    assert good.returncode == 0, good.stdout + good.stderr
    assert json.loads(good.stdout)["compared_frames"] == 7

    data = fabio.open(str(images / "i1.cbf")).data.copy()
    data[5, 5] += 1
    fabio.cbfimage.CbfImage(data=data).write(str(images / "i1.cbf"))
    bad = run("check", str(tmp_path / "r.h5"), "--against", str(images), "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["different_frames"] == 2, "frames 1 and 4 show image 1"


def test_damage_is_found(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    simulate(run, recorder.address, "--frames", "10", "--series-name", "d")
    recorder.series_end()
    recorder.stop()
    file = tmp_path / "d.h5"
    with h5py.File(file) as content:
        where = content["/entry/data/data"].id.get_chunk_info(4)
    with file.open("r+b") as raw:
        raw.seek(where.byte_offset + where.size // 2)
        byte = raw.read(1)
        raw.seek(-1, os.SEEK_CUR)
        raw.write(bytes([byte[0] ^ 0x10]))
    checked = run("check", str(file))
    assert checked.returncode == 1
    assert "damage found" in checked.stdout
    assert "error" in checked.stdout


def test_over_zeromq_as_a_detector_sends_it(record: Record, run: Run, tmp_path: Path, free_port: int) -> None:
    recorder = record(tmp_path, "--zmq", f"tcp://127.0.0.1:{free_port}", listen=False)
    options = ("--frames", "15", "--encoding", "bslz4", "--series-name", "z")
    sent = run("simulate", *SMALL, "--rate", "max", *options, "--to", f"zmq://127.0.0.1:{free_port}")
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_written, end.problem) == (15, None)
    recorder.stop()
    checked = run("check", str(tmp_path / "z.h5"), "--against", "recorded")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_mid_series_leaves_a_complete_file(
    record: Record, run: Run, tmp_path: Path, number: signal.Signals
) -> None:
    recorder = record(tmp_path)
    detector = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "penstock",
            "simulate",
            *SMALL,
            "--frames",
            "100000",
            "--rate",
            "200",
            "--series-name",
            "cut",
            "--to",
            f"tcp://{recorder.address}",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        recorder.until(SeriesStart)
        while True:
            progress = recorder.until(RecorderProgress)
            assert isinstance(progress, RecorderProgress)
            if progress.frames_written > 20:
                break
        code, log = recorder.stop(number)
        assert code in (0, 1), log
    finally:
        detector.terminate()
        detector.communicate(timeout=60)
    with h5py.File(tmp_path / "cut.h5") as content:
        states = content["/entry/penstock/frame_state"][...]
        data = content["/entry/data/data"]
        written = int((states == 1).sum())
        assert written > 20
        assert data[written - 1].shape == (64, 96)
    checked = run("check", str(tmp_path / "cut.h5"), "--json")
    report = json.loads(checked.stdout)
    assert not [finding for finding in report["findings"] if finding["level"] == "error"], report


def test_no_file_is_overwritten_unless_told(record: Record, run: Run, tmp_path: Path) -> None:
    (tmp_path / "same.h5").write_text("precious")
    recorder = record(tmp_path)
    sent = simulate(run, recorder.address, "--frames", "3", "--series-name", "same")
    assert sent.returncode == 1
    assert "same.h5" in sent.stderr + "".join(event.model_dump_json() for event in recorder.events)
    assert (tmp_path / "same.h5").read_text() == "precious"
    sent = simulate(run, recorder.address, "--frames", "3", "--series-name", "other")
    assert sent.returncode == 0, "the recorder goes on"
    recorder.stop()
    assert (tmp_path / "other.h5").exists()

    bold = record(tmp_path, "--overwrite")
    assert simulate(run, bold.address, "--frames", "3", "--series-name", "same").returncode == 0
    bold.stop()
    with h5py.File(tmp_path / "same.h5") as content:
        assert content["/entry/data/data"].shape[0] == 3


@pytest.mark.parametrize("name", ["../escape", "a/b", ".hidden", "..", "/absolute", "x" * 250])
def test_hostile_names_never_leave_the_folder(record: Record, run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    recorder = record(folder)
    assert simulate(run, recorder.address, "--frames", "2", "--series-name", name).returncode == 0
    assert simulate(run, recorder.address, "--frames", "2", "--series-name", "fine").returncode == 0
    recorder.stop()
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent for path in made] == [folder, folder]
    assert all(path.name[0] not in ".-" and path.suffix == ".h5" for path in made)
    for path in made:
        with h5py.File(path) as file:
            assert file["/entry/data/data"].shape[0] == 2


def test_awkward_names_are_tamed(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    simulate(run, recorder.address, "--frames", "2", "--series-name", "a b\n$(x);é")
    end = recorder.series_end()
    recorder.stop()
    assert Path(end.file).parent == tmp_path
    assert Path(end.file).name.isascii()
    assert len(list(tmp_path.glob("*.h5"))) == 1


def test_series_limit_ends_the_recorder(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--series", "2")
    for name in ("a", "b"):
        assert simulate(run, recorder.address, "--frames", "4", "--series-name", name).returncode == 0
    _, log = recorder.process.communicate(timeout=60)
    assert recorder.process.returncode == 0, log
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == ["a.h5", "b.h5"]


def test_a_token_is_demanded(record: Record, run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    token.chmod(0o600)
    recorder = record(tmp_path, "--token-file", str(token))
    assert simulate(run, recorder.address, "--frames", "2", "--series-name", "no").returncode == 1
    sent = simulate(
        run, recorder.address, "--frames", "2", "--series-name", "yes", "--token-file", str(token)
    )
    assert sent.returncode == 0, sent.stderr
    recorder.stop()
    assert [path.name for path in tmp_path.glob("*.h5")] == ["yes.h5"]


def test_folders_that_cannot_be_written_are_told(run: Run, tmp_path: Path, programs: dict[str, Path]) -> None:
    gone = run("record", "--folder", str(tmp_path / "absent"), "--listen", "127.0.0.1:0", timeout_s=30)
    assert gone.returncode != 0
    assert "absent" in gone.stderr


def test_nobody_listens(run: Run, free_port: int, programs: dict[str, Path]) -> None:
    sent = run(
        "simulate",
        *SMALL,
        "--frames",
        "1",
        "--to",
        f"tcp://127.0.0.1:{free_port}",
        "--connect-timeout",
        "0.5",
    )
    assert sent.returncode == 1
    assert "penstock record" in sent.stderr


@pytest.mark.parametrize("kind", ["cbf", "tiff", "hdf5"])
def test_one_file_a_frame(run: Run, tmp_path: Path, programs: dict[str, Path], kind: str) -> None:
    options = (
        "--frames",
        "3",
        "--rate",
        "max",
        "--series-name",
        "f",
        "--to",
        f"files:{tmp_path}?format={kind}",
    )
    sent = run("simulate", *SMALL, *options)
    assert sent.returncode == 0, sent.stderr
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == 3, files
    shapes = {fabio.open(str(path)).data.shape for path in files}
    assert shapes == {(64, 96)}


def test_the_same_seed_makes_the_same_frames(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        sent = simulate(run, recorder.address, "--frames", "5", "--seed", seed, "--series-name", name)
        assert sent.returncode == 0, sent.stderr
    recorder.stop()
    frames = {}
    for name in "abc":
        with h5py.File(tmp_path / f"{name}.h5") as content:
            frames[name] = content["/entry/data/data"][...]
    assert numpy.array_equal(frames["a"], frames["b"])
    assert not numpy.array_equal(frames["a"], frames["c"])


def test_series_that_are_rejected_count_and_are_reported(record: Record, run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken.h5").write_text("precious")
    recorder = record(tmp_path, "--series", "2")
    for _ in range(2):  # the same series again is not another one
        refused = simulate(run, recorder.address, "--frames", "4", "--series-name", "taken")
        assert refused.returncode == 1
        assert "taken.h5 exists already" in refused.stderr
    assert simulate(run, recorder.address, "--frames", "4", "--series-name", "b").returncode == 0
    _, log = recorder.process.communicate(timeout=60)
    assert recorder.process.returncode == 1
    assert "1 of 2 series had problems: taken was rejected what to do: the log above" in " ".join(
        log.split()
    ), log
    assert log.count("taken.h5 exists already") == 2, "once for each attempt, and not again at the end"
    assert "let the recorder replace it with --overwrite" in log
    assert (tmp_path / "taken.h5").read_text() == "precious"


def test_a_series_that_was_refused_once_may_come_again(record: Record, run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken.h5").write_text("precious")
    recorder = record(tmp_path)
    assert simulate(run, recorder.address, "--frames", "4", "--series-name", "taken").returncode == 1
    (tmp_path / "taken.h5").unlink()
    assert simulate(run, recorder.address, "--frames", "4", "--series-name", "taken").returncode == 0
    code, log = recorder.stop()
    assert code == 0, log


def test_a_series_with_a_problem_is_told_by_name(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    options = ("--rate", "200", "--frames", "100000", "--series-name", "gone")
    to = ("--to", f"tcp://{recorder.address}")
    sender = popen("simulate", *SMALL, *to, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    recorder.until(RecorderProgress)
    (tmp_path / "gone.h5").unlink()
    assert sender.wait(60) == 1
    code, log = recorder.stop()
    assert code == 1
    assert "1 of 1 series had problems: gone: " in " ".join(log.split()), log


def test_a_sender_says_that_it_waits_for_a_lost_recorder(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    command = ["simulate", *SMALL, "--rate", "100", "--frames", "100000", "--to", f"tcp://{recorder.address}"]
    patient = popen(*command, "--reconnect-timeout", "60", "--json", stderr=subprocess.DEVNULL)
    hasty = popen(*command, "--reconnect-timeout", "2.8")
    for _ in range(2):
        recorder.until(SeriesStart)
    kill(recorder)
    assert patient.stdout is not None
    events = (event for event in map(json.loads, patient.stdout) if event["event"] == "waiting")
    waits = [next(events) for _ in range(2)]
    patient.terminate()
    patient.communicate(timeout=60)
    assert {event["address"] for event in waits} == {f"tcp://{recorder.address}"}
    assert 0 < waits[1]["seconds_left"] < waits[0]["seconds_left"] <= waits[0]["seconds"] == 60
    left_s, at_s = ([event[name] for event in waits] for name in ("seconds_left", "time"))
    assert at_s[1] - at_s[0] > 0.9, "a second later"
    assert left_s[0] - left_s[1] == pytest.approx(at_s[1] - at_s[0], abs=0.5)
    _, words = hasty.communicate(timeout=60)
    assert hasty.returncode == 1
    assert re.search(rf"waiting for tcp://{recorder.address}: [123] s left", words), words


def test_a_detector_over_zeromq_ends_when_its_lost_receiver_does_not_come_back(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    recorder = record(tmp_path, "--zmq", f"tcp://127.0.0.1:{free_port}", listen=False)
    command = ["simulate", *SMALL, "--rate", "1000", "--frames", "100000"]
    command += ["--to", f"zmq://127.0.0.1:{free_port}", "--reconnect-timeout", "0.5"]
    sender = popen(*command)
    recorder.until(SeriesStart)
    kill(recorder)
    _, words = sender.communicate(timeout=30)
    assert sender.returncode == 1
    assert f"waiting for tcp://127.0.0.1:{free_port}" in words
    assert "the receiver is gone" in words
    assert "--reconnect-timeout" in words


def test_a_sender_reports_that_the_recorder_is_reachable_again(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--resume")
    command = ["simulate", *SMALL, "--rate", "100", "--frames", "400"]
    command += ["--to", f"tcp://{recorder.address}", "--reconnect-timeout", "60"]
    sender = popen(*command, stdout=subprocess.DEVNULL)
    recorder.until(SeriesStart)  # 4 s before its last frame
    kill(recorder)
    assert sender.stderr is not None
    lines = iter(sender.stderr.readline, "")
    assert any("waiting for " in line for line in lines)
    record(tmp_path, "--resume", "--listen", recorder.address, listen=False)
    _, words = sender.communicate(timeout=60)
    assert sender.returncode == 0, words
    assert f"connected to tcp://{recorder.address}" in words


def test_a_network_interface_stands_for_its_address(record: Record, run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    token.chmod(0o600)
    recorder = record(tmp_path, "--listen", "lo:0", "--token-file", str(token), listen=False)
    assert recorder.listening().startswith("127.0.0.1:")
    sent = simulate(run, recorder.address, "--frames", "2", "--token-file", str(token))
    assert sent.returncode == 0, sent.stderr


def test_a_rejected_sender_names_the_recorder_once_and_a_remedy(
    record: Record, run: Run, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    (tmp_path / "data").mkdir()
    recorder = record(tmp_path / "data", "--token-file", str(token))
    sending = ("simulate", "custom", "--rows", "8", "--columns", "8", "--frames", "2")
    sent = run(*sending, "--to", f"tcp://{recorder.address}", "--series-name", "s")
    assert sent.returncode == 1
    assert sent.stderr.count(f"tcp://{recorder.address}") == 1
    assert "--token-file" in sent.stderr
    assert run(*sending, "--to", f"tcp://{recorder.address}", "--token-file", str(token)).returncode == 0
    (tmp_path / "data" / "s.h5").touch()
    options = ("--to", f"tcp://{recorder.address}", "--token-file", str(token), "--series-name", "s")
    sent = run(*sending, *options)
    assert sent.stderr.count(f"tcp://{recorder.address}") == 1
    assert "s.h5 exists already" in sent.stderr
