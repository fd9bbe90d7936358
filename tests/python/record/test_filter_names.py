"""Filter names in the file, as Debian's tools see them with the plug-ins of hdf5plugin on their path."""

import os
import subprocess
from pathlib import Path

import h5py
import hdf5plugin
import numpy
from conftest import Record
from pulled_series import FRAMES, end, endpoints, image, pull, start
from pusher import Pusher


def debian(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [f"/usr/bin/{name}", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH},
    )


def test_filters_have_a_name_that_h5repack_needs(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=6), *(image(frame) for frame in range(6)), end())
        recorder.series_end()
    path, again = tmp_path / "s.h5", tmp_path / "again.h5"
    recorder.process.wait(60)
    with h5py.File(path) as file:
        filters = file["/entry/data/data"].id.get_create_plist()
        number, _, values, name = filters.get_filter(0)
        assert (number, values, name) == (hdf5plugin.Bitshuffle.filter_id, (0, 4, 2, 0, 2), b"bitshuffle")
        assert numpy.array_equal(file["/entry/data/data"], FRAMES)
    properties = debian("h5dump", "-p", "-H", "-d", "/entry/data/data", str(path)).stdout
    assert "COMMENT bitshuffle" in properties, properties
    repacked = debian("h5repack", str(path), str(again))
    assert repacked.returncode == 0, f"{repacked.returncode}: {repacked.stderr[-500:]}"
    with h5py.File(again) as file:
        assert numpy.array_equal(file["/entry/data/data"], FRAMES)
