"""`penstock check` of files without checksums, and the words with which it counts frames."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import h5py
import numpy
import pytest
from conftest import Record, Recorded
from rich.console import Console

from penstock.files.inspect import FileInfo
from penstock.files.missing import ranges_of
from penstock.model.errors import ExitCode
from penstock.model.events import CheckReport, RecoverReport
from penstock.model.findings import NO_CHECKSUMS, NO_ROWS, NOT_COMPARED, TRUNCATED, UNFINISHED, Finding
from penstock.report.tables import (
    completion,
    conclusion,
    info_page,
    missing_line,
    recovery_lines,
    report_line,
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def copy(record: Record, run: Run, tmp_path: Path) -> Path:
    """What h5repack makes of a recording: the same tree without segments."""
    recorder = record(tmp_path)
    arguments = ("--to", f"tcp://{recorder.address}", "--frames", "5", "--series-name", "one")
    sent = run(
        "simulate",
        "custom",
        "--rows",
        "64",
        "--columns",
        "96",
        "--type",
        "uint16",
        "--rate",
        "max",
        *arguments,
    )
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    recorder.stop()
    with h5py.File(tmp_path / "one.h5") as source, h5py.File(tmp_path / "copy.h5", "w") as target:
        source.copy("entry", target)
        for name, value in source.attrs.items():
            target.attrs[name] = value
    return tmp_path / "copy.h5"


@pytest.mark.slow
def test_copy_of_a_recording_is_not_called_damaged(copy: Path, run: Run) -> None:
    checked = run("check", str(copy))
    assert checked.returncode == ExitCode.CANNOT_TELL, checked.stdout + checked.stderr
    assert checked.stdout.endswith("no checksums: cannot verify the frames\n")
    assert "error" not in checked.stdout
    assert "Penstock did not write it, or another program copied it" in checked.stdout


def test_pixels_of_a_copy_are_compared(copy: Path, run: Run) -> None:
    checked = run("check", str(copy), "--against", "recorded")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "5 frames compared pixel by pixel, 0 different" in checked.stdout
    assert checked.stdout.endswith("no checksums: the compared pixels are equal\n")


def test_text_file_is_not_called_damaged(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "text.h5"
    path.write_text("no frames here\n" * 1000)
    checked = run("check", str(path))
    assert checked.returncode == ExitCode.FAILED
    assert checked.stdout.endswith("not an HDF5 file\n")
    assert "damage" not in checked.stdout


def test_check_info_and_recover_count_missing_frames_alike() -> None:
    report = CheckReport(
        event="report",
        ok=True,
        frames=300,
        missing=270,
        lost_frames=250,
        damaged_frames=3,
        segments=1,
        chunks=30,
    )
    words = "270 missing (3 damaged, 250 lost)"
    assert words in report_line(report.model_copy(update={"frame_chunks": 30}))
    recovered = RecoverReport(
        event="report", way="repair", frames=300, missing=270, lost_frames=250, damaged_frames=3
    )
    assert words in "".join(recovery_lines(recovered))
    info = FileInfo(file="a", bytes=1, ledger={"missing": 270}, reasons={"damaged": 3, "lost": 250})
    console = Console(width=200)
    with console.capture() as shown:
        console.print(info_page(info))
    assert words in shown.get()


def test_missing_reference_is_not_damage(recorded: Recorded, run: Run) -> None:
    path = recorded(numpy.ones((3, 16, 16), "uint16"))
    checked = run("check", str(path), "--against", "recorded", "--json")
    report = CheckReport.model_validate_json(checked.stdout)
    assert checked.returncode == ExitCode.USAGE
    assert report.ok
    finding = next(each for each in report.findings if each.what == NOT_COMPARED)
    assert "--against PATH" in finding.remedy
    assert str(conclusion(report)) == "no damage found; pixels not compared"


def test_file_without_an_entry_is_not_a_nexus_file(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["x"] = numpy.arange(10)
    checked = run("check", str(path))
    assert checked.returncode == ExitCode.FAILED
    assert checked.stdout.endswith("not a NeXus file\n")


def test_truncated_file_is_not_called_foreign(copy: Path, run: Run) -> None:
    with copy.open("r+b") as file:
        file.truncate(copy.stat().st_size - 100)
    checked = run("check", str(copy))
    assert checked.returncode == ExitCode.FAILED
    assert NO_CHECKSUMS not in checked.stdout
    assert "missing" not in checked.stdout.splitlines()[-2]


def test_missing_frames_are_listed_as_ranges() -> None:
    states = numpy.array([1, 0, 1, 0, 0, 2, 1, 3], "uint8")
    ranges = ranges_of(states)
    assert list(map(str, ranges)) == ["1", "3-4", "5 (damaged)", "7 (dropped)"]
    report = CheckReport(event="report", ok=True, frames=8, missing=7, missing_ranges=ranges)
    assert missing_line(report) == (
        "missing: 1, 3-4, 5 (damaged), 7 (dropped), and 2 frames more (--json lists them)"
    )
    assert ranges_of(states[:0]) == []


def test_missing_frames_of_a_file_are_in_the_report(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    small = ("custom", "--rows", "16", "--columns", "16", "--frames", "9", "--rate", "max")
    run("simulate", *small, "--to", f"tcp://{recorder.address}", "--fault", "drop@3,5-7")
    file = recorder.series_end().file
    report = CheckReport.model_validate_json(run("check", file, "--json").stdout)
    assert [(each.first, each.last) for each in report.missing_ranges] == [(3, 3), (5, 7)]


def test_missing_times_are_in_the_verdict() -> None:
    finding = Finding(level="warning", what=NO_ROWS, actual="14 frames: the recorder was killed")
    report = CheckReport(event="report", ok=True, frames=20, segments=1, findings=[finding])
    assert str(conclusion(report)) == "no damage, but times of 14 frames are missing"


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (None, ""),
        ("warning", "if this is the only copy: penstock recover a.h5"),
        ("error", "if this is the only copy: penstock recover a.h5 --salvage"),
    ],
)
def test_last_line_for_a_cut_unfinished_file_is_the_remedy_of_its_finding(
    level: Literal["warning", "error"] | None, words: str
) -> None:
    left = Finding(level="warning", what=UNFINISHED)
    cut = [Finding(level=level, what=TRUNCATED, remedy="copy it again from its source")] if level else []
    report = CheckReport(event="report", ok=True, unfinished=True, recoverable=28, findings=[left, *cut])
    said = completion(report, Path("a.h5"), lambda: True)
    assert ("--resume" in said) == (level is None)
    assert level is None or (said.startswith("copy the file that is cut off again") and said.endswith(words))
