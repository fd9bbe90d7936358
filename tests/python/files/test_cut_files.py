"""Files whose end is cut off, as after an interrupted `cp`: `recover` and `check` call no frame complete that
cannot be read."""

import io
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from damage import COLUMNS, FRAMES, ROWS, Specimen, make_pair
from rich.console import Console
from rounds import seed

from penstock.files.inspect import add_recoverable, inspect_file
from penstock.model.errors import PenstockError
from penstock.model.events import CheckReport, RecoverReport
from penstock.model.findings import is_clean
from penstock.programs.check import check, check_plan, count_recoverable
from penstock.programs.recover import recover
from penstock.report.tables import info_page

LAYOUTS = ("plain", "blocks", "slots", "split")
SEGMENT = b"\x89PENSEG\n"
NOTHING_LEFT = ("description", "no segments of frames")  # then nothing is changed


@dataclass(frozen=True)
class Cut:
    """A copy of a specimen, one part of which is cut to `size` of `full` bytes."""

    file: Path
    part: Path
    size: int
    full: int  # that the part's superblock promises

    def __str__(self) -> str:
        return f"{self.part.name} of {self.file.parent.name} cut to {self.size} of {self.full} bytes"


def end_of_file(path: Path) -> int:
    """That HDF5's superblock says."""
    return int.from_bytes(path.read_bytes()[28:36], "little")


def marked_open(path: Path) -> bool:
    return path.read_bytes()[11] != 0


def cut(specimen: Specimen, folder: Path, dice: random.Random) -> Cut:
    copy = folder / "cut"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(specimen.folder, copy)
    part = copy / dice.choice(specimen.parts)
    used = numpy.flatnonzero(numpy.fromfile(part, numpy.uint8))
    full = end_of_file(part)
    with part.open("r+b") as stream:
        stream.truncate(int(dice.choice(used)) + dice.choice([0, 1]))
    return Cut(copy / specimen.file, part, part.stat().st_size, full)


def frames_of(file: Path) -> numpy.ndarray:
    with h5py.File(file) as content:
        return numpy.asarray(content["/entry/data/data"][...])


def readable(file: Path, frames: numpy.ndarray) -> int:
    """How many frames are marked as received, each of which must be the one that was sent."""
    with h5py.File(file) as content:
        data, states = content["/entry/data/data"], content["/entry/penstock/frame_state"][...]
        received = [int(number) for number in numpy.flatnonzero(states == 1)]
        for number in received:
            assert numpy.array_equal(data[number], frames[number]), f"frame {number} is not what was sent"
        return len(received)


Outcome = RecoverReport | PenstockError


def try_recover(file: Path, salvage: bool) -> Outcome:
    """A dry run says before what is done."""
    promised, done = (attempt(file, salvage, dry_run) for dry_run in (True, False))
    assert told(promised) == told(done)
    return done


def attempt(file: Path, salvage: bool, dry_run: bool) -> Outcome:
    try:
        return recover(file, dry_run, lambda _: None, salvage=salvage)
    except PenstockError as error:
        return error


def told(outcome: Outcome) -> tuple[object, ...]:
    if isinstance(outcome, PenstockError):
        return ("an error",)  # HDF5's words differ
    return (outcome.way, outcome.frames, outcome.missing, outcome.lost_frames)


def try_check(file: Path) -> CheckReport:
    return check(check_plan(file, None), lambda _: None)


def judge(each: Cut, frames: numpy.ndarray, report: RecoverReport) -> None:
    """What was said of a recovered file is so, and is said again."""
    there = report.frames - report.missing
    assert there == readable(each.file, frames), report
    checked = try_check(each.file)
    assert checked.frames - checked.missing <= there, checked
    again = recover(each.file, False, lambda _: None)
    assert (again.way, again.frames - again.missing) == ("nothing", there), again


def judge_finished(each: Cut, frames: numpy.ndarray) -> None:
    is_short = each.size < each.full
    checked = try_check(each.file)
    if is_short:
        assert not checked.ok
        assert "penstock recover` seals" not in str(checked.findings)
    before = each.part.read_bytes()
    refused = try_recover(each.file, salvage=False)
    if not is_short:
        assert isinstance(refused, RecoverReport)
        return judge(each, frames, refused)
    if each.part == each.file:
        assert isinstance(refused, PenstockError), refused
        assert f"it has {each.size} of {each.full} bytes" in refused.message
        assert "penstock recover --salvage" in refused.message
    else:
        assert isinstance(refused, RecoverReport)
        assert not is_clean(refused.findings)
    assert each.part.read_bytes() == before
    report = try_recover(each.file, salvage=True)
    if isinstance(report, PenstockError):
        assert any(words in report.message for words in NOTHING_LEFT), report
        return None
    assert not is_clean(report.findings)
    return judge(each, frames, report)


def judge_unfinished(each: Cut, frames: numpy.ndarray) -> None:
    """Its recorder did not say what is in it: all that is whole is recovered, and a loss is reported."""
    before = try_check(each.file)
    report = try_recover(each.file, salvage=False)
    if isinstance(report, PenstockError):
        assert any(words in report.message for words in NOTHING_LEFT), report
        return
    judge(each, frames, report)
    if any("chunk lies beyond the end" in found.what for found in before.findings):
        assert not is_clean(report.findings), before
    if before.recoverable is not None:
        assert before.recoverable <= report.frames - report.missing


