"""The load generator speaks protocols of real servers, and leaves nothing on them."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laboratories import Run, free_name, requires, up

from penstock.bench.data.folder import FileSet
from penstock.bench.data.remote_folder import RemoteFolder
from penstock.lab.control import state_of
from penstock.lab.place import Place
from penstock.lab.storage import storage_of
from penstock.model.bench.runs import Run as BenchRun
from penstock.model.errors import PenstockError
from penstock.model.storage_url import StorageUrl

_SYSTEMS = [
    pytest.param("xrootd", marks=requires("xrootd")),
    pytest.param("ganesha", marks=requires("ganesha")),
    pytest.param("s3", marks=requires("s3")),
    pytest.param("hdfs", marks=requires("hdfs")),
]


SMALL_CAMPAIGN = """\
title: small
workload: stream
blocks: 1
parameters: {size: 8MiB}
vary: {threads: [1, 2]}
views:
  - {kind: plot, title: written, value: write, rows: threads, columns: [target]}
"""


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def measured(run: Run, *words: str) -> BenchRun:
    done = run("bench", *words, "--yes", "--json")
    assert done.stdout, done.stderr
    found = BenchRun.model_validate_json(done.stdout)
    assert found.document.problem is None
    return found


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stored(run: Run, name: str) -> list[str]:
    """Directories and files of runs, as far as the disks of the servers have names."""
    return [str(each) for each in Place(name).folder.rglob("penstock-bench-*")]


@pytest.mark.slow
@pytest.mark.parametrize("system", _SYSTEMS)
def test_what_is_written_is_read_back_and_removed(run: Run, name: str, system: str) -> None:
    up(run, system, name)
    target = f"lab:{name}"
    stream = measured(run, "stream", target, "--size", "16MiB", "--threads", "2")
    assert [each.mismatches for each in stream.document.phases or []] == [None, 0]
    assert [each.bytes for each in stream.document.phases or []] == [32 << 20, 32 << 20]
    assert [each.cached_bytes for each in stream.document.phases or []] == [None, 0]
    assert stream.document.storage.client is not None
    frames = measured(run, "frames", target, "--rate", "10", "--frame-size", "64KiB", "--frames", "20")
    assert frames.document.frames is not None
    assert frames.document.frames.written + frames.document.frames.dropped == 20
    assert frames.conditions.file_system in frames.target.partition("://")[0]
    assert stored(run, name) == []


@requires("xrootd")
def test_names_and_repetitions_by_root(run: Run, name: str, tmp_path: Path) -> None:
    up(run, "xrootd", name)
    target = f"lab:{name}"
    names = measured(
        run, "metadata", target, "--items", "20", "--iterations", "1", "--size", "1KiB", "--rename"
    )
    assert {each.operation for each in names.metadata} >= {"file_create", "file_read", "file_rename"}
    assert stored(run, name) == []
    again = tmp_path / "again.json"
    options = ("--size", "8MiB", "--repetitions", "2", "--yes", "--output", str(again))
    run("bench", "stream", target, *options)
    assert len(json.loads(again.read_text())["runs"]) == 2
    assert stored(run, name) == []


@pytest.mark.slow
@requires("xrootd")
def test_nothing_is_left_behind_a_redirector(run: Run, name: str) -> None:
    """Each server has a directory of its own. The run is too short to be valid."""
    up(run, "xrootd", name, "--servers", "3")
    measured(run, "stream", f"lab:{name}", "--size", "1MiB", "--threads", "6")
    assert stored(run, name) == []


@requires("dav")
def test_files_of_the_user_in_the_directory_of_a_run_stay(run: Run, name: str) -> None:
    up(run, "dav", name)
    place = storage_of(state_of(Place(name)))
    assert isinstance(place, StorageUrl)
    left = RemoteFolder(place)
    left.announce(FileSet(prefix="stream-", count=1))
    data = next(Place(name).folder.glob("server-1/disk/root/data"))
    folder = data / left.path.name
    folder.mkdir()
    shutil.chown(folder, data.stat().st_uid, data.stat().st_gid)
    (folder / "mine").write_text("mine")
    with pytest.raises(PenstockError, match="more in it than the run created"):
        left.remove()
    assert (folder / "mine").read_text() == "mine"
    (folder / "mine").unlink()
    left.remove()
    assert not folder.exists()


@pytest.mark.slow
@requires("xrootd")
def test_a_run_of_names_that_is_interrupted_leaves_nothing(run: Run, name: str) -> None:
    up(run, "xrootd", name)
    words = ("bench", "metadata", f"lab:{name}", "--items", "3000", "--yes")
    process = subprocess.Popen([sys.executable, "-m", "penstock", *words], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(list(Place(name).folder.glob("server-1/disk/root/data/*/*/*"))) > 100)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert stored(run, name) == []


@requires("ganesha")
def test_threads_share_a_file_by_nfs(run: Run, name: str) -> None:
    up(run, "ganesha", name)
    shared = measured(run, "stream", f"lab:{name}", "--size", "8MiB", "--threads", "2", "--shared")
    assert [each.mismatches for each in shared.document.phases or []] == [None, 0]


@requires("xrootd")
def test_a_campaign_brings_up_what_it_speaks_to(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL_CAMPAIGN)
    output = tmp_path / "out.json"
    done = run("campaign", str(file), "--target", "lab:xrootd,servers=1", "--yes", "--output", str(output))
    assert output.exists(), done.stderr
    document = json.loads(output.read_text())
    assert document.get("failures", []) == [], document["failures"]
    assert len(document["runs"]) == 2


@requires("dav")
@pytest.mark.parametrize("by", ["name", "url"])
def test_a_campaign_takes_a_server_that_is_up(run: Run, name: str, tmp_path: Path, by: str) -> None:
    state = up(run, "dav", name)
    file = tmp_path / "small.yaml"
    file.write_text(SMALL_CAMPAIGN)
    output = tmp_path / "out.json"
    words = ["campaign", str(file), "--yes", "--output", str(output), "--target"]
    if by == "name":
        words.append(f"lab:{name}")
    else:
        inside = ("lab", "exec", name, "--", sys.executable, "-m", "penstock")
        words = [*inside, *words, f"x={state['url']}"]
    done = run(*words)
    assert output.exists(), done.stderr
    assert len(json.loads(output.read_text())["runs"]) == 2
    assert run(*words, "--resume").returncode == done.returncode
    assert stored(run, name) == []


@requires("xrootd")
def test_a_server_that_is_not_there_is_named(run: Run) -> None:
    done = run("bench", "stream", "root://127.0.0.1:1//x", "--size", "1MiB", "--yes", "--json")
    assert done.returncode in (1, 4)
    assert "root://127.0.0.1:1//x" in str(json.loads(done.stdout)["document"]["problem"])
