"""Ranks use the clients of a laboratory in turn, so that its network carries what they write and read."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Record
from laboratories import Run, free_name, mounts, requires
from ports import free_ports
from warm_command import penstock

from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.lab.clients import (
    folders_of_clients,
    folders_of_ranks,
    ranks_text,
    require_other_readers,
    text_of_ranks,
)
from penstock.lab.storage import start_at
from penstock.model.bench.runs import Run as BenchRun
from penstock.model.errors import UsageError
from penstock.programs.ranks import Mpi, Ranks

MIB = 1 << 20
SYSTEMS = [pytest.param(each, marks=requires(each)) for each in ("moosefs", "gluster")]


@dataclass(frozen=True)
class Laboratory:
    name: str
    run: Run

    @property
    def mounts(self) -> list[Path]:
        return mounts(self.name)

    def names(self) -> list[list[str]]:
        """What each client finds in its mount."""
        return [sorted(each.name for each in mount.iterdir()) for mount in self.mounts]

    def carried(self) -> list[tuple[int, int]]:
        """Bytes that each client's interface has received and sent."""
        return [self._carried(number) for number, _ in enumerate(self.mounts, 1)]

    def _carried(self, client: int) -> tuple[int, int]:
        seen = self.run("lab", "exec", self.name, "--client", str(client), "--", "cat", "/proc/net/dev")
        (line,) = (each for each in seen.stdout.splitlines() if "eth0:" in each)
        fields = line.split(":")[1].split()
        return int(fields[0]), int(fields[8])


def since(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)]


@pytest.fixture(scope="module", params=SYSTEMS)
def laboratory(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    """One with two clients for all tests of a system."""
    with free_name() as name:
        done = penstock("lab", "up", request.param, "--name", name, "--clients", "2", "--disks", "ram:700MiB")
        assert done.returncode == 0, done.stderr
        yield Laboratory(name, penstock)


def measured(laboratory: Laboratory, *words: str) -> BenchRun:
    """Of a run that is too short to be valid, and whole otherwise."""
    there = laboratory.names()
    done = laboratory.run(
        "bench", words[0], f"lab:{laboratory.name}", *words[1:], "--ranks", "2", "--yes", "--json"
    )
    assert done.returncode in (0, 4), done.stderr
    assert "client-1: rank 0; client-2: rank 1" in done.stderr
    result = BenchRun.model_validate_json(done.stdout)
    assert result.document.problem is None
    assert result.document.job is not None
    assert [Path(each).parent for each in result.document.job.folders.values()] == laboratory.mounts
    assert laboratory.names() == there
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [(), ("--shared",), ("--buffered",), ("--backend", "store", "--shared"), ("--backend", "mpiio")],
)
def test_a_stream_is_read_through_another_client_than_it_was_written(
    laboratory: Laboratory, options: tuple[str, ...]
) -> None:
    """Not even its own client's cache answers for a client: it receives as much as it reads."""
    before = laboratory.carried()
    result = measured(laboratory, "stream", "--size", "16MiB", "--transfer", "1MiB", *options)
    phases = result.document.phases
    assert phases is not None
    assert [(phase.bytes, phase.mismatches) for phase in phases] == [(32 * MIB, None), (32 * MIB, 0)]
    for received, sent in since(before, laboratory.carried()):
        assert received > 16 * MIB
        assert sent > 16 * MIB


@pytest.mark.slow
def test_frames_go_through_both_clients(laboratory: Laboratory) -> None:
    before = laboratory.carried()
    result = measured(laboratory, "frames", "--rate", "50", "--frames", "60", "--frame-size", "256KiB")
    assert result.document.frames is not None
    assert result.document.frames.written == 60
    assert all(sent > 30 * 256 * 1024 for _, sent in since(before, laboratory.carried()))


@pytest.mark.slow
def test_jobs_of_an_analysis_read_through_both_clients(laboratory: Laboratory) -> None:
    before = laboratory.carried()
    options = ("--jobs", "2", "--files", "1", "--file-size", "4MB", "--seconds", "2", "--yes", "--json")
    done = laboratory.run("bench", "analysis", f"lab:{laboratory.name}", *options)
    assert done.returncode in (0, 4), done.stderr
    assert BenchRun.model_validate_json(done.stdout).document.problem is None
    for received, _ in since(before, laboratory.carried()):
        assert received > 4e6 / 2  # a scan needs a part of the branches


def test_jobs_are_in_the_control_group_of_their_client(laboratory: Laboratory) -> None:
    outcome = run_jobs([JobRequest("jobs_of_tests:where", mount, {}) for mount in laboratory.mounts])
    for number, job in enumerate(outcome.jobs, 1):
        assert job.ended is not None
        assert f"/penstock-lab/{laboratory.name}/client-{number}\n" in job.ended.result["groups"]


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_ranks_are_in_the_control_groups_of_their_clients(laboratory: Laboratory, mpi: Mpi) -> None:
    team = Ranks(3, mpi)
    try:
        command = team.command(Path(sys.executable), start_at(laboratory.mounts[0], team).inside)
    except UsageError as error:
        pytest.skip(error.message)
    look = "print(open('/proc/self/cgroup').read(), end='')"
    done = subprocess.run(
        [*command, "-c", look], env=team.environment(), capture_output=True, text=True, check=True
    )
    groups = [line for line in done.stdout.splitlines() if line.startswith("0::")]
    own = f"0::/penstock-lab/{laboratory.name}/client-"
    assert sorted(groups) == [f"{own}1", f"{own}1", f"{own}2"]


