"""`penstock bench --ranks` and MPI-IO with real ranks of Open MPI and MPICH."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest
from bench_documents import frames_document
from conftest import end_with_family
from warm_command import penstock, popen

from penstock.bench.judge.rank_checks import check_ranks_end_together, rank_checks
from penstock.bench.statistics.figures import metadata_figures
from penstock.model.bench.load import LoadDocument, MpiioBackend
from penstock.model.bench.runs import Run
from penstock.programs.locate import find_program
from penstock.programs.ranks import Ranks

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]
WAIT_S = 120
SMALL = ("--size", "8MiB", "--transfer", "1MiB", "--yes", "--json")
MPIS = ("openmpi", "mpich")


def measured(finished: "subprocess.CompletedProcess[str]") -> Run:
    """Of a run that is too short to be valid, and whole otherwise."""
    assert finished.returncode in (0, 4), finished.stderr
    result = Run.model_validate_json(finished.stdout)
    assert result.document.problem is None
    return result


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_write_and_read_what_another_wrote(run: RunCommand, tmp_path: Path, mpi: str) -> None:
    options = ("--ranks", "2", "--mpi", mpi, "--threads", "2", "--keep")
    result = measured(run("bench", "stream", str(tmp_path), *options, *SMALL))
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.glob("stream-*.bin"))) == 4
    phases = result.document.phases
    assert phases is not None
    assert [phase.phase for phase in phases] == ["write", "read"]
    for phase in phases:
        assert phase.bytes == 4 * (8 << 20)
        assert [thread.rank for thread in phase.threads] == [0, 0, 1, 1]
        assert all(thread.done_s for thread in phase.threads)
    assert phases[1].mismatches == 0
    job = result.document.job
    assert job is not None
    assert job.ranks == len(job.parts) == 2
    assert {"openmpi": "Open MPI v", "mpich": "MPICH Version: "}[mpi] in job.library
    names = {check.name for check in result.checks}
    assert {"ranks start together", "clocks of ranks agree", "threads end together (write)"} <= names


def test_the_clocks_of_one_machine_agree(run: RunCommand, tmp_path: Path) -> None:
    """They are one clock, so what is measured is wrong by what it says at most."""
    job = measured(run("bench", "stream", str(tmp_path), "--ranks", "3", *SMALL)).document.job
    assert job is not None
    assert (job.parts[0].lead_ahead_ns, job.parts[0].clock_error_ns) == (0, 0)
    for rank in job.parts[1:]:
        assert rank.clock_error_ns > 0
        assert abs(rank.lead_ahead_ns) <= rank.clock_error_ns


@pytest.mark.skipif(os.geteuid() != 0, reason="a clock of its own for a process needs root")
@pytest.mark.parametrize("direction", [1, -1])
def test_a_clock_that_is_another_one_is_corrected(tmp_path: Path, direction: int) -> None:
    """Rank 1 has a monotonic clock of its own, as on another host."""
    # The kernel refuses a clock that would be negative, as on a machine that has just been started.
    ahead_s = direction * min(1000, int(0.9 * time.monotonic()))
    plan = {
        "backend": {"kind": "posix", "folder": str(tmp_path), "sync": "none"},
        "workload": {
            "kind": "frames",
            "frames": 100,
            "frame_bytes": 4096,
            "rate_hz": 200,
            "buffer_frames": 100,
        },
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    program = [str(find_program("penstock-load")), "--plan", str(tmp_path / "plan.json")]
    ranks = Ranks(1)
    elsewhere = ["unshare", "--time", "--monotonic", str(ahead_s), *program]
    finished = subprocess.run(
        [*ranks.command(Path(program[0])), *program[1:], ":", "-n", "1", *elsewhere],
        env=ranks.environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    document = LoadDocument.model_validate(json.loads(finished.stdout.splitlines()[-1])["document"])
    assert document.job is not None
    other = document.job.parts[1]
    assert abs(other.lead_ahead_ns + ahead_s * 10**9) <= other.clock_error_ns
    assert document.records is not None
    behind = numpy.array(document.records.offered_ns) - numpy.arange(100) * 5_000_000
    assert (behind >= -1 - other.clock_error_ns).all()
    assert behind.max() < abs(ahead_s) * 10**9 / 2, "rather than the seconds between the clocks"
    assert document.generator is not None
    assert [writer.written > 0 for writer in document.generator.writers] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("mpi", MPIS)
def test_frames_are_dealt_to_ranks_at_one_schedule(run: RunCommand, tmp_path: Path, mpi: str) -> None:
    options = ("--ranks", "2", "--mpi", mpi, "--frame-size", "64KiB", "--rate", "100", "--frames", "151")
    finished = run("bench", "frames", str(tmp_path), *options, "--writers", "1", "--keep", "--yes", "--json")
    result = measured(finished)
    assert result.frames is not None
    assert result.document.records is not None
    assert (result.frames.due, result.frames.written + result.frames.dropped) == (151, 151)
    offered = numpy.array(result.document.records.offered_ns)
    assert (offered >= numpy.arange(151) * 10_000_000 - 1).all()
    (folder,) = tmp_path.iterdir()
    kept = numpy.flatnonzero(numpy.array(result.document.records.done_ns) >= 0)
    assert sorted(path.name for path in folder.glob("*.bin")) == [f"frame-{number:09}.bin" for number in kept]
    assert result.document.generator is not None
    assert {writer.rank for writer in result.document.generator.writers} == {0, 1}


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize("layout", ["--unique", "--shared"])
def test_ranks_make_names_and_look_up_those_of_another(
    run: RunCommand, tmp_path: Path, mpi: str, layout: str
) -> None:
    ranks = ("--ranks", "3", "--mpi", mpi, "--threads", "2", "--shift", "2", layout)
    names = ("--items", "3", "--depth", "1", "--branch", "2", "--size", "700B", "--rename")
    options = (*ranks, *names, "--iterations", "2", "--yes", "--json")
    result = measured(run("bench", "metadata", str(tmp_path), *options))
    trees = 1 if layout == "--shared" else 6
    assert {each.operation: (each.operations, each.iterations) for each in result.metadata} == {
        **{f"tree_{kind}": (trees * 3, 2) for kind in ("create", "remove")},
        **{f"folder_{kind}": (54, 2) for kind in ("create", "stat", "rename", "remove")},
        **{f"file_{kind}": (54, 2) for kind in ("create", "stat", "read", "rename", "remove")},
    }
    assert metadata_figures(result.document) == result.metadata
    assert result.document.job is not None
    assert result.document.job.ranks == len(result.document.job.parts) == 3
    names_of_checks = {check.name for check in result.checks}
    assert {"ranks start together", "clocks of ranks agree", "looked up in storage"} <= names_of_checks
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def plain_files(tmp_path_factory: pytest.TempPathFactory) -> list[numpy.ndarray[Any, Any]]:
    """What two ranks write into a file each, through the kernel."""
    target = tmp_path_factory.mktemp("plain")
    command = ("bench", "stream", str(target), "--ranks", "2", "--keep")
    finished = penstock(*command, *SMALL, "--no-read", timeout_s=WAIT_S)
    measured(finished)
    files = sorted(target.glob("*/stream-*.bin"))
    assert len(files) == 2
    return [numpy.fromfile(path, dtype="uint8") for path in files]


WAYS = [
    pytest.param((), id="a file each"),
    pytest.param(("--shared",), id="shared"),
    pytest.param(("--shared", "--block", "2MiB"), id="shared in blocks"),
    pytest.param(("--shared", "--block", "1MiB", "--collective", "--sync", "each"), id="collective"),
]


@pytest.mark.parametrize("mpi_io", ["ompio", "romio", "mpich"])
@pytest.mark.parametrize("way", WAYS)
def test_mpi_io_writes_and_reads_every_byte(
    run: RunCommand,
    tmp_path: Path,
    plain_files: list[numpy.ndarray[Any, Any]],
    mpi_io: str,
    way: tuple[str, ...],
) -> None:
    """What lies where is compared with the files that the same ranks write through the kernel."""
    options = ("--ranks", "2", "--backend", "mpiio", "--mpi-io", mpi_io, "--keep", *way)
    result = measured(run("bench", "stream", str(tmp_path), *options, *SMALL))
    backend = result.document.plan.backend
    assert isinstance(backend, MpiioBackend)
    assert [phase.bytes for phase in result.streams] == [16 << 20, 16 << 20]
    assert result.streams[1].mismatches == 0
    component = {"ompio": "ompio", "romio": "romio321", "mpich": None}[mpi_io]
    assert result.document.storage.mpi_io == component
    (folder,) = tmp_path.iterdir()
    files = [numpy.fromfile(path, dtype="uint8") for path in sorted(folder.glob("stream-*.bin"))]
    if not backend.shared:
        assert all((file == plain).all() for file, plain in zip(files, plain_files, strict=True))
        return
    block_bytes = backend.block_bytes or 8 << 20
    in_turn = numpy.stack([plain.reshape(-1, block_bytes) for plain in plain_files], axis=1)
    assert len(files) == 1
    assert (files[0] == in_turn.reshape(-1)).all()


@pytest.mark.parametrize(
    ("mpi_io", "told"),
    [
        ("romio", {"romio_cb_write": "enable", "cb_nodes": "1"}),
        ("mpich", {"romio_cb_write": "enable", "cb_nodes": "1", "romio_ds_write": "automatic"}),
    ],
)
def test_hints_that_were_in_effect_are_told(
    run: RunCommand, tmp_path: Path, mpi_io: str, told: dict[str, str]
) -> None:
    hints = ("--hint", "romio_cb_write=enable", "--hint", "cb_nodes=1")
    options = ("--ranks", "2", "--backend", "mpiio", "--mpi-io", mpi_io, "--shared", "--collective", *hints)
    storage = measured(run("bench", "stream", str(tmp_path), *options, *SMALL)).document.storage
    assert storage.hints is not None
    assert told.items() <= storage.hints.items()


def test_a_limit_of_time_ends_collective_calls_of_all_ranks(run: RunCommand, tmp_path: Path) -> None:
    """At the same call, or those that go on would wait for ever."""
    options = ("--ranks", "2", "--backend", "mpiio", "--shared", "--collective", "--seconds-max", "2")
    sizes = ("--size", "256MiB", "--transfer", "4KiB", "--sync", "each", "--yes", "--json")
    result = measured(run("bench", "stream", str(tmp_path), *options, *sizes))
    phases = result.document.phases
    assert phases is not None
    for phase in phases:
        assert len({thread.bytes for thread in phase.threads}) == 1
        assert 0 < phase.threads[0].bytes < 256 << 20
    assert phases[1].mismatches == 0


class Command:
    """`penstock bench` that goes on for long beside the test, and its ranks."""

    def __init__(self, target: Path, mpi: str, *options: str) -> None:
        target.mkdir()
        self.target = target
        self.output = target.parent / "run.json"
        more = ("--ranks", "2", "--mpi", mpi, "--yes", "--output", str(self.output))
        self.process = popen("bench", *options[:1], str(target), *options[1:], *more)

    def wait_for_files(self, pattern: str = "*-00000001*.bin") -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if any(self.target.glob(f"penstock-bench-*/{pattern}")):
                return
            time.sleep(0.02)
        raise AssertionError(f"nothing was written: {self.process.communicate(timeout=WAIT_S)}")

    def rank(self, number: int) -> int:
        """Its process."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            environment = process.environ()
            mine = environment.get("OMPI_COMM_WORLD_RANK", environment.get("PMI_RANK"))
            if process.name().startswith("penstock-load") and mine == str(number):
                return int(process.pid)
        raise AssertionError(f"there is no rank {number}")

    def end(self) -> tuple[int, str]:
        _, log = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, log


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[Callable[[str], Command]]:
    commands: list[Command] = []

    def start(mpi: str, *options: str) -> Command:
        chosen = options or ("frames", "--frame-size", "4KiB", "--rate", "200", "--seconds", "120")
        commands.append(Command(tmp_path / "target", mpi, *chosen))
        return commands[-1]

    yield start
    for command in commands:
        end_with_family(command.process)
        command.process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("mpi", MPIS)
