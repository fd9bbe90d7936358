"""`penstock check` of files without checksums, and the words with which it counts frames."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from conftest import Record
from rich.console import Console

from penstock.files.inspect import FileInfo
from penstock.model.errors import ExitCode
from penstock.model.events import CheckReport
from penstock.report.tables import info_page, report_line

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


def test_check_and_info_count_missing_frames_alike() -> None:
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
    info = FileInfo(file="a", bytes=1, ledger={"missing": 270}, reasons={"damaged": 3, "lost": 250})
    console = Console(width=200)
    with console.capture() as shown:
        console.print(info_page(info))
    assert words in shown.get()
