"""What shows that a run created a file: its permissions."""

import os
from pathlib import Path

import pytest
from marked import clean

from penstock.bench.data.folder import BenchFolder, FileSet
from penstock.bench.data.marks import DIRECTORY_MODE, FILE_MODE, create_marked
from penstock.bench.data.trees import TreeSet
from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError

NAMES = [f"frame-{number:09}.bin" for number in range(3)]


def left_folder(target: Path, mode: int, made: Made | None = None) -> Path:
    """The directory of a killed run, with three files."""
    folder = BenchFolder.make(target)
    folder.announce(FileSet(prefix="frame-", count=3))
    for name in NAMES:
        (folder.path / name).write_text("text")
        (folder.path / name).chmod(mode)
    folder.note_made("frame-", made)
    folder.keep()
    folder.close()
    return folder.path


def test_a_marked_file_has_permissions_that_no_umask_of_a_user_gives(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    before = os.umask(0o027)
    os.close(create_marked("marked", folder))
    os.close(folder)
    assert os.umask(before) == 0o027
    assert (tmp_path / "marked").stat().st_mode & 0o7777 == FILE_MODE == 0o604
    assert DIRECTORY_MODE == 0o715


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664, 0o640, 0o755, 0o444])
def test_users_files_with_the_names_of_a_killed_run_stay(mode: int, tmp_path: Path) -> None:
    path = left_folder(tmp_path, mode)
    (path / NAMES[1]).chmod(FILE_MODE)
    with pytest.raises(PenstockError, match=f"{NAMES[0]} and 1 more does not belong to this run"):
        clean(path)
    assert [(path / name).exists() for name in NAMES] == [True, False, True]


def test_users_directories_and_items_in_a_tree_of_a_killed_run_stay(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    trees = {"prefix": "metadata-", "count": 2, "depth": 1, "branch": 2, "threads": 1, "items": 3}
    folder.announce(TreeSet.model_validate(trees))
    tops = [folder.path / f"metadata-00000000{number}" for number in range(2)]
    own = [tops[0], tops[0] / "t0", tops[0] / "d000-000000000"]
    mine = [tops[0] / "t1", tops[0] / "d000-000000001", tops[1]]
    for each in (*own, *mine):
        each.mkdir()
        each.chmod(DIRECTORY_MODE if each in own else 0o755)
    (tops[1] / "f000-000000000").write_text("the user's")
    folder.close()
    with pytest.raises(PenstockError, match=r"metadata-000000000/d000-000000001 and 2 more does not belong"):
        clean(folder.path)
    assert [each.exists() for each in (*own, *mine)] == [True, False, False, True, True, True]
    assert (tops[1] / "f000-000000000").exists()


def test_where_no_permissions_are_kept_only_what_was_reported_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.bench.data.folder.is_marked", lambda _: False)
    unknown = left_folder(tmp_path, 0o777)
    with pytest.raises(
        PenstockError, match=f"whether the killed run created {NAMES[0]} and 2 more is not known"
    ):
        clean(unknown)
    assert all((unknown / name).exists() for name in NAMES)
    reported = left_folder(tmp_path, 0o777, Made(files=[(0, 1)]))
    with pytest.raises(PenstockError, match=f"{NAMES[2]} does not belong to this run"):
        clean(reported)
    with BenchFolder.make(tmp_path) as own:  # nobody else could put files into it while the run was under way
        own.announce(FileSet(prefix="frame-", count=1))
        (own.path / NAMES[0]).write_text("text")
    assert not own.path.exists()


def test_jobs_of_a_run_mark_their_files(tmp_path: Path) -> None:
    outcome = run_jobs([JobRequest("jobs_of_tests:makes_files", tmp_path, {"size": 1, "numbers": [0]})])
    assert not outcome.problem
    (made,) = tmp_path.iterdir()
    assert made.stat().st_mode & 0o7777 == FILE_MODE
