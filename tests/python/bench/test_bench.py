"""`penstock bench` as a user runs it: on memory and on the disk of the tests."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest
from bench_documents import frames_document
from conftest import Run as RunCommand
from jsonschema import Draft202012Validator
from warm_command import popen

from penstock.bench.data.folder import MANIFEST, BenchFolder
from penstock.bench.statistics.figures import frame_figures, stream_figures
from penstock.model.bench.runs import Run
from penstock.programs.load import load

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "reference"
FRAMES = ("--frame-size", "100KiB", "--rate", "200", "--frames", "300", "--writers", "2", "--yes", "--json")


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path if request.param == "disk" else request.getfixturevalue("memory")


def valid_run(text: str) -> Run:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    schema = json.loads((SCHEMAS / "run.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return Run.model_validate_json(text)


@pytest.mark.slow
def test_frames_are_written_counted_and_removed(run: RunCommand, target: Path) -> None:
    finished = run("bench", "frames", str(target), *FRAMES)
    assert finished.returncode in (0, 4), finished.stderr  # 4: this machine was too busy for it
    result = valid_run(finished.stdout)
    assert result.frames is not None
    assert result.frames.due == 300
    assert result.frames.written + result.frames.dropped == 300
    assert result.document.storage.direct == (result.conditions.file_system != "tmpfs")
    assert result.ceiling_hz is not None
    assert result.ceiling_hz > 200
    assert list(target.iterdir()) == []


def test_the_figures_follow_from_the_records(run: RunCommand, target: Path) -> None:
    """Everything in the summary once more with numpy, from each frame's own times."""
    result = valid_run(run("bench", "frames", str(target), *FRAMES).stdout)
    assert result.frames is not None
    assert result.document.records is not None
    assert frame_figures(result.document) == result.frames
    done = numpy.array(result.document.records.done_ns)
    start = numpy.array(result.document.records.start_ns)
    due = numpy.arange(len(done)) * 5_000_000
    kept = done >= 0
    latency, service = (done - due)[kept], (done - start)[kept]
    jitter = numpy.array(result.document.records.offered_ns) - due
    assert result.frames.written == kept.sum()
    assert result.frames.dropped == (done == -2).sum()
    assert result.frames.late == (latency > 10_000_000).sum()
    for found, values in (
        (result.frames.latency_ms, latency),
        (result.frames.service_ms, service),
        (result.frames.jitter_ms, jitter),
    ):
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
            exact = numpy.quantile(values, share, method="inverted_cdf") * 1e-6
            assert exact - 1e-9 <= getattr(found, name) <= exact * 1.004 + 1e-6, name
    stalls = numpy.diff(numpy.sort(done[kept])).max()
    assert result.frames.stall_s * 1e9 <= max(stalls, latency.max()) + 1
    series = result.document.series
    assert series is not None
    assert sum(series.done) == result.frames.written
    assert sum(series.due) == 300
    assert sum(series.bytes) == result.frames.written * 102_400


def test_stream_writes_and_reads_what_was_written(run: RunCommand, target: Path) -> None:
    options = ("--threads", "2", "--size", "16MiB", "--transfer", "1MiB", "--yes", "--json")
    finished = run("bench", "stream", str(target), *options)
    result = valid_run(finished.stdout)
    assert stream_figures(result.document) == result.streams
    assert [phase.phase for phase in result.streams] == ["write", "read"]
    for phase, measured in zip(result.streams, result.document.phases or [], strict=True):
        assert phase.bytes == 32 << 20
        last = max(thread.done_s or 0 for thread in measured.threads)
        assert phase.bytes_per_s == pytest.approx((32 << 20) / last)
    assert result.streams[1].mismatches == 0
    outcomes = {check.name: check.outcome for check in result.checks}
    assert outcomes["data read equals data written"] == "ok"
    # 32 MiB take no second, but on a busy machine: such figures are marked as not to be used.
    too_short = all(phase.too_short for phase in result.streams)
    assert (outcomes["long enough (write)"] == "failed") == too_short
    assert result.validity == "invalid" or not too_short
    assert finished.returncode == (4 if result.validity == "invalid" else 0)
    assert list(target.iterdir()) == []


