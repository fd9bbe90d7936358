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
    codec = "none" if placement == "contiguous" else "bslz4"
    return ["--placement", placement, "--codec", codec]


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


@pytest.mark.parametrize("placement", ["log", "slots", "contiguous"])
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
        assert (data.chunks is None) == (placement == "contiguous")


def test_a_stranger_finds_the_slots(record: Record, run: Run, tmp_path: Path) -> None:
    file, _ = record_series(record, run, tmp_path, "slots", "--frames", "25")
    content = file.read_bytes()
    segments = walk(content)
    chunks = list_chunks(segments)
    assert sorted(chunk.index for chunk in chunks) == list(range(25))
    places = json.loads(segments[0].body)["datasets"][0]["places"]
    for segment, chunk in zip((each for each in segments if each.kind == CHUNKS), chunks, strict=True):
        assert segment.address == places["address"] + chunk.index * places["step"]
        assert crc32c(content[chunk.address : chunk.address + chunk.size]) == chunk.crc


def test_a_stranger_verifies_contiguous_frames(record: Record, run: Run, tmp_path: Path) -> None:
    file, _ = record_series(record, run, tmp_path, "contiguous", "--frames", "25")
    content = file.read_bytes()
    described = json.loads(walk(content)[0].body)["datasets"][0]
    with h5py.File(file) as opened:
        assert opened["/entry/data/data"].id.get_offset() == described["places"]["address"]
        assert opened[described["receipts"]["path"]].id.get_offset() == described["receipts"]["address"]
        receipts = opened["/entry/penstock/crc32c"][...]
    for number in (0, 7, 24):
        place = described["places"]["address"] + number * described["places"]["step"]
        assert int(receipts[number]) == 2**32 + crc32c(content[place : place + 48 * 64 * 2])


def test_check_finds_a_flipped_bit_in_a_contiguous_frame(record: Record, run: Run, tmp_path: Path) -> None:
    file, _ = record_series(record, run, tmp_path, "contiguous", "--frames", "5")
    with h5py.File(file) as opened:
        place = opened["/entry/data/data"].id.get_offset() + 3 * 48 * 64 * 2 + 1234
    with file.open("r+b") as damaged:
        damaged.seek(place)
        byte = damaged.read(1)[0]
        damaged.seek(place)
        damaged.write(bytes([byte ^ 0x10]))
    report = json.loads(run("check", str(file), "--json").stdout)
    wrong = [finding for finding in report["findings"] if "checksum" in finding["what"]]
    assert len(wrong) == 1, report
    assert "frame 3" in wrong[0]["where"]


def test_what_can_not_be_contiguous_is_kept_as_a_log(record: Record, run: Run, tmp_path: Path) -> None:
    file, log = record_series(record, run, tmp_path, "contiguous", "--frames", "20", "--encoding", "bslz4")
    assert "its frames come compressed" in log
    report, errors = errors_of(run, file)
    assert not errors, report
    with h5py.File(file) as content:
        assert content["/entry/data/data"].chunks == (1, 48, 64)


def test_contiguous_frames_have_no_codec(run: Run, tmp_path: Path) -> None:
    refused = run("record", "--folder", str(tmp_path), "--placement", "contiguous")
    assert refused.returncode == 2
    assert "store.placement is contiguous and codec.encoding is bslz4" in refused.stderr
    unknown = run("record", "--folder", str(tmp_path), "--placement", "scattered")
    assert unknown.returncode == 2
    assert "--placement" in unknown.stderr


def ended(record: Record, folder: Path, placement: str, end: Callable[[RecordCommand], None]) -> Path:
    detector = [*SHAPE, "--frames", "5000", "--rate", "400"]
    return ended_in_mid_series(record, folder, options(placement), detector, 250, end)


@pytest.mark.parametrize("placement", ["slots", "contiguous"])
def test_a_series_that_ends_early(record: Record, run: Run, tmp_path: Path, placement: str) -> None:
    file = ended(record, tmp_path, placement, stop)
    report, errors = errors_of(run, file)
    assert not errors, report
    received = 5000 - int(str(report["missing"]))
    assert stamps_are_right(file) == received > 250
    if placement == "contiguous":
        with h5py.File(file) as content:
            assert {content[name].shape[0] for name in ("entry/data/data", "entry/penstock/frame_state")} == {
                received
            }, "frames that never came take no space"


@pytest.mark.parametrize("placement", ["slots", "contiguous"])
def test_a_killed_recorders_frames_are_recovered(
    record: Record, run: Run, tmp_path: Path, placement: str
) -> None:
    file = ended(record, tmp_path, placement, kill)
    done = run("recover", str(file))
    assert done.returncode == 0, done.stderr
    report, errors = errors_of(run, file)
    assert not errors, report
    assert report["different_frames"] == 0
    assert stamps_are_right(file) == int(str(report["frames"])) - int(str(report["missing"])) > 250
    again = json.loads(run("recover", str(file), "--json").stdout)
    assert (again["way"], again["written"]) == ("nothing", False)


@pytest.mark.parametrize("placement", ["slots", "contiguous"])
def test_a_file_whose_structures_are_gone_is_made_anew(
    record: Record, run: Run, tmp_path: Path, placement: str
) -> None:
    file, _ = record_series(record, run, tmp_path, placement, "--frames", "30")
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


@pytest.mark.parametrize("placement", ["slots", "contiguous"])
def test_ranks(run: Run, tmp_path: Path, placement: str) -> None:
    job = Job(tmp_path, 2, "--threads", "1", *options(placement))
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
