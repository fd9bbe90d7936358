"""Event analysis counts what jobs do, and finds events that are not as they were generated."""

import contextlib
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest
import uproot
from laboratories import Run, free_name, requires, up
from warm_command import penstock

from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.analysis.run import specs
from penstock.bench.science.data.manifest import CONTENTS
from penstock.bench.science.storage.posix import PosixStorage
from penstock.bench.science.storage.read_ahead import ReadAhead
from penstock.files.storage import find_mount

SMALL = ("--file-size", "1MB", "--seconds", "1.5", "--yes", "--json")


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "penstock", "bench", "analysis", *map(str, words)]


def analysed(target: object, *words: object) -> tuple[int, dict[str, Any]]:
    done = penstock("bench", "analysis", *map(str, (target, *SMALL, *words)))
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def value(run: dict[str, Any], name: str) -> float:
    return float(next(each["value"] for each in run["science"]["values"] if each["name"] == name))


def check(run: dict[str, Any], name: str) -> tuple[str, str]:
    found = next(each for each in run["checks"] if each["name"] == name)
    return found["outcome"], found["actual"]


def data_files(target: Path) -> list[Path]:
    return sorted(target.glob("penstock-data-events-*/*.root"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With data that has no compression, so that a test finds an event in it."""
    folder = tmp_path_factory.mktemp("target")
    assert analysed(folder, "--compression", "none", "--seconds", "0.5")[0] in (0, 4)
    return folder


def _weight(entry: int, place: int) -> int:
    """Of a value: the finalizer of SplitMix64, made odd."""
    mixed = (entry << 20) + place
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> shift)) * factor % 2**64
    return (mixed ^ (mixed >> 31)) | 1


@pytest.mark.slow
def test_the_truth_is_that_of_the_files(target: Path) -> None:
    """Counted by other means: event by event."""
    (contents,) = target.glob(f"penstock-data-events-*/{CONTENTS}")
    for file in json.loads(contents.read_text())["files"]:
        tree = uproot.open(contents.parent / file["name"])["Events"]
        arrays = tree.arrays(["trigger", "Muon_pt", "Jet_pt", "Cell_e"], library="np")
        assert len(arrays["trigger"]) == file["truth"]["events"]
        skim = [
            max(muons, default=0)
            for bits, muons in zip(arrays["trigger"], arrays["Muon_pt"], strict=True)
            if bits & 1 and max(muons, default=0) > 25
        ]
        truth = file["truth"]["scan"]
        assert (truth["selected"], len(skim) > 0) == (len(skim), True)
        assert truth["histogram"] == [
            sum(4 * number <= each < 4 * number + 4 for each in skim) for number in range(50)
        ]
        chosen = [number for number, bits in enumerate(arrays["trigger"]) if bits & 2]
        assert file["truth"]["navigate"]["selected"] == len(chosen) > 0
        total = sum(
            [
                _weight(number, place) * int(jet.view(numpy.uint32))
                for number in chosen
                for place, jet in enumerate(arrays["Jet_pt"][number])
            ]
        ) + sum(_weight(number, 2**20 - 1) * len(arrays["Jet_pt"][number]) for number in chosen)
        assert file["truth"]["navigate"]["sums"]["Jet_pt"] == total % 2**63


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["scan", "navigate"])
def test_events_are_counted_and_correct(target: Path, pattern: str) -> None:
    before = [each.stat().st_mtime_ns for each in data_files(target)]
    _, run = analysed(target, "--compression", "none", "--pattern", pattern)
    assert run["document"]["problem"] is None
    assert check(run, "events correct")[0] == "ok"
    figures = run["science"]
    assert value(run, "events") == pytest.approx(60 * figures["units"] / figures["seconds"], rel=0.01)
    assert all(job["units"] > 0 for job in figures["jobs"])
    # Jumps read a basket of a thousand events for one of them, again and again.
    amplification = value(run, "read amplification")
    assert 1 <= amplification < 1.5 if pattern == "scan" else amplification > 2
    assert [each.stat().st_mtime_ns for each in data_files(target)] == before
    assert not list(target.glob("penstock-bench-*"))


@pytest.mark.slow
def test_read_ahead_costs_bytes(target: Path) -> None:
    _, run = analysed(target, "--compression", "none", "--read-ahead", "4MiB")
    assert check(run, "events correct")[0] == "ok"
    assert value(run, "read amplification") > 3
    assert run["science"]["findings"]


@pytest.mark.slow
def test_a_file_that_stays_in_the_page_cache_makes_a_run_invalid(target: Path) -> None:
    mount = find_mount(target)
    if mount is None or mount.kind in ("tmpfs", "ramfs"):
        pytest.skip("a memory file system")
    with contextlib.ExitStack() as stack:
        for path in data_files(target):
            file = stack.enter_context(path.open("rb"))
            mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            assert len(mapped[:: mmap.PAGESIZE]) > 0  # pages that someone has mapped stay
        code, run = analysed(target, "--compression", "none")
    outcome, actual = check(run, "read from the storage")
    assert (code, outcome) == (4, "failed")
    assert "of a file was still in the page cache" in actual
    _, run = analysed(target, "--compression", "none")
    assert check(run, "read from the storage")[0] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "branch"), [("scan", "MET_pt"), ("navigate", "Jet_pt")])
def test_a_wrong_event_is_found(target: Path, tmp_path: Path, pattern: str, branch: str) -> None:
    """One bit of one value, in an event that the pattern reads."""
    shutil.copytree(target, tmp_path / "copy")
    file = data_files(tmp_path / "copy")[1]
    arrays = uproot.open(file)["Events"].arrays(["trigger", branch], library="np")
    number = int(numpy.flatnonzero(arrays["trigger"] & 2)[1]) if pattern == "navigate" else 17
    values = arrays[branch][number : number + 4] if pattern == "scan" else arrays[branch][number]
    wanted = struct.pack(f">{len(values)}f", *values)
    content = file.read_bytes()
    assert content.count(wanted) == 1
    at = content.index(wanted) + 3
    file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    code, run = analysed(tmp_path / "copy", "--compression", "none", "--pattern", pattern)
    outcome, actual = check(run, "events correct")
    assert (code, run["validity"], outcome) == (4, "invalid", "failed")
    assert f"job 1: {file.name}: {branch}" in actual


@pytest.fixture(scope="module")
def ntuples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ntuples")
    assert analysed(folder, "--format", "rntuple", "--compression", "none", "--seconds", "0.5")[0] in (0, 4)
    return folder


@pytest.mark.slow
def test_an_rntuple_has_the_events_of_a_tree(target: Path, ntuples: Path) -> None:
    names = ["event", "trigger", "MET_pt", "Muon_pt", "Jet_pt", "Cell_e"]
    for of_tree, of_ntuple in zip(data_files(target), data_files(ntuples), strict=True):
        tree, ntuple = (uproot.open(each)["Events"] for each in (of_tree, of_ntuple))
        assert type(ntuple).__name__ == "Model_ROOT_3a3a_RNTuple"
        for name in names:
            assert ntuple[name].array().tolist() == tree[name].array().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["scan", "navigate"])
def test_events_of_an_rntuple_are_counted_and_correct(ntuples: Path, pattern: str) -> None:
    words = ("--format", "rntuple", "--compression", "none", "--pattern", pattern)
    _, run = analysed(ntuples, *words)
    assert run["document"]["problem"] is None
    assert check(run, "events correct")[0] == "ok"
    amplification = value(run, "read amplification")
    assert 1 <= amplification < 1.5 if pattern == "scan" else amplification > 2


@pytest.mark.slow
def test_a_wrong_event_of_an_rntuple_is_found(ntuples: Path, tmp_path: Path) -> None:
    """One bit of the first value of a page."""
    shutil.copytree(ntuples, tmp_path / "copy")
    file = data_files(tmp_path / "copy")[1]
    ntuple = uproot.open(file)["Events"]
    (column,) = (
        number
        for number, each in enumerate(ntuple.column_records)
        if ntuple.field_records[each.field_id].field_name == "MET_pt"
    )
    at = ntuple.page_link_list[0][column].pages[0].locator.offset
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    words = ("--format", "rntuple", "--compression", "none")
    code, run = analysed(tmp_path / "copy", *words)
    outcome, actual = check(run, "events correct")
    assert (code, run["validity"], outcome) == (4, "invalid", "failed")
    assert f"job 1: {file.name}: MET_pt" in actual


def workers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process(process.pid).children(recursive=True)
        if each.cmdline()[-1:] == ["penstock.bench.science.jobs.worker"]
    ]


def disturbed(
    target: object, disturb: Callable[["subprocess.Popen[str]"], object], *words: object
) -> tuple[int, dict[str, Any]]:
    """A run, with what is done to it when its jobs have counted events."""
    process = subprocess.Popen(
        command(target, *SMALL, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any(re.search(r"\b[1-9][0-9]* done", line) for line in process.stderr)
    disturb(process)
    said, _ = process.communicate(timeout=120)
    return process.returncode, json.loads(said)


@pytest.mark.slow
def test_a_job_that_is_killed_is_named(target: Path) -> None:
    def kill(process: "subprocess.Popen[str]") -> None:
        workers(process)[-1].send_signal(signal.SIGKILL)

    code, run = disturbed(target, kill, "--compression", "none", "--seconds", "15")
    assert code == 1
    assert "it ended with signal 9" in run["document"]["problem"]
    assert run["validity"] == "invalid"


@pytest.mark.slow
def test_a_target_that_vanishes_is_named(tmp_path: Path) -> None:
    def vanish(_process: object) -> None:
        for file in data_files(tmp_path):
            file.unlink()

    code, run = disturbed(tmp_path, vanish, "--compression", "none", "--seconds", "30")
    assert code == 1
    assert "events-00000000" in run["document"]["problem"]
    assert "does not exist" in run["document"]["problem"]


def test_runs_with_more_jobs_find_the_data_of_fewer() -> None:
    few, many = (specs(AnalysisParameters(jobs=jobs, files=3)) for jobs in (2, 7))
    assert [each.files.count for each in many] == [6, 6, 6, 6]
    assert few[0].folder == many[0].folder
    assert len({each.folder for each in many}) == 4


def test_what_is_read_ahead_is_kept(tmp_path: Path) -> None:
    content = os.urandom(10_000)
    (tmp_path / "a").write_bytes(content)
    storage = PosixStorage(tmp_path)
    with storage.open("a") as file:
        reader = ReadAhead(file, len(content), 1000, storage.counts)
        ranges = [(0, 10), (500, 1000), (999, 1001), (9_990, 10_000), (0, 3000)]
        assert reader.read_ranges(ranges) == [content[start:stop] for start, stop in ranges]
    counts = storage.counts
    assert (counts.calls, counts.asked_bytes) == (4, 10 + 500 + 2 + 10 + 3000)
    assert counts.received_bytes == 1000 + 1000 + 10 + 3000


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


@pytest.mark.slow
@requires("xrootd")
@pytest.mark.parametrize(
    "vector", ["--vector-reads", pytest.param("--no-vector-reads", marks=pytest.mark.slow)]
)
def test_events_by_root(run: Run, name: str, vector: str) -> None:
    up(run, "xrootd", name)
    _, found = analysed(f"lab:{name}", "--pattern", "navigate", vector)
    assert found["document"]["problem"] is None
    assert check(found, "events correct")[0] == "ok"
    assert found["target"].startswith("root://")


@requires("dav")
def test_a_server_that_goes_away_is_named(run: Run, name: str) -> None:
    up(run, "dav", name)
    assert check(analysed(f"lab:{name}")[1], "events correct")[0] == "ok"

    def fail(_process: object) -> None:
        assert run("lab", "fail", name, "1", "--yes").returncode == 0

    code, found = disturbed(f"lab:{name}", fail, "--seconds", "30")
    assert code == 1
    assert "http://" in found["document"]["problem"]
