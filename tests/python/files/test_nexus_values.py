"""One series with every value another one, opened by each consumer: is what it reads what was sent?

Geometry is evaluated three times: by hand from the message, by walking depends_on here, and by nxmx.
"""

from pathlib import Path
from typing import Any

import fabio
import h5py
import hdf5plugin  # noqa: F401
import nexus_series as sent
import numpy
import nxmx
import pytest
import silx.io.nxdata.parse
import silx.io.utils
from nexusformat.nexus import nxload

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
parse_nxmx: Any = nxmx.NXmx
find_default: Any = silx.io.nxdata.parse.get_default
open_silx: Any = silx.io.utils.open
DETECTOR = "/entry/instrument/detector"
# Of a unit in the file, in the unit that the message has.
SCALE = {
    "m": 1.0,
    "mm": 1e-3,
    "um": 1e-6,
    "s": 1.0,
    "ms": 1e-3,
    "ns": 1e-9,
    "eV": 1.0,
    "keV": 1e3,
    "angstrom": 1.0,
    "nm": 10.0,
    "pixel": 1.0,
    "degree": 1.0,
}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sent.record_series(tmp_path_factory.mktemp("values"))


def quantity(file: h5py.File, path: str) -> Any:
    """A value in the unit of the start message."""
    item = file[path]
    return item[()] * SCALE[item.attrs["units"]]


def transformation(item: h5py.Dataset, number: int = 0) -> numpy.ndarray:
    """The matrix of one step, as NXtransformations has it: the offset first, then along or about."""
    value = numpy.atleast_1d(item[()])[number] * SCALE[item.attrs["units"]]
    vector = numpy.asarray(item.attrs["vector"], float)
    matrix = numpy.eye(4)
    if item.attrs["transformation_type"] == "translation":
        matrix[:3, 3] = value * vector
    else:
        x, y, z = vector / numpy.linalg.norm(vector)
        cross = numpy.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        angle = numpy.radians(value)
        matrix[:3, :3] += numpy.sin(angle) * cross + (1 - numpy.cos(angle)) * cross @ cross
    offset = numpy.eye(4)
    offset[:3, 3] = (
        numpy.asarray(item.attrs.get("offset", (0, 0, 0))) * SCALE[item.attrs.get("offset_units", "m")]
    )
    return offset @ matrix


def place_of(file: h5py.File, row: float, column: float) -> list[float]:
    """Where a pixel is, in metres along McStas axes, from the file alone."""
    module = file[f"{DETECTOR}/module"]
    fast, slow = module["fast_pixel_direction"], module["slow_pixel_direction"]
    assert fast.attrs["depends_on"] == slow.attrs["depends_on"]
    assert (fast.attrs["transformation_type"], slow.attrs["transformation_type"]) == ("translation",) * 2
    along = sum(
        (
            pixels
            * direction[()]
            * SCALE[direction.attrs["units"]]
            * numpy.asarray(direction.attrs["vector"])
            for pixels, direction in ((column, fast), (row, slow))
        ),
        start=numpy.zeros(3),
    )
    matrix, at = numpy.eye(4), fast.attrs["depends_on"]
    for _ in range(10):
        if at == ".":
            break
        step = file[at]
        matrix = transformation(step) @ matrix
        at = step.attrs["depends_on"]
    assert at == ".", "the chain has an end"
    return list((matrix @ [*along, 1])[:3])


def by_hand(row: float, column: float) -> list[float]:
    """The same from the message: images run right and down as seen along the beam, where x is to the left."""
    return [
        (sent.CENTER_X - column) * sent.PIXEL_X_M,
        (sent.CENTER_Y - row) * sent.PIXEL_Y_M,
        sent.DISTANCE_M,
    ]


