"""Files of the real recorder, laid out as layouts say: paths, types, attributes and links, with h5py."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
import yaml
from conftest import Record, Recorded, Run
from detector_stream import frames_of, full_message, multi_dimensional
from mid_series import ended_in_mid_series
from test_layout_descriptions import LARGE
from test_resume import Recorders, is_whole, progress_beyond, simulator

from penstock.model.events import SeriesRefused
from penstock.model.layout.own_tree import FRAMES, GROUPS, ITEMS, UNNAMED

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "layout"
LAYOUTS = Path(__file__).resolve().parents[3] / "layouts"
pytestmark = pytest.mark.usefixtures("nothing_stays_open")

EVERYTHING_MOVED = """\
metadata: /run/slow
attributes: {default: run, made_by: {constant: 7, type: uint8}}
tree:
  run:
    attributes: {NX_class: NXentry, default: plot, dose_at_end: {metadata: dose, when: last}}
    tree:
      plot:
        attributes: {NX_class: NXdata, signal: pictures}
        tree:
          pictures: {frames: 0, attributes: {units: counts}}
          dose: {metadata: dose}
      fixed:
        tree:
          "on": {constant: true}
          small: {constant: [1, 2], type: int16}
          words: {constant: [a, µ]}
      mask: {series: pixel_mask, attributes: {kind: {series: detector_serial_number}}}
      turning: {nxmx: /entry/sample}
      begun: {series: arm_date}
      finished: {series: end_time}
      finished_too: {link: /run/finished}
      received: {series: received}
      dose_first: {metadata: dose, when: first}
      dose_again: {metadata: dose}
      never: {metadata: nobody_sends_this}
      never_too: {link: /run/never}
      shutter: {metadata: shutter, type: int}
