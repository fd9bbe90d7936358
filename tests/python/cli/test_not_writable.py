"""Places that cannot be written are wrong usage; the reason is the permissions or the file system."""

import os
from pathlib import Path

import h5py
import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.files.writable import require_writable, write_problem
from penstock.model.errors import UsageError


class ReadOnly:
    """What statvfs() returns, of a file system that is mounted read-only."""

    f_flag = os.ST_RDONLY

    def __init__(self, path: str | Path) -> None:
        self._real = STATVFS(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


STATVFS = os.statvfs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an HDF5 file, to which nothing can be written."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["value"] = 7
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda _, mode, **_more: not mode & os.W_OK)
    return tmp_path


LINES = {
    "record --folder .": 2,
    "recover x.h5": 2,
    "join new.h5 x.h5": 2,
    "bench stream .": 2,
    "doctor .": 1,
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.usefixtures("folder")
def test_commands_report_a_read_only_file_system(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.statvfs", ReadOnly)
    ended = CliRunner().invoke(application, line.split(), catch_exceptions=False)
    words = " ".join(ended.output.split())
    assert (ended.exit_code, "is read-only" in words) == (LINES[line], True), words
    assert "mount the file system as writable" in words
    assert "chmod" not in words


def test_owner_is_told_to_change_permissions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no permission to write into") as refused:
        require_writable(folder)
    assert f"chmod u+rwx {folder}" in refused.value.remedy
    file = write_problem(folder / "x.h5")
    assert file is not None
    assert f"chmod u+rw {folder / 'x.h5'}" in file[1]
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    others = write_problem(folder)
    assert others is not None
    assert others[1].startswith("ask its owner")


def test_url_is_no_folder_to_record_into() -> None:
    line = ["record", "--folder", "root://somebody:secret@host//data"]
    ended = CliRunner().invoke(application, line, catch_exceptions=False)
    words = " ".join(ended.output.split())
    assert (ended.exit_code, "a URL (root://) is not possible here" in words) == (2, True), words
    assert "secret" not in words


def test_folder_that_is_a_file_is_not_to_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = ["record", "--folder", str(tmp_path / "file")]
    ended = CliRunner().invoke(application, line, catch_exceptions=False)
    words = " ".join(ended.output.split())
    assert (ended.exit_code, "is a file, not a folder" in words) == (2, True), words
    assert "create it" not in words


def test_dry_run_rejects_the_same_joint_file_as_the_start(tmp_path: Path) -> None:
    line = ["record", "--folder", str(tmp_path), "--join", "../x.h5", "--dry-run"]
    ended = CliRunner().invoke(application, line, catch_exceptions=False)
    words = " ".join(ended.output.split())
    assert (ended.exit_code, "is not a plain file name" in words) == (2, True), words