def test_every_quantity_is_the_one_that_was_sent_in_its_unit(series: Path) -> None:
    beam = "/entry/instrument/beam"
    with h5py.File(series) as file:
        told = {
            f"{DETECTOR}/x_pixel_size": sent.PIXEL_X_M,
            f"{DETECTOR}/y_pixel_size": sent.PIXEL_Y_M,
            f"{DETECTOR}/count_time": sent.COUNT_TIME_S,
            f"{DETECTOR}/frame_time": sent.FRAME_TIME_S,
            f"{DETECTOR}/sensor_thickness": sent.THICKNESS_M,
            f"{DETECTOR}/distance": sent.DISTANCE_M,
            f"{DETECTOR}/beam_center_x": sent.CENTER_X,
            f"{DETECTOR}/beam_center_y": sent.CENTER_Y,
            f"{DETECTOR}/threshold_energy": sent.THRESHOLDS_EV["threshold_1"],
            f"{DETECTOR}/threshold_energy_threshold_2": sent.THRESHOLDS_EV["threshold_2"],
            f"{beam}/incident_energy": sent.ENERGY_EV,
            f"{beam}/incident_wavelength": sent.WAVELENGTH_ANGSTROM,
        }
        assert {path: quantity(file, path) for path in told} == pytest.approx(told, rel=1e-12)
        detector = file[DETECTOR]
        assert detector["saturation_value"][()] == sent.SATURATION
        assert detector["sensor_material"][()] == b"CdTe"
        assert detector["description"][()] == b"Made Up 4k"
        assert detector["serial_number"][()] == b"E-01-0042"
        assert detector["bit_depth_readout"][()] == 16
        applied = ("countrate_correction", "flatfield", "pixel_mask", "virtual_pixel_interpolation")
        assert [detector[f"{name}_applied"][()] for name in applied] == [True, False, True, False]
        assert file["/entry/start_time"][()] == sent.ARM_DATE.encode()


