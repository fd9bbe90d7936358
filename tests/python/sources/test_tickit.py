"""Series of a facility's EIGER simulator, which serves messages captured from a real EIGER2 16M."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, RecordCommand
from pulled_series import noted, pull, rejected
from tickit_eiger import Eiger, captured, data_folder, unpacked

from penstock.model.events import RecorderSeriesEnd

DETECTOR = "/entry/instrument/detector"
FRAMES = 2
SETTINGS = "end_timeout_s: 3\n"
SERIES_MAX = 20


def recorded(
    recorder: RecordCommand, acquire: Callable[[], None], suffices: Callable[[RecorderSeriesEnd], bool]
) -> RecorderSeriesEnd:
    """The end of the first series of which enough came.

    The simulator drops what it sends before ZeroMQ's handshake is over, and sends Stream V1's header and
    first image as parts of one message if both are ready; then it acquires again.
    """
    ends: queue.Queue[RecorderSeriesEnd] = queue.Queue()

    def listen() -> None:
        with contextlib.suppress(AssertionError, ValueError):
            while True:
                ends.put(recorder.series_end())

    threading.Thread(target=listen, daemon=True).start()
    until = time.monotonic() + 90
    while time.monotonic() < until:
        with contextlib.suppress(OSError, queue.Empty):
            acquire()
            ended = ends.get(timeout=15)
            assert ended.problem is None
            if suffices(ended):
                return ended
    assert recorder.process.poll() is None, "the recorder ended"
    pytest.skip("the simulator sent no whole series within 90 s")


@pytest.mark.slow
@pytest.mark.parametrize("detail", ["basic", "all"])
def test_stream_v2_without_a_type_is_recorded(record: Record, tmp_path: Path, detail: str) -> None:
    start, image = captured("start"), captured("image")
    assert "image_dtype" not in start, "that is what makes this peer worth it"
    with Eiger(tmp_path) as eiger:
        recorder = pull(record, tmp_path, eiger.cbor, settings=SETTINGS, pool="1GiB", series=SERIES_MAX)
        ended = recorded(
            recorder,
            lambda: eiger.acquire(FRAMES, "cbor", detail),
            lambda end: (end.frames_received, end.missing) == (FRAMES, 0),
        )
    shape = (start["image_size_y"], start["image_size_x"])
    tag = image["data"]["threshold_1"].value[1]
    algorithm, _, packed = tag.value.value
    assert algorithm == "bslz4"
    pixels = unpacked(packed, {69: "<u2", 70: "<u4"}[tag.tag], shape)
    with h5py.File(ended.file) as file:
        assert file["/entry/data/data"].shape == (FRAMES, *shape)
        assert file["/entry/data/data"].dtype == pixels.dtype
        for frame in range(FRAMES):
            assert numpy.array_equal(file["/entry/data/data"][frame], pixels)
        assert list(file["/entry/penstock/frame_state"]) == [1] * FRAMES
        told = {
            "beam_center_x": start["beam_center_x"],
            "beam_center_y": start["beam_center_y"],
            "count_time": start["count_time"],
            "frame_time": start["frame_time"],
            "sensor_thickness": start["sensor_thickness"],
            "x_pixel_size": start["pixel_size_x"],
            "saturation_value": start["saturation_value"],
            "threshold_energy": start["threshold_energy"]["threshold_1"],
        }
        for name, value in told.items():
            assert file[f"{DETECTOR}/{name}"][()] == pytest.approx(value, rel=1e-12), name
        assert file[f"{DETECTOR}/description"][()].decode() == start["detector_description"]
        assert file[f"{DETECTOR}/serial_number"][()].decode() == start["detector_serial_number"]
        assert file["/entry/instrument/beam/incident_wavelength"][()] == start["incident_wavelength"]
        assert file["/entry/penstock/series_unique_id"][()].decode() == start["series_unique_id"]
        # The simulator's own masks are text, where arrays should be: they are kept as they came.
        assert ("flatfield_as_sent" in file.get("/entry/penstock/start", {})) == (detail == "all")
    assert len(set(noted(recorder))) == (3 if detail == "all" else 0), noted(recorder)


@pytest.mark.slow
def test_stream_v1_is_recorded(record: Record, tmp_path: Path) -> None:
    with Eiger(tmp_path) as eiger:
        recorder = pull(record, tmp_path, eiger.legacy, settings=SETTINGS, pool="1GiB", series=SERIES_MAX)
        ended = recorded(
            recorder,
            lambda: eiger.acquire(FRAMES, "legacy", "all"),
            lambda end: end.frames_announced == FRAMES and end.frames_received > 0,
        )
    start = captured("start")
    pixels = unpacked(
        (data_folder() / "frame_sample").read_bytes(), "<u2", (start["image_size_y"], start["image_size_x"])
    )
    with h5py.File(ended.file) as file:
        came = numpy.flatnonzero(file["/entry/penstock/frame_state"][...] == 1)
        assert len(came) == ended.frames_received
        for frame in came:
            assert numpy.array_equal(file["/entry/data/data"][frame], pixels)
        assert file[f"{DETECTOR}/pixel_mask"].shape == pixels.shape
        assert file[f"{DETECTOR}/sensor_material"][()] == b"Si"
    assert [text for text in rejected(recorder) if "image" in text] == []
