"""`penstock record` with HDF5 filter plug-ins, as a user meets them: two datasets with a filter each, chunks
that a plug-in cannot compress, a recorder that is killed."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin
import numpy
import pytest
from conftest import Record, Recorded
from detector_stream import SHAPE, frames_of, send, start_message
from mid_series import stamps_are_right
from test_resume import Recorders, is_whole, progress_beyond, simulator

from penstock.model.events import Rejected
from penstock.report.progress import recorder_summary

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def configure(folder: Path, codec: str) -> str:
    file = folder / "c.yaml"
    file.write_text(f"codec: {codec}\n", encoding="utf-8")
    return str(file)


def filter_of(data: h5py.Dataset) -> tuple[int, tuple[int, ...]]:
    properties = data.id.get_create_plist()
    assert properties.get_nfilters() == 1
    number, _, values, _ = properties.get_filter(0)
    return number, values


def masks_of(data: h5py.Dataset) -> list[int]:
    return [data.id.get_chunk_info(i).filter_mask for i in range(data.id.get_num_chunks())]


def expect_equal(run: Run, file: Path, frames: numpy.ndarray) -> None:
    """By the check, which decodes through the plug-in."""
    expected = file.with_name("expected.npy")
    numpy.save(expected, frames)
    checked = run("check", str(file), "--against", str(expected), "--json")
    report = json.loads(checked.stdout)
    assert checked.returncode == 0, report
    assert (report["compared_frames"], report["different_frames"]) == (len(frames), 0)


def test_a_check_without_plug_ins_looks_at_checksums_alone(
    recorded: Recorded, run: Run, tmp_path: Path
) -> None:
    frames = frames_of("uint16")
    file = recorded(frames, configure(tmp_path, "{filter: blosc}"))
    expect_equal(run, file, frames)
    checked = run("check", str(file), "--no-plugins", "--json")
    report = json.loads(checked.stdout)
    assert checked.returncode == 0, report
    assert report["chunks"] >= len(frames)
    (finding,) = (each for each in report["findings"] if "cannot be decoded" in each["what"])
    assert (finding["level"], finding["where"]) == ("warning", "/entry/data/data")
    assert "32001" in finding["actual"]
    expected = tmp_path / "expected.npy"
    compared = run("check", str(file), "--no-plugins", "--against", str(expected), "--json")
    assert (compared.returncode, json.loads(compared.stdout)["compared_frames"]) == (1, 0)


def test_without_plug_ins_values_that_need_one_are_unreadable(tmp_path: Path) -> None:
    program = """
import sys, h5py, hdf5plugin
from penstock.files.hdf5 import use_no_plugins, value_of
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("plain", data=[7] * 64)
    file.create_dataset("filtered", data=[7] * 64, chunks=(64,), compression=hdf5plugin.Blosc())
def values():
    with h5py.File(sys.argv[1]) as file:
        return [value_of(file, name) == [7] * 64 for name in ("plain", "filtered")]
print(values())
use_no_plugins()
print(values())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.h5")], text=True, capture_output=True, check=False
    )
    assert done.stdout.splitlines() == ["[True, True]", "[True, False]"], done.stderr


def test_each_channel_by_name_or_number_with_its_parameters(
    record: Record, run: Run, tmp_path: Path, free_port: int, nothing_stays_open: None
) -> None:
    codec = (
        "{filter: blosc, parameters: {cname: zstd, clevel: 3, shuffle: 2},"
        " channels: {high: {filter: 32015, parameters: [5]}}}"
    )
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, configure(tmp_path, codec), "--zmq", endpoint, "--series", "1", listen=False)
    frames = frames_of("uint16")
    send(
        endpoint, frames, start={**start_message("uint16", len(frames)), "channels": ["threshold_1", "high"]}
    )
    end = recorder.series_end()
    assert (end.frames_written, end.problem, end.unfiltered) == (len(frames), None, 0)
    file = tmp_path / "s.h5"
    with h5py.File(file) as content:
        low, high = content["/entry/data/data"], content["/entry/data/channel_1_high"]
        bytes_of_a_chunk = SHAPE[1] * SHAPE[2] * 2
        assert filter_of(low) == (hdf5plugin.FILTERS["blosc"], (2, 2, 2, bytes_of_a_chunk, 3, 2, 5))
        assert filter_of(high) == (hdf5plugin.FILTERS["zstd"], (5,))
        for data in (low, high):
            assert masks_of(data) == [0] * len(frames)
            assert data.id.get_storage_size() < frames.nbytes
            assert numpy.array_equal(data[...], frames)
    expect_equal(run, file, frames)


