"""Files are read in a child process: what HDF5 does to it becomes an error of the command."""

import os
import signal
import threading
import time
from pathlib import Path

import h5py
import pytest

from penstock.files.aside import aside, notify, require_file, run_aside
from penstock.files.hdf5 import open_for_reading
from penstock.model.errors import PenstockError, UsageError

PATH = Path("series.h5")


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def test_result_and_progress_come_from_the_child() -> None:
    told: list[tuple[object, ...]] = []

    def work() -> int:
        notify(1, 2)
        return os.getpid()

    assert run_aside(PATH, work, lambda *values: told.append(values)) != os.getpid()
    assert told == [(1, 2)]


def test_error_of_the_reader_keeps_its_kind_and_remedy() -> None:
    def work() -> None:
        raise UsageError("wrong file", "name another")

    with pytest.raises(UsageError, match="wrong file") as caught:
        run_aside(PATH, work)
    assert caught.value.remedy == "name another"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_crash_becomes_an_error_that_names_the_file(number: signal.Signals) -> None:
    with pytest.raises(PenstockError, match=rf"series\.h5.*{number.name}"):
        run_aside(PATH, lambda: os.kill(os.getpid(), number))


def test_any_exception_becomes_an_error_that_names_the_file() -> None:
    def work() -> None:
        raise RuntimeError("Unable to synchronously open object")

    with pytest.raises(PenstockError, match=r"series\.h5.*Unable to synchronously"):
        run_aside(PATH, work)


def test_absurd_memory_becomes_an_error() -> None:
    with pytest.raises(PenstockError, match=r"series\.h5.*memory"):
        run_aside(PATH, lambda: len(bytearray(1 << 62)))


def test_silence_ends_the_child() -> None:
    before = _children()
    with pytest.raises(PenstockError, match=r"series\.h5.*reported nothing for 0\.5 s"):
        run_aside(PATH, lambda: time.sleep(600), silence_s=0.5)
    assert _children() == before


def test_interrupt_ends_the_child() -> None:
    def work() -> None:
        notify("it began")
        time.sleep(600)

    before = _children()
    former = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell may have started us without it
    try:
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run_aside(PATH, work, lambda _: timer.start(), silence_s=100)
    finally:
        signal.signal(signal.SIGINT, former)
    assert _children() == before


def test_no_file_is_opened_outside_a_child(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file["value"] = 7

    @aside
    def value(path: Path) -> int:
        with open_for_reading(path) as file:
            return int(file["value"][()])

    assert value(path) == 7
    with pytest.raises(RuntimeError, match="outside run_aside"), open_for_reading(path):
        pass


def test_unreadable_file_is_a_matter_of_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    path.touch()
    monkeypatch.setattr("os.access", lambda *_, **_more: False)
    with pytest.raises(UsageError, match="no permission to read"):
        require_file(path)
