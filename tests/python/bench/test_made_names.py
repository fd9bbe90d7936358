"""Trees of a metadata workload: what was created, renamed and removed is known; nothing else is removed."""

from pathlib import Path

import pytest
from marked import mark

from penstock.bench.data.folder import BenchFolder
from penstock.bench.data.trees import TreeSet
from penstock.model.bench.made import Made, NamesHandled
from penstock.model.errors import PenstockError

TREES = {"prefix": "metadata-", "count": 2, "depth": 1, "branch": 2, "threads": 2, "items": 3}


def handled(operation: str, done: int, more: int = 0, tree: int = 0, thread: int = 0) -> NamesHandled:
    return NamesHandled(operation=operation, tree=tree, thread=thread, done=done, attempted=done + more)


def make(folder: BenchFolder, *names: str) -> list[Path]:
    """As a run creates them. Directories end with a slash."""
    paths = [folder.path / name for name in names]
    for name, path in zip(names, paths, strict=True):
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text("text")
        mark(path)
    return paths


def test_items_that_a_thread_did_not_come_to_are_the_users(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(TreeSet.model_validate(TREES))
    top = "metadata-000000000"
    make(folder, f"{top}/", f"{top}/t0/", f"{top}/t1/", f"{top}/f000-000000002", f"{top}/t0/f000-000000000")
    mine = make(folder, f"{top}/t0/f000-000000001", f"{top}/f001-000000000", f"{top}/e000-000000000/")
    # 3 items in the top, then one in t0; the fifth is in the way.
    folder.note_made("metadata-", Made(names=[handled("tree_create", 3), handled("file_create", 4)]))
    with pytest.raises(PenstockError, match=r"and 2 more does not belong to this run"):
        folder.remove()
    left = {path for path in folder.path.rglob("*") if path.name != "penstock-bench.json"}
    assert left == {*mine, folder.path / top, folder.path / top / "t0"}
    folder.close()


def test_a_directory_that_was_in_the_way_stays_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(TreeSet.model_validate(TREES))
    make(folder, "metadata-000000000/", "metadata-000000001/")
    (mine,) = make(folder, "metadata-000000001/f000-000000000")
    folder.note_made("metadata-", Made(names=[handled("tree_create", 1)]))
    with pytest.raises(PenstockError, match="metadata-000000001 does not belong to this run"):
        folder.remove()
    assert mine.exists()
    assert not (folder.path / "metadata-000000000").exists()
    folder.close()


@pytest.mark.parametrize(
    ("operations", "own"),
    [
        ([("file_create", 2, 0)], {"f0", "f1"}),
        ([("file_create", 2, 1)], {"f0", "f1", "f2"}),
        ([("file_create", 3, 0), ("file_rename", 1, 0)], {"e0", "f1", "f2"}),
        ([("file_create", 3, 0), ("file_rename", 1, 1)], {"e0", "e1", "f1", "f2"}),
        ([("file_create", 3, 0), ("file_rename", 3, 0), ("file_remove", 2, 1)], {"e2"}),
        ([("file_create", 3, 0), ("file_remove", 1, 1)], {"f1", "f2"}),
    ],
)
def test_names_after_each_operation(operations: list[tuple[str, int, int]], own: set[str]) -> None:
    made = Made(names=[handled(name, done, more) for name, done, more in operations])
    tree = made.trees()[0]
    letters = {"f": "f", "e": "g"}
    found = {
        f"{shown}{number}"
        for shown, letter in letters.items()
        for number in range(4)
        if tree.has_item(letter, 0, number)
    }
    assert found == own
    assert not tree.has_item("f", 1, 0)


def test_a_tree_that_was_removed_in_part_has_its_first_directories() -> None:
    tree = Made(names=[handled("tree_create", 3), handled("tree_remove", 2, 1)]).trees()[0]
    assert tree.folders == 1
