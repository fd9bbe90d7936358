"""Readers that have a growing file open before its first frame tells what it has remaining for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record
from plain_client import ACK, CLOSED, END, IMAGE, Client, frames_of, image_fields

FRAMES = frames_of(5)


@contextmanager
def open_growing(path: Path, locking: bool) -> Iterator[h5py.File]:
    while True:
        try:
            file = h5py.File(path, "r", swmr=True, locking=locking)
            break
        except (FileNotFoundError, BlockingIOError):  # it is just being made
            time.sleep(0.1)
    with file:
        yield file


@pytest.mark.parametrize("locking", [True, False])
def test_a_reader_that_is_early_costs_no_frame(record: Record, tmp_path: Path, locking: bool) -> None:
    """The file is made anew for what frames bring along. The reader keeps the one that it has."""
    recorder = record(tmp_path)
    path = tmp_path / "s.h5"
    with Client(recorder.address) as client:
        client.start("s", len(FRAMES), FRAMES[0].shape)
        with open_growing(path, locking) as early:
            for number, frame in enumerate(FRAMES):
                data = frame.astype("<u2").tobytes()
                fields = image_fields(1, "s", number, list(frame.shape), len(data))
                client.send(IMAGE, fields | {"user_data": {"motor": 0.5 * number}}, data)
            assert client.until(ACK)
            data = early["/entry/data/data"]
            data.refresh()
            assert data.shape == (0, *FRAMES[0].shape)
        client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        assert client.until(CLOSED)["problem"] is None
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (len(FRAMES), 0, None)
    with h5py.File(path) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], FRAMES)
        assert list(file["/entry/metadata/motor"]) == [0.5 * number for number in range(len(FRAMES))]
    assert [each.name for each in tmp_path.iterdir()] == ["s.h5"]


def test_a_file_that_somebody_put_in_the_name_stays(record: Record, tmp_path: Path) -> None:
    """Also where the recorder's own was there before: of that one nothing is lost."""
    recorder = record(tmp_path)
    path = tmp_path / "s.h5"
    with Client(recorder.address) as client:
        client.start("s", 1, FRAMES[0].shape)
        path.rename(tmp_path / "moved.h5")
        path.write_text("somebody's", encoding="ascii")
        data = FRAMES[0].astype("<u2").tobytes()
        fields = image_fields(1, "s", 0, list(FRAMES[0].shape), len(data))
        client.send(IMAGE, fields | {"user_data": {"motor": 0.5}}, data)
        client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        end = recorder.series_end()
    assert end.problem is not None
    assert "removed or replaced" in end.problem
    assert path.read_text(encoding="ascii") == "somebody's"
