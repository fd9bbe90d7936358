"""The placements of chunks, as a user meets them: recorded, read with h5py, checked, killed, recovered."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, RecordCommand
from mid_series import ended_in_mid_series, kill, stamps_are_right, stop
from test_independent_scanner import CHUNKS, crc32c, list_chunks, walk
from test_ranks import Job

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SHAPE = ("custom", "--rows", "48", "--columns", "64", "--type", "uint16")


def options(placement: str) -> list[str]:
    return ["--placement", placement, "--codec", "bslz4"]


def errors_of(run: Run, file: Path) -> tuple[dict[str, object], list[dict[str, str]]]:
    report = json.loads(run("check", str(file), "--against", "recorded", "--json").stdout)
    return report, [finding for finding in report["findings"] if finding["level"] == "error"]


def record_series(
    record: Record, run: Run, folder: Path, placement: str, *simulation: str
) -> tuple[Path, str]:
    recorder = record(folder, *options(placement))
    name = f"{placement}-series"
    sent = run(
        "simulate",
        *SHAPE,
        "--rate",
        "max",
        *simulation,
        "--series-name",
        name,
        "--to",
        f"tcp://{recorder.address}",
    )
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    code, log = recorder.stop()
    assert code == 0, log
    return folder / f"{name}.h5", log


@pytest.mark.parametrize("placement", ["log", "slots"])
def test_a_series(record: Record, run: Run, tmp_path: Path, placement: str) -> None:
    file, _ = record_series(record, run, tmp_path, placement, "--frames", "60")
    report, errors = errors_of(run, file)
    assert not errors, report
    assert (report["compared_frames"], report["missing"]) == (60, 0)
    assert stamps_are_right(file) == 60
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.shape == (60, 48, 64)
        assert data == content["/entry/instrument/detector/data"]
        assert data.chunks == (1, 48, 64)


def test_a_stranger_finds_the_slots(record: Record, run: Run, tmp_path: Path) -> None:
    file, _ = record_series(record, run, tmp_path, "slots", "--frames", "25")
    content = file.read_bytes()
    segments = walk(content)
    chunks = list_chunks(content, segments)
    assert sorted(chunk.index for chunk in chunks) == list(range(25))
    places = json.loads(segments[0].body)["datasets"][0]["places"]
    for segment, chunk in zip((each for each in segments if each.kind == CHUNKS), chunks, strict=True):
        assert segment.address == places["address"] + chunk.index * places["step"]
        assert crc32c(content[chunk.address : chunk.address + chunk.size]) == chunk.crc


def test_unknown_placement_is_refused_by_its_name(run: Run, tmp_path: Path) -> None:
    refused = run("record", "--folder", str(tmp_path), "--placement", "contiguous")
    assert refused.returncode == 2
    assert '--placement: "contiguous"' in refused.stderr
    assert "'log' or 'slots'" in refused.stderr


def ended(record: Record, folder: Path, end: Callable[[RecordCommand], None]) -> Path:
    detector = [*SHAPE, "--frames", "5000", "--rate", "400"]
    return ended_in_mid_series(record, folder, options("slots"), detector, 250, end)


def test_a_series_that_ends_early(record: Record, run: Run, tmp_path: Path) -> None:
    file = ended(record, tmp_path, stop)
    report, errors = errors_of(run, file)
    assert not errors, report
    received = 5000 - int(str(report["missing"]))
    assert stamps_are_right(file) == received > 250


@pytest.mark.slow
def test_a_killed_recorders_frames_are_recovered(record: Record, run: Run, tmp_path: Path) -> None:
    file = ended(record, tmp_path, kill)
    done = run("recover", str(file))
    assert done.returncode == 0, done.stderr
    report, errors = errors_of(run, file)
    assert not errors, report
    assert report["different_frames"] == 0
    assert stamps_are_right(file) == int(str(report["frames"])) - int(str(report["missing"])) > 250
    again = json.loads(run("recover", str(file), "--json").stdout)
    assert (again["way"], again["written"]) == ("nothing", False)


def test_a_file_whose_structures_are_gone_is_made_anew(record: Record, run: Run, tmp_path: Path) -> None:
    file, _ = record_series(record, run, tmp_path, "slots", "--frames", "30")
    with h5py.File(file) as content:
        before = content["/entry/data/data"][...]
    with file.open("r+b") as damaged:
        damaged.write(bytes(4096))
    done = json.loads(run("recover", str(file), "--json").stdout)
    assert (done["way"], done["recovered"], done["missing"]) == ("rebuild", 30, 0)
    with h5py.File(file) as content:
        numpy.testing.assert_array_equal(content["/entry/data/data"][...], before)
        assert numpy.all(content["/entry/penstock/frame_state"][...] == 1)
    assert not [
        f for f in json.loads(run("check", str(file), "--json").stdout)["findings"] if f["level"] == "error"
    ]


def test_ranks(run: Run, tmp_path: Path) -> None:
    job = Job(tmp_path, 2, "--threads", "1", *options("slots"))
    try:
        sent = run(
            "simulate",
            *SHAPE,
            "--rate",
            "max",
            "--frames",
            "80",
            "--series-name",
            "shared",
            "--to",
            job.target,
        )
        assert sent.returncode == 0, sent.stderr
        end = job.until("series_end")
        assert end["frames_written"] == 80
        assert job.stop() == 0, "".join(job.log)
    finally:
        job.close()
    report, errors = errors_of(run, tmp_path / "shared.h5")
    assert not errors, report
    assert report["compared_frames"] == 80
    assert stamps_are_right(tmp_path / "shared.h5") == 80
