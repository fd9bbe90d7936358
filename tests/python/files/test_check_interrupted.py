"""A check that is interrupted reports how far it came and what it found until then."""

import signal
import threading
from pathlib import Path

import h5py
import pytest
from warm_command import popen

from penstock.model.errors import ExitCode
from penstock.model.events import CheckReport, Reached
from penstock.model.findings import Finding
from penstock.programs import follow as followed
from penstock.programs.check import check_plan
from penstock.programs.follow import follow
from penstock.report.tables import conclusion

EXTENT = 1 << 20


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """Sparse: 1 TiB that takes no space, and no check reads to its end within a test."""
    path = tmp_path / "long.h5"
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((EXTENT, 1024, 1024))
        h5py.h5d.create(file.id, b"frames", h5py.h5t.STD_U8LE, space, properties)
    return path


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        pytest.param(signal.SIGTERM, ExitCode.TERMINATED, marks=pytest.mark.slow),
    ],
)
def test_interrupted_check_of_a_fine_file_reports_no_damage(
    long_file: Path, number: signal.Signals, code: ExitCode
) -> None:
    with popen("check", str(long_file)) as process:
        try:
            assert process.stderr is not None
            log = ""
            while "verifying" not in log:
                read = process.stderr.read(1)
                assert read, log
                log += read
            rest = threading.Thread(target=process.stderr.read)
            rest.start()
            process.send_signal(number)
            assert process.stdout is not None
            said = process.stdout.read()
            rest.join()
            assert process.wait(60) == code
        finally:
            process.kill()
    assert "interrupted (verifying chunks" in said
    assert "no damage found until then" in said
    assert "0 missing" not in said, "frames are counted at the end"
    assert "damage found" not in said.replace("no damage found", "")


def test_damage_that_was_found_before_the_interrupt_is_reported() -> None:
    found = Finding(level="error", what="a chunk's checksum is wrong")
    reached = Reached(what="verifying chunks", done=1, total=4)
    report = CheckReport(event="report", time=0, ok=False, complete=False, findings=[found], reached=reached)
    assert conclusion(report).plain == "interrupted (verifying chunks, 25 %): DAMAGE found until then"


def test_interrupt_while_the_structure_is_read_keeps_the_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file["value"] = 7

    def interrupted(_path: Path, _unfinished: bool) -> list[Finding]:
        raise KeyboardInterrupt("SIGTERM")

    monkeypatch.setattr(followed, "check_structure", interrupted)
    report = follow(check_plan(path, None), lambda _: CheckReport(event="report", time=0, ok=True, chunks=5))
    assert (report.complete, report.ok, report.chunks) == (False, False, 5)
    assert report.stopped_by == "SIGTERM"
    assert "interrupted (checking the structure): no damage" in conclusion(report).plain
