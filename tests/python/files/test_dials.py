"""Recorded files as DIALS reads them: how many images, which pixels are counts, and which sensor.

DIALS itself needs a compiler. Here are its own parser, nxmx, and the rules of its class for NXmx files, read
in the sources of dxtbx.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import nxmx
import pytest
import v1_detector as v1
from conftest import Record, Recorded
from detector_stream import SHAPE, frames_of, send, start_message
from pulled_series import endpoints, pull
from pusher import Pusher

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
DETECTOR = "/entry/instrument/detector"
STILL = {"increment": 0.0, "start": 12.5}
Message = dict[str, object]
parse_nxmx: Any = nxmx.NXmx
MATERIALS = {"Si": "Si", "Silicon": "Si", "CdTe": "CdTe", "GaAs": "GaAs"}


class SensorError(Exception):
    """DIALS cannot read a file whose sensor it does not know."""


@dataclass(frozen=True)
class DialsImages:
    """The images of a file as DIALS has them."""

    first_angle: float | None
    """In degrees; None without a goniometer."""
    width: float
    counts: numpy.ndarray
    """Signed; -1 and -2 are flags."""
    trusted: tuple[float, float]
    material: str
    thickness_mm: float

    @property
    def is_count(self) -> numpy.ndarray:
        """Returns True where a pixel is within the trusted range, which includes both ends."""
        valid: numpy.ndarray = (self.counts >= self.trusted[0]) & (self.counts <= self.trusted[1])
        return valid


def read_as_dials(path: Path) -> DialsImages:
    """Raises SensorError if DIALS would give up because of the sensor."""
    with h5py.File(path) as file:
        entry = parse_nxmx(file).entries[0]
        detector = entry.instruments[0].detectors[0]
        material, thickness_mm = _sensor(detector)
        data = entry.data[0][entry.data[0].signal]
        first, width, length = _scan(entry.samples[0].depends_on, len(data))
        low, high = detector.underload_value, detector.saturation_value
        return DialsImages(
            first,
            width,
            _without_flags(data[:length], detector.bit_depth_readout),
            (-0x7FFFFFFF if low is None else low, 0x7FFFFFFF if high is None else high),
            material,
            thickness_mm,
        )


def _sensor(detector: Any) -> tuple[str, float]:
    if detector.sensor_material not in MATERIALS:
        raise SensorError(f"Unknown material: {detector.sensor_material}")
    if "sensor_thickness" not in detector:
        raise SensorError("sensor_thickness is not there")
    return MATERIALS[detector.sensor_material], float(detector.sensor_thickness.to("mm").magnitude)


def _scan(axis: Any, images: int) -> tuple[float | None, float, int]:
    """Returns the first angle, the width of an image, and the number of images: that of the angles."""
    if axis is None:
        return None, 0.0, images
    chain = nxmx.get_dependency_chain(axis)
    turning = (each for each in chain if len(each) > 1 and not numpy.all(each[()] == each[0]))
    axis = next(turning, axis)
    widths = axis.end[()] - axis[()] if axis.end else numpy.diff(axis[()])
    return (
        float(axis[0].to("degree").magnitude),
        float(numpy.median(widths.to("degree").magnitude)),
        len(axis),
    )


def _without_flags(data: numpy.ndarray, bits: int | None) -> numpy.ndarray:
    """Returns the values in 32 bits with a sign. The two highest of those with `bits` become -1 and -2."""
    is_small = data.dtype.itemsize <= (4 if data.dtype.kind == "i" else 2)
    if not is_small and bits != 32:
        raise TypeError(f"Unsupported integer dtype {data.dtype}")
    counts = data.astype("int32")
    if bits:
        top = 2 ** (31 if bits == 32 else bits)
        counts[counts == top - 1] = -1
        counts[counts == top - 2] = -2
    return counts


@pytest.mark.parametrize("announced", [len(frames_of("uint16")), 0])
@pytest.mark.parametrize(
    ("goniometer", "angle"),
    [({"omega": STILL}, 12.5), ({"chi": STILL, "phi": STILL}, None), ({}, None)],
    ids=["omega", "others", "none"],
)
def test_all_images_of_a_standing_goniometer_are_seen(
    recorded: Recorded, announced: int, goniometer: Message, angle: float | None
) -> None:
    frames = frames_of("uint16")
    start = start_message("uint16", announced) | {"goniometer": goniometer}
    images = read_as_dials(recorded(frames, start=start))
    assert (images.first_angle, images.width) == (angle, 0)
    assert len(images.counts) == len(frames)


def test_a_turning_goniometer_is_read(recorded: Recorded) -> None:
    images = read_as_dials(recorded(frames_of("uint16")))
    assert images.first_angle == 10
    assert images.width == pytest.approx(0.1)
    assert len(images.counts) == SHAPE[0]


@pytest.mark.parametrize("kind", ["uint16", "uint32", "int32"])
def test_flags_are_no_counts_without_a_mask(recorded: Recorded, kind: str) -> None:
    frames = frames_of(kind)
    start = start_message(kind, len(frames))
    del start["pixel_mask"], start["saturation_value"]
    images = read_as_dials(recorded(frames, start=start))
    flagged = numpy.zeros(SHAPE, bool)
    flagged[:, :, 40:44] = True
    assert numpy.array_equal(images.is_count, ~flagged)


@pytest.mark.parametrize("bits", [16, 32])
def test_an_electronics_of_fewer_bits_masks_no_counts(record: Record, tmp_path: Path, bits: int) -> None:
    """Stream V1 has the bits of the electronics, of which 4094 and 4095 are the highest counts."""
    frames = frames_of(f"uint{bits}")
    frames[:, 3, :2] = 4094, 4095
    header = v1.header(7, "basic", SHAPE[1:])
    header[1] = v1.text(v1.CONFIG | {"bit_depth_image": bits, "bit_depth_readout": 12})
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as pusher:
        pusher.parts(
            header, *(v1.image(7, number, pixels) for number, pixels in enumerate(frames)), v1.end(7)
        )
        path = Path(recorder.series_end().file)
    images = read_as_dials(path)
    assert (images.counts[:, 3, :2] == (4094, 4095)).all()
    assert images.is_count[:, 3, :2].all()
    assert not images.is_count[:, :, 40:44].any()
    with h5py.File(path) as file:
        assert file["/entry/penstock/bit_depth_readout"][()] == 12


def without_sensor(**sensor: object) -> Message:
    start = start_message("uint16", SHAPE[0])
    del start["sensor_material"], start["sensor_thickness"]
    return start | sensor


def finish(process: "subprocess.Popen[str]") -> str:
    """Returns the log of a recorder that ends by itself."""
    return process.communicate(timeout=60)[1]


@pytest.mark.parametrize(
    ("sensor", "problem"),
    [
        ({}, "sensor_material is not known: set nexus.sensor_material; sensor_thickness is not known"),
        ({"sensor_material": "Si"}, "sensor_thickness is not known: set nexus.sensor_thickness"),
        ({"sensor_material": "CsI", "sensor_thickness": 1e-4}, "sensor_material is CsI"),
    ],
    ids=["none", "thickness", "material"],
)
def test_what_dials_needs_to_know_of_the_sensor_is_asked_for(
    logged: Callable[..., tuple[Path, str]], sensor: Message, problem: str
) -> None:
    path, log = logged(without_sensor(**sensor))
    assert f'series "s": DIALS cannot read its file: {problem}' in log
    with h5py.File(path) as file:
        assert ("sensor_thickness" in file[DETECTOR]) == ("sensor_thickness" in sensor)
    with pytest.raises(SensorError):
        read_as_dials(path)


def test_the_configuration_supplies_the_sensor(logged: Callable[..., tuple[Path, str]]) -> None:
    options = ["--set", "nexus.sensor_material=silicon", "--set", "nexus.sensor_thickness=4.5e-4"]
    path, log = logged(without_sensor(), *options)
    assert "DIALS" not in log
    images = read_as_dials(path)
    assert images.material == "Si"
    assert images.thickness_mm == pytest.approx(0.45)


def test_a_sensor_is_asked_for_only_with_a_wavelength(
    logged: Callable[..., tuple[Path, str]],
) -> None:
    start: dict[str, Any] = without_sensor()
    del start["incident_energy"]
    assert "DIALS" not in logged(start)[1]


@pytest.fixture
def logged(record: Record, tmp_path: Path, free_port: int) -> Callable[..., tuple[Path, str]]:
    """Records a series, and returns its file and what the recorder logged."""

    def make(start: Message, *options: str) -> tuple[Path, str]:
        endpoint = f"tcp://127.0.0.1:{free_port}"
        recorder = record(tmp_path, "--zmq", endpoint, "--series", "1", *options, listen=False)
        send(endpoint, frames_of("uint16"), start=start)
        recorder.series_end()
        return tmp_path / "s.h5", finish(recorder.process)

    return make
