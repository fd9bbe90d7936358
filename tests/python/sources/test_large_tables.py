"""The largest start message: an EIGER2 16M with two thresholds, each with a mask and a flat field."""

from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record
from detector_stream import IDENTITY, multi_dimensional
from pusher import Pusher

ROWS, COLUMNS = 4362, 4148
CHANNELS = ("threshold_1", "threshold_2")
STORED = {"threshold_1": "", "threshold_2": "_threshold_2"}


@pytest.mark.slow  # it takes 2 GB of memory
def test_masks_and_flat_fields_of_an_eiger2_16m_fit_the_defaults(
    record: Record, tmp_path: Path, free_port: int
) -> None:
    random = numpy.random.default_rng(16)
    masks = {name: random.integers(0, 32, (ROWS, COLUMNS)).astype("uint32") for name in CHANNELS}
    fields = {name: random.normal(1, 0.05, (ROWS, COLUMNS)).astype("float32") for name in CHANNELS}
    image = random.poisson(1, (ROWS, COLUMNS)).astype("uint16")
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, "--zmq", endpoint, "--series", "1", "--pool", "1GiB", listen=False)
    with Pusher(endpoint) as detector:
        detector.send(
            {
                "type": "start",
                **IDENTITY,
                "channels": list(CHANNELS),
                "image_dtype": "uint16",
                "image_size_x": COLUMNS,
                "image_size_y": ROWS,
                "number_of_images": 1,
                "pixel_mask": {name: multi_dimensional(mask) for name, mask in masks.items()},
                "flatfield": {name: multi_dimensional(field) for name, field in fields.items()},
            },
            {
                "type": "image",
                **IDENTITY,
                "image_id": 0,
                "data": {name: multi_dimensional(image) for name in CHANNELS},
            },
            {"type": "end", **IDENTITY},
        )
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.problem) == (1, 0, None)
    with h5py.File(tmp_path / "s.h5") as file:
        detector_group = file["/entry/instrument/detector"]
        for name in CHANNELS:
            assert (detector_group[f"pixel_mask{STORED[name]}"][...] == masks[name]).all()
            assert (detector_group[f"flatfield{STORED[name]}"][...] == fields[name]).all()
