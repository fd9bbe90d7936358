"""Values under names that the first frame did not bring: a closed or recovered file has them."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, Recorded, Run
from detector_stream import frames_of
from mid_series import native_recorder
from plain_client import ACK, IMAGE, RESUME, Client, image_fields
from ports import free_ports
from test_resume import Recorders

from penstock.client import Series

SHAPE = (6, 8)
FRAMES = 8
LATE = 3


def pixels(number: int) -> "np.ndarray[Any, Any]":
    return np.full(SHAPE, number, "uint16")


def values_of(number: int, late: int = LATE) -> dict[str, object]:
    early: dict[str, object] = {"motor": 0.5 * number}
    return early if number < late else {**early, "shutter": 0.25 * number, "comment": f"süß {number}"}


def send(series: Series, numbers: range) -> None:
    for number in numbers:
        series.send(pixels(number), number=number, metadata=values_of(number))


def late_columns_are_right(file: Path, frames: int = FRAMES, late: int = LATE) -> None:
    with h5py.File(file) as content:
        columns = content["/entry/metadata"]
        shutter, comments = columns["shutter"][...], columns["comment"].asstr()[...]
        assert np.isnan(shutter[:late]).all()
        assert np.array_equal(shutter[late:], 0.25 * np.arange(late, frames))
        assert list(comments) == [""] * late + [f"süß {number}" for number in range(late, frames)]
        assert np.array_equal(columns["motor"][...], 0.5 * np.arange(frames))
        assert content["/entry/metadata"].attrs["NX_class"] == "NXcollection"


def is_clean(run: Run, file: Path) -> None:
    checked = run("check", str(file), "--require-complete", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    findings = [finding["what"] for finding in json.loads(checked.stdout)["findings"]]
    assert set(findings) <= {"a required field is missing"}, findings


SPLIT = ("--files", "split", "--frames-per-file", "3")


@pytest.mark.parametrize("options", [(), ("--placement", "slots"), SPLIT])
def test_values_from_frame_3_on_over_tcp(
    record: Record, run: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    recorder = record(tmp_path, *options)
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=FRAMES, name="s") as series:
        send(series, range(FRAMES))
    assert recorder.series_end().problem is None
    late_columns_are_right(tmp_path / "s.h5")
    is_clean(run, tmp_path / "s.h5")


def test_values_from_frame_3_on_over_zeromq(recorded: Recorded, run: Run) -> None:
    frames = frames_of("uint16")
    told = [values_of(number) for number in range(len(frames))]
    file = recorded(frames, user_data=told)
    late_columns_are_right(file, len(frames))
    is_clean(run, file)


@pytest.mark.parametrize("options", [(), SPLIT])
def test_recovered_and_rebuilt_files_have_late_values(
    record: Record, run: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    recorder = record(folder, *options)
    series = Series(recorder.address, dtype="uint16", shape=SHAPE, frames=FRAMES, name="s")
    send(series, range(FRAMES))
    series.wait_acknowledged()
    os.kill(native_recorder(recorder.process.pid), signal.SIGKILL)
    recorder.process.wait(timeout=60)
    shutil.copytree(folder, tmp_path / "anew")
    file, anew = folder / "s.h5", tmp_path / "anew" / "s.h5"
    recovered = run("recover", str(file))
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    late_columns_are_right(file)
    assert run("check", str(file)).returncode == 0
    run("recover", str(anew), "--rebuild")
    late_columns_are_right(anew)
    assert run("check", str(anew)).returncode == 0
    # A finished file that is rebuilt keeps them too.
    run("recover", str(file), "--rebuild")
    late_columns_are_right(file)


def test_resumed_file_has_late_values_of_both_recorders(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    recorders = Recorders(record, tmp_path, free_port)
    address = f"127.0.0.1:{free_port}"
    with Series(
        address, dtype="uint16", shape=SHAPE, frames=FRAMES, name="s", reconnect_timeout=60
    ) as series:
        send(series, range(5))
        series.wait_acknowledged()
        recorders.kill()
        recorders.start()
        send(series, range(5, FRAMES))
    end = recorders.current.series_end()
    assert (end.frames_received, end.problem) == (FRAMES, None)
    late_columns_are_right(tmp_path / "s.h5")
    assert run("check", str(tmp_path / "s.h5"), "--require-complete").returncode == 0


def test_late_columns_of_a_finished_file_grow_when_it_is_resumed(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    def send_plainly(client: Client, numbers: range) -> None:
        for number in numbers:
            data = pixels(number).astype("<u2").tobytes()
            fields = image_fields(1, "s", number, list(SHAPE), len(data)) | {"user_data": values_of(number)}
            client.send(IMAGE, fields, data)
        while client.until(ACK)["safe_below"] < numbers.stop:
            pass

    recorders = Recorders(record, tmp_path, free_port)
    file = tmp_path / "s.h5"
    with Client(recorders.current.address) as client:
        client.start("s", FRAMES, SHAPE)
        send_plainly(client, range(5))
        assert recorders.current.stop()[0] == 0
    with h5py.File(file) as closed:
        assert list(closed["/entry/metadata/shutter"][LATE:5]) == [0.25 * LATE, 0.25 * (LATE + 1)]
    recorders.start()
    with Client(recorders.current.address) as client:
        client.start("s", FRAMES, SHAPE, RESUME)
        send_plainly(client, range(5, FRAMES))
        assert client.end("s")["problem"] is None
    late_columns_are_right(file)
    is_clean(run, file)


def test_column_comes_and_goes(record: Record, run: Run, tmp_path: Path) -> None:
    told: list[dict[str, object]] = [
        {},
        {"a": 1, "flag": True},
        {},
        {"a": 3, "pair": 1.5},
        {"a": 4.5, "pair": "no pair"},
        {"text": "x" * 100},
        {"text": "x" * 2000, "a/b": 1},
        {},
    ]
    recorder = record(tmp_path, "--threads", "1")  # the frames are encoded in their order
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=len(told), name="s") as series:
        for number, metadata in enumerate(told):
            series.send(pixels(number), number=number, metadata=metadata)
    assert recorder.series_end().problem is None
    _, log = recorder.stop()
    with h5py.File(tmp_path / "s.h5") as content:
        columns = content["/entry/metadata"]
        assert set(columns) == {"a", "flag", "pair", "text"}
        assert list(columns["a"][...]) == [0, 1, 0, 3, 0, 0, 0, 0]
        assert columns["a"].attrs["unfitting"] == 1
        assert list(columns["flag"][...]) == [0, 1, 0, 0, 0, 0, 0, 0]
        assert columns["pair"][3] == 1.5
        assert np.isnan(np.delete(columns["pair"][...], 3)).all()
        assert columns["pair"].attrs["unfitting"] == 1
        assert [len(text) for text in columns["text"].asstr()[...]] == [0, 0, 0, 0, 0, 100, 208, 0]
    is_clean(run, tmp_path / "s.h5")
    for name in ("a", "pair", "text"):
        assert f'"{name}", which frames bring along, comes from frame' in log
    assert '"a/b", which frames bring along, is not stored' in log


def test_name_from_the_network_cannot_forge_a_line_of_the_log(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=2, name="s") as series:
        series.send(pixels(0), number=0)
        series.send(pixels(1), number=1, metadata={"a\n\x1b[2Jforged/": 1})
    _, log = recorder.stop()
    assert '"a\\x0a\\x1b[2Jforged/", which frames bring along, is not stored' in log


def test_columns_beyond_the_limit_are_named(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=3, name="s") as series:
        series.send(pixels(0), number=0, metadata={"first": 1})
        series.send(pixels(1), number=1, metadata={f"n{number}": number for number in range(1000)})
        series.wait_acknowledged()  # otherwise another thread may get to frame 2 first
        series.send(pixels(2), number=2, metadata={f"m{number}": number for number in range(24)})
    assert recorder.series_end().problem is None
    _, log = recorder.stop()
    assert '"m23", which frames bring along, is not stored' in log
    with h5py.File(tmp_path / "s.h5") as content:
        columns = content["/entry/metadata"]
        assert len(columns) == 1024
        assert list(columns["n999"][...]) == [0, 999, 0]
        assert list(columns["m22"][...]) == [0, 0, 22]
    is_clean(run, tmp_path / "s.h5")


def test_growing_file_lacks_late_columns_until_it_is_closed(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    file = tmp_path / "s.h5"
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=FRAMES, name="s") as series:
        send(series, range(FRAMES - 1))
        series.wait_acknowledged()
        with h5py.File(file, swmr=True) as growing:
            assert set(growing["/entry/metadata"]) == {"motor"}
        send(series, range(FRAMES - 1, FRAMES))
    assert recorder.series_end().problem is None
    late_columns_are_right(file)


LAYOUT = """\
<hdf5_layout>
  <global name="detector_data_destination" ndattribute="Where"/>
  <group name="tomo">
    <dataset name="dark" source="detector"/>
    <dataset name="image" source="detector" det_default="true"/>
    <dataset name="shutter" source="ndattribute" ndattribute="shutter"/>
  </group>
  <group name="rest" ndattr_default="true"/>
</hdf5_layout>
"""


@pytest.mark.parametrize("rebuild", [False, True])
def test_layout_decides_where_late_columns_are(
    recorded: Recorded, run: Run, tmp_path: Path, rebuild: bool
) -> None:
    layout = tmp_path / "layout.xml"
    layout.write_text(LAYOUT, encoding="utf-8")
    frames = frames_of("uint16")
    told = [
        {**values_of(number), **({"Where": "/tomo/dark"} if number in (4, 5) else {})}
        for number in range(len(frames))
    ]
    file = recorded(frames, "--layout", str(layout), user_data=told)
    is_clean(run, file)
    if rebuild:
        run("recover", str(file), "--rebuild")
        assert run("check", str(file), "--require-complete").returncode == 0
    with h5py.File(file) as content:
        shutter = content["/tomo/shutter"][...]
        assert np.isnan(shutter[:LATE]).all()
        assert np.array_equal(shutter[LATE:], 0.25 * np.arange(LATE, len(frames)))
        assert list(content["/rest/comment"].asstr()[...])[LATE] == f"süß {LATE}"
        assert np.array_equal(content["/tomo/dark"][...], frames[[4, 5]])
        assert len(content["/tomo/image"]) == len(frames) - 2


@pytest.mark.slow
def test_ranks_bring_late_values_into_one_file(record: Record, run: Run, tmp_path: Path) -> None:
    port = free_ports(2)
    recorder = record(tmp_path, "--listen", f"127.0.0.1:{port}", "--ranks", "2", listen=False)
    recorder.listening()
    series = [
        Series(f"127.0.0.1:{port + rank}", dtype="uint16", shape=SHAPE, frames=FRAMES, name="s")
        for rank in range(2)
    ]
    for number in range(FRAMES):
        send(series[number % 2], range(number, number + 1))
    for each in series:
        each.close()
    assert recorder.series_end().problem is None
    late_columns_are_right(tmp_path / "s.h5")
    is_clean(run, tmp_path / "s.h5")
