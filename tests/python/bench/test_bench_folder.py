"""The folder of a run: what is not its own is never touched, whatever lies there."""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from marked import clean, mark
from pydantic import ValidationError

from penstock.bench.data.folder import (
    MANIFEST,
    NAME,
    BenchFolder,
    FileSet,
    RoomAdvice,
    find_left,
    find_removable,
    require_room,
    require_writable,
    room_for_frames,
)
from penstock.bench.run.run import Access, frames_request
from penstock.model.bench.load import Layout
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError, UsageError
from penstock.model.units import parse_size

PREFIX = "frame-"


def make_files(folder: BenchFolder, count: int) -> list[Path]:
    folder.announce(FileSet(prefix=PREFIX, count=count))
    paths = [folder.path / f"{PREFIX}{number:09}.bin" for number in range(count)]
    for path in paths:
        as_a_run(path)
    return paths


def as_a_run(path: Path) -> None:
    """Creates a file with the permissions with which runs create theirs."""
    path.write_bytes(b"x")
    mark(path)


def test_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with BenchFolder.make(tmp_path) as folder:
        make_files(folder, 5)
        assert folder.path.parent == tmp_path
        assert folder.path.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_space_of_a_large_file_is_free_though_it_is_open_elsewhere(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path) as folder:
        (path,) = make_files(folder, 1)
        os.truncate(path, 1 << 20)
        kept_open = path.open("rb")
    with kept_open:
        assert os.fstat(kept_open.fileno()).st_size == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_users_file_that_is_mounted_on_a_large_one_keeps_its_bytes(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(bytes(1 << 20))
    mark(mine)
    with BenchFolder.make(tmp_path) as folder:
        (path,) = make_files(folder, 1)
        subprocess.run(["mount", "--bind", str(mine), str(path)], check=True)
        try:
            with pytest.raises(PenstockError, match="cannot be removed"):
                folder.clear()
        finally:
            subprocess.run(["umount", str(path)], check=True)
    assert mine.stat().st_size == 1 << 20


def test_many_files_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path) as folder:
        paths = make_files(folder, 3000)
        paths[2500].unlink()
        paths[2500].symlink_to(tmp_path / "mine")
        folder.clear()
        assert {path.name for path in folder.path.iterdir()} == {MANIFEST, paths[2500].name}
        paths[2500].unlink()


def test_files_of_a_finished_step_make_room_for_the_next(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path) as folder:
        paths = make_files(folder, 5)
        foreign = folder.path / "frame-mine.bin"
        foreign.write_text("kept")
        folder.clear()
        assert not any(path.exists() for path in paths)
        assert {path.name for path in folder.path.iterdir()} == {MANIFEST, foreign.name}
        make_files(folder, 3)
        foreign.unlink()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PenstockError, match="cannot be removed"):
        folder.clear()


def test_is_removed_when_the_run_fails_and_stays_when_asked(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), BenchFolder.make(tmp_path):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with BenchFolder.make(tmp_path, keep=True) as folder:
        make_files(folder, 2)
    assert len(list(folder.path.iterdir())) == 3


def test_a_name_that_no_document_can_hold_is_refused(tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(b"\xff")
    target.mkdir()
    with pytest.raises(UsageError, match="not UTF-8"):
        BenchFolder.make(target)
    assert list(target.iterdir()) == []


def test_files_are_listed_before_they_are_made(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(FileSet(prefix="a-", count=3))
    listed = json.loads((folder.path / MANIFEST).read_text())
    assert listed["sets"] == [{"prefix": "a-", "count": 3, "suffix": "bin", "parts": False}]


def test_source_files_of_a_series_belong_to_it() -> None:
    series = FileSet(prefix="rehearsal-", count=10, suffix="h5", parts=True)
    for name in ("rehearsal-000000001.h5", "rehearsal-000000001_member_0.h5"):
        assert series.has(name)
        assert not series.model_copy(update={"suffix": "bin"}).has(name)
    assert not series.has("rehearsal-000000010.h5")
    assert not series.has("rehearsal-000000001_mine.h5")
    assert not series.model_copy(update={"parts": False}).has("rehearsal-000000001_member_0.h5")


# Names around those of the set, and anything else that a file system takes.
NAMES: SearchStrategy[str] = st.one_of(
    st.from_regex(r"\Aframe-[0-9]{8,10}\.bin\Z"),
    st.integers(0, 30).map(lambda number: f"frame-{number:09}.bin"),
    st.integers(0, 30).map(lambda number: f"frame-{number:09}.bin.partial"),
    st.integers(0, 30).map(lambda number: f".frame-{number:09}.bin.new"),
    st.sampled_from(
        [
            "frame-.bin",
            "frame-000000000.bin.partial.partial",
            "frame-000000000.tif",
            "frame-000000000.bin.bak",
            "frame-000000000.bin.new",
            ".frame-000000000.bin.partial.new",
            "..frame-000000000.bin.new.new",
            "Frame-000000000.bin",
            "frame-٠٠٠٠٠٠٠٠٠.bin",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40),
).filter(lambda name: name not in (".", "..", MANIFEST, MANIFEST + ".new") and len(os.fsencode(name)) < 200)


@given(names=st.sets(NAMES, max_size=12), count=st.integers(0, 20), kinds=st.randoms())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_listed_regular_files_are_removed(
    names: set[str], count: int, kinds: object, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    (outside / "precious").write_text("kept")
    folder = BenchFolder.make(outside)
    folder.announce(FileSet(prefix=PREFIX, count=count))
    foreign = set()
    for name in names:
        path = folder.path / name
        kind = kinds.choice(["file", "the user's", "folder", "link", "link to folder"])  # type: ignore[attr-defined]
        if kind == "file":
            as_a_run(path)
        elif kind == "the user's":
            path.write_text("text")
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(outside / "precious" if kind == "link" else outside)
        numbered = [f"{PREFIX}{number:09}.bin" for number in range(count)]
        listed = any(name in (each, f"{each}.partial", f".{each}.new") for each in numbered)
        if kind != "file" or not listed:
            foreign.add(name)
    if foreign:
        with pytest.raises(PenstockError, match="does not belong to this run"):
            folder.remove()
        assert {path.name for path in folder.path.iterdir()} == {*foreign, MANIFEST}
    else:
        folder.remove()
        assert not folder.path.exists()
    folder.close()
    assert (outside / "precious").read_text() == "kept"


def test_a_folder_that_was_left_is_found_and_cleared(tmp_path: Path) -> None:
    left = BenchFolder.make(tmp_path)
    make_files(left, 4)
    left.close()
    (tmp_path / "other").mkdir()
    assert list(find_left(tmp_path)) == [left.path]
    BenchFolder.left_at(left.path).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_a_run_works_in_is_left_alone(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path) as working:
        with pytest.raises(UsageError, match="a run"):
            BenchFolder.left_at(working.path)
        assert working.path.exists()
    kept = BenchFolder.make(tmp_path, keep=True)
    with kept:
        pass
    BenchFolder.left_at(kept.path).remove()
    assert list(tmp_path.iterdir()) == []


def test_folders_that_only_look_like_one_are_refused(tmp_path: Path) -> None:
    left = BenchFolder.make(tmp_path)
    make_files(left, 2)
    left.close()
    copied = tmp_path / f"{NAME}copy"
    shutil.copytree(left.path, copied)
    renamed = tmp_path / "data"
    bare = tmp_path / f"{NAME}bare"
    bare.mkdir()
    garbled = tmp_path / f"{NAME}garbled"
    garbled.mkdir()
    (garbled / MANIFEST).write_text('{"format": "penstock-bench 1", "sets": [{"prefix": "../", "count": 9}]}')
    linked = tmp_path / f"{NAME}linked"
    linked.symlink_to(left.path)
    for path in (copied, bare, garbled, linked):
        with pytest.raises(UsageError, match=path.name):
            BenchFolder.left_at(path)
    left.path.rename(renamed)
    with pytest.raises(UsageError, match="data"):
        BenchFolder.left_at(renamed)
    assert len(list(renamed.iterdir())) == 3
    assert len(list(copied.iterdir())) == 3


@pytest.mark.parametrize("prefix", ["", "-", "../", "a/b-", "A-", ".a-", "a", "a-" * 30])
def test_sets_have_plain_names(prefix: str) -> None:
    with pytest.raises(ValidationError):
        FileSet(prefix=prefix, count=1)


def test_a_folder_that_was_replaced_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    folder.announce(FileSet(prefix=PREFIX, count=3))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / f"{PREFIX}000000001.bin").write_text("somebody's")
    shutil.rmtree(folder.path)
    folder.path.symlink_to(victim)
    with pytest.raises(PenstockError, match="cannot be removed"):
        folder.remove()
    assert (victim / f"{PREFIX}000000001.bin").read_text() == "somebody's"


def test_another_folder_in_its_place_is_left_alone(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    make_files(folder, 2)
    moved = folder.path.rename(tmp_path / "moved")
    folder.path.mkdir()
    foreign = folder.path / f"{PREFIX}000000001.bin"
    foreign.write_text("somebody's")
    for remove in (folder.clear, folder.remove):
        with pytest.raises(PenstockError, match="not the directory that was created"):
            remove()
    assert foreign.read_text() == "somebody's"
    assert len(list(moved.iterdir())) == 3
    folder.close()


@pytest.mark.parametrize("problem", ["the name is taken", "no space left on the storage", None])
def test_only_what_the_run_created_is_removed(problem: str | None, tmp_path: Path) -> None:
    """Whatever ended the run: the files with its names that it did not create are the user's."""
    folder = BenchFolder.make(tmp_path)
    paths = make_files(folder, 6)
    partial = folder.path / f"{PREFIX}000000005.bin.partial"
    as_a_run(partial)
    report(folder, problem, Made(files=[(0, 2), (4, 4)], partial=[(5, 5)]))
    for remove in (folder.clear, folder.remove):
        with contextlib.suppress(PenstockError):
            remove()
        assert [path.exists() for path in paths] == [False, False, False, True, False, True]
        assert not partial.exists()
    folder.close()
    with pytest.raises(PenstockError, match=rf"{PREFIX}000000003.bin and 1 more does not belong to this run"):
        clean(folder.path)
    as_a_run(paths[0])  # the user's copy of one, since the run has removed its own
    for number in (0, 3, 5):
        with pytest.raises(PenstockError, match="does not belong to this run"):
            clean(folder.path)
        paths[number].rename(tmp_path / f"mine {number}")
    clean(folder.path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine 0", "mine 3", "mine 5"}


def report(folder: BenchFolder, problem: str | None, made: Made) -> None:
    """As a run does at its end; `problem` is what it says to people."""
    del problem
    folder.note_made(PREFIX, made)


def test_what_several_runs_created_under_the_same_names_is_removed(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    paths = make_files(folder, 4)
    folder.note_made(PREFIX, Made(files=[(1, 1)]))
    folder.announce(FileSet(prefix=PREFIX, count=4))
    folder.note_made(PREFIX, Made(files=[(0, 0)]))
    folder.clear()
    assert [path.exists() for path in paths] == [False, False, True, True]
    as_a_run(paths[0])  # the user's copy of one, since the run removed its own
    folder.clear()
    assert paths[0].exists()
    folder.close()


def test_a_run_that_has_not_reported_is_known_by_its_permissions(tmp_path: Path) -> None:
    for made in (None, Made(files=[(0, 0)])):
        folder = BenchFolder.make(tmp_path)
        paths = make_files(folder, 3)
        folder.note_made(PREFIX, made)
        folder.announce(FileSet(prefix=PREFIX, count=3))  # the next run, which is killed
        folder.close()
        clean(folder.path)
        assert not any(path.exists() for path in paths)


def test_what_a_kept_directory_contains_of_the_run_is_still_known(tmp_path: Path) -> None:
    with BenchFolder.make(tmp_path, keep=True) as folder:
        paths = make_files(folder, 2)
        folder.note_made(PREFIX, Made(files=[(1, 1)]))
    with pytest.raises(PenstockError, match=f"{paths[0].name} does not belong to this run"):
        clean(folder.path)
    assert [path.exists() for path in paths] == [True, False]


def test_a_directory_in_which_an_older_version_met_a_users_file_stays(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    (path,) = make_files(folder, 1)
    manifest = json.loads((folder.path / MANIFEST).read_text()) | {"in_the_way": path.name}
    del manifest["created"]
    (folder.path / MANIFEST).write_text(json.dumps(manifest))
    folder.close()
    with pytest.raises(PenstockError, match="existed before the run"):
        clean(folder.path)
    assert path.exists()


@given(numbers=st.sets(st.integers(0, 60), max_size=40), asked=st.integers(0, 60), partial=st.booleans())
@settings(max_examples=50, deadline=None)
def test_ranges_contain_the_numbers_that_were_reported(numbers: set[int], asked: int, partial: bool) -> None:
    ranges = [(number, number) for number in sorted(numbers)]
    made = Made(partial=ranges) if partial else Made(files=ranges)
    assert made.has_file(asked, partial) == (asked in numbers)
    assert not made.has_file(asked, not partial)
    assert made.with_more(Made(files=[(61, 70)])).has_file(65, partial=False)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_manifest_that_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}strange"
    path.mkdir()
    if kind == "pipe":
        os.mkfifo(path / MANIFEST)
    elif kind == "folder":
        (path / MANIFEST).mkdir()
    else:
        (path / MANIFEST).symlink_to("/dev/zero")
    folders, (doubt,) = find_removable(tmp_path, kept=True)
    assert folders == []
    assert "cannot be read" in str(doubt)


def test_targets_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        BenchFolder.make(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a directory"):
        BenchFolder.make(tmp_path / "file")
    with pytest.raises(UsageError, match="in /proc: "):
        BenchFolder.make(Path("/proc"))
    require_writable(tmp_path)
    with pytest.raises(UsageError, match="/proc/sys/kernel"):
        require_writable(Path("/proc/sys/kernel"))


def test_a_link_in_the_folders_place_leads_no_manifest_elsewhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / MANIFEST).write_text("somebody's")
    target = tmp_path / "target"
    target.mkdir()
    folder = BenchFolder.make(target)
    moved = folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(victim)
    folder.announce(FileSet(prefix=PREFIX, count=2))
    assert (victim / MANIFEST).read_text() == "somebody's"
    assert PREFIX in (moved / MANIFEST).read_text()
    # Nor does one at the name that the manifest has until it is whole.
    (moved / (MANIFEST + ".new")).symlink_to(victim / MANIFEST)
    folder.announce(FileSet(prefix="other-", count=2))
    assert (victim / MANIFEST).read_text() == "somebody's"
    assert "other-" in (moved / MANIFEST).read_text()


def test_what_was_killed_while_it_began_can_be_cleaned(tmp_path: Path) -> None:
    empty, begun, foreign = (tmp_path / f"{NAME}{name}" for name in ("a", "b", "c"))
    for path in (empty, begun, foreign):
        path.mkdir()
    (begun / (MANIFEST + ".new")).write_text("{")
    (foreign / "mine.txt").write_text("kept")
    folders, doubts = find_removable(tmp_path, kept=False)
    assert folders == []
    assert f"{empty} is empty" in str(doubts[0])
    assert "cannot be read" in str(doubts[2])
    for path in (empty, begun, foreign):
        os.utime(path, (0, 0))
    folders, doubts = find_removable(tmp_path, kept=False)
    assert [folder.path for folder in folders] == [empty, begun]
    assert len(doubts) == 1
    for folder in folders:
        folder.remove()
        folder.close()
    assert [path.name for path in tmp_path.iterdir()] == [foreign.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_ends_while_it_begins_leaves_nothing(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("penstock.bench.data.folder.os.rename", interrupted)
    with pytest.raises((KeyboardInterrupt, PenstockError)):
        BenchFolder.make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_storage_that_goes_on_after_it_was_given_up_leaves_a_marked_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = BenchFolder.make(tmp_path)
    late = make_files(folder, 1)[0]
    real = Path.rmdir

    def rmdir(path: Path) -> None:
        as_a_run(late)
        real(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    with pytest.raises(PenstockError, match="not empty"):
        folder.remove()
    folder.close()
    monkeypatch.undo()
    (left,), doubts = find_removable(tmp_path, kept=False)
    assert not doubts
    left.remove()
    assert list(tmp_path.iterdir()) == []


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("penstock.bench.data.folder.fcntl.flock", flock)


def test_without_locks_the_process_says_that_a_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_locks(monkeypatch)
    folder = BenchFolder.make(tmp_path)
    manifest = json.loads((folder.path / MANIFEST).read_text())
    for pid, doubtful in ((os.getppid(), True), (2**22 - 3, False)):
        (folder.path / MANIFEST).write_text(json.dumps(manifest | {"pid": pid}))
        folders, doubts = find_removable(tmp_path, kept=False)
        assert (len(folders), len(doubts)) == ((0, 1) if doubtful else (1, 0))
        assert not doubtful or f"process {pid} " in str(doubts[0])


def test_a_run_of_another_machine_is_left_alone_until_it_is_quiet(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    path = make_files(folder, 1)[0]
    manifest = json.loads((folder.path / MANIFEST).read_text()) | {"host": "another.example.org"}
    (folder.path / MANIFEST).write_text(json.dumps(manifest))
    folder.close()
    _, (doubt,) = find_removable(tmp_path, kept=False)
    assert "another.example.org may be working" in str(doubt)
    for each in (path, folder.path / MANIFEST, folder.path):
        os.utime(each, (0, 0))
    (left,), _ = find_removable(tmp_path, kept=False)
    left.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_another_run_will_still_write_is_not_free(tmp_path: Path) -> None:
    room = os.statvfs(tmp_path)
    free = room.f_bavail * room.f_frsize - room.f_blocks * room.f_frsize // 50
    with BenchFolder.make(tmp_path, needed_bytes=free * 2 // 3) as first:
        with pytest.raises(PenstockError, match="other runs that work in"):
            BenchFolder.make(tmp_path, needed_bytes=free * 2 // 3)
        assert [path.name for path in tmp_path.iterdir()] == [first.path.name]
        with BenchFolder.make(tmp_path, needed_bytes=free // 6):
            pass
    BenchFolder.make(tmp_path, needed_bytes=free * 2 // 3).close()
    # That one was left, and works no more.
    BenchFolder.make(tmp_path, needed_bytes=free * 2 // 3).close()


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = BenchFolder.make(tmp_path)
    shutil.rmtree(folder.path)
    with pytest.raises(PenstockError, match="cannot be removed"):
        folder.remove()


def test_room_is_asked_for_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    free = real.f_bavail * real.f_frsize
    with pytest.raises(PenstockError, match="must stay free"):
        require_room(tmp_path, free, 1)
    require_room(tmp_path, 1 << 20, 1)

    class Pseudo:
        f_bavail, f_blocks, f_frsize, f_files, f_favail = 0, 0, 4096, 0, 0

    monkeypatch.setattr("penstock.bench.data.folder.os.statvfs", lambda _: Pseudo)
    with pytest.raises(UsageError, match="stores 0 bytes"):
        require_room(tmp_path, 1, 1)

    class Few:
        f_bavail, f_blocks, f_frsize, f_files, f_favail = real.f_bavail, 0, real.f_frsize, 5000, 2000

    monkeypatch.setattr("penstock.bench.data.folder.os.statvfs", lambda _: Few)
    require_room(tmp_path, 0, 1000)
    with pytest.raises(PenstockError, match=r"1001 files.*inodes for.* 2000"):
        require_room(tmp_path, 0, 1001)
    for there, free_files in ((0, 0), (1, -1)):  # file systems that make them as they need them; CephFS
        Few.f_files, Few.f_favail = there, free_files
        require_room(tmp_path, 0, 10**9)
        assert room_for_frames(tmp_path, 1, file_a_frame=True) == real.f_bavail * real.f_frsize


@pytest.mark.parametrize(
    ("free_blocks", "least", "remedy"),
    [
        (2_000_000, 0, "use --space 7.2GB, or choose another target"),
        (
            2_000_000,
            9 * 10**9,
            "free space on /x, or choose another target: --space must be at least 9 GB",
        ),
        # 7.28 GB may be used, which is less than that once it is rounded down.
        (
            2_000_000,
            7_204_498_000,
            "free space on /x, or choose another target: --space must be at least 7.21 GB",
        ),
        (0, 0, "free space on /x, or choose another target"),
        (30_000, 0, "free space on /x, or choose another target"),  # the reserve
    ],
)
def test_error_for_too_little_space_names_a_value_that_fits(
    free_blocks: int, least: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = 2_000_000
    room = os.statvfs_result((4096, 4096, blocks, free_blocks, free_blocks, 0, 0, 0, 0, 255))
    monkeypatch.setattr("penstock.bench.data.folder.os.statvfs", lambda _: room)
    advice = RoomAdvice("the run", fewer_bytes="", space="--space", space_min=least)
    with pytest.raises(PenstockError) as caught:
        require_room(Path("/x"), 20 * 10**9, 1, advice)
    assert caught.value.remedy == remedy
    if remedy.startswith("use"):
        require_room(Path("/x"), parse_size("7.2GB"), 1, advice)


def test_error_for_too_little_space_names_the_amount_that_fits_beside_a_background_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = os.statvfs_result((4096, 4096, 10**6, 10**6, 10**6, 0, 0, 0, 0, 255))
    monkeypatch.setattr("penstock.bench.data.folder.os.statvfs", lambda _: room)
    with pytest.raises(PenstockError) as caught:
        require_room(Path("/x"), 5 * 10**9, 1, others_bytes=10**9)
    assert caught.value.remedy == "reduce --seconds (at most 3 GB fits), or choose another target"


@given(
    blocks=st.integers(0, 10**7),
    stored=st.integers(1, 10**7),
    inodes=st.integers(1000, 10**5),
    files=st.booleans(),
)
def test_the_frames_that_have_room_fit_and_one_more_does_not(
    blocks: int, stored: int, inodes: int, files: bool
) -> None:
    room = os.statvfs_result((4096, 4096, 10**7, blocks, blocks, 10**6, inodes, inodes, 0, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.bench.data.folder.os.statvfs", lambda _: room)
        frames = room_for_frames(Path(), stored, files)
        if frames:
            require_room(Path(), frames * stored, frames if files else 0)
        with pytest.raises(PenstockError):
            require_room(Path(), (frames + 1) * stored, frames + 1 if files else 0)


@pytest.mark.parametrize(
    ("layout", "direct", "frame_bytes", "each"),
    [
        ("file_a_frame", True, 1, 4096),
        ("file_a_frame", False, 1, 4096),
        ("file_a_frame", False, 4097, 8192),
        ("file_a_writer", True, 1, 4096),
        ("file_a_writer", False, 1, 1),
    ],
)
def test_small_frames_need_room_for_whole_blocks(
    layout: Layout, direct: bool, frame_bytes: int, each: int
) -> None:
    request = frames_request(frame_bytes, 100.0, 10.0, 1, 1.0, None, layout, Access(direct=direct))
    assert request.bytes == 1000 * each
