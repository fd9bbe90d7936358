"""The check of files of links that Penstock makes: it follows them, and names what does not exist."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import nexus_series as sent
import numpy as np
import pytest
from collector import Collector
from conftest import Run

from penstock.client import Values
from penstock.files.export.export import write_export
from penstock.files.export.plan import plan_export
from penstock.files.join import JointFile
from penstock.files.links import JOINED

pytestmark = pytest.mark.usefixtures("nothing_stays_open")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sent.record_series(tmp_path_factory.mktemp("once"))


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    """Two series, `s.h5` and `t.h5`, and `both.h5` of them."""
    for name in ("s.h5", "t.h5"):
        shutil.copy(recorded, tmp_path / name)
    JointFile.open(tmp_path / "both.h5", add=False).add([tmp_path / "s.h5", tmp_path / "t.h5"])
    return tmp_path


def checked(run: Run, path: Path) -> tuple[int, dict[str, Any], list[str]]:
    """Exit code, the report, and its findings but for information, a line each."""
    done = run("check", str(path), "--json")
    report = json.loads(done.stdout)
    lines = [
        f"{each['what']}: {each['where']}: {each['actual']}"
        for each in report["findings"]
        if each["level"] != "info"
    ]
    return done.returncode, report, lines


def damage(path: Path) -> None:
    """The last chunk of the frames no longer has its checksum."""
    with h5py.File(path) as file:
        chunk = file["entry/data/data"].id.get_chunk_info(0)
    with path.open("r+b") as bytes_of:
        bytes_of.seek(chunk.byte_offset + chunk.size - 4)
        bytes_of.write(b"\xa5\x5a\xa5\x5a")


@pytest.mark.slow
def test_a_joint_file_is_as_whole_as_its_series(folder: Path, run: Run) -> None:
    one = checked(run, folder / "s.h5")[1]
    code, report, lines = checked(run, folder / "both.h5")
    assert (code, report["ok"], lines) == (0, True, [])
    assert one["frames"] > 0
    assert [report[key] for key in ("frames", "chunks", "segments")] == [
        2 * one[key] for key in ("frames", "chunks", "segments")
    ]
    assert "not written by Penstock" not in run("check", str(folder / "both.h5")).stdout
    compared = run("check", str(folder / "both.h5"), "--against", "recorded").stdout
    assert "not recorded from `penstock simulate`" in compared
    assert "t.h5: " in compared


def test_a_series_that_is_gone_is_named(folder: Path, run: Run) -> None:
    (folder / "t.h5").unlink()
    code, report, lines = checked(run, folder / "both.h5")
    assert (code, report["ok"]) == (1, False)
    assert lines == ["the target of a link cannot be checked: /entry_2: t.h5 does not exist"]
    assert report["frames"] == checked(run, folder / "s.h5")[1]["frames"]
    told = run("info", str(folder / "both.h5"))
    assert (told.returncode, "/entry_2: t.h5 does not exist" in told.stdout) == (0, True)


def test_damage_in_a_joint_series_is_named_with_its_file(folder: Path, run: Run) -> None:
    damage(folder / "t.h5")
    code, _, lines = checked(run, folder / "both.h5")
    assert code == 1
    assert any(line.split(": ")[1] == "t.h5" and "frame 0" in line for line in lines), lines
    assert not any("s.h5" in line for line in lines)


def test_an_entry_that_is_not_in_its_file_is_named(folder: Path, run: Run) -> None:
    with h5py.File(folder / "t.h5", "w") as other:
        other["else"] = np.zeros(3)
    code, _, lines = checked(run, folder / "both.h5")
    assert (code, lines) == (1, ["the target of a link is missing in its file: /entry_2: no such object"])
    assert "/entry_2: t.h5 has no /entry" in run("info", str(folder / "both.h5")).stdout


def test_what_is_no_hdf5_file_is_named(folder: Path, run: Run) -> None:
    (folder / "t.h5").write_bytes(b"\x00" * 10_000)
    code, _, lines = checked(run, folder / "both.h5")
    assert (code, [line.split(": ")[:2] for line in lines]) == (1, [["not an HDF5 file", "t.h5"]])


def test_joint_files_of_joint_files(folder: Path, run: Run) -> None:
    """A series that is shown twice counts once; what shows itself is named, and ends."""
    with h5py.File(folder / "all.h5", "w") as file:
        file.attrs[JOINED] = 2
        file["entry_1"] = h5py.ExternalLink("both.h5", "/entry_2")
        file["entry_2"] = h5py.ExternalLink("s.h5", "/entry")
    one = checked(run, folder / "s.h5")[1]["frames"]
    code, report, lines = checked(run, folder / "all.h5")
    assert (code, report["frames"], lines) == (0, 2 * one, [])
    with h5py.File(folder / "both.h5", "r+") as file:
        file["entry_3"] = h5py.ExternalLink("all.h5", "/entry_2")
    code, report, lines = checked(run, folder / "all.h5")
    assert (code, report["frames"]) == (1, 2 * one)
    assert lines == ["links form a loop: both.h5: /entry_3: /entry_2 of all.h5"]


def test_links_that_nobody_is_to_open(folder: Path, run: Run) -> None:
    """A pipe would wait for ever. Symbolic links count as what they lead to."""
    os.mkfifo(folder / "pipe.h5")
    (folder / "link.h5").symlink_to("s.h5")
    (folder / "nowhere.h5").symlink_to("gone.h5")
    targets = [
        "pipe.h5",
        str(folder / "s.h5"),
        "/dev/zero",
        "link.h5",
        "nowhere.h5",
        "../" * 40 + "etc",
        "x" * 999,
    ]
    with h5py.File(folder / "made.h5", "w") as file:
        file.attrs[JOINED] = len(targets)
        file.attrs["default"] = "entry_1"
        for number, target in enumerate(targets, 1):
            file[f"entry_{number}"] = h5py.ExternalLink(target, "/entry")
    code, report, lines = checked(run, folder / "made.h5")
    assert (code, report["frames"]) == (1, checked(run, folder / "s.h5")[1]["frames"])
    why = {line.split(": ")[1]: line for line in lines}
    ends = {
        "/entry_1": "not a regular file",
        "/entry_2": "an absolute path, which is not followed",
        "/entry_3": "an absolute path, which is not followed",
        "/entry_5": "does not exist",
        "/entry_6": "not a regular file",
        "/entry_7": "too long",
    }
    assert why.keys() == ends.keys()
    assert all(why[entry].endswith(f" {end}") for entry, end in ends.items()), why
    assert run("info", str(folder / "made.h5")).returncode == 0
    assert run("check", str(folder / "pipe.h5")).returncode == 2
    with h5py.File(folder / "foreign.h5", "w") as file:
        file["entry"] = h5py.ExternalLink("pipe.h5", "/entry")
    assert run("check", str(folder / "foreign.h5")).returncode == 1
    assert run("info", str(folder / "foreign.h5")).returncode == 0


def test_values_beside_a_series(folder: Path, run: Run) -> None:
    beside = attached(folder / "s.h5", run)
    one = checked(run, folder / "s.h5")[1]["frames"]
    code, report, lines = checked(run, beside)
    assert (code, report["frames"], lines) == (0, one, [])
    damage(folder / "s.h5")
    assert checked(run, beside)[0] == 1
    (folder / "s.h5").unlink()
    code, report, lines = checked(run, beside)
    assert (code, report["frames"]) == (1, 0)
    assert [line.split(": ")[1] for line in lines] == ["/entry/data", "/entry/recorded"]
    told = run("info", str(beside)).stdout
    assert "/entry/recorded: s.h5 does not exist" in told
    assert "not written by penstock" not in told


def attached(series: Path, run: Run) -> Path:
    """A file of `penstock attach` beside the series."""
    collector = Collector(series.parent, "--listen", "127.0.0.1:0")
    try:
        with Values(collector.address) as values:
            values.send(omega=0.5, frame=0)
    finally:
        assert collector.stop() == 0
    assert run("attach", str(series), str(collector.journal)).returncode == 0
    return series.with_name(f"{series.stem}.values.h5")


@pytest.mark.parametrize("copies", [False, True])
def test_exports_are_checked_with_their_frames(folder: Path, run: Run, copies: bool) -> None:
    plan = plan_export(folder / "s.h5", "xds", copies=copies, frames_a_file=2)
    write_export(plan, False, lambda done, of: None)
    code, report, lines = checked(run, Path(plan.master))
    assert (code, report["frames"], lines) == (0, checked(run, folder / "s.h5")[1]["frames"], [])
    damage_of = folder / plan.parts[0].file
    if copies:
        damage_of.write_bytes(damage_of.read_bytes()[:-200])
    else:
        damage(damage_of)
    assert checked(run, Path(plan.master))[0] == 1
