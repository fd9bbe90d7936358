"""Values under names that the first frame did not bring: a closed or recovered file has them."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, Recorded, Run
from detector_stream import frames_of
from ports import free_ports
from test_resume import Recorders

from penstock.client import Series

SHAPE = (6, 8)
FRAMES = 8
LATE = 3


def pixels(number: int) -> "np.ndarray[Any, Any]":
    return np.full(SHAPE, number, "uint16")


def values_of(number: int, late: int = LATE) -> dict[str, object]:
    early = {"motor": 0.5 * number}
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


def test_recovered_and_rebuilt_files_have_late_values(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    recorders = Recorders(record, tmp_path, free_port)
    address = f"127.0.0.1:{free_port}"
    series = Series(address, dtype="uint16", shape=SHAPE, frames=FRAMES, name="s", reconnect_timeout=1)
    send(series, range(FRAMES))
    series.wait_acknowledged()
    recorders.kill()
    file, anew = tmp_path / "s.h5", tmp_path / "anew.h5"
    shutil.copy(file, anew)
    recovered = run("recover", str(file))
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    late_columns_are_right(file)
    assert run("check", str(file)).returncode == 0
    run("recover", str(anew), "--rebuild")
    late_columns_are_right(anew)
    assert run("check", str(anew)).returncode == 0


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
    recorder = record(tmp_path)
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


def test_columns_beyond_the_limit_are_named(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Series(recorder.address, dtype="uint16", shape=SHAPE, frames=3, name="s") as series:
        series.send(pixels(0), number=0, metadata={"first": 1})
        series.send(pixels(1), number=1, metadata={f"n{number}": number for number in range(1000)})
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