def test_mask_flat_field_and_times_are_those_that_were_sent(series: Path) -> None:
    with h5py.File(series) as file:
        for suffix in ("", "_threshold_2"):
            mask = file[f"{DETECTOR}/pixel_mask{suffix}"]
            assert mask.dtype == "uint32"
            assert numpy.array_equal(mask, sent.mask()), "each bit keeps its place"
            assert numpy.array_equal(file[f"{DETECTOR}/flatfield{suffix}"], sent.flat_field())
        assert list(file[f"{DETECTOR}/countrate_correction_lookup_table"]) == list(range(5))
        timing = file["/entry/penstock/timing"]
        for column, name in (
            ("exposure_start", "start_time"),
            ("exposure_stop", "stop_time"),
            ("exposure_real", "real_time"),
        ):
            assert timing[column].attrs["units"] == "ns"
            exposures = [sent.exposure(number)[name] for number in range(sent.FRAMES)]
            assert list(timing[column]) == [ticks * 1_000_000_000 // clock for ticks, clock in exposures]


def test_h5py_reads_the_pixels_of_each_channel(series: Path) -> None:
    with h5py.File(series) as file:
        assert file["/entry/data"].attrs["signal"] == "data"
        for channel, name in enumerate(("data", "channel_1_threshold_2")):
            assert file[f"/entry/data/{name}"].attrs["channel"] == sent.CHANNELS[channel]
            assert numpy.array_equal(file[f"/entry/data/{name}"][...], sent.frames_of(channel))


@pytest.mark.parametrize(
    ("row", "column"), [(0, 0), (0, 79), (47, 0), (33, 12), (sent.CENTER_Y, sent.CENTER_X)]
)
def test_a_pixel_is_where_the_message_puts_it(series: Path, row: float, column: float) -> None:
    with h5py.File(series) as file:
        assert place_of(file, row, column) == pytest.approx(by_hand(row, column), abs=1e-12)


def test_the_sample_turns_by_what_was_sent(series: Path) -> None:
    with h5py.File(series) as file:
        sample = file["/entry/sample"]
        omega = file[sample["depends_on"][()].decode()]
        assert omega.name == "/entry/sample/transformations/omega"
        assert (omega.attrs["transformation_type"], omega.attrs["depends_on"]) == ("rotation", ".")
        assert list(omega.attrs["vector"]) == [-1, 0, 0]
        starts = sent.OMEGA_START + sent.OMEGA_STEP * numpy.arange(sent.FRAMES)
        axes = sample["transformations"]
        for name, angles in (
            ("omega", starts),
            ("omega_end", starts + sent.OMEGA_STEP),
            ("chi", [12]),
            ("omega_increment_set", sent.OMEGA_STEP),
            ("chi_increment_set", 0),
        ):
            assert quantity(file, f"{axes.name}/{name}") == pytest.approx(angles, rel=1e-12)
        # A point on +y goes to +z where the angle about -x is negative, and to -z where it is positive.
        turned = transformation(omega, number=2) @ [0, 1, 0, 1]
        angle = numpy.radians(starts[2])
        assert turned[:3] == pytest.approx([0, numpy.cos(angle), -numpy.sin(angle)])


def test_nxmx_reads_the_same(series: Path) -> None:
    """The parser of DIALS. Its units are pint's, so a wrong unit shows; lengths come out in millimetres."""
    with h5py.File(series) as file:
        entry: Any = parse_nxmx(file).entries[0]
        beam, detector = entry.instruments[0].beams[0], entry.instruments[0].detectors[0]
        assert beam.incident_wavelength.to("nm").magnitude == pytest.approx(sent.WAVELENGTH_ANGSTROM / 10)
        assert detector.count_time.to("us").magnitude == pytest.approx(1700)
        assert detector.frame_time.to("us").magnitude == pytest.approx(2300)
        assert detector.sensor_thickness.to("um").magnitude == pytest.approx(750)
        assert detector.distance.to("mm").magnitude == pytest.approx(217)
        assert detector.beam_center_x.magnitude == pytest.approx(sent.CENTER_X)
        assert detector.beam_center_y.magnitude == pytest.approx(sent.CENTER_Y)
        assert (detector.saturation_value, detector.sensor_material) == (sent.SATURATION, "CdTe")
        assert numpy.array_equal(detector.pixel_mask, sent.mask())
        module = detector.modules[0]
        assert list(module.data_size) == [sent.ROWS, sent.COLUMNS]
        pixel = [module.fast_pixel_direction, module.slow_pixel_direction]
        sizes = [numpy.ravel(step[()].to("um").magnitude)[0] for step in pixel]
        assert sizes == pytest.approx([75, 172])
        chain = nxmx.get_dependency_chain(module.fast_pixel_direction)
        origin = nxmx.get_cumulative_transformation(chain[1:])[0]
        along = [
            pixels * size * 1e-3 * numpy.asarray(step.vector)
            for pixels, size, step in zip((12, 33), sizes, pixel, strict=True)
        ]
        place = origin @ [*(along[0] + along[1]), 1]
        assert place[:3] == pytest.approx([1e3 * metres for metres in by_hand(33, 12)])
        axes = nxmx.get_rotation_axes(nxmx.get_dependency_chain(entry.samples[0].depends_on))
        assert (list(axes.names), list(axes.is_scan_axis)) == (["omega"], [True])
        assert [list(axis) for axis in axes.axes] == [[-1, 0, 0]]
        omega = entry.samples[0].depends_on[()].to("degree").magnitude
        assert omega[:2] == pytest.approx([sent.OMEGA_START, sent.OMEGA_START + sent.OMEGA_STEP])
        assert entry.data[0].signal == "data"


def test_silx_shows_the_first_channel(series: Path) -> None:
    with open_silx(str(series)) as file:
        shown = find_default(file)
        assert (shown.is_valid, shown.signal_name) == (True, "data (counts)")
        assert numpy.array_equal(shown.signal[...], sent.frames_of(0))


def test_fabio_reads_the_first_channel_and_no_frame_twice(series: Path) -> None:
    with fabio.open(str(series)) as images:
        assert (type(images).__name__, images.nframes) == ("EigerImage", sent.FRAMES)
        frames = numpy.stack([images.get_frame(number).data for number in range(sent.FRAMES)])
    assert numpy.array_equal(frames, sent.frames_of(0))


def test_nexusformat_reads_pixels_and_units(series: Path) -> None:
    root = nxload(str(series))
    with root.nxfile:
        assert numpy.array_equal(root.entry.data.nxsignal.nxvalue, sent.frames_of(0))
        detector = root.entry.instrument.detector
        assert (detector.x_pixel_size.nxvalue, detector.x_pixel_size.units) == (sent.PIXEL_X_M, "m")
        assert (detector.frame_time.nxvalue, detector.frame_time.units) == (sent.FRAME_TIME_S, "s")
        assert numpy.array_equal(detector.pixel_mask.nxvalue, sent.mask())


def test_durin_could_read_it(series: Path) -> None:
    """Not run here: what it is known to need. It reads NXdetector/data, by HDF5 and the bitshuffle filter."""
    with h5py.File(series) as file:
        strings: list[str] = []

        def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
            types = {f"{name}@{key}": h5py.h5a.open(item.id, key.encode()).get_type() for key in item.attrs}
            if isinstance(item, h5py.Dataset):
                types[name] = item.id.get_type()
            for place, kind in types.items():
                if isinstance(kind, h5py.h5t.TypeStringID) and not (
                    kind.is_variable_str() and kind.get_cset() == h5py.h5t.CSET_ASCII
                ):
                    strings.append(place)

        visit("/", file["/"])
        file.visititems(visit)
        # Text that frames bring along is of fixed length, so that it can be read while the file grows.
        assert strings == ["entry/metadata/place"], "only text of variable length in ASCII is read by all"
        data = file[f"{DETECTOR}/data"]
        assert data.chunks == (1, sent.ROWS, sent.COLUMNS)
        number, _, values, _ = data.id.get_create_plist().get_filter(0)
        assert (number, values) == (32008, (0, 4, 2, 0, 2))
        assert file.id.get_create_plist().get_version()[0] == 3
        of_class = [name for name, group in file["/entry"].items() if group.attrs.get("NX_class") == "NXdata"]
        assert of_class == ["data"]
