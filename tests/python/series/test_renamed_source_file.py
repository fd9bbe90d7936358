"""A source file of a split series that somebody renames while the series is recorded."""

from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record
from plain_client import ACK, Client, frames_of

from penstock.report.progress import recorder_summary

SHAPE = (30, 40)


@pytest.mark.parametrize("number", [0, 1])  # one that is closed, and one that is open
def test_series_ends_and_names_the_renamed_source_file(record: Record, tmp_path: Path, number: int) -> None:
    recorder = record(tmp_path, "--files", "split", "--frames-per-file", "3", "--series", "1")
    frames = frames_of(4)
    renamed, elsewhere = tmp_path / f"s_member_{number}.h5", tmp_path / "elsewhere.h5"
    with Client(recorder.address) as client:
        client.start("s", 0, SHAPE)
        for each, frame in enumerate(frames):
            client.image("s", each, frame)
        while client.receive()[1]["safe_below"] < len(frames):
            pass
        renamed.rename(elsewhere)
        kind, told = client.receive()
        while kind == ACK:
            kind, told = client.receive()
    end = recorder.series_end()
    recorder.process.wait(60)
    problem = end.problem or ""
    assert (problem.count(renamed.name), "rename it back" in problem) == (1, True), problem
    assert problem in str(told), told
    assert (end.removed, end.frames_received) == (False, 4)
    assert "deleted" not in recorder_summary(end)
    elsewhere.rename(renamed)
    with h5py.File(tmp_path / "s.h5") as file:
        assert np.array_equal(file["/entry/data/data"][...], frames)
