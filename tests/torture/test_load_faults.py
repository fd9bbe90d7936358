"""Load on storage that fills up, fails, goes away or is swapped for another: it is told in time, with what
was measured by then, and nothing is written to what the run did not make."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from places import MIB, failing_device, image, mounted, tmpfs
from rounds import is_long

from penstock.model.bench.load import LoadDocument
from penstock.programs.locate import find_program
from penstock.programs.ranks import MpiIo, Ranks, mpi_of

WAIT_S = 120.0
THEIRS = b"somebody's own"


@dataclass(frozen=True)
class BackEnd:
    fields: dict[str, Any]
    ranks: Ranks | None = None
    of_workload: dict[str, Any] = field(default_factory=dict)

    def plan(self, folder: Path, **workload: Any) -> dict[str, Any]:
        stream = {"kind": "stream", "thread_bytes": 64 * MIB, "transfer_bytes": MIB, "read": False}
        backend = {**self.fields, "folder": str(folder)}
        return {
            "backend": backend,
            "workload": stream | self.of_workload | workload,
            "drain_timeout_s": 10,
        }


def of_ranks(mpi_io: MpiIo, **fields: Any) -> BackEnd:
    return BackEnd({"kind": "mpiio", **fields}, Ranks(2, mpi_of(mpi_io), mpi_io))


BACK_ENDS = {
    "posix": BackEnd({"kind": "posix"}),
    "buffered": BackEnd({"kind": "posix", "direct": False, "sync": "end"}),
    "queued": BackEnd({"kind": "posix", "queue_depth": 8, "sync": "end"}),
    "store": BackEnd({"kind": "store"}),
    "store ranks": BackEnd({"kind": "store"}, Ranks(2), {"shared": True}),
    "store mpich": BackEnd({"kind": "store"}, Ranks(2, "mpich"), {"shared": True}),
    "hdf5": BackEnd({"kind": "hdf5"}),
    "hdf5 chunks": BackEnd({"kind": "hdf5", "chunk_bytes": MIB}),
    "hdf5 ranks": BackEnd({"kind": "hdf5", "shared": True, "collective": True}, Ranks(2)),
    "ompio": of_ranks("ompio"),
    "ompio shared": of_ranks("ompio", shared=True, collective=True),
    "romio": of_ranks("romio"),
    "romio shared": of_ranks("romio", shared=True, collective=True),
    "mpich": of_ranks("mpich"),
    "mpich shared": of_ranks("mpich", shared=True, collective=True),
}
FEW = ["posix", "queued", "store", "store ranks", "hdf5", "hdf5 ranks", "ompio shared"]
any_back_end = pytest.mark.parametrize("name", list(BACK_ENDS) if is_long() else FEW)
MPI_IOS = ["ompio", "romio", "mpich"] if is_long() else ["romio"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


class Load:
    """penstock-load in a process of its own, or as the ranks of a job."""

    def __init__(self, plan: dict[str, Any], at: Path, ranks: Ranks | None = None, *second: str) -> None:
        """`second`: what starts the program for the second of two ranks."""
        path = at / "plan.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        program = find_program("penstock-load")
        options = ["--plan", str(path)]
        command = [str(program), *options]
        if ranks is not None and second:
            one = Ranks(1, ranks.mpi, ranks.mpi_io)
            command = [*one.command(program), *options, ":", "-n", "1", *second, *command]
        elif ranks is not None:
            command = [*ranks.command(program), *options]
        self.process = subprocess.Popen(
            command,
            env=ranks.environment() if ranks is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def document(self, seconds_max: float = WAIT_S) -> LoadDocument:
        """The result; an AssertionError with the log where there is none in time."""
        output, log = self.process.communicate(timeout=seconds_max)
        events = [json.loads(line) for line in output.splitlines()]
        assert events, log
        assert events[-1]["event"] in ("result", "partial"), log
        return LoadDocument.model_validate(events[-1]["document"])

    def until(self, there: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not there():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def rank(self, number: int) -> psutil.Process:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            environment = process.environ()
            mine = environment.get("OMPI_COMM_WORLD_RANK", environment.get("PMI_RANK"))
            if process.name().startswith("penstock-load") and mine == str(number):
                return process
        raise AssertionError(f"there is no rank {number}")


def fill(at: Path, left: int) -> None:
    """Until so many bytes are free, and a little less."""
    with (at / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(at).free - 4 * MIB)
        file.seek(0, os.SEEK_END)
        while shutil.disk_usage(at).free > left:
            file.write(bytes(1024))
            file.flush()
            os.fsync(file.fileno())


def assert_told(document: LoadDocument, *reasons: str) -> None:
    """What went wrong by one of these reasons, and figures that fit together."""
    assert document.problem is not None
    assert any(reason in document.problem.lower() for reason in reasons), document.problem
    for phase in document.phases or []:
        assert phase.bytes == sum(thread.bytes for thread in phase.threads)
        assert phase.operations == phase.times.service.count


@pytest.mark.slow
@needs_root
@any_back_end
def test_a_full_disk_is_told_with_what_was_measured(name: str, tmp_path: Path) -> None:
    at = tmp_path / "at"
    at.mkdir()
    back_end = BACK_ENDS[name]
    with tmpfs(at):
        plan = back_end.plan(at)
        run = Load(plan, tmp_path, back_end.ranks)
        document = run.document()
        unsaid = ["mpi_err_io", "write failed"] if back_end.ranks else []  # Open MPI does not say why
        assert_told(document, "space", "no space left", *unsaid)
        assert run.process.returncode == 1
        assert [phase.phase for phase in document.phases or []] == ["write"]
        # What a store took into its segments counts as written until it has to be there; each rank has some.
        ranks = back_end.ranks.count if back_end.ranks else 1
        most = ranks * 48 * MIB if name.startswith("store") else 25 * MIB
        assert (document.phases or [])[0].bytes <= most
        for path in at.iterdir():
            path.unlink()


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("name", ["posix", "queued", "store"])
@pytest.mark.parametrize("left", [MIB // 2 + 1024, *([2 * MIB - 3072] if is_long() else [])])
def test_direct_writes_that_are_cut_short_in_a_page_are_told(name: str, left: int, tmp_path: Path) -> None:
    """ext4 in blocks of 1 KiB takes a part of the last transfer that is no whole page."""
    at = tmp_path / "at"
    at.mkdir()
    with mounted(at, "-o", "loop", str(image(at, "-b", "1024", "-m", "0"))):
        fill(at, left)
        document = Load(BACK_ENDS[name].plan(at), tmp_path).document()
        assert_told(document, "no space", "no space left")


@pytest.mark.slow
@needs_root
@any_back_end
def test_a_device_that_fails_is_told(name: str, tmp_path: Path) -> None:
    """Bytes that went into the page cache are found to be lost when they are forced to storage."""
    at = tmp_path / "at"
    at.mkdir()
    back_end = BACK_ENDS[name]
    with failing_device(at, "-O", "^has_journal") as place:
        run = Load(back_end.plan(at), tmp_path, back_end.ranks)
        reasons = ["input/output error", "errno = 5"]
        assert_told(run.document(), *reasons, *(["sync", "other i/o"] if back_end.ranks else []))
        assert run.process.returncode == 1
        place.space()


@needs_root
def test_a_target_that_is_taken_away_changes_nothing_in_mid_run(tmp_path: Path) -> None:
    """Its folder is open, and files are made in that."""
    at = tmp_path / "at"
    at.mkdir()
    frames = {"kind": "frames", "frames": 300, "frame_bytes": 4096, "rate_hz": 100, "buffer_frames": 300}
    with mounted(at, "-t", "tmpfs", "tmpfs"):
        run = Load(BACK_ENDS["posix"].plan(at) | {"workload": frames}, tmp_path)
        run.until(lambda: len(list(at.iterdir())) > 20)
        subprocess.run(["umount", "--lazy", str(at)], check=True)
        document = run.document()
        assert document.problem is None
        assert document.frames is not None
        assert document.frames.written == 300
        assert list(at.iterdir()) == [], "nothing is made where the target was"
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(at)], check=True)


@pytest.mark.parametrize("name", ["posix", "buffered", "queued", "store", "hdf5"])
def test_a_limit_on_the_size_of_files_kills_nobody(name: str, tmp_path: Path) -> None:
    """`ulimit -f`: the kernel sends a signal as well."""
    limit = 10 * MIB + 1000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        run = Load(BACK_ENDS[name].plan(tmp_path), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_told(run.document(), "maximum file size", "file too large")
    assert run.process.returncode == 1


@pytest.mark.parametrize("name", MPI_IOS)
def test_a_link_in_the_place_of_the_folder_of_ranks_leads_nowhere(name: str, tmp_path: Path) -> None:
    given, moved, users = (tmp_path / each for each in ("given", "moved", "users"))
    given.mkdir()
    users.mkdir()
    back_end = BACK_ENDS[name]
    frames = {"kind": "frames", "frames": 400, "frame_bytes": 4096, "rate_hz": 100, "buffer_frames": 400}
    run = Load(back_end.plan(given) | {"workload": frames}, tmp_path, back_end.ranks)
    run.until(lambda: len(list(given.iterdir())) > 20)
    given.rename(moved)
    given.symlink_to(users)
    document = run.document()
    assert document.problem is None
    assert list(users.iterdir()) == []
    assert len(list(moved.iterdir())) == 400


SHARED = {
    "posix": (BackEnd({"kind": "posix"}, Ranks(2)), {"shared": True}),
    "posix mpich": (BackEnd({"kind": "posix"}, Ranks(2, "mpich")), {"shared": True}),
    "store": (BACK_ENDS["store ranks"], {}),
    "store mpich": (BACK_ENDS["store mpich"], {}),
    "hdf5": (BACK_ENDS["hdf5 ranks"], {}),
    **{name: (BACK_ENDS[f"{name} shared"], {}) for name in MPI_IOS},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SHARED))
@pytest.mark.parametrize("what", ["link", "file"])
def test_what_is_in_the_place_of_a_shared_file_is_left_alone(name: str, what: str, tmp_path: Path) -> None:
    folder, theirs = tmp_path / "folder", tmp_path / "theirs"
    folder.mkdir()
    theirs.write_bytes(THEIRS)
    there = folder / "load-000000000.bin"
    if what == "link":
        there.symlink_to(theirs)
    else:
        there.hardlink_to(theirs)
    back_end, workload = SHARED[name]
    run = Load(back_end.plan(folder, **workload), tmp_path, back_end.ranks)
    assert_told(run.document(), "exist", "is there already", "is a symbolic link")
    assert run.process.returncode == 1
    assert theirs.read_bytes() == THEIRS


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("name", list(SHARED))
@pytest.mark.parametrize("content", [b"", THEIRS], ids=["empty", "filled"])
def test_a_rank_that_finds_another_file_leaves_it_alone(name: str, content: bytes, tmp_path: Path) -> None:
    """Its path leads to a folder of its own, as on a machine that does not share the storage."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "load-000000000.bin").write_bytes(content)
    back_end, workload = SHARED[name]
    bound = f'mount --bind "{other}" "{folder}" && exec "$0" "$@"'
    elsewhere = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", bound)
    run = Load(back_end.plan(folder, **workload), tmp_path, back_end.ranks, *elsewhere)
    document = run.document()
    assert document.problem is not None
    assert "load-000000000.bin" in document.problem
    assert (other / "load-000000000.bin").read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"] if is_long() else ["openmpi"])