def test_an_interruption_leaves_the_figures_of_all_ranks(long_run: Callable[..., Command], mpi: str) -> None:
    command = long_run(mpi)
    command.wait_for_files("*-00000001[13579].bin")  # rank 1 writes odd frames
    command.process.send_signal(signal.SIGINT)
    code, log = command.end()
    assert code == 1, log
    result = Run.model_validate_json(command.output.read_text(encoding="utf-8"))
    assert result.document.interrupted
    assert result.document.problem is None
    assert result.document.job is not None
    assert len(result.document.job.parts) == 2
    assert result.document.generator is not None
    assert sum(writer.written for writer in result.document.generator.writers if writer.rank == 1) > 0
    assert list(command.target.iterdir()) == []


@pytest.mark.slow
def test_a_killed_rank_costs_its_figures_alone(long_run: Callable[..., Command]) -> None:
    """Open MPI asks the others to end before it kills them."""
    command = long_run("openmpi")
    command.wait_for_files()
    os.kill(command.rank(1), signal.SIGKILL)
    code, log = command.end()
    assert code == 1, log
    result = Run.model_validate_json(command.output.read_text(encoding="utf-8"))
    assert result.validity == "invalid"
    assert result.document.problem == "rank 1 has not reported; its metrics are missing"
    assert result.frames is not None
    assert result.frames.written > 0
    assert result.document.job is not None
    assert [rank.rank for rank in result.document.job.parts] == [0]
    assert list(command.target.iterdir()) == []


