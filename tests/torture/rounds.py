"""What every round of torture needs: a recorder with settings drawn from a seed, whose ranks can be killed
one by one, and the judgement of the file that it leaves."""

import contextlib
import os
import queue
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import h5py
import hdf5plugin  # noqa: F401
import numpy
import psutil
import pytest
from ports import free_ports
from sender import Frames

from penstock.model.configuration import Configuration
from penstock.model.errors import PenstockError
from penstock.model.events import Event, Listening, RecorderProgress, RecoverReport
from penstock.programs.check import check, check_plan
from penstock.programs.locate import find_program
from penstock.programs.process import Message, Program, wait_for
from penstock.programs.ranks import Mpi, Ranks
from penstock.programs.recover import recover

WAIT_S = 120
RECEIVED = 1  # as /entry/penstock/frame_state has it
FILL = 65535


def seed() -> int:
    """Of the first round; the others follow it. TORTURE_SEED plays a round again."""
    return int(os.environ.get("TORTURE_SEED", "20261121"))


def rounds(short: int) -> int:
    """How many: TORTURE_ROUNDS, or a few."""
    return int(os.environ.get("TORTURE_ROUNDS") or short)


def is_long() -> bool:
    return bool(os.environ.get("TORTURE_ROUNDS"))


def built(mpi: Mpi) -> Mpi:
    """The MPI, or Open MPI if the programs for it are not built."""
    try:
        find_program(f"penstock-recorder-{mpi}")
    except PenstockError:
        return "openmpi"
    return mpi


long_run = pytest.mark.skipif(not is_long(), reason="part of make torture")


def say(line: str) -> None:
    """One line a round, where somebody looks on."""
    if is_long():
        print(line, flush=True)


@dataclass(frozen=True)
class Setup:
    """How a recorder is run."""

    ranks: int = 1
    mpi: Mpi = "openmpi"
    transport: Literal["tcp", "zmq"] = "tcp"
    store: dict[str, Any] = field(default_factory=dict)
    encoding: str = "bslz4"
    options: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def draw(dice: random.Random, ranks: int | None = None) -> "Setup":
        store = {
            "durability": dice.choice(["none", "interval", "segment"]),
            "direct": dice.choice([True, False]),
            "segment_bytes": dice.choice([64, 256, 1024]) << 10,
            "extent_bytes": dice.choice([1, 4, 128]) << 20,
            "flush_interval_ms": dice.choice([10, 100, 1000]),
            "sync_interval_ms": dice.choice([10, 100, 1000]),
            "write_threads": dice.choice([1, 2, 4]),
        }
        ranks = ranks or dice.choice([1, 1, 2, 2, 3, 4])
        return Setup(
            ranks=ranks,
            mpi=built(dice.choice(["openmpi", "mpich"])),
            transport=dice.choice(["tcp", "tcp", "tcp", "zmq"]),
            store=store,
            encoding=dice.choice(["bslz4", "bslz4", "none", "zstd"]),
            options={"chunk": {"frames": dice.choice([1, 4, 16])}} if ranks == 1 else {},
        )

    def __str__(self) -> str:
        job = f"{self.ranks} ranks of {self.mpi}" if self.ranks > 1 else "one process"
        direct = "direct" if self.store.get("direct", True) else "buffered"
        chunk = f"{self.options.get('chunk', {}).get('frames', 1)} frames a chunk"
        durability = self.store.get("durability", "none")
        return f"{job}, {self.transport}, {direct}, {durability}, {self.encoding}, {chunk}"

    def configuration(self, folder: Path, port: int) -> Configuration:
        tcp = {"kind": "tcp", "listen": f"127.0.0.1:{port}"}
        zmq = {"kind": "zmq", "endpoint": f"tcp://127.0.0.1:{port}"}
        return Configuration.model_validate(
            {
                "folder": folder,
                "sources": [tcp if self.transport == "tcp" else zmq],
                "codec": {"encoding": self.encoding},
                "threads": 2 if self.ranks == 1 else 1,
                "pool_bytes": "256MiB",  # large frames that gather need so much
                "end_timeout_s": 1,
                "store": self.store,
                **self.options,
            }
        )


class Recorder:
    """penstock-recorder, alone or as the ranks of a job."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.setup, self.folder = setup, folder
        first = free_ports(setup.ranks)
        self.ports = list(range(first, first + setup.ranks))
        plan = setup.configuration(folder, first).plan({})
        ranks = Ranks(setup.ranks, setup.mpi) if setup.ranks > 1 else None
        self.program = Program("penstock-recorder", plan, ranks=ranks)
        for _ in self.ports:
            self.until(Listening)
        self.pids = self._find_ranks()

    def until(self, kind: type[Event], wait_s: float = WAIT_S) -> Event:
        event = wait_for(self.program.inbox, kind, wait_s)
        assert event is not None, f"the recorder exited before {kind.__name__}: {list(self.program.log)}"
        return event

    def _find_ranks(self) -> list[int]:
        if self.setup.ranks == 1:
            return [self.program.pid]
        found: dict[int, int] = {}
        for process in psutil.Process(self.program.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "penstock-recorder-" not in Path(process.exe()).name:
                    continue
                environment = process.environ()
                rank = environment.get("OMPI_COMM_WORLD_RANK") or environment["PMI_RANK"]
                found[int(rank)] = process.pid
        assert sorted(found) == list(range(self.setup.ranks)), found
        return [found[rank] for rank in sorted(found)]

    def kill(self, victims: list[int]) -> None:
        for rank in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[rank], signal.SIGKILL)

    def wait(self, wait_s: float = WAIT_S) -> int:
        """The exit code, when every rank is gone."""
        code = self.program.wait(wait_s)
        deadline = time.monotonic() + wait_s
        while any(_lives(pid) for pid in self.pids):
            assert time.monotonic() < deadline, "a rank outlives its job"
            time.sleep(0.01)
        return code

    def written(self) -> int:
        """What the recorder said last of how many frames are in the file."""
        frames = 0
        with contextlib.suppress(queue.Empty):
            while True:
                message: Message = self.program.inbox.get_nowait()
                if isinstance(message.event, RecorderProgress):
                    frames = message.event.frames_written
        return frames

    def close(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.program.stop(10)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def recording(folder: Path, setup: Setup) -> Iterator[Recorder]:
    recorder = Recorder(folder, setup)
    try:
        yield recorder
    finally:
        recorder.close()


@dataclass(frozen=True)
class Verdict:
    """What a file holds."""

    received: set[int]  # frames that are marked as there
    recovery: RecoverReport

    def __str__(self) -> str:
        return f"{len(self.received)} found, {self.recovery.way}, {self.recovery.recovered} from segments"


def recovered(file: Path) -> RecoverReport:
    """`penstock recover`, with a PenstockError where it fails."""
    with within(WAIT_S):
        return recover(file, False, lambda _: None)


def assert_clean(file: Path) -> None:
    assert errors_of(file) == []


def errors_of(file: Path) -> list[str]:
    """What `penstock check` calls damage."""
    with within(WAIT_S):
        report = check(check_plan(file, None), lambda _: None)
    wrong = [found for found in report.findings if found.level == "error"]
    assert report.ok == (not wrong), wrong
    return [found.what for found in wrong]


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """A TimeoutError when the body takes longer. For the main thread."""

    def ring(_number: int, _frame: object) -> None:
        raise TimeoutError(f"not over within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    started = time.monotonic()
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, seconds)  # of the whole test
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - started), 0.1))


def assert_right(file: Path, frames: Frames) -> set[int]:
    """Every frame that plain h5py reads is the one that was sent, or none; those that are marked as there."""
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        states = content["/entry/penstock/frame_state"][...]
        received = set(map(int, numpy.flatnonzero(states == RECEIVED)))
        for number in sorted(received | _numbers_in_index(data)):
            image = data[number]
            if number in received or not (image == FILL).all():
                assert numpy.array_equal(image, frames[number]), f"frame {number} is false"
        if "/entry/metadata/motor" in content:
            assert_values(content, sorted(received))
    return received


def assert_values(content: h5py.File, received: list[int]) -> None:
    """Whatever frame is there has brought what came with it."""
    motor = content["/entry/metadata/motor"][...]
    exposure = content["/entry/penstock/timing/exposure_real"][...]
    without = [n for n in received if motor[n] != n * 0.5 or exposure[n] != n + 1]
    assert not without, f"{len(without)} of {len(received)} frames lack their values: {without[:10]}"


def _numbers_in_index(data: h5py.Dataset) -> set[int]:
    numbers: set[int] = set()
    if data.chunks is None:
        return numbers  # it is of other files, or without an index

    def note(chunk: h5py.h5d.StoreInfo) -> None:
        first = int(chunk.chunk_offset[0])
        numbers.update(range(first, min(first + data.chunks[0], len(data))))

    data.id.chunk_iter(note)
    return numbers


def judge(file: Path, frames: Frames, acknowledged: set[int], at_least: int = 0) -> Verdict:
    """Recovers the file: no acknowledged frame is lost, none is false, `penstock check` finds no error."""
    report = recovered(file)
    received = assert_right(file, frames)
    lost = sorted(acknowledged - received)
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged frames are lost: {lost[:10]}"
    assert len(received) >= at_least, f"{at_least} frames were said to be written, {len(received)} are there"
    assert_clean(file)
    return Verdict(received, report)
