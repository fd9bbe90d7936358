"""Recorded files in the field's own readers: each opens them, finds the frames and reads the right pixels.

The reference is what h5py reads, and h5py's pixels are compared with the sent frames by `penstock check`.
"""

from pathlib import Path
from typing import Any

import fabio
import h5grove.content
import h5py
import hdf5plugin  # noqa: F401
import numpy
import nxmx
import pytest
import silx.io.nxdata.parse
import silx.io.utils
from conftest import Recorded
from detector_stream import SHAPE, frames_of
from nexusformat.nexus import nxload

find_default: Any = silx.io.nxdata.parse.get_default
parse_nxmx: Any = nxmx.NXmx
CODECS = ("none", "bslz4", "bszstd", "lz4", "zstd", "deflate")


pytestmark = pytest.mark.usefixtures("nothing_stays_open")


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize("codec", CODECS)
def test_h5py_reads_every_codec_and_type(recorded: Recorded, codec: str, kind: str) -> None:
    frames = frames_of(kind)
    path = recorded(frames, "--codec", codec)
    with h5py.File(path) as file:
        data = file["/entry/data/data"]
        assert data.dtype == frames.dtype
        assert data.chunks == (1, *SHAPE[1:])
        assert numpy.array_equal(data[...], frames)


def test_missing_frames_read_as_the_fill_value_everywhere(recorded: Recorded, tmp_path: Path) -> None:
    frames = frames_of("uint16")
    settings = tmp_path / "recorder.yaml"
    settings.write_text("end_timeout_s: 0.1\n", encoding="utf-8")
    path = recorded(frames, str(settings), leave_out=(2,))
    frames[2] = numpy.iinfo("uint16").max
    with h5py.File(path) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], frames)
        assert list(file["/entry/penstock/frame_state"]) == [1, 1, 0, 1, 1, 1]
    with fabio.open(str(path)) as image:
        assert numpy.array_equal(image.get_frame(2).data, frames[2])


def test_silx_shows_the_frames_by_default(recorded: Recorded) -> None:
    frames = frames_of("uint16")
    path = recorded(frames)
    opened: Any = silx.io.utils
    with opened.open(str(path)) as file:
        shown: Any = find_default(file)
        assert shown is not None, "no default plot"
        assert shown.is_valid
        assert shown.signal.name == "/entry/data/data"
        assert numpy.array_equal(shown.signal[...], frames)


def test_fabio_reads_every_frame(recorded: Recorded) -> None:
    frames = frames_of("int32")
    path = recorded(frames)
    with fabio.open(str(path)) as images:
        assert images.nframes == len(frames)
        for number, frame in enumerate(frames):
            assert numpy.array_equal(images.get_frame(number).data, frame)


def test_nexusformat_loads_the_tree(recorded: Recorded) -> None:
    frames = frames_of("uint16")
    root = nxload(str(recorded(frames)))
    assert root.entry.nxclass == "NXentry"
    assert root.entry.instrument.detector.nxclass == "NXdetector"
    with root.nxfile:
        assert numpy.array_equal(root.entry.data.nxsignal.nxvalue, frames)
        assert root.entry.definition.nxvalue == "NXmx"


def test_nxmx_finds_beam_detector_and_geometry(recorded: Recorded) -> None:
    path = recorded(frames_of("uint16"))
    with h5py.File(path) as file:
        entry: Any = parse_nxmx(file).entries[0]
        assert entry.definition == "NXmx"
        assert entry.instruments[0].beams[0].incident_wavelength.to("angstrom").magnitude == pytest.approx(1)
        detector = entry.instruments[0].detectors[0]
        assert detector.sensor_thickness.to("mm").magnitude == pytest.approx(0.45)
        assert detector.count_time.to("ms").magnitude == pytest.approx(9)
        assert detector.saturation_value == 1000
        assert detector.pixel_mask.shape == SHAPE[1:]
        module = detector.modules[0]
        assert list(module.data_size) == list(SHAPE[1:])
        # Where the module's first pixel is, by the chain of transformations: McStas axes, x to the left.
        chain = nxmx.get_dependency_chain(module.fast_pixel_direction)
        assert str(chain[-1].path).endswith("detector/transformations/translation")
        place = nxmx.get_cumulative_transformation(chain[1:])[0] @ numpy.array([0, 0, 0, 1])
        assert place[:3] == pytest.approx([48.5 * 0.172, 30.25 * 0.172, 250])
        axis = nxmx.get_rotation_axes(nxmx.get_dependency_chain(entry.samples[0].depends_on))
        assert list(axis.names) == ["omega"]
        omega = file["/entry/sample/transformations/omega"]
        assert list(omega) == pytest.approx([10 + 0.1 * number for number in range(SHAPE[0])])


def test_h5grove_serves_the_frames(recorded: Recorded) -> None:
    frames = frames_of("uint16")
    path = recorded(frames)
    with h5py.File(path) as file:
        content = h5grove.content.create_content(file, "/entry/data/data")
        assert content.metadata()["kind"] == "dataset"
        assert numpy.array_equal(content.data("2"), frames[2])
