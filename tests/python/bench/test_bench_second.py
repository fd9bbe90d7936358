"""What runs beside a run: a reader that leaves files as they are, and `beside` as a campaign's parameter."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Run as RunCommand

from penstock.bench.data.folder import NAME, BenchFolder
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.bench.run.second import reader_of
from penstock.bench.run.workloads import parameters_of
from penstock.model.bench.campaigns import Campaign, Parameter
from penstock.model.bench.runs import Verdict
from penstock.model.errors import PenstockError, UsageError
from penstock.programs.beside import RepeatedReads

FRAMES = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "1.2", "--yes")
MIB = 1 << 20
QUIET = Telling(lambda _: None, lambda _: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What somebody has there: files in folders, a link, an empty one, and the folder of a run."""
    folder = tmp_path / "data"
    (folder / "run7").mkdir(parents=True)
    (folder / "run7" / "images.h5").write_bytes(os.urandom(3 * MIB))
    (folder / "run7" / "small").write_bytes(b"x" * 700)
    (folder / "empty").touch()
    (folder / "link").symlink_to(folder / "run7" / "images.h5")
    (folder / f"{NAME}1").mkdir()
    (folder / f"{NAME}1" / "frame-000000000.raw").write_bytes(b"mine")
    return folder


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_read_again_and_again_and_stay_as_they_are(threads: int, data: Path) -> None:
    before = bytes_in(data)
    for path in (data / "run7").iterdir():
        os.utime(path, ns=(10**18, 10**18))  # of a file that was not read since, the kernel notes a reading
    second = reader_of("read", ["--threads", str(threads), "--transfer", "64KiB"], data)
    assert (second.target, second.bytes, second.files) == (None, 0, 0)
    assert "2 files of 3.15 MB" in second.about
    with second.start() as reads:
        assert isinstance(reads, RepeatedReads)
        wait_until(lambda: reads._read_bytes > 10 * MIB)
    assert reads.problem is None
    assert len(reads.stints) == 1
    assert reads.stints[0].end_s > reads.stints[0].begin_s
    assert "MB read, " in reads.done_text
    after = {path: path.stat() for path in (data / "run7").iterdir()}
    assert all(status.st_atime_ns == status.st_mtime_ns == 10**18 for status in after.values())
    assert bytes_in(data) == before


def test_files_that_cannot_be_read_are_passed_over(data: Path) -> None:
    gone = data / "gone"
    with RepeatedReads([(gone, 100), (data / "run7" / "small", 700)], 2, 4096) as reads:
        wait_until(lambda: reads._read_bytes > 7000)
    assert reads.problem is None
    with pytest.raises(PenstockError, match=f"nothing could be read: {gone}: "):
        RepeatedReads([(gone, 100)], 2, 4096).__enter__()


def test_a_file_that_becomes_shorter_is_read_as_far_as_it_goes(data: Path) -> None:
    with RepeatedReads([(data / "run7" / "small", 5000), (data / "empty", 10)], 1, 512) as reads:
        wait_until(lambda: reads._read_bytes > 7000)
    assert reads.problem is None


def test_a_large_file_is_read_by_several_threads(tmp_path: Path) -> None:
    """In pieces, each once a round."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(200 * MIB)
    pieces = RepeatedReads([(large, 200 * MIB)], 4, MIB)._pieces
    assert [piece.size // MIB for piece in pieces] == [64, 64, 64, 8]
    assert [piece.offset // MIB for piece in pieces] == [0, 64, 128, 192]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--threads", "0"], "--threads: .*minimum of 1"),
        (["--threads"], "--threads requires a value"),
        (["--write"], "--write: this field is unknown"),
        (["--transfer=much"], "is not a size"),
        (["{data}/absent"], "/absent does not exist"),
        (["{data}/empty"], "no non-empty file"),
    ],
)
def test_what_cannot_be_read_is_named(words: list[str], said: str, data: Path) -> None:
    with pytest.raises(UsageError, match=said) as error:
        reader_of("read …", [word.format(data=data) for word in words], data)
    assert error.value.remedy


def test_frames_are_measured_beside_a_reader(run: RunCommand, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    before = bytes_in(data)
    beside = ("--background", f"read '{data}' --threads 2", "--blocks", "1")
    finished = run("bench", "frames", str(target), *FRAMES, "--json", *beside)
    campaign = Campaign.model_validate_json(finished.stdout)
    assert "2 files of 3.15 MB, read repeatedly; nothing is written" in finished.stderr
    (run_beside,) = (each.run for each in campaign.runs if each.case == "background")
    (check,) = (check for check in run_beside.checks if check.name == "background load active")
    assert check.outcome == "ok"
    assert "started 1 times" in check.actual
    assert "B read, " in check.actual
    assert bytes_in(data) == before
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_a_verdict_beside_a_reader_has_it_beside_each_step(
    run: RunCommand, data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    shape = ("--rows", "64", "--columns", "64", "--rate", "20")
    small = (*shape, "--seconds", "2", "--quick", "--yes", "--json")
    finished = run("verdict", "custom", str(target), *small, "--background", f"read {data}")
    verdict = Verdict.model_validate_json(finished.stdout)
    assert verdict.beside == f"read {data}"
    for step in verdict.steps:
        assert "background load active" in [check.name for check in step.run.checks]
        assert "storage used exclusively" not in [check.name for check in step.run.checks]
    assert list(target.iterdir()) == []
    refused = run("verdict", "custom", str(target), *small, "--background-target", str(data))
    assert refused.returncode == 2
    assert "--background-target requires --background" in refused.stderr
    refused = run("verdict", "custom", str(target), *small, "--background", "nothing")
    assert refused.returncode == 2
    assert "is not a workload" in refused.stderr


CAMPAIGN = """
title: Frames beside others
workload: frames
blocks: 1
parameters: {{frame_size: 4 KiB, rate: 100, seconds: 1.2}}
vary:
  beside: [none, "read {data} --threads 2", "stream --size 8MiB --transfer 1MiB --no-read"]
