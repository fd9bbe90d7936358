"""Several series in one file: links that readers follow."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import silx.io.utils
from conftest import Record, Run
from plain_client import Client, frames_of

from penstock.files.join import JointFile
from penstock.model.errors import UsageError

silx_open: Any = silx.io.utils.open
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
PIXELS = frames_of(9)


def send(address: str, name: str, frames: range) -> None:
    with Client(address) as client:
        client.start(name, len(frames), PIXELS.shape[1:])
        for number, frame in enumerate(frames):
            client.image(name, number, PIXELS[frame])
        assert client.end(name)["problem"] is None


def test_series_of_a_recorder_in_one_file(record: Record, run: Run, tmp_path: Path) -> None:
    """While it records: each is an entry once it is complete; also of several files, and in another place."""
    folder = tmp_path / "here"
    folder.mkdir()
    recorder = record(folder, "--join", "night.h5", "--series", "3", "--frames-per-file", "2")
    for number in range(3):
        send(recorder.address, f"s{number}", range(3 * number, 3 * number + 3))
        recorder.series_end()
    assert recorder.process.wait(60) == 0
    moved = tmp_path / "there"
    shutil.move(folder, moved)
    with h5py.File(moved / "night.h5") as file:
        assert dict(file.attrs)["NX_class"] == "NXroot"
        assert list(file) == ["entry_1", "entry_2", "entry_3"]
        for number in range(3):
            entry = file[f"entry_{number + 1}"]
            assert entry.attrs["NX_class"] == "NXentry"
            assert entry["penstock/series_unique_id"].asstr()[()] == f"s{number}"
            assert np.array_equal(entry["data/data"][()], PIXELS[3 * number : 3 * number + 3])
    with silx_open(str(moved / "night.h5")) as file:
        assert np.array_equal(file["entry_2/instrument/detector/data"][1], PIXELS[4])
    told = run("info", str(moved / "night.h5"))
    assert told.returncode == 0
    assert [line.split()[-2:] for line in told.stdout.splitlines() if "entry_" in line] == [
        [f"entry_{number + 1}:", f"s{number}.h5"] for number in range(3)
    ]


@pytest.mark.parametrize("layout", ["areadetector-default", "nxtomo", "nxdata-scan"])
def test_series_of_any_layout_with_an_entry(record: Record, tmp_path: Path, layout: str) -> None:
    """The time that tells a complete file stands where the layout has it."""
    recorder = record(tmp_path, "--join", "night.h5", "--series", "1", "--layout", layout)
    send(recorder.address, "s0", range(3))
    recorder.series_end()
    assert recorder.process.wait(60) == 0
    with h5py.File(tmp_path / "night.h5") as file, h5py.File(tmp_path / "s0.h5") as single:
        assert list(file) == ["entry_1"]
        assert sorted(file["entry_1"]) == sorted(single["entry"])
        assert file["entry_1/penstock/series_unique_id"].asstr()[()] == "s0"


def test_joining_overwrites_nothing(recorded_series: list[Path], run: Run, tmp_path: Path) -> None:
    first, second = recorded_series
    night = tmp_path / "night.h5"
    assert run("join", str(night), str(first)).returncode == 0
    again = run("join", str(night), str(second))
    assert again.returncode == 2
    assert "not overwritten" in again.stderr
    with h5py.File(night) as before:
        more = run("join", str(night), str(second), str(first), "--add")
        assert (more.returncode, "1 file is an entry already" in more.stderr) == (0, True)
        assert list(before) == ["entry_1"], "who has it open keeps what was there"
    with h5py.File(night) as file:
        names = [file[name]["penstock/series_unique_id"].asstr()[()] for name in file]
    assert names == ["s0", "s1"]
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    for path, says in [(first, "was not made by"), (night, "cannot be an entry of itself")]:
        with pytest.raises(UsageError, match=says):
            JointFile.open(path, add=True).add([night])
    with h5py.File(tmp_path / "open.h5", "w") as file:
        file.create_group("entry").attrs["NX_class"] = "NXentry"
    with pytest.raises(UsageError, match="has not ended"):
        JointFile.open(night, add=True).add([tmp_path / "open.h5"])
    with h5py.File(tmp_path / "s0.values.h5", "w") as file:
        file.create_group("entry").attrs["NX_class"] = "NXentry"
        file.create_group("entry/per_frame").attrs["frame_time"] = "start_time"
    with pytest.raises(UsageError, match="has values of `penstock attach`"):
        JointFile.open(night, add=True).add([tmp_path / "s0.values.h5"])


def test_two_that_add_at_once_lose_nothing(recorded_series: list[Path], tmp_path: Path) -> None:
    first, second = recorded_series
    third = Path(shutil.copy(first, tmp_path / "third.h5"))
    night, link = tmp_path / "night.h5", tmp_path / "link.h5"
    JointFile.open(night, add=True).add([first])
    with h5py.File(night, "r+") as file:
        file.attrs["title"] = "beam time"
        file.attrs["default"] = "entry_2"
    link.symlink_to(night)
    one, other = JointFile.open(night, add=True), JointFile.open(link, add=True)
    one.add([second])
    other.add([third])
    with h5py.File(night) as file:
        assert [file.get(name, getlink=True).filename for name in file] == ["s0.h5", "s1.h5", "third.h5"]
        assert (file.attrs["title"], file.attrs["default"]) == ("beam time", "entry_2")
        assert file.attrs["penstock_joined"] == 3
    assert link.is_symlink()


@pytest.fixture
def recorded_series(record: Record, tmp_path: Path) -> list[Path]:
    recorder = record(tmp_path)
    for number in range(2):
        send(recorder.address, f"s{number}", range(number + 1))
    ends = [recorder.series_end(), recorder.series_end()]
    return [Path(end.file) for end in ends]


def test_debians_h5copy_makes_one_file_with_the_pixels(
    recorded_series: list[Path], run: Run, tmp_path: Path
) -> None:
    """Objects have many attributes, some of them texts of variable length; h5copy 1.10 takes them all."""
    night, one = tmp_path / "night.h5", tmp_path / "one.h5"
    assert run("join", str(night), *map(str, recorded_series)).returncode == 0
    command = ["h5copy", "-f", "ext", "-i", str(night), "-s", "/entry_1", "-o", str(one), "-d", "/entry"]
    subprocess.run(command, check=True, timeout=60)
    with h5py.File(one) as file:
        assert file["entry/data/data"].shape[1:] == PIXELS.shape[1:]
        assert file["entry/penstock/frame_state"].attrs["meaning"].startswith("0 missing")