def test_several_transfers_of_a_thread_are_under_way(run: RunCommand, target: Path) -> None:
    options = ("--queue-depth", "8", "--size", "256MiB", "--transfer", "1MiB", "--sync", "none")
    result = valid_run(run("bench", "stream", str(target), *options, "--yes", "--json").stdout)
    assert result.document.storage is not None
    assert result.document.storage.queue_depth == 8
    assert [phase.bytes for phase in result.streams] == [256 << 20] * 2
    assert result.streams[1].mismatches == 0
    # With one under way the times of all transfers fit into the phase; with eight they are longer than it.
    written = (result.document.phases or [])[0]
    (thread,) = written.threads
    together_ns = sum(lowest * count for lowest, _, count in written.times.service.buckets)
    done_ns = 1e9 * (thread.done_s or 0)
    assert together_ns > max(done_ns, 2 * (done_ns - thread.waited_ns))


@pytest.mark.parametrize("order", ["sequential", "random"])
def test_threads_share_one_file(order: str, run: RunCommand, target: Path) -> None:
    options = ("--threads", "3", "--size", "3MiB", "--transfer", "64KiB", "--yes", "--json")
    shared = ("--shared", "--segments", "5", "--order", order, "--keep")
    finished = run("bench", "stream", str(target), *options, *shared)
    result = valid_run(finished.stdout)
    assert stream_figures(result.document) == result.streams
    # 48 transfers are made 50, so that each of 5 segments has a whole number of them.
    assert [phase.bytes for phase in result.streams] == [3 * 50 * 65536] * 2
    assert result.streams[1].mismatches == 0
    (folder,) = target.iterdir()
    assert {path.name: path.stat().st_size for path in folder.glob("*.bin")} == {
        "stream-000000000.bin": 3 * 50 * 65536
    }
    assert run("bench", "clean", str(target), "--kept", "--yes").returncode == 0
    assert list(target.iterdir()) == []


def test_buffered_figures_without_a_sync_are_invalid(run: RunCommand, tmp_path: Path) -> None:
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "1.2", "--buffered", "--sync", "none")
    finished = run("bench", "frames", str(tmp_path), *options, "--yes", "--json")
    checks = {check.name: check for check in valid_run(finished.stdout).checks}
    assert checks["storage, not the page cache"].outcome == "failed"
    assert finished.returncode == 4


def test_an_interruption_leaves_a_document_and_nothing_else(tmp_path: Path) -> None:
    output, target = tmp_path / "run.json", tmp_path / "target"
    target.mkdir()
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "600", "--yes")
    with popen("bench", "frames", str(target), *options, "--output", str(output)) as process:
        wait_for_files(process, target)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1, log
    result = valid_run(output.read_text(encoding="utf-8"))
    assert result.document.interrupted
    assert result.validity != "valid"
    assert result.frames is not None
    assert 0 < result.frames.written < 60_000
    assert list(target.iterdir()) == []


def test_a_target_that_disappears_costs_no_figures(tmp_path: Path) -> None:
    output, target = tmp_path / "run.json", tmp_path / "target"
    target.mkdir()
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "600", "--yes")
    with popen("bench", "frames", str(target), *options, "--output", str(output)) as process:
        wait_for_files(process, target)
        (folder,) = target.iterdir()
        while folder.exists():  # the generator makes files meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cannot be removed" in log
    result = valid_run(output.read_text(encoding="utf-8"))
    assert result.validity == "invalid"
    assert result.document.problem is not None
    assert "it does not exist" in result.document.problem
    assert result.frames is not None
    assert result.frames.written > 0


def test_a_generator_that_cannot_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose threads hang in the storage: it has told its result, and stays."""
    document = frames_document().model_dump(mode="json")
    (tmp_path / "result.json").write_text(json.dumps({"event": "result", "document": document}) + "\n")
    program = tmp_path / "penstock-load"
    program.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid\ntrap '' TERM\ncat {tmp_path}/result.json\n"
        "while :; do sleep 1; done\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    monkeypatch.setattr("penstock.programs.load._ENDS_WITHIN_S", 0.5)
    try:
        assert load(frames_document().plan, lambda _: None) == frames_document()
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_a_generator_that_was_stopped_says_so(tmp_path: Path) -> None:
    """A stall that is not the storage's: the run is invalid, not the storage slow."""
    output, target = tmp_path / "run.json", tmp_path / "target"
    target.mkdir()
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "3", "--yes")
    with popen("bench", "frames", str(target), *options, "--output", str(output)) as process:
        wait_for_files(process, target)
        (generator,) = psutil.Process(process.pid).children()
        generator.suspend()
        wait_until_stopped(generator.pid)
        time.sleep(1)  # the stall itself
        generator.resume()
        _, log = process.communicate(timeout=60)
    assert process.returncode == 4, log
    result = valid_run(output.read_text(encoding="utf-8"))
    assert {check.name: check.outcome for check in result.checks}["generator on schedule"] == "failed"
    assert result.frames is not None
    # The first frame of the stall is due 10 ms after its beginning at the latest; figures have 0.4 %.
    assert result.frames.jitter_ms.max >= 980
    assert result.frames.latency_ms.max >= 980


def test_a_killed_run_is_cleaned_and_files_of_users_with_its_names_stay(
    run: RunCommand, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("kept")
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "600", "--yes")
    with popen("bench", "frames", str(tmp_path), *options) as process:
        wait_for_files(process, tmp_path)
        kill_with_generator(process)
    assert len(list(tmp_path.iterdir())) == 2
    unasked = run("bench", "clean", str(tmp_path))
    assert unasked.returncode == 2  # nobody said yes
    assert "nothing was removed" in unasked.stderr
    assert "--dry-run" not in unasked.stderr
    (folder,) = tmp_path.glob("penstock-bench-*")
    taken, later = (folder / f"frame-{number:09}.bin" for number in (0, 59_999))
    taken.unlink()
    for foreign in (taken, later):
        foreign.write_text("somebody's")
    refused = run("bench", "clean", str(tmp_path), "--yes")
    assert refused.returncode == 1
    assert f"{taken.name} and 1 more does not belong to this run" in refused.stderr
    assert {path.name for path in folder.iterdir()} == {taken.name, later.name, MANIFEST}
    for foreign in (taken, later):
        foreign.unlink()
    cleaned = run("bench", "clean", str(tmp_path), "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert f"removed {tmp_path}" in cleaned.stderr
    assert "nothing to remove" in run("bench", "clean", str(tmp_path)).stderr


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["file_a_frame", "file_a_writer"])
def test_somebodys_file_in_the_way_is_not_removed(layout: str, run: RunCommand, tmp_path: Path) -> None:
    """It has the name of a file that the run would have made."""
    output, target = tmp_path / "run.json", tmp_path / "target"
    target.mkdir()
    options = ["--frame-size", "4KiB", "--rate", "50", "--seconds", "4"]
    options += ["--rename"] if layout == "file_a_frame" else ["--layout", layout]
    with popen("bench", "frames", str(target), *options, "--yes", "--output", str(output)) as process:
        wait_for_files(process, target)
        (folder,) = target.iterdir()
        foreign = folder / "frame-000000199.bin"
        foreign.write_text("somebody's")
        _, log = process.communicate(timeout=60)
    assert f"{foreign.name} does not belong to this run" in log
    assert {path.name for path in folder.iterdir()} == {foreign.name, MANIFEST}
    failure = valid_run(output.read_text(encoding="utf-8")).document.failure
    if layout == "file_a_frame":
        assert failure is not None
        assert (failure.code, failure.path) == ("already_exists", foreign.name)
    else:  # not in its way
        assert failure is None
    assert process.returncode == 1
    assert foreign.read_text() == "somebody's"
    other = folder / "frame-000000003.bin"
    other.write_text("somebody's, too: the run has removed its own")
    foreign.rename(tmp_path / "mine")
    cleaned = run("bench", "clean", str(target), "--yes")
    assert cleaned.returncode == 1
    assert f"{other.name} does not belong to this run" in cleaned.stderr
    other.rename(tmp_path / "mine, too")
    assert run("bench", "clean", str(target), "--yes").returncode == 0
    assert list(target.iterdir()) == []


def test_a_folder_with_somebodys_file_keeps_no_other_from_being_cleaned(
    run: RunCommand, tmp_path: Path
) -> None:
    folders = [BenchFolder.make(tmp_path) for _ in range(3)]
    first, second, third = sorted(folders, key=lambda folder: folder.path.name)
    for folder in (first, second):
        (folder.path / "mine").write_text("kept")
    for folder in folders:
        folder.close()
    cleaned = run("bench", "clean", str(tmp_path), "--yes")
    assert cleaned.returncode == 1
    assert all(f"{folder.path} was not removed: mine" in cleaned.stderr for folder in (first, second))
    assert {path.name for path in tmp_path.iterdir()} == {first.path.name, second.path.name}
    assert not third.path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    """Also before the load generator runs, and when it has ended: SIGTERM is what a batch system sends."""
    options = ("--frame-size", "4KiB", "--rate", "50", "--seconds", "1", "--yes")
    for delay_s in (0.0, 0.004, 0.03, 1.2):
        with popen("bench", "frames", str(tmp_path), *options) as process:
            deadline = time.monotonic() + 60
            while not any(tmp_path.iterdir()) and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.001)
            time.sleep(delay_s)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        # An interpreter that is interrupted while it makes a class ends as of SIGINT, whoever handles that.
        assert process.returncode in (0, 1, 4, 130, 143, -signal.SIGINT), (delay_s, process.returncode, said)
        assert list(tmp_path.iterdir()) == [], (delay_s, said)


