"""Frames of elements with gaps that choose their dataset: each shows its frames with the gaps."""

from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from conftest import Record, Run
from plain_client import IMAGE, image_fields
from test_element_gaps import FILL, close_all, elements_of, with_gaps
from test_elements import part_of, whole_frames

pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def test_frames_with_gaps_are_in_the_dataset_that_they_name(record: Record, run: Run, tmp_path: Path) -> None:
    layout = tmp_path / "layout.yaml"
    layout.write_text("destination: where\ntree: {a: {frames: 0}, b: {frames: 0}}\n", encoding="utf-8")
    recorder = record(tmp_path, "--layout", str(layout))
    frames = whole_frames(5, (2, 1))
    with elements_of(recorder, 5, (2, 1), [7, 0]) as clients:
        for number, frame in enumerate(frames):
            for element, client in enumerate(clients):
                pixels = part_of(frame, (2, 1), element).astype("<u2")
                fields = image_fields(1, "s", number, list(pixels.shape), pixels.nbytes)
                if number % 2 and element == 1:
                    fields["user_data"] = {"where": "/b"}
                client.send(IMAGE, fields, pixels.tobytes())
        close_all(clients)
    end = recorder.series_end()
    expected = with_gaps(frames, ([7], []), FILL)
    with h5py.File(end.file) as file:
        assert np.array_equal(file["/entry/penstock/frames/data"][...], expected)
        assert np.array_equal(file["/a"][...], expected[::2])
        assert np.array_equal(file["/b"][...], expected[1::2])
    checked = run("check", str(end.file), "--require-complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr
