"""Fixtures for tests that run the real programs. They fail where a program is not built; they never skip."""

import contextlib
import gc
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy
import psutil
import pytest
from detector_stream import send
from network_ends import Listen, OtherEnd
from ports import free_ports
from warm_command import close, penstock, popen

from penstock.model.events import Event, Listening, RecorderSeriesEnd, parse_event
from penstock.programs.locate import find_program

PROGRAMS = ("penstock-recorder", "penstock-detector", "penstock-check", "penstock-load")


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    """The native programs. A PenstockError (a failure) tells how to build what is absent."""
    return {name: find_program(name) for name in PROGRAMS}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests see neither the caller's token nor a terminal's width and colours, nor the user's catalogue."""
    monkeypatch.setenv("PENSTOCK_CATALOGUE", str(tmp_path_factory.getbasetemp() / "catalogue.sqlite"))
    for name in ("PENSTOCK_TOKEN", "PENSTOCK_DATA", "CI", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory; in that of the run, which removes it even if the test is killed."""
    where = os.environ.get("PENSTOCK_TEST_MEMORY", "/dev/shm")
    with tempfile.TemporaryDirectory(dir=where, prefix="penstock-test-") as folder:
        yield Path(folder)


os.environ["COLUMNS"] = "160"  # the width of helps is decided when commands are loaded
EVENT_S = 150  # that no event of a test takes, on a busy machine either


class RecordCommand:
    """`penstock record --json` as a process; events are read as they come."""

    def __init__(self, arguments: list[str]) -> None:
        self.process = popen("record", "--json", *arguments)
        self.events: list[Event] = []
        self.address = ""

    def until(self, kind: type[Event]) -> Event:
        """The next event of a kind; an AssertionError with the log when the command ends before, or when
        none comes in time: the command is killed then."""
        assert self.process.stdout is not None
        deadline = threading.Timer(EVENT_S, end_with_family, (self.process,))
        deadline.start()
        try:
            for line in self.process.stdout:
                event = parse_event("penstock-recorder", line)
                self.events.append(event)
                if isinstance(event, kind):
                    return event
        finally:
            deadline.cancel()
        assert self.process.stderr is not None
        came = [type(event).__name__ for event in self.events]
        raise AssertionError(
            f"the recorder exited before {kind.__name__} after {came}: {self.process.stderr.read()}"
        )

    def listening(self) -> str:
        event = self.until(Listening)
        assert isinstance(event, Listening)
        self.address = event.sources[0].removeprefix("tcp://")
        return self.address

    def series_end(self) -> RecorderSeriesEnd:
        event = self.until(RecorderSeriesEnd)
        assert isinstance(event, RecorderSeriesEnd)
        return event

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; the exit code and what was logged."""
        self.process.send_signal(number)
        told, log = self.process.communicate(timeout=60)
        self.events += [parse_event("penstock-recorder", line) for line in told.splitlines()]
        return self.process.returncode, log


def end_with_family(process: "subprocess.Popen[str]") -> None:
    """Kills what still runs; the ranks of a job, which have process groups of their own, too."""
    if process.poll() is None:
        for member in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


Record = Callable[..., RecordCommand]


@pytest.fixture
def record(programs: dict[str, Path]) -> Iterator[Record]:
    """Starts recorders on ports of the system's choice; ends those that the test left running."""
    started: list[RecordCommand] = []

    def start(folder: Path, *arguments: str, listen: bool = True) -> RecordCommand:
        where = ["--listen", "127.0.0.1:0"] if listen else []
        command = RecordCommand(["--folder", str(folder), "--pool", "256MiB", *where, *arguments])
        started.append(command)
        if listen:
            command.listening()
        return command

    yield start
    for command in started:
        end_with_family(command.process)
        command.process.communicate(timeout=30)


@pytest.fixture
def listen() -> Iterator[Listen]:
    started: list[OtherEnd] = []

    def start(*options: str, before: tuple[str, ...] = (), token: str = "") -> OtherEnd:
        started.append(OtherEnd(*options, before=before, token=token))
        return started[-1]

    yield start
    for other in started:
        end_with_family(other.process)
        other.process.communicate(timeout=30)


@pytest.fixture
def free_port() -> int:
    """A port of loopback that nobody uses, and no other test gets."""
    return free_ports(1)


def pytest_sessionfinish() -> None:
    close()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    return penstock


@pytest.fixture
def nothing_stays_open() -> Iterator[None]:
    """Fails a test that leaves an HDF5 object open."""
    yield
    if _open_objects():  # a collection takes a third of a second, as all that is loaded is searched
        gc.collect()
    assert _open_objects() == 0, "HDF5 objects stay open"


def _open_objects() -> int:
    kinds = h5py.h5f.OBJ_FILE | h5py.h5f.OBJ_DATASET | h5py.h5f.OBJ_GROUP | h5py.h5f.OBJ_ATTR
    return int(h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, kinds))


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have empty plots, for tests of texts: drawing takes nine tenths of the time of a page."""

    def empty(_: object, file: BinaryIO, **_options: object) -> None:
        file.write(b'<svg xmlns="http://www.w3.org/2000/svg"/>')

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", empty)


Recorded = Callable[..., Path]


@pytest.fixture
def recorded(record: Record, tmp_path: Path, free_port: int) -> Recorded:
    """Records a series that a detector sends over ZeroMQ; see detector_stream.send."""

    def make(frames: numpy.ndarray, *options: str, **sent: Any) -> Path:
        endpoint = f"tcp://127.0.0.1:{free_port}"
        recorder = record(tmp_path, "--zmq", endpoint, "--series", "1", *options, listen=False)
        send(endpoint, frames, **sent)
        end = recorder.series_end()
        assert end.problem is None
        recorder.process.wait(60)
        return tmp_path / "s.h5"

    return make