def wait_for_files(process: "subprocess.Popen[str]", target: Path, prefix: str = "frame-") -> None:
    """Until the generator has begun to write; the folder and its manifest are there before."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(target.glob(f"penstock-bench-*/{prefix}*.bin")):
            return
        time.sleep(0.02)
    raise AssertionError(f"no frame was written: {process.communicate(timeout=60)}")


def wait_until_stopped(pid: int) -> None:
    """Each thread of a process stops when it is on a processor next."""
    deadline = time.monotonic() + 60
    while any(state_of(thread) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, "it does not stop"
        time.sleep(0.001)


def state_of(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def kill_with_generator(process: "subprocess.Popen[str]") -> None:
    """Kills a command, and waits until its load generator has ended, too."""
    generators = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(generators, timeout=60)
    assert alive == []


def test_plans_show_what_will_be_written_and_write_nothing(run: RunCommand, tmp_path: Path) -> None:
    for arguments in (
        ("bench", "frames", str(tmp_path), "--frame-size", "1MiB", "--rate", "10"),
        ("bench", "stream", str(tmp_path), "--size", "64MiB"),
    ):
        shown = run(*arguments, "--dry-run")
        assert shown.returncode == 0, shown.stderr
        assert "a new directory in" in shown.stdout
        plan = json.loads(run(*arguments, "--dry-run", "--json").stdout)
        assert plan["target"] == f"a new directory in {tmp_path}, removed afterwards"
        refused = run(*arguments)
        assert refused.returncode == 2
        assert "--yes" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "frames", "absent", "--frame-size", "1MiB", "--rate", "1"], ["absent", "does not exist"]),
        (["bench", "frames", ".", "--frame-size", "huge", "--rate", "1"], ["--frame-size", "huge"]),
        (["bench", "frames", ".", "--frame-size", "1MiB", "--rate", "0"], ["--rate 0", "--frames"]),
        (
            ["bench", "frames", ".", "--frame-size", "8", "--rate", "1"],
            ["--frame-size", "8 has no unit", "8 MB"],
        ),
        (
            ["bench", "stream", ".", "--background", "stream --size 16"],
            ["--size", "16 has no unit"],
        ),
        (
            ["bench", "frames", ".", "--frame-size", "0", "--rate", "1"],
            ["--frame-size", "0 B", "minimum of 1 B"],
        ),
        (["bench", "stream", ".", "--transfer", "1000B", "--yes"], ["--buffered", "4096"]),
        (
            ["bench", "stream", ".", "--queue-depth", "4", "--sync", "each"],
            ["--queue-depth 4", "--sync each"],
        ),
        (["bench", "stream", ".", "--queue-depth", "4", "--backend", "hdf5"], ["--queue-depth 4", "hdf5"]),
        (["bench", "stream", ".", "--output", "absent/run.json"], ["absent/run.json", "does not exist"]),
        (["bench", "clean", "absent"], ["absent", "does not exist"]),
        (
            ["bench", "frames", "/proc/sys/kernel", "--frame-size", "1MiB", "--rate", "1", "--yes"],
            ["no permission", "/proc/sys/kernel"],
        ),
        (
            ["bench", "frames", ".", "--frame-size", "1KiB", "--rate", "1e6", "--buffer-seconds", "60"],
            ["--buffer-seconds", "60000000", "10000000"],
        ),
        (["bench", "metadata", ".", "--items", "10", "--size", "1GiB"], ["--size: 1 GiB", "64 MiB"]),
        (["bench", "network", "--local", "--message", "1TiB"], ["--message: 1 TiB"]),
        (
            ["bench", "stream", ".", "--shared", "--segments", "999999999999"],
            ["--segments 999999999999", "--transfer of 8 MiB"],
        ),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], words: list[str], run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished = run(*arguments)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr
    assert finished.stdout == ""


@pytest.mark.parametrize("typed", [b"n\n", b"\x04"])  # no, and the end of what is typed
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("bench", "frames", ".", "--frame-size", "1KiB", "--rate", "10", "--seconds", "1"), 1),
        (("verdict", "custom", ".", "--rows", "8", "--columns", "8", "--rate", "5", "--quick"), 5),
        (("describe", ".", "--measure", "--size", "1MiB", "--files", "10"), 1),
    ],
)
def test_who_does_not_say_yes_is_told_the_same_everywhere(
    command: tuple[str, ...],
    code: int,
    typed: bytes,
    run: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal, its_end = os.openpty()
    try:
        os.write(terminal, typed)
        asked = subprocess.run(
            [sys.executable, "-m", "penstock", *command],
            stdin=its_end, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(terminal)
        os.close(its_end)
    unasked = run(*command)
    assert (asked.returncode, unasked.returncode) == (code, 2), asked.stderr
    for finished in (asked, unasked):
        assert "nothing was written" in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_more_than_fits_is_refused_before_anything_is_written(run: RunCommand, tmp_path: Path) -> None:
    finished = run("bench", "stream", str(tmp_path), "--size", "1000TiB", "--yes")
    assert finished.returncode == 1
    assert "free" in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_document_is_not_overwritten(run: RunCommand, tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    output.write_text("mine")
    finished = run("bench", "stream", str(tmp_path), "--size", "1MiB", "--yes", "--output", str(output))
    assert finished.returncode == 2
    assert output.read_text() == "mine"


def test_the_schema_refuses_what_the_model_refuses() -> None:
    schema: dict[str, Any] = json.loads((SCHEMAS / "run.schema.json").read_text(encoding="utf-8"))
    assert schema["additionalProperties"] is False
    assert not Draft202012Validator(schema).is_valid({"format": "penstock-run 1"})
