"""Frames that choose their dataset by a value (areaDetector's detector_data_destination)."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, Recorded, Run
from detector_stream import SHAPE
from mid_series import native_recorder

from penstock.client import Series

pytestmark = pytest.mark.usefixtures("nothing_stays_open")

LAYOUT = """\
<hdf5_layout>
  <global name="detector_data_destination" ndattribute="Where"/>
  <group name="tomo">
    <dataset name="dark" source="detector"/>
    <dataset name="flat" source="detector"/>
    <dataset name="image" source="detector" det_default="true">
      <attribute name="kind" source="constant" value="projections"/>
      <attribute name="dose" source="ndattribute" ndattribute="Dose" when="OnFileClose"/>
    </dataset>
    <dataset name="never" source="detector"/>
  </group>
  <group name="plot">
    <attribute name="NX_class" source="constant" value="NXdata"/>
    <attribute name="signal" source="constant" value="data"/>
    <hardlink name="data" target="/tomo/image"/>
    <hardlink name="flat" target="/tomo/flat"/>
  </group>
</hdf5_layout>
"""
# What areaDetector takes for the default: no value, another text, a part of a path, one that is longer.
VALUES = (
    "/tomo/dark",
    "/tomo/flat",
    "/tomo/image",
    None,
    "/tomo/dark",
    "dark",
    "/tomo/flat",
    "/tomo/dark/",
    "/tomo/dark" + "x" * 300,
    "/tomo/flat",
)
ALL = "/entry/penstock/frames/data"


def chosen(values: Sequence[str | None]) -> dict[str, list[int]]:
    paths = ["/tomo/image", "/tomo/dark", "/tomo/flat", "/tomo/never"]
    at = [value if value in paths else paths[0] for value in values]
    return {path: [number for number, each in enumerate(at) if each == path] for path in paths}


@pytest.fixture
def layout(tmp_path: Path) -> str:
    path = tmp_path / "layout.xml"
    path.write_text(LAYOUT, encoding="utf-8")
    return str(path)


def metadata_of(number: int, value: str | None) -> dict[str, object]:
    return {"Dose": 0.5 + number, **({} if value is None else {"Where": value})}


def pixels_of(count: int) -> numpy.ndarray:
    return numpy.random.default_rng(11).integers(0, 60000, (count, *SHAPE[1:]), "uint16")


def has_frames(file: Path, frames: numpy.ndarray, expected: dict[str, list[int]]) -> None:
    with h5py.File(file) as content:
        for path, numbers in expected.items():
            dataset = content[path]
            assert dataset.shape == (len(numbers), *frames.shape[1:]), path
            assert numpy.array_equal(dataset[...], frames[numbers]), path
        image = content["/tomo/image"]
        assert image.is_virtual
        assert content["/plot/data"] == image
        assert content["/plot/flat"] == content["/tomo/flat"]
        assert image.attrs["kind"] == "projections"
        assert numpy.array_equal(content[ALL][...], frames)
        places = content["/entry/penstock/frames/destinations"].asstr()[...]
        column = content["/entry/penstock/frames/destination"][...]
        for path, numbers in expected.items():
            assert numpy.array_equal(numpy.flatnonzero(places[column] == path), numbers)


def is_clean(run: Run, file: Path) -> None:
    checked = run("check", str(file), "--require-complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("options", [(), ("--frames-per-file", "4"), ("--chunk-frames", "3")])
def test_each_frame_is_in_the_dataset_that_it_names(
    recorded: Recorded, run: Run, layout: str, options: tuple[str, ...]
) -> None:
    frames = pixels_of(len(VALUES))
    user_data = [metadata_of(number, value) for number, value in enumerate(VALUES)]
    file = recorded(frames, "--layout", layout, *options, user_data=user_data)
    has_frames(file, frames, chosen(VALUES))
    with h5py.File(file) as content:
        assert content["/tomo/image"].attrs["dose"] == 0.5 + len(VALUES) - 1
    is_clean(run, file)


def test_missing_frames_are_in_no_dataset(recorded: Recorded, run: Run, layout: str) -> None:
    frames = pixels_of(len(VALUES))
    user_data = [metadata_of(number, value) for number, value in enumerate(VALUES)]
    file = recorded(frames, "--layout", layout, user_data=user_data, leave_out=(2, 4))
    with h5py.File(file) as content:
        assert numpy.array_equal(content["/tomo/dark"][...], frames[[0]])
        assert numpy.array_equal(content["/tomo/image"][...], frames[[3, 5, 7, 8]])
        column = content["/entry/penstock/frames/destination"][...]
        assert list(numpy.flatnonzero(column == -1)) == [2, 4]
    assert run("check", str(file)).returncode == 0


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(native_recorder(process.pid), signal.SIGKILL)
    process.wait(timeout=60)


def test_killed_recorders_file_gets_its_datasets_by_each_way(
    record: Record, run: Run, tmp_path: Path, layout: str, free_port: int
) -> None:
    values = (VALUES * 3)[:27]
    frames = pixels_of(len(values))
    options = ("--listen", f"127.0.0.1:{free_port}", "--resume", "--layout", layout)
    recorder = record(tmp_path, *options, listen=False)
    recorder.listening()
    acknowledged = 20
    with Series(
        f"127.0.0.1:{free_port}",
        dtype="uint16",
        shape=frames.shape[1:],
        frames=len(frames),
        name="s",
        reconnect_timeout=60,
    ) as series:
        for number, value in enumerate(values):
            if number == acknowledged:
                series.wait_acknowledged()
                kill(recorder.process)
                for name in ("recovered", "anew"):
                    shutil.copy(tmp_path / "s.h5", tmp_path / f"{name}.h5")
                recorder = record(tmp_path, *options, listen=False)
            series.send(frames[number], number=number, metadata=metadata_of(number, value))
    recorder.series_end()
    has_frames(tmp_path / "s.h5", frames, chosen(values))
    is_clean(run, tmp_path / "s.h5")
    for name, more in (("recovered", ()), ("anew", ("--rebuild",))):
        file = tmp_path / f"{name}.h5"
        recovered = run("recover", str(file), *more)
        assert recovered.returncode == (1 if more else 0), recovered.stdout + recovered.stderr
        with h5py.File(file) as content:
            assert content[ALL].shape[0] == len(frames), "as announced"
            for path, numbers in chosen(values[:acknowledged]).items():
                assert numpy.array_equal(content[path][...], frames[numbers]), path
            assert content["/plot/data"] == content["/tomo/image"]
            assert content["/tomo/image"].attrs["kind"] == "projections"
            assert content["/tomo/image"].attrs["dose"] == 0.5 + acknowledged - 1
        assert run("check", str(file)).returncode == 0


def test_readers_of_a_growing_file_choose_by_the_value(record: Record, tmp_path: Path, layout: str) -> None:
    recorder = record(tmp_path, "--layout", layout)
    frames = pixels_of(len(VALUES))
    with Series(recorder.address, dtype="uint16", shape=frames.shape[1:], frames=0, name="s") as series:
        for number, value in enumerate(VALUES):
            series.send(frames[number], number=number, metadata=metadata_of(number, value))
        series.wait_acknowledged()
        deadline = time.monotonic() + 30
        while True:
            with h5py.File(tmp_path / "s.h5", swmr=True) as content:
                states = content["/entry/penstock/frame_state"][...]  # read before the frames
                values = content["/Where"].asstr()[...]
                seen = content[ALL][...]
                assert content["/tomo/dark"].shape == (0, *frames.shape[1:]), "not before the end"
            if list(states) == [1] * len(frames) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
    assert numpy.array_equal(numpy.flatnonzero(values == "/tomo/dark"), [0, 4])
    assert numpy.array_equal(seen, frames)


@pytest.mark.slow
def test_dataset_with_too_many_stretches_stays_empty_with_a_warning(
    record: Record, run: Run, tmp_path: Path
) -> None:
    layout = tmp_path / "many.yaml"
    layout.write_text("destination: where\ntree: {a: {frames: 0}, b: {frames: 0}}\n", encoding="utf-8")
    recorder = record(tmp_path, "--layout", str(layout))
    count = 12400
    # Distances of 1 and 2 in turn: no more than two frames make a stretch.
    in_b = numpy.arange(count) % 3 != 2
    frames = numpy.arange(count * 64, dtype="uint32").reshape(count, 8, 8)
    with Series(recorder.address, dtype="uint32", shape=(8, 8), frames=count, name="s") as series:
        for number, frame in enumerate(frames):
            series.send(frame, number=number, metadata={"where": "/b" if in_b[number] else "/a"})
    recorder.series_end()
    code, log = recorder.stop()
    assert code == 0
    assert "/b stays empty" in log
    with h5py.File(tmp_path / "s.h5") as content:
        assert content["/b"].shape[0] == 0
        assert "left_empty" in content["/b"].attrs
        assert numpy.array_equal(content["/a"][...], frames[~in_b])
        assert len(content["/a"].virtual_sources()) == 1
        assert numpy.array_equal(content["/entry/penstock/frames/destination"][...], in_b)
    is_clean(run, tmp_path / "s.h5")


def test_scan_with_destinations_gives_a_warning(run: Run, tmp_path: Path, layout: str) -> None:
    scan = tmp_path / "scan.yaml"
    scan.write_text("scan: {axes: [{name: x, values: [0, 1, 2, 3]}]}\n", encoding="utf-8")
    planned = run("record", str(scan), "--layout", layout, "--folder", str(tmp_path), "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "frames of a scan are all in /tomo/image" in " ".join(planned.stderr.split())
