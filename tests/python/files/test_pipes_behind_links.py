"""Files that lead to a pipe by a way round: whoever opened it would wait for ever."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from warm_command import penstock

from penstock.files.aside import reading_here
from penstock.files.hdf5 import item_at, may_be_read, open_for_reading, value_of
from penstock.files.links import JOINED
from penstock.files.tree import tree_of

_SECONDS_MAX = 60  # a busy machine is slow; a pipe takes for ever


def _soft(folder: Path, file: h5py.File) -> None:
    """A soft link leads over the external one."""
    file["outside"] = h5py.ExternalLink("pipe", "/")
    file["entry"] = h5py.SoftLink("/outside/x")


def _in_another_file(folder: Path, file: h5py.File) -> None:
    with h5py.File(folder / "good.h5", "w") as other:
        other["outside"] = h5py.ExternalLink("pipe", "/")
        other["s"] = h5py.SoftLink("/outside/x")
    file["entry"] = h5py.ExternalLink("good.h5", "/s")


def _entry(file: h5py.File) -> h5py.Group:
    entry = file.create_group("entry")
    entry.attrs["NX_class"] = "NXentry"
    file.attrs["default"] = "entry"
    return entry


def _virtual(folder: Path, file: h5py.File) -> None:
    entry = _entry(file)
    entry["definition"] = "NXmx"
    layout = h5py.VirtualLayout((2,), "u2")
    layout[:] = h5py.VirtualSource("pipe", "x", (2,))
    for name in ("start_time", "end_time"):
        entry.create_virtual_dataset(name, layout)


def _growing(folder: Path, file: h5py.File) -> None:
    """HDF5 opens the source to tell how long it is."""
    entry = _entry(file)
    entry["definition"] = "NXmx"
    layout = h5py.VirtualLayout((2, 4, 4), "u2", maxshape=(None, 4, 4))
    source = h5py.VirtualSource("pipe", "x", (2, 4, 4), maxshape=(None, 4, 4))
    layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
    entry.create_group("data").create_virtual_dataset("data", layout)


def _by_number(folder: Path, file: h5py.File) -> None:
    """Of the files that a pattern stands for the second one is a pipe."""
    with h5py.File(folder / "part0.h5", "w") as part:
        part["x"] = np.zeros((2, 4, 4), "u2")
    os.mkfifo(folder / "part1.h5")
    _entry(file)["definition"] = "NXmx"
    _numbered(file, "/entry/data/data")


def _numbered(file: h5py.File, path: str) -> None:
    """Two frames of each part that there is, with as many parts as there will be."""
    shape = (2, 4, 4)
    space = h5py.h5s.create_simple((0, 4, 4), (h5py.h5s.UNLIMITED, 4, 4))
    space.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), stride=shape, block=shape)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_virtual(space, b"part%b.h5", b"x", h5py.h5s.create_simple(shape))
    file.require_group(str(Path(path).parent))
    h5py.h5d.create(file.id, path.encode(), h5py.h5t.NATIVE_UINT16, space, properties)


def _raw(folder: Path, file: h5py.File) -> None:
    entry = _entry(file)
    for name in ("definition", "start_time", "end_time"):
        entry.create_dataset(name, (2,), "u2", external=[("pipe", 0, 4)])


def _round(folder: Path, file: h5py.File) -> None:
    """No pipe, but no end either."""
    file["entry"] = h5py.SoftLink("/other")
    file["other"] = h5py.ExternalLink("made.h5", "/entry")


_FILES: list[Callable[[Path, h5py.File], None]] = [
    _soft,
    _in_another_file,
    _virtual,
    _growing,
    _by_number,
    _raw,
    _round,
]


@pytest.mark.parametrize(
    ("make", "mark"),
    [
        (_soft, JOINED),
        (_in_another_file, JOINED),
        *((make, None) for make in _FILES),
        (_raw, "penstock_export"),
    ],
)
def test_no_command_waits_for_a_pipe(
    make: Callable[[Path, h5py.File], None],
    mark: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "made.h5", "w") as file:
        if mark:
            file.attrs[mark] = "made.h5"
        make(tmp_path, file)
    codes = {}
    for command in ("check made.h5", "info made.h5", "export made.h5 --for xds", "join all.h5 made.h5"):
        done = penstock(*command.split(), timeout_s=_SECONDS_MAX)
        assert "Traceback" not in done.stderr
        codes[command.split()[0]] = done.returncode
    assert codes["info"] == 0
    assert codes["check"] == 1
    assert codes["export"] != 0
    assert codes["join"] != 0


def test_no_command_looks_where_the_environment_says(tmp_path: Path) -> None:
    """HDF5 would look there first, and find a pipe."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.mkfifo(elsewhere / "part0.h5")
    with h5py.File(tmp_path / "made.h5", "w") as file:
        _entry(file)
        _numbered(file, "/entry/data/data")
    with h5py.File(tmp_path / "part0.h5", "w") as file:
        file["x"] = np.zeros((2, 4, 4), "u2")
    prefixes = ("HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX", "HDF5_EXTFILE_PREFIX")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "info", "made.h5", "--json"],
        cwd=tmp_path,
        env={**os.environ, **dict.fromkeys(prefixes, str(elsewhere))},
        timeout=_SECONDS_MAX,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["data"]["shape"] == [2, 4, 4]