@pytest.mark.slow
def test_names_of_a_killed_rank_are_cleared_up(long_run: Callable[..., Command]) -> None:
    """Whether or not the other rank could report before Open MPI killed it."""
    command = long_run("openmpi", "metadata", "--items", "1000000", "--only", "files")
    command.wait_for_files("metadata-000000001/f001-000000100")
    os.kill(command.rank(1), signal.SIGKILL)
    code, log = command.end()
    assert code == 1, log
    assert list(command.target.iterdir()) == []
    if not command.output.exists():
        assert "a rank died, and the others could not report their measurements" in log
        return
    result = Run.model_validate_json(command.output.read_text(encoding="utf-8"))
    assert result.document.problem == "rank 1 has not reported; its metrics are missing"
    assert result.validity == "invalid"


@pytest.mark.slow
@pytest.mark.parametrize(("mpi", "victim"), [("openmpi", 0), ("mpich", 0), ("mpich", 1)])
def test_a_job_whose_figures_are_lost_says_so(
    long_run: Callable[..., Command], mpi: str, victim: int
) -> None:
    command = long_run(mpi)
    command.wait_for_files()
    os.kill(command.rank(victim), signal.SIGKILL)
    code, log = command.end()
    assert code == 1, log
    assert "a rank died, and the others could not report their measurements" in log
    assert not command.output.exists()
    assert list(command.target.iterdir()) == []