def test_names_are_looked_up_through_another_client(laboratory: Laboratory) -> None:
    names = ("metadata", "--items", "40", "--iterations", "1")
    outcomes = {}
    for shift in ("0", "1"):
        result = measured(laboratory, *names, "--shift", shift)
        outcomes[shift] = next(each for each in result.checks if each.name == "looked up in storage").outcome
    assert outcomes == {"0": "warning", "1": "ok"}


def test_two_clients_and_three_ranks_would_read_what_they_wrote(laboratory: Laboratory) -> None:
    words = ("bench", "stream", f"lab:{laboratory.name}", "--size", "1MiB", "--ranks", "3", "--dry-run")
    refused = laboratory.run(*words)
    assert refused.returncode == 2
    assert "--ranks 3 with 2 clients" in refused.stderr
    written = laboratory.run(*words, "--no-read", "--no-verify")
    assert written.returncode == 0, written.stderr
    assert "client-1: ranks 0, 2; client-2: rank 1" in written.stdout


@pytest.mark.slow
@pytest.mark.parametrize("files", ["one", "per_writer"])
def test_ranks_of_a_recorder_write_through_their_own_clients(
    record: Record, laboratory: Laboratory, files: str
) -> None:
    folder = laboratory.mounts[0] / files
    folder.mkdir()
    before = laboratory.carried()
    port = free_ports(2)
    recorder = record(
        folder,
        *("--ranks", "2", "--files", files, "--listen", f"127.0.0.1:{port}", "--series", "1"),
        *("--codec", "none"),
        listen=False,
    )
    for _ in range(2):
        recorder.listening()
    sent = laboratory.run(
        *("simulate", "custom", "--rows", "512", "--columns", "512", "--type", "uint32", "--rate", "50"),
        *("--frames", "40", "--series-name", "s", "--to", f"tcp://127.0.0.1:{port},127.0.0.1:{port + 1}"),
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_written, end.missing, end.problem, end.file) == (40, 0, None, str(folder / "s.h5"))
    assert len(list(folder.iterdir())) == (1 if files == "one" else 3)
    # Each rank gets every other frame of 1 MiB.
    assert all(bytes_sent > 15 * MIB for _, bytes_sent in since(before, laboratory.carried()))
    done = laboratory.run("check", str(folder / "s.h5"), "--against", "recorded", "--json")
    report = json.loads(done.stdout)
    assert (report["compared_frames"], report["different_frames"]) == (40, 0)
    assert not [finding for finding in report["findings"] if finding["level"] == "error"], report


@pytest.mark.slow
def test_a_rehearsal_uses_both_clients_and_leaves_nothing(laboratory: Laboratory) -> None:
    before = laboratory.carried()
    there = laboratory.names()
    done = laboratory.run(
        *("rehearse", "custom", f"lab:{laboratory.name}", "--rows", "512", "--columns", "512"),
        *("--rate", "20", "--ranks", "2", "--seconds", "2", "--soak", "0", "--search-time", "0"),
        *("--space", "200MB", "--yes", "--json"),
    )
    assert "client-1: rank 0; client-2: rank 1" in done.stderr
    assert json.loads(done.stdout)["problem"] is None, done.stderr
    assert all(sent > MIB for _, sent in since(before, laboratory.carried()))
    assert laboratory.names() == there


def test_a_folder_has_a_path_through_each_client(laboratory: Laboratory) -> None:
    first, second = laboratory.mounts
    assert folders_of_clients(first / "data") == [first / "data", second / "data"]
    assert folders_of_clients(second / "data") == [second / "data"]
    assert folders_of_ranks(first, Ranks(1)) == []
    assert folders_of_ranks(first, None) == []
    assert folders_of_ranks(first, Ranks(5)) == [str(first), str(second)]


@requires("xfs")
def test_mounts_of_one_file_system_are_one_client() -> None:
    with free_name() as name:
        done = penstock("lab", "up", "xfs", "--name", name, "--clients", "2", "--disks", "loop:400MiB")
        assert done.returncode == 0, done.stderr
        first, _ = mounts(name)
        assert folders_of_clients(first) == [first]


def test_a_folder_elsewhere_is_used_by_all(tmp_path: Path) -> None:
    assert folders_of_clients(tmp_path) == [tmp_path]
    assert folders_of_ranks(tmp_path, Ranks(4)) == []


def test_who_uses_what_is_named_by_client() -> None:
    folders = [f"/run/penstock-lab/one/client-{number}/mount/data" for number in (1, 2, 3)]
    assert ranks_text(folders, 5) == "client-1: ranks 0, 3; client-2: ranks 1, 4; client-3: rank 2"
    assert ranks_text([], 5) == ""
    assert text_of_ranks({0: "/data/a", 1: "/data/b"}) == "/data/a: rank 0; /data/b: rank 1"


@pytest.mark.parametrize(("clients", "ranks", "possible"), [(2, 4, True), (2, 5, False), (3, 5, True)])
def test_each_rank_reads_through_another_client(clients: int, ranks: int, possible: bool) -> None:
    folders = [f"/{number}" for number in range(clients)]
    if possible:
        require_other_readers(folders, Ranks(ranks))
        return
    with pytest.raises(UsageError, match="would read through the client that wrote"):
        require_other_readers(folders, Ranks(ranks))