def test_links_are_followed_as_hdf5_does(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/soft"] = h5py.SoftLink("there/value")
        file["group/there"] = h5py.ExternalLink("b.h5", "/c")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["c/value"] = 5
        file["c/back"] = h5py.ExternalLink("a.h5", "/group/soft")
    with reading_here(), open_for_reading(tmp_path / "a.h5") as file:
        for path in ("group/soft", "/group/./there//value", "group/there/back"):
            assert value_of(file, path) == 5
        assert item_at(file, "group/gone") is None
        assert item_at(file["group"], "/group") == file["group"]


def test_a_virtual_dataset_is_read_where_all_its_sources_are_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = np.arange(2)
        file["outside"] = h5py.ExternalLink("pipe", "/x")
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, other, path in (("good", "b.h5", "x"), ("bad", "b.h5", "outside"), ("gone", "c.h5", "x")):
            layout = h5py.VirtualLayout((2,), "i8")
            layout[:] = h5py.VirtualSource(other, path, (2,))
            file.create_virtual_dataset(name, layout)
    with h5py.File(tmp_path / "a.h5") as file:
        assert [may_be_read(file[name]) for name in ("good", "bad", "gone")] == [True, False, True]


def test_the_files_of_a_pattern_are_shown_to_the_first_that_is_not_there(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        _numbered(file, "/x")
    for number in (0, 1, 3):
        with h5py.File(tmp_path / f"part{number}.h5", "w") as file:
            file["x"] = np.full((2, 4, 4), number, "u2")
    with h5py.File(tmp_path / "a.h5") as file:
        shown = item_at(file, "/x")
        assert shown.shape == (4, 4, 4)
        assert may_be_read(shown)
    os.mkfifo(tmp_path / "part2.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert item_at(file, "/x") is None


@pytest.mark.parametrize("kept", [0, 100, 1000])
def test_a_damaged_file_of_a_pattern_breaks_nothing_down(tmp_path: Path, kept: int) -> None:
    """As a recorder leaves one that was killed while it made it."""
    for number in range(2):
        with h5py.File(tmp_path / f"part{number}.h5", "w") as part:
            part["x"] = np.full((2, 4, 4), number, "u2")
    whole = (tmp_path / "part1.h5").read_bytes()
    with h5py.File(tmp_path / "series.h5", "w") as file:
        _numbered(file, "x")
    (tmp_path / "part1.h5").write_bytes(whole[:kept])
    with reading_here(), open_for_reading(tmp_path / "series.h5") as file:
        assert item_at(file, "x") is None
        assert tree_of(file) == []


def test_a_virtual_dataset_of_many_others_is_read(tmp_path: Path) -> None:
    """So is one of very many parts, which no reader needs all at once."""
    count = 100
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(count)
        layout = h5py.VirtualLayout((count,), "i8")
        for number in range(count):
            part = h5py.VirtualLayout((1,), "i8")
            part[:] = h5py.VirtualSource(".", "x", (count,))[number : number + 1]
            file.create_virtual_dataset(f"part{number}", part)
            layout[number : number + 1] = h5py.VirtualSource(".", f"part{number}", (1,))
        file.create_virtual_dataset("all", layout)
    with h5py.File(tmp_path / "a.h5") as file:
        assert may_be_read(file["all"])
        assert list(file["all"]) == list(range(count))


def test_the_tree_of_a_deep_file_is_cut(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        group = file["/"]
        for _ in range(1500):
            group = group.create_group("g")
    with h5py.File(tmp_path / "deep.h5") as file:
        assert tree_of(file)[-1].startswith("… and at least ")
