"""Files that a recorder was making when it was stopped: those without a frame are no damage."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import Record, Recorded
from damage import make_pair, make_unfinished, try_info
from mid_series import ended_in_mid_series
from warm_command import penstock

from penstock.files.inspect import add_recoverable, inspect_file
from penstock.model.errors import PenstockError
from penstock.model.findings import Finding, is_clean
from penstock.programs.check import check, check_plan, count_recoverable
from penstock.programs.recover import recover

HALF_MADE = "a file with frames was only begun"
NOT_THERE = "a file with a part of the frames is not there"
ANOTHER = "a file has the name of another one of its series"


@pytest.mark.parametrize("content", ["empty", "cut"])
def test_half_made_member_is_a_warning_and_the_others_are_recovered(tmp_path: Path, content: str) -> None:
    file = make_unfinished(tmp_path / "split", "split")
    members = len(list(file.parent.glob("s_member_*.h5")))
    half = file.with_name(f"s_member_{members}.h5")
    if content == "empty":
        half.write_bytes(b"")
    else:
        half.write_bytes(file.with_name("s_member_0.h5").read_bytes()[:100])
    report = check(check_plan(file, None), lambda _: None)
    assert HALF_MADE in [each.what for each in report.findings if each.level == "warning"]
    assert is_clean(report.findings), report.findings
    try_info(file)
    done = recover(file, False, lambda _: None)
    assert HALF_MADE in [each.what for each in done.findings if each.level == "warning"]
    assert is_clean(done.findings), done.findings
    assert done.frames - done.missing >= 4


def test_finished_file_with_the_name_of_a_replacement_is_kept(tmp_path: Path) -> None:
    """The first file of a series in several files has no frames itself."""
    file = make_pair(tmp_path / "split", "split")[1].folder / "s.h5"
    hidden = file.with_name(".t.h5.new")
    content = file.read_bytes()
    hidden.write_bytes(content)
    with pytest.raises(PenstockError):
        recover(file.with_name("t.h5"), False, ignore)
    assert hidden.read_bytes() == content


def test_member_that_lost_its_frames_is_damage(tmp_path: Path) -> None:
    file = make_unfinished(tmp_path / "split", "split")
    member = file.with_name("s_member_0.h5")
    content = bytearray(member.read_bytes())
    content[:4096] = bytes(4096)
    member.write_bytes(content)
    assert not is_clean(check(check_plan(file, None), lambda _: None).findings)


@pytest.fixture(params=["split 0", "split 1", "per_writer 0"])  # the states may not know of the last one yet
def lacking(request: pytest.FixtureRequest, record: Record, tmp_path: Path) -> tuple[Path, Path]:
    """An unfinished series, and its source file that was moved away."""
    layout, number = request.param.split()
    folder = tmp_path / layout
    if layout == "split":
        file = make_unfinished(folder, layout)
    else:
        folder.mkdir()
        # The columns are written once a second.
        fast = ("custom", "--rows", "8", "--columns", "8", "--frames", "100000", "--rate", "3000")
        file = ended_in_mid_series(record, folder, ("--files", layout), fast, frames=3500)
    name = f"{file.stem}_member_{number}.h5"
    file.with_name(name).rename(tmp_path / name)
    return file, tmp_path / name


def test_missing_source_file_of_an_unfinished_series_is_named(lacking: tuple[Path, Path]) -> None:
    file, moved = lacking
    report = check(check_plan(file, None), ignore)
    assert not_there(report.findings) == [moved.name]
    assert not is_clean(report.findings)
    info = inspect_file(file)
    add_recoverable(info, count_recoverable(file))
    assert info.members is not None
    assert info.members.missing == [moved.name]


def test_recovered_series_names_its_missing_source_file_until_it_is_back(lacking: tuple[Path, Path]) -> None:
    file, moved = lacking
    assert not_there(recover(file, False, ignore).findings) == [moved.name]
    for _ in range(2):
        with h5py.File(file) as content:
            assert moved.name in content["/entry/penstock/members"].asstr()[...]
        assert not_there(check(check_plan(file, None), ignore).findings) == [moved.name]
        members = inspect_file(file).members
        assert members is not None
        assert members.missing == [moved.name]
        assert not_there(recover(file, False, ignore).findings) == [moved.name]
    moved.rename(file.with_name(moved.name))
    assert is_clean(recover(file, False, ignore).findings)
    assert is_clean(check(check_plan(file, {"recorded": True}), ignore).findings)
    with h5py.File(file) as content:
        assert (content["/entry/penstock/frame_state"][:4] == 1).all()


def test_stray_file_with_the_name_of_a_late_source_file_makes_none_missing(tmp_path: Path) -> None:
    """It says in itself that it is another one."""
    file = make_unfinished(tmp_path / "split", "split")
    file.with_name("s_member_50.h5").write_bytes(file.with_name("s_member_0.h5").read_bytes())
    findings = check(check_plan(file, None), ignore).findings
    assert not_there(findings) == []
    [stray] = [each for each in findings if each.what == ANOTHER]
    assert (stray.level, stray.where, stray.expected) == ("warning", "s_member_50.h5", "s_member_0.h5")


def put_in_the_place_of_the_second(file: Path) -> None:
    file.with_name("s_member_1.h5").write_bytes(file.with_name("s_member_0.h5").read_bytes())


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_source_file_in_the_place_of_another_one_is_not_taken_for_it(
    tmp_path: Path, finished: bool, renamed: bool
) -> None:
    pair = make_pair(tmp_path / "split", "split")[finished]
    file = pair.folder / pair.file
    put_in_the_place_of_the_second(file)
    if renamed:
        file = file.rename(file.with_name("t.h5"))
    for report in (check(check_plan(file, None), ignore), recover(file, False, ignore)):
        [gone] = [each for each in report.findings if each.what == NOT_THERE]
        assert (gone.level, gone.where) == ("error", "s_member_1.h5")
        assert gone.actual == "one that says that it is s_member_0.h5"
        assert gone.remedy is not None
        assert "move it away" in gone.remedy
    if not finished:
        expect_no_frames_of_the_second(file)


def expect_no_frames_of_the_second(file: Path) -> None:
    """Frames 2 and 3; each source file has two."""
    with h5py.File(file) as content:
        frames, states = content["/entry/data/data"][:4], content["/entry/penstock/frame_state"][:4]
    assert (states[:2] == 1).all()
    assert (states[2:] != 1).all()
    assert frames[:2].any()
    assert (frames[2:] == frames[2, 0, 0]).all(), "the fill value alone"


def test_source_file_whose_description_is_lost_is_not_taken_for_another_one(tmp_path: Path) -> None:
    file = make_unfinished(tmp_path / "split", "split")
    put_in_the_place_of_the_second(file)
    member = file.with_name("s_member_1.h5")
    content = member.read_bytes()
    assert content.count(b'"datasets"') > 0
    member.write_bytes(content.replace(b'"datasets"', b'"dataset_"'))
    report = check(check_plan(file, None), ignore)
    [other] = [each for each in report.findings if each.what == ANOTHER]
    assert (other.level, other.where, other.actual) == ("error", "s_member_1.h5", "file 0 of s.h5")
    recovered = recover(file, False, ignore)
    [left] = [each for each in recovered.findings if each.what.endswith("cannot be recovered")]
    assert left.actual is not None
    assert "file 0 of s.h5, not file 1" in left.actual
    expect_no_frames_of_the_second(file)


def test_swapped_source_files_are_named_with_the_way_back(tmp_path: Path) -> None:
    file = make_unfinished(tmp_path / "split", "split")
    first, second = (file.with_name(f"s_member_{number}.h5") for number in (0, 1))
    aside = first.rename(tmp_path / "aside")
    second.rename(first)
    aside.rename(second)
    findings = check(check_plan(file, None), ignore).findings
    gone = [each for each in findings if each.what == NOT_THERE]
    assert [each.where for each in gone] == [first.name, second.name]
    assert {each.remedy for each in gone} == {"give each of them the name that it says"}


def test_unfinished_series_whose_first_file_was_renamed_misses_none(tmp_path: Path) -> None:
    file = make_unfinished(tmp_path / "split", "split")
    file = file.rename(file.with_name("t.h5"))
    assert not_there(check(check_plan(file, None), ignore).findings) == []
    assert is_clean(recover(file, False, ignore).findings)


def test_recovery_that_did_not_finish_to_rebuild_is_named_with_its_remedy(tmp_path: Path) -> None:
    """As a full storage leaves it: the superblock comes last."""
    file = make_unfinished(tmp_path / "plain", "plain")
    with file.open("r+b") as content:
        content.write(b"penstock recover is not finished".ljust(3 * 4096, b"\0"))  # also over the journal
    said = penstock("check", str(file))
    assert said.returncode == 0, said.stdout
    assert "warning the recovery is not finished" in said.stdout
    assert said.stdout.count("what to do: ") == 1
    assert "free space if its storage is full, then run `penstock recover` again" in said.stdout
    assert "UNFINISHED: 5 of 6 frames can be recovered" in said.stdout
    assert penstock("check", "--require-complete", str(file)).returncode == 1
    assert "the recovery is not finished" in penstock("info", str(file)).stderr
    done = recover(file, False, ignore)
    assert done.frames - done.missing == 5
    report = check(check_plan(file, None), ignore)
    assert (report.ok, report.unfinished) == (True, False)


def ignore(_event: object) -> None:
    pass


def not_there(findings: list[Finding]) -> list[str]:
    return [each.where for each in findings if each.what == NOT_THERE]


@pytest.mark.parametrize("percent", [60, 80, 95])
def test_truncated_source_file_of_a_finished_series_is_damage_and_not_half_made(
    tmp_path: Path, percent: int
) -> None:
    finished = make_pair(tmp_path / "split", "split")[1]
    member = finished.folder / "s_member_1.h5"
    with member.open("r+b") as stream:
        stream.truncate(member.stat().st_size * percent // 100)
    report = check(check_plan(finished.folder / finished.file, None), lambda _: None)
    said = {each.what: each.where for each in report.findings}
    assert HALF_MADE not in said
    assert said["the file is shorter than it says"] == str(member)


SHORTEN = """
import os, sys, h5py
file = h5py.File(sys.argv[1], "r+", libver="latest")
column = file["/entry/penstock/timing/written"]
column.resize((column.shape[0] - 3,))
file.flush()
if sys.argv[2] == "unfinished":
    file.swmr_mode = True
    os._exit(0)
file.close()
"""


@pytest.mark.parametrize("left", ["finished", "unfinished"])
def test_columns_of_different_lengths_are_damage_of_a_finished_file_alone(
    recorded: Recorded, tmp_path: Path, left: str
) -> None:
    """Rows of a killed recorder's ranks end at different frames."""
    file = recorded(np.ones((12, 30, 40), np.uint16))
    subprocess.run([sys.executable, "-c", SHORTEN, str(file), left], check=True)
    report = check(check_plan(file, None), lambda _: None)
    assert report.unfinished == (left == "unfinished")
    assert ("lengths disagree" in [each.what for each in report.findings]) == (left == "finished")