def test_chunks_that_a_plug_in_cannot_make_smaller_are_stored_as_they_came(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(
        tmp_path, configure(tmp_path, "{filter: blosc}"), "--zmq", endpoint, "--series", "1", listen=False
    )
    frames = frames_of("uint16")
    noise = (1, 4)
    frames[noise, :, :] = numpy.random.default_rng(3).integers(0, 65536, (len(noise), *SHAPE[1:]))
    send(endpoint, frames)
    end = recorder.series_end()
    assert (end.frames_written, end.problem, end.unfiltered) == (len(frames), None, len(noise))
    assert "; 2 unfiltered" in recorder_summary(end)
    with h5py.File(tmp_path / "s.h5") as content:
        data = content["/entry/data/data"]
        assert masks_of(data) == [int(number in noise) for number in range(len(frames))]
        assert numpy.array_equal(data[...], frames)
        for number in noise:
            assert data.id.read_direct_chunk((number, 0, 0))[1] == frames[number].tobytes()
    expect_equal(run, tmp_path / "s.h5", frames)


def test_parameters_with_which_a_plug_in_fails_are_refused_before_there_is_a_file(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port}"
    configuration = configure(tmp_path, "{filter: 32001, parameters: [0, 0, 0, 0, 99, 1, 0]}")  # level 99
    recorder = record(tmp_path, configuration, "--zmq", endpoint, "--series", "1", listen=False)
    send(endpoint, frames_of("uint16"))
    rejected = recorder.until(Rejected)
    assert isinstance(rejected, Rejected)
    for word in ("blosc (filter 32001)", "99", "codec.parameters"):
        assert word in rejected.message
    assert not (tmp_path / "s.h5").exists()


@pytest.mark.slow
def test_a_killed_recorders_file_is_recovered_and_gone_on_in(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    configuration = configure(tmp_path, "{filter: 32008, parameters: [0, 3, 2]}")
    recorders = Recorders(record, tmp_path, free_port, configuration)
    # Long enough that it still goes on when its progress, told twice a second, is known here.
    options = ("--frames", "4000", "--rate", "800", "--series-name", "on")
    with simulator(f"127.0.0.1:{free_port}", *options) as detector:
        progress_beyond(recorders.current, 200)
        recorders.kill()
        file, copy = tmp_path / "on.h5", tmp_path / "copy.h5"
        shutil.copy(file, copy)
        recorders.start()
        end = recorders.current.series_end()
        _, log = detector.communicate(timeout=60)
        assert detector.returncode == 0, log
    assert (end.frames_received, end.frames_written, end.missing) == (4000, 4000, 0)
    is_whole(run, file, 4000)

    assert run("recover", str(copy)).returncode == 0
    assert stamps_are_right(copy) > 200
    with h5py.File(file) as gone_on, h5py.File(copy) as recovered:
        assert filter_of(gone_on["/entry/data/data"]) == filter_of(recovered["/entry/data/data"])


def test_a_series_does_not_go_on_with_another_filter(record: Record, tmp_path: Path, free_port: int) -> None:
    recorders = Recorders(record, tmp_path, free_port, configure(tmp_path, "{filter: zstd}"))
    options = ("--frames", "100000", "--rate", "400", "--series-name", "on")
    with simulator(f"127.0.0.1:{free_port}", *options) as detector:
        progress_beyond(recorders.current, 100)
        recorders.kill()
        recorders.options = (configure(tmp_path, "{filter: zstd, parameters: {clevel: 9}}"),)
        recorders.start()
        _, log = detector.communicate(timeout=60)
    assert detector.returncode != 0
    assert re.search(r"filters are 32015 \[3\].* this recorder's .*32015 \[9\]", log), log


def test_a_slot_holds_what_a_plug_in_makes_and_what_it_cannot_make_smaller(
    record: Record, run: Run, tmp_path: Path, free_port: int
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(
        tmp_path,
        configure(tmp_path, "{filter: blosc}"),
        *("--placement", "slots", "--zmq", endpoint, "--series", "1"),
        listen=False,
    )
    frames = frames_of("uint16")
    frames[2] = numpy.random.default_rng(4).integers(0, 65536, SHAPE[1:])
    send(endpoint, frames)
    end = recorder.series_end()
    assert (end.frames_written, end.problem, end.unfiltered) == (len(frames), None, 1)
    expect_equal(run, tmp_path / "s.h5", frames)