views:
  - {{kind: table, title: Throughput, value: throughput, rows: beside}}
"""


@pytest.mark.slow
def test_a_campaign_shows_what_runs_beside_do(run: RunCommand, data: Path, tmp_path: Path) -> None:
    target, output, file = tmp_path / "target", tmp_path / "out.json", tmp_path / "beside.yaml"
    target.mkdir()
    file.write_text(CAMPAIGN.format(data=data))
    finished = run("campaign", str(file), "--target", str(target), "--output", str(output), "--yes")
    campaign = Campaign.model_validate_json(output.read_text())
    assert campaign.complete, finished.stderr
    assert not campaign.failures
    with_check = {
        each.case
        for each in campaign.runs
        if any(check.name == "background load active" for check in each.run.checks)
    }
    assert with_check == {case.name for case in campaign.cases if case.parameters["beside"] != "none"}
    assert len(with_check) == 2
    for words in ("none", "read", "stream --size 8MiB"):
        assert words in finished.stdout
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("", "is not a workload"),
        ("command -- true", "is not a workload"),
        ("network", "is not a workload"),
        ("stream --ranks 2", "cannot be repeated"),
        ("stream --backend store", "cannot be repeated"),
        ("metadata --items 5 more", ": more is not allowed"),
        ("stream --background none", "`background` of the workload stream"),
        ("stream --sizes 1GiB", "`sizes` of the workload stream"),
        ("frames --rate 5", "--frame-size and --shape"),
        ("read --threads none", "--threads none"),
        ("stream 'x", "No closing quotation"),
    ],
)
def test_what_cannot_run_beside_a_case_is_named(beside: str, said: str) -> None:
    frames: dict[str, Parameter] = {"frame_size": "4KiB", "rate": 10, "beside": beside}
    with pytest.raises(UsageError) as error:
        parameters_of("frames", frames).job()
    assert said in error.value.message
    assert error.value.remedy


def test_what_runs_beside_a_case_needs_room_too() -> None:
    frames: dict[str, Parameter] = {"frame_size": "4KiB", "rate": 10, "seconds": 1}
    alone = parameters_of("frames", frames).job()
    both = parameters_of("frames", frames | {"beside": "stream --size 8MiB --threads 2"}).job()
    assert isinstance(alone, Job)
    assert isinstance(both, Job)
    assert both.bytes == alone.bytes + 16 * MIB
    assert both.files == alone.files + 2
    assert both.paced_s == alone.paced_s


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BenchFolder]:
    with BenchFolder.make(tmp_path) as folder:
        yield folder


def test_a_reader_without_a_path_reads_what_the_target_has(folder: BenchFolder, tmp_path: Path) -> None:
    """And finds nothing where there is but the run's own folder."""
    job = parameters_of("frames", {"frame_size": "4KiB", "rate": 100, "seconds": 1.2, "beside": "read"}).job()
    assert isinstance(job, Job)
    with pytest.raises(UsageError, match="no non-empty file"):
        job.run(folder, QUIET)
    (tmp_path / "theirs").write_bytes(b"x" * 5000)
    run = job.run(folder, QUIET)
    assert [check.outcome for check in run.checks if check.name == "background load active"] == ["ok"]