"""


def walk(file: h5py.File) -> dict[str, Any]:
    """Every name with what is there: attributes, and of datasets type, shape and values."""
    found: dict[str, Any] = {}

    def visit(group: h5py.Group) -> None:
        for name in group:
            item = group[name]
            attributes = {
                key: (value.tolist() if hasattr(value, "tolist") else value, str(getattr(value, "dtype", "")))
                for key, value in item.attrs.items()
            }
            content = None
            if isinstance(item, h5py.Dataset):
                content = (str(item.dtype), item.shape, numpy.asarray(item[()]).tolist())
            found[item.name] = (attributes, content)
            if isinstance(item, h5py.Group):
                visit(item)

    visit(file)
    return found


def values_of(count: int) -> list[dict[str, object]]:
    return [
        {"dose": 0.5 * number, "Temperature": 20.0 + number, "Note": f"n{number}"} for number in range(count)
    ]


def test_the_default_layout_written_down_makes_the_same_file(
    recorded: Recorded, run: Run, tmp_path: Path
) -> None:
    frames = frames_of("uint16")
    told = values_of(len(frames))
    start = full_message("uint16", len(frames))
    own = recorded(frames, user_data=told, start=start).rename(tmp_path / "own.h5")
    same = recorded(frames, "--layout", str(LAYOUTS / "nxmx.yaml"), user_data=told, start=start)
    with h5py.File(own) as one, h5py.File(same) as other:
        assert list(one["/entry/metadata"]) == ["Note", "Temperature", "dose"]
        assert other["/entry/instrument/detector/data"] == other["/entry/data/data"]
        ours, theirs = walk(one), walk(other)
        added = {path for path in theirs if path.startswith("/entry/penstock/layout")}
        assert set(theirs) - added == set(ours)
        assert added == {f"/entry/penstock/layout{name}" for name in ("", "/name", "/end_time")}
        moments = ("/entry/end_time", "/entry/end_time_estimated", "/entry/penstock/timing/")
        for path, (attributes, content) in ours.items():
            assert theirs[path][0] == attributes, path
            assert theirs[path][1] == content or path.startswith(moments), path
        # What layouts can place by name, and `layout show` draws, is all that there is.
        known = {*GROUPS, *UNNAMED, *(item.path for item in ITEMS.values()), FRAMES}
        free = ("/entry/penstock", "/entry/metadata")
        for path in ours:
            is_axis = "/transformations/" in path or path == "/entry/data/omega"
            axis = f"{path.rpartition('/')[0]}/AXIS" if is_axis else path
            axis = axis.removesuffix("_threshold_2")  # of a further channel
            assert path in known or axis in known or path.startswith(free), f"{path} is not in own_tree.py"
        at_root = {name: one.attrs[name] for name in one.attrs if name != "penstock_file_id"}
        assert {name: other.attrs[name] for name in at_root} == at_root
        assert len(other.attrs) == len(one.attrs)
    assert run("check", str(same)).returncode == 0


def test_a_layout_that_moves_everything(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    layout = tmp_path / "moved.yaml"
    layout.write_text(EVERYTHING_MOVED, encoding="utf-8")
    frames = frames_of("uint16")
    mask = numpy.arange(frames[0].size, dtype="uint32").reshape(frames[0].shape)

    start = {**full_message("uint16", len(frames)), "pixel_mask": {"threshold_1": multi_dimensional(mask)}}
    path = recorded(frames, "--layout", str(layout), user_data=values_of(len(frames)), start=start)
    checked = run("check", str(path), "--require-complete")
    assert (checked.returncode, "warning" in checked.stdout) == (0, False), checked.stdout + checked.stderr
    with h5py.File(path) as file:
        assert file.attrs["default"] == "run"
        assert (file.attrs["made_by"], file.attrs["made_by"].dtype) == (7, numpy.dtype("uint8"))
        run_group = file["/run"]
        assert dict(run_group.attrs) == {"NX_class": "NXentry", "default": "plot", "dose_at_end": 2.5}
        pictures = file["/run/plot/pictures"]
        assert numpy.array_equal(pictures[...], frames)
        assert pictures.attrs["units"] == "counts"
        assert file["/run/plot/dose"][...].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
        assert file["/run/dose_again"] == file["/run/plot/dose"]
        assert (file["/run/dose_first"][()], file["/run/dose_first"].shape) == (0, ())
        assert bool(file["/run/fixed/on"][()]) is True
        assert file["/run/fixed/small"].dtype == numpy.dtype("int16")
        assert file["/run/fixed/words"].asstr()[...].tolist() == ["a", "µ"]
        assert numpy.array_equal(file["/run/mask"][...], mask)
        assert file["/run/mask"].attrs["kind"] == "E-32-0000"
        # The chain of transformations leads on to where its axis is now.
        omega = file[file["/run/turning/depends_on"].asstr()[()]]
        assert omega.name == "/run/turning/transformations/omega"
        assert omega.attrs["depends_on"] == "."
        assert file["/run/turning"].attrs["NX_class"] == "NXsample"
        assert file["/run/finished"].asstr()[()] == file["/run/finished_too"].asstr()[()]
        assert file["/run/finished"] == file["/run/finished_too"]
        assert file["/run/received"] == file["/entry/penstock/timing/received"]
        assert "never" not in run_group
        assert "never_too" not in run_group
        assert file["/run/shutter"][...].tolist() == [0] * len(frames)
        assert sorted(file["/run/slow"]) == ["Note", "Temperature"]
        # What has no place is kept.
        assert sorted(file["/entry"]) == ["penstock"]
        kept = file["/entry/penstock/series"]
        assert kept["instrument/detector/x_pixel_size"].attrs["units"] == "m"
        assert "definition" not in kept
        assert kept["instrument/detector/depends_on"].asstr()[()] in file
    told = json.loads(run("info", str(path), "--json").stdout)
    assert told["data"]["path"] == "/run/plot/pictures"
    assert told["layout"] == "moved"
    assert told["end_time"] is not None


def test_every_element_of_areadetectors_layouts(recorded: Recorded, run: Run) -> None:
    frames = frames_of("uint16")
    path = recorded(frames, "--layout", str(CORPUS / "every_element.xml"), user_data=values_of(len(frames)))
    with h5py.File(path) as file:
        exchange = file["/exchange"]
        attributes = dict(exchange.attrs)
        assert attributes.pop("wholes").tolist() == [1, 2, 3]
        assert attributes == {
            "NX_class": "NXentry",
            "untyped": "text",
            "whole": -7,
            "real": 2.5,
            "begun_at": 20.0,
            "ended_at": 25.0,
        }
        assert exchange.attrs["whole"].dtype == numpy.dtype("int32")
        assert numpy.array_equal(exchange["data"][...], frames)
        assert (exchange["data"].attrs["units"], exchange["data"].attrs["signal"]) == ("counts", 1)
        assert exchange["data_dark"].shape == (0, *frames.shape[1:]), "no frame brings SaveDest"
        constants = exchange["constants"]
        assert (constants["text"].asstr()[()], constants["whole"][()]) == ("a text", 42)
        assert (constants["whole"].dtype, constants["real"].dtype) == (
            numpy.dtype("int32"),
            numpy.dtype("float64"),
        )
        assert constants["wholes"][...].tolist() == [1, 2, 3]
        assert constants["reals"][...].tolist() == [0.5, 1.5]
        assert constants["reals"].attrs["units"] == "mm"
        values = exchange["values"]
        assert values["each"][...].tolist() == [20, 21, 22, 23, 24, 25]
        assert values["each"].attrs["NDAttrName"] == "Temperature"
        assert {"NDAttrDescription", "NDAttrSourceType", "NDAttrSource"} < set(values["each"].attrs)
        assert values["each_again"] == values["each"]
        assert values["first"][()] == 20
        assert (values["last"].asstr()[()], values["last"].attrs["of"]) == ("n5", "the run")
        assert "absent" not in values
        assert values["id"][...].tolist() == list(range(6))
        received = file["/entry/penstock/timing/received"][...] / 1e9 - 631152000
        assert numpy.allclose(values["seconds"][...], received, atol=1e-5)
        whole, parts = values["epics_s"][...], values["epics_ns"][...]
        assert numpy.allclose(whole + parts * 1e-9, received, atol=1e-5)
        assert sorted(exchange["rest"]) == ["Note", "SaveDest", "dose"]
        assert exchange["rest/dose"].attrs["NDAttrName"] == "dose"
        assert exchange["performance/timestamp"] == file["/entry/penstock/timing/received"]
        links = file["/links"]
        assert sorted(links) == ["constants", "dark", "frames", "of_a_link"]
        assert links["dark"] == exchange["data_dark"]
        assert links["frames"] == links["of_a_link"] == exchange["data"]
        assert links["constants"] == constants
    assert run("check", str(path), "--require-complete").returncode == 0


def test_the_ready_layouts_have_their_trees(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    frames = frames_of("uint16")
    told = [
        {"th": 0.5 * number, "image_key": int(number < 2), "ColorMode": 0} for number in range(len(frames))
    ]
    made = {}
    for name in ("raw", "nxtomo?rotation_angle=th", "areadetector-default"):
        path = recorded(frames, "--layout", name, user_data=told, start=full_message("uint16", len(frames)))
        checked = run("check", str(path), "--require-complete")
        assert (checked.returncode, "warning" in checked.stdout) == (0, False), checked.stdout
        made[name.partition("?")[0]] = path.rename(tmp_path / f"{name.partition('?')[0]}.h5")
    with h5py.File(made["raw"]) as file:
        assert sorted(file) == ["data", "entry", "flatfield", "metadata", "pixel_mask"]
        assert numpy.array_equal(file["/data"][...], frames)
        assert sorted(file["/metadata"]) == ["ColorMode", "image_key", "th"]
        assert sorted(file["/entry"]) == ["penstock"]
    with h5py.File(made["nxtomo"]) as file:
        detector, plot = file["/entry/instrument/detector"], file["/entry/data"]
        assert file["/entry/definition"].asstr()[()] == "NXtomo"
        assert plot["data"] == detector["data"]
        assert plot["image_key"] == detector["image_key"]
        assert detector["image_key"][...].tolist() == [1, 1, 0, 0, 0, 0]
        assert detector["image_key"].dtype.kind == "i"
        angle = file["/entry/sample/rotation_angle"]
        assert plot["rotation_angle"] == angle
        assert (angle[...].tolist(), angle.attrs["units"]) == ([0, 0.5, 1, 1.5, 2, 2.5], "degree")
        assert (plot.attrs["signal"], list(plot.attrs["axes"])) == ("data", ["rotation_angle", ".", "."])
    with h5py.File(made["areadetector-default"]) as file:
        instrument = file["/entry/instrument"]
        assert sorted(file["/entry"]) == ["data", "instrument", "penstock"]
        assert sorted(instrument) == ["NDAttributes", "detector", "performance"]
        assert file["/entry/data/data"] == instrument["detector/data"]
        assert sorted(instrument["NDAttributes"]) == ["image_key", "th"]
        assert list(instrument["detector/NDAttributes"]) == ["ColorMode"]
        assert len(instrument["performance/timestamp"]) == len(frames)
    said = subprocess.run(
        [Path(sys.executable).parent / "pynx", "validate", str(made["nxtomo"])],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "NXtomo" in said.stdout + said.stderr
    assert "required" not in said.stdout + said.stderr, said.stdout + said.stderr


def test_many_objects_with_odd_names(recorded: Recorded, tmp_path: Path) -> None:
    """Trees that chance made: whatever the check lets through, the recorder writes."""
    chance = random.Random(7)
    names = [
        "a b",
        "µ",
        "x",
        "data",
        "entry",
        "-",
        "1",
        "name.with.dots",
        "é" * 40,
        "$v",
        "dose",
        "\U0001f52d",
    ]
    constants = [True, -(2**63), 1e-300, "", "text\nof two lines", [1, 2], ["a", "é"], 2**63 - 1]
    expected: dict[str, Any] = {}

    def grow(path: str, depth: int) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name in chance.sample(names, 4):
            place = f"{path}/{name}"
            if depth < 4 and chance.random() < 0.5:
                tree[name] = {
                    "tree": grow(place, depth + 1),
                    "attributes": {"odd µ": chance.choice(constants)},
                }
                continue
            expected[place] = value = chance.choice(constants)
            tree[name] = {"constant": value, "attributes": {"NX_class": "x", "é": {"metadata": "dose"}}}
        return tree

    # Frames' values that have no dataset go where some of their names are taken.
    tree = grow("/all", 0)
    document = {"metadata": "/all", "tree": {"all": {"tree": tree}, "frames": {"frames": 0}}}
    layout = tmp_path / "odd.yaml"
    layout.write_text(yaml.safe_dump(json.loads(json.dumps(document)), allow_unicode=True), encoding="utf-8")
    frames = frames_of("uint16")
    told = [dict.fromkeys([*names, "odd/name", "\x07"], number) for number in range(len(frames))]
    path = recorded(frames, "--layout", str(layout), user_data=told)
    assert len(expected) > 20
    with h5py.File(path) as file:
        for place, value in expected.items():
            found = file[place]
            got = found.asstr()[()] if found.dtype.kind == "O" else found[()]
            assert (got.tolist() if hasattr(got, "tolist") else got) == value, place
            assert found.attrs["é"] == 0
        for name in names:
            group = "/entry/penstock/metadata" if name in tree else "/all"
            assert file[group][name][...].tolist() == list(range(len(frames))), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["groups", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("constants", "deep", "YAML"))],
)
def test_the_largest_layouts_are_recorded(recorded: Recorded, tmp_path: Path, kind: str) -> None:
    """Tens of thousands of objects; the sender waits for seconds, not for minutes."""
    text, objects = LARGE[kind]
    layout = tmp_path / f"large.{'yaml' if kind == 'YAML' else 'xml'}"
    layout.write_text(text)
    frames = frames_of("uint16")
    path = recorded(frames, "--layout", str(layout))
    found: list[bytes] = []
    with h5py.File(path) as file:
        file.id.links.visit(found.append)
    assert len(found) > objects


def test_a_scan_lies_in_a_group_of_its_own(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "scan.yaml"
    settings.write_text(
        "layout: nxdata-scan\nscan:\n  axes:\n"
        "    - {name: y, points: 2, units: mm}\n    - {name: x, points: 3}\n"
    )
    frames = frames_of("uint16")
    path = recorded(frames, str(settings))
    with h5py.File(path) as file:
        scan = file["/entry/scan"]
        assert scan["data"].shape == (2, 3, *frames.shape[1:])
        assert (scan.attrs["NX_class"], scan.attrs["signal"]) == ("NXdata", "data")
        assert list(scan.attrs["axes"]) == ["y", "x", ".", "."]
        assert (scan["y"].attrs["units"], scan["x"][...].tolist()) == ("mm", [0, 1, 2])
        assert file["/entry/instrument/detector/data"] == scan["data"]
    checked = run("check", str(path), "--require-complete")
    assert (checked.returncode, "warning" in checked.stdout) == (0, False), checked.stdout


def test_members_of_a_split_series_have_the_layouts_paths(
    recorded: Recorded, run: Run, tmp_path: Path
) -> None:
    layout = tmp_path / "moved.yaml"
    layout.write_text(EVERYTHING_MOVED, encoding="utf-8")
    frames = frames_of("uint16")
    path = recorded(
        frames, "--layout", str(layout), "--frames-per-file", "4", user_data=values_of(len(frames))
    )
    with h5py.File(path) as master, h5py.File(tmp_path / "s_member_1.h5") as member:
        assert numpy.array_equal(master["/run/plot/pictures"][...], frames)
        assert numpy.array_equal(member["/run/plot/pictures"][...], frames[4:])
        assert (member.attrs["default"], member["/run/plot"].attrs["signal"]) == ("run", "pictures")
    assert run("check", str(path)).returncode == 0


def test_a_per_cent_sign_in_a_path_is_a_letter(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    """HDF5 takes %b in the mappings of a virtual dataset for a number."""
    layout = tmp_path / "odd.yaml"
    layout.write_text(
        'tree: {entry: {attributes: {NX_class: NXentry}, tree: {"50%b": {tree: {"data%": {frames: 0}}}}}}\n',
        encoding="utf-8",
    )
    frames = frames_of("uint16")
    path = recorded(frames, "--layout", str(layout), "--frames-per-file", "4")
    with h5py.File(path) as master:
        assert numpy.array_equal(master["/entry/50%b/data%"][...], frames)
    checked = run("check", str(path), "--require-complete")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_a_killed_recorders_file_is_recovered(record: Record, run: Run, tmp_path: Path) -> None:
    layout = tmp_path / "moved.yaml"
    layout.write_text(EVERYTHING_MOVED, encoding="utf-8")
    path = ended_in_mid_series(record, tmp_path, ("--layout", str(layout)))
    anew = tmp_path / "anew.h5"
    shutil.copy(path, anew)
    for file_path, options in ((path, ()), (anew, ("--rebuild",))):
        recovered = run("recover", str(file_path), *options)
        # A rebuild cannot bring the rows of all columns back.
        assert recovered.returncode == (1 if options else 0), recovered.stdout + recovered.stderr
        checked = run("check", str(file_path))
        assert checked.returncode == 0, checked.stdout
        assert "not finished" not in checked.stdout
        with h5py.File(file_path) as file:
            pictures = file["/run/plot/pictures"]
            received = numpy.flatnonzero(file["/entry/penstock/frame_state"][...] == 1)
            assert len(received) > 150
            frame = numpy.ascontiguousarray(pictures[received[-1]][0, :4])
            assert frame.view("uint64")[0] == received[-1]
    for file_path in (path, anew):
        with h5py.File(file_path) as file:
            assert file["/run/finished"].asstr()[()].startswith("20")
            assert "end_time" not in file["/entry"]


@pytest.mark.slow
def test_a_series_goes_on_in_its_layout(record: Record, run: Run, tmp_path: Path, free_port: int) -> None:
    layout = tmp_path / "moved.yaml"
    # The simulator's frames bring no values of their own: areaDetector's are made for them.
    layout.write_text(
        EVERYTHING_MOVED.replace("metadata: dose", "metadata: NDArrayUniqueId"), encoding="utf-8"
    )
    frames = 4500  # long enough that it still goes on when its progress, told twice a second, is known here
    recorders = Recorders(record, tmp_path, free_port, "--layout", str(layout))
    with simulator(
        f"127.0.0.1:{free_port}", "--frames", str(frames), "--rate", "900", "--series-name", "on"
    ) as detector:
        progress_beyond(recorders.current, 200)
        recorders.kill()
        recorders.start()
        recorders.current.series_end()
        assert detector.wait(60) == 0
    assert recorders.current.stop()[0] == 0
    is_whole(run, tmp_path / "on.h5", frames)
    with h5py.File(tmp_path / "on.h5") as file:
        # As with any layout, values of the last second before the crash may not have been written.
        there = file["/entry/penstock/timing/encoded"][...] >= 0
        assert there.sum() > frames / 4
        assert numpy.array_equal(file["/run/plot/dose"][...][there], numpy.flatnonzero(there))
        assert (file["/run/dose_first"][()], file["/run"].attrs["dose_at_end"]) == (0, frames - 1)


@pytest.mark.slow
def test_a_series_does_not_go_on_in_another_layout(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    path = ended_in_mid_series(record, tmp_path, ("--layout", "raw"))
    before = path.read_bytes()
    other = record(tmp_path, "--resume", "--layout", "areadetector-default")
    sent = run(
        *("simulate", "custom", "--rows", "64", "--columns", "96", "--frames", "100000", "--rate", "400"),
        *("--series-name", "left", "--to", f"tcp://{other.address}"),
    )
    assert sent.returncode != 0
    refused = other.until(SeriesRefused)
    assert isinstance(refused, SeriesRefused)
    assert "use the layout with which the file was started" in refused.message
    assert path.read_bytes() == before


def test_copied_part_has_the_values_of_its_frames(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    layout = tmp_path / "dose.yaml"
    layout.write_text(
        (LAYOUTS / "nxmx.yaml").read_text(encoding="utf-8")
        + "      monitor: {tree: {dose: {metadata: Dose}}}\n",
        encoding="utf-8",
    )
    frames = frames_of("uint16")
    told = [{"Dose": 0.5 * number} for number in range(len(frames))]
    path = recorded(frames, "--layout", str(layout), user_data=told)
    exported = run("export", str(path), "--for", "eiger", "--copy", "--frames", "2:5")
    assert exported.returncode == 0, exported.stderr
    (master,) = tmp_path.glob("*_master.h5")
    with h5py.File(master) as file:
        assert list(file["/entry/monitor/dose"]) == [1.0, 1.5, 2.0]