@pytest.mark.parametrize("hangs", [0, 1] if is_long() else [1])
@pytest.mark.parametrize("workload", ["stream", "metadata"])
def test_a_rank_that_hangs_is_given_up_in_time(mpi: str, hangs: int, workload: str, tmp_path: Path) -> None:
    """Nobody waits for longer than the plan allows, or ten seconds."""
    ranks = Ranks(2, "mpich" if mpi == "mpich" else "openmpi")
    plan = BackEnd({"kind": "null", "delay_s": 0.01}).plan(tmp_path, transfer_bytes=MIB // 16)
    if workload == "metadata":
        plan["workload"] = {"kind": "metadata", "items": 300}
    del plan["backend"]["folder"]
    run = Load(plan | {"drain_timeout_s": 1}, tmp_path, ranks)
    assert run.process.stdout is not None
    run.process.stdout.readline()  # it has begun
    stopped = run.rank(hangs)
    stopped.send_signal(signal.SIGSTOP)
    try:
        # The ends of these waits are that of "in time".
        if hangs == 1:
            document = run.document(60)
            assert document.problem is not None
            assert "rank 1" in document.problem
            assert [part.rank for part in document.job.parts] == [0] if document.job else False
        else:
            run.process.wait(60)
            run.process.communicate()
            assert run.process.returncode != 0
    finally:
        if stopped.is_running():
            stopped.kill()
