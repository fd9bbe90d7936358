"""Names that are not ASCII are marked as UTF-8: of groups, datasets, links and attributes."""

import shutil
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, Recorded, Run
from detector_stream import frames_of
from mid_series import ended_in_mid_series

from penstock.files.hdf5 import make_attribute
from penstock.files.values.many_objects import add_dataset, add_group

LAYOUT = """\
metadata: /Größen
tree:
  Messung:
    attributes: {Gerät: {constant: 1}}
    tree:
      Bilder_ä: {frames: 0}
  zweiter_ü: {link: /Messung/Bilder_ä}
  fest_ö: {constant: ein Text}
  letzte_ß: {metadata: NDArrayUniqueId, when: last}
"""


@pytest.fixture
def layout(tmp_path: Path) -> str:
    path = tmp_path / "names.yaml"
    path.write_text(LAYOUT, encoding="utf-8")
    return str(path)


def names_in(file: Path) -> list[str]:
    """The names that are not ASCII, each of which is marked."""
    found = []

    def look(group: h5py.Group) -> None:
        marked(group)
        for name in group:
            assert_marked(name, group.id.links.get_info(name.encode()).cset)
            item = group.get(name, getlink=True)
            if isinstance(item, h5py.HardLink):
                item = group[name]
                look(item) if isinstance(item, h5py.Group) else marked(item)

    def marked(item: "h5py.Group | h5py.Dataset") -> None:
        for name in item.attrs:
            assert_marked(name, h5py.h5a.get_info(item.id, name.encode()).cset)

    def assert_marked(name: str, cset: int) -> None:
        assert cset == (h5py.h5t.CSET_ASCII if name.isascii() else h5py.h5t.CSET_UTF8), name
        if not name.isascii():
            found.append(name)

    with h5py.File(file) as content:
        look(content)
    return found


def test_names_of_a_recorded_file(recorded: Recorded, layout: str) -> None:
    frames = frames_of("uint16")
    told: list[dict[str, object]] = [{"Höhe": 1.5 * number} for number in range(len(frames))]
    told[3]["später_é"] = "ü"
    file = recorded(frames, "--layout", layout, user_data=told)
    assert sorted(names_in(file)) == sorted(
        ["Größen", "Höhe", "später_é", "Gerät", "Bilder_ä", "zweiter_ü", "fest_ö", "letzte_ß"]
    )


@pytest.mark.slow
def test_names_of_recovered_and_rebuilt_files(record: Record, run: Run, tmp_path: Path, layout: str) -> None:
    path = ended_in_mid_series(record, tmp_path, ("--layout", layout), frames=5)
    anew = tmp_path / "anew.h5"
    shutil.copy(path, anew)
    assert run("recover", str(path)).returncode == 0
    run("recover", str(anew), "--rebuild")
    names = {"Gerät", "Bilder_ä", "zweiter_ü", "fest_ö"}
    assert names <= set(names_in(path))
    assert names <= set(names_in(anew))


def test_names_of_split_files(recorded: Recorded, tmp_path: Path, layout: str) -> None:
    frames = frames_of("uint16")
    told = [{"Höhe": 1.5 * number} for number in range(len(frames))]
    split = ("--files", "split", "--frames-per-file", "4")
    file = recorded(frames, *split, "--layout", layout, user_data=told)
    names = names_in(file)
    assert {"Größen", "Höhe", "Gerät", "Bilder_ä", "zweiter_ü", "fest_ö", "letzte_ß"} == set(names)
    assert names_in(tmp_path / "s_member_0.h5") == ["Gerät", "Bilder_ä"]


def test_names_of_exported_files(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    frames = frames_of("uint16")
    file = recorded(frames)
    with h5py.File(file, "r+") as content:  # as a layout of the user's may add it
        group = content["/entry"].create_group("Größen").id
        make_attribute(group, "Gerät", h5py.h5t.NATIVE_INT64, h5py.h5s.create(h5py.h5s.SCALAR))
    exported = run("export", str(file), "--for", "xds")
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert sorted(names_in(tmp_path / "s_master.h5")) == ["Gerät", "Größen"]


def test_names_of_attached_values(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "values.h5", "w") as file:
        group = add_group(file.id, "Größen")
        add_dataset(group, "Höhe", np.arange(3))
    assert names_in(tmp_path / "values.h5") == ["Größen", "Höhe"]