def run(folder: Path, layout: str, lengths: int) -> None:
    unfinished, finished = make_pair(folder / "specimens", layout)
    frames = frames_of(finished.folder / finished.file)
    assert len(frames) == FRAMES
    judges: tuple[tuple[Specimen, Callable[[Cut, numpy.ndarray], None]], ...] = (
        (finished, judge_finished),
        (unfinished, judge_unfinished),
    )
    for number in range(lengths):
        for specimen, judged in judges:
            each = cut(specimen, folder, random.Random(f"{seed()} {layout} {number}"))
            try:
                judged(each, frames)
            except BaseException:
                print(f"TORTURE_SEED={seed()}, {specimen.name}, cut {number}: {each}")
                raise


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_frame_of_a_cut_file_is_called_complete_and_cannot_be_read(layout: str, tmp_path: Path) -> None:
    run(tmp_path, layout, 1)


def test_check_promises_no_frame_of_a_finished_source_file_that_is_cut(tmp_path: Path) -> None:
    """`recover` leaves that file as it is, since the user may have a whole one."""
    series, _ = make_pair(tmp_path / "specimens", "split")
    file = series.folder / series.file
    source = next(
        path for path in map(series.folder.joinpath, series.parts) if path != file and not marked_open(path)
    )
    with source.open("r+b") as stream:
        stream.truncate(end_of_file(source) - 1)
    before = try_check(file)
    counted = count_recoverable(file)
    assert counted is not None
    info = inspect_file(file)
    add_recoverable(info, counted)
    page = io.StringIO()
    Console(file=page, width=200).print(info_page(info), crop=False)
    shown = page.getvalue()
    assert f"{before.recoverable} of {FRAMES} frames can be recovered" in shown
    assert f"what to do: copy {source.name} again from the source, then penstock recover" in shown
    assert "if this is the only copy, add --salvage" in shown
    report = recover(file, False, lambda _: None)
    assert counted.recoverable == before.recoverable == report.frames - report.missing
    remedy = next(each.remedy for each in report.findings if each.where == source.name)
    assert remedy.startswith("readers fail on its frames: copy it again")
    salvaged = recover(file, False, lambda _: None, salvage=True)
    assert salvaged.frames - salvaged.missing > before.recoverable


@pytest.mark.parametrize("cut_bytes", [1, 200, 300, 700])
def test_check_and_recover_agree_on_a_slot_within_which_an_unfinished_file_ends(
    cut_bytes: int, tmp_path: Path
) -> None:
    """The space of a slot is not given before it is written. So a kill leaves such a file too, if what is
    missing begins where a sector does."""
    unfinished, _ = make_pair(tmp_path / "specimens", "slots")
    file = unfinished.folder / unfinished.file
    end = int(numpy.flatnonzero(numpy.fromfile(file, numpy.uint8))[-1]) + 1
    os.truncate(file, end - cut_bytes)
    last_sector_bytes = ROWS * COLUMNS * 2 % 512
    damaged = any(found.level == "error" for found in try_check(file).findings)
    report = try_recover(file, salvage=False)
    assert isinstance(report, RecoverReport)
    assert is_clean(report.findings) == (not damaged)
    if cut_bytes < last_sector_bytes:
        assert damaged  # as it is if the index names the frame already


def leave_open(file: Path) -> None:
    """As a killed recorder does."""
    words = "import h5py, os, sys; f = h5py.File(sys.argv[1], 'r+', libver='v110')"
    words += "; f.swmr_mode = True; os._exit(0)"
    subprocess.run([sys.executable, "-c", words, str(file)], check=True)
    assert marked_open(file)


def test_check_and_recover_agree_on_an_open_file_whose_index_names_what_is_cut_off(
    tmp_path: Path,
) -> None:
    """It ends within the header of a segment, so that only the index of a source file tells of the frame."""
    _, finished = make_pair(tmp_path / "specimens", "split")
    file = finished.folder / finished.file
    source = max(file.parent.glob("s_member_*.h5"))
    for each in (file, source):
        leave_open(each)
    with h5py.File(source, swmr=True, locking=False) as content:
        chunks = content["/entry/data/data"].id
        last = max(chunks.get_chunk_info(k).byte_offset for k in range(chunks.get_num_chunks()))
    os.truncate(source, source.read_bytes().rfind(SEGMENT, 0, last) + 4)
    named = "chunk lies beyond the end"
    assert any(found.level == "error" and named in found.what for found in try_check(file).findings)
    report = try_recover(file, salvage=False)
    assert isinstance(report, RecoverReport)
    assert any(found.level == "error" and "its index names" in found.what for found in report.findings)
    assert report.frames - report.missing < FRAMES


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut_file_of_many_lengths(layout: str, tmp_path: Path) -> None:
    run(tmp_path, layout, 100)


def test_info_reports_a_seal_that_is_cut(tmp_path: Path) -> None:
    _, finished = make_pair(tmp_path / "specimens", "plain")
    file = finished.folder / finished.file
    full, end = file.stat().st_size, end_of_file(file)

    def said() -> str:
        return " ".join(inspect_file(file).missing)

    assert "seal" not in said()
    os.truncate(file, full - 1)
    assert "seal: cut off or corrupt" in said()
    os.truncate(file, end)
    assert "seal" not in said(), "HDF5 cuts the seal off when another program changes the file"