@pytest.mark.slow
def test_a_rank_killed_between_collective_calls_hangs_nobody(long_run: Callable[..., Command]) -> None:
    options = ("--backend", "mpiio", "--shared", "--collective", "--sync", "each", "--transfer", "4KiB")
    command = long_run("openmpi", "stream", *options, "--size", "1GiB", "--seconds-max", "300")
    command.wait_for_files("stream-000000000.bin")
    os.kill(command.rank(1), signal.SIGKILL)
    code, log = command.end()
    assert code == 1, log
    assert "a rank died" in log or command.output.exists()
    assert list(command.target.iterdir()) == []


def test_a_killed_command_takes_its_ranks_with_it(long_run: Callable[..., Command]) -> None:
    command = long_run("openmpi")
    command.wait_for_files()
    ranks = [psutil.Process(command.rank(number)) for number in (0, 1)]
    command.process.kill()
    command.end()
    _, alive = psutil.wait_procs(ranks, timeout=WAIT_S)
    assert alive == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mpi", "mpich"], ["--mpi mpich", "--ranks"]),
        (["--collective"], ["--collective", "--backend mpiio"]),
        (["--backend", "mpiio", "--collective"], ["--collective", "--shared"]),
        (["--backend", "mpiio", "--hint", "cb_nodes"], ["cb_nodes", "KEY=VALUE"]),
        (["--backend", "mpiio", "--mpi-io", "ompio", "--mpi", "mpich"], ["ompio", "mpich"]),
        (["--backend", "mpiio", "--threads", "2"], ["--threads 2", "--ranks"]),
        (["--backend", "mpiio", "--shared", "--sync", "each"], ["--sync each", "--collective"]),
        (["--backend", "mpiio", "--shared", "--block", "3MiB"], ["--block", "3145728"]),
    ],
)
def test_options_that_do_not_go_together_are_named(
    run: RunCommand, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    finished = run("bench", "stream", str(tmp_path), *options, "--yes")
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_fewer_frames_than_ranks_are_refused(run: RunCommand, tmp_path: Path) -> None:
    options = ("--frame-size", "4KiB", "--rate", "0", "--frames", "3", "--ranks", "4", "--yes")
    finished = run("bench", "frames", str(tmp_path), *options)
    assert finished.returncode == 2, finished.stderr
    assert "3 frames are fewer than 4 ranks" in finished.stderr


def test_an_mpi_that_is_not_installed_is_named(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finished = run(
        "bench", "stream", str(tmp_path), "--size", "1MiB", "--ranks", "2", "--mpi", "mpich", "--yes"
    )
    assert finished.returncode == 2, finished.stderr
    assert "mpich is not installed" in finished.stderr
    assert "apt-get" in finished.stderr


def job_of(late_ns: int = 0, error_ns: int = 500, ends_s: tuple[float, float] = (10.0, 9.0)) -> LoadDocument:
    rank = {"host": "h", "lead_ahead_ns": 7}
    parts = [
        {"rank": 0, **rank, "late_ns": 0, "clock_error_ns": 0},
        {"rank": 1, **rank, "late_ns": late_ns, "clock_error_ns": error_ns},
    ]
    writers = [
        {"rank": number, "written": 1, "first_done_s": 0.1, "last_done_s": end_s, "waited_ns": 0}
        for number, end_s in enumerate(ends_s)
    ]
    document = frames_document().model_dump()
    document["job"] = {"library": "MPI", "ranks": 2, "parts": parts}
    document["generator"]["writers"] = writers
    return LoadDocument.model_validate(document)


def test_ranks_that_were_not_together_are_told() -> None:
    assert {check.outcome for check in rank_checks(job_of())} == {"ok"}
    assert list(rank_checks(frames_document())) == []
    (late, _) = rank_checks(job_of(late_ns=20_000_000))
    assert (late.name, late.outcome, late.actual) == ("ranks start together", "warning", "20 ms")
    (_, clocks) = rank_checks(job_of(error_ns=2_000_000))
    assert (clocks.name, clocks.outcome) == ("clocks of ranks agree", "warning")
    (even,) = check_ranks_end_together(job_of())
    (uneven,) = check_ranks_end_together(job_of(ends_s=(10.0, 5.0)))
    assert (even.outcome, uneven.outcome, uneven.actual) == ("ok", "warning", "50 %")
