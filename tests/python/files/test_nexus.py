"""The NeXus structure of recorded files: judged by validators, and read back field by field."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy
import nxmx
import pytest
from conftest import Recorded, Run
from detector_stream import SHAPE, frames_of, full_message, least_message, multi_dimensional, start_message

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
parse_nxmx: Any = nxmx.NXmx
DETECTOR = "/entry/instrument/detector"
AXES = "/entry/sample/transformations"


def tool(name: str, *arguments: str) -> str:
    """What a program beside this Python, or of the system, says."""
    beside = Path(sys.executable).parent / name
    command = [str(beside) if beside.exists() else name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


@pytest.fixture
def full(recorded: Recorded) -> Path:
    frames = frames_of("uint16")
    return recorded(frames, start=full_message("uint16", len(frames)))


def first_pixel_mm(file: h5py.File) -> list[float]:
    """Where the first pixel is, by the chain of transformations that readers walk."""
    module = parse_nxmx(file).entries[0].instruments[0].detectors[0].modules[0]
    chain = nxmx.get_dependency_chain(module.fast_pixel_direction)
    place = nxmx.get_cumulative_transformation(chain[1:])[0] @ numpy.array([0, 0, 0, 1])
    return [float(component) for component in place[:3]]


@pytest.mark.parametrize("message", [pytest.param(start_message, marks=pytest.mark.slow), full_message])
def test_pynxtools_finds_nothing_but_what_it_takes_amiss(recorded: Recorded, message: Any) -> None:
    frames = frames_of("uint16")
    path = recorded(frames, start=message("uint16", len(frames)))
    said = tool("pynx", "validate", str(path))
    assert "NXmx" in said, said
    known = (
        "@channel has no documentation",  # ours, beside the standard's attributes
        "@_FillValue has no documentation",  # viewers' and netCDF's
        "@interpretation has no documentation",  # NXdata's, and NXmx has another list
        "@SILX_style",  # silx's colour scale
        "detector_distance has no documentation",  # of readers of EIGER's files
        "Reserved suffix '_offset'",  # module_offset and pixel_mask are NXmx's own names
        "Reserved suffix '_mask'",
        "@units does not match with the unit category NX_TRANSFORMATION",  # of angles outside the chain
        "threshold_energy_threshold_2 has no documentation",  # further channels have no place in NXmx
        "NOT valid according to the `NXmx`",  # because of any of these
    )
    lines = [line for line in said.splitlines() if "WARNING" in line or "ERROR" in line]
    assert not [line for line in lines if not any(text in line for text in known)], said


@pytest.mark.parametrize("message", [start_message, full_message])
def test_nexusformat_finds_no_error(recorded: Recorded, message: Any) -> None:
    frames = frames_of("uint16")
    path = recorded(frames, start=message("uint16", len(frames)))
    said = tool("nxvalidate", str(path))
    assert "Application Definition: NXmx" in said, said
    assert "Total number of errors: 0" in said, said


def test_hdf5s_own_tools_read_the_file(full: Path) -> None:
    listed = tool("h5ls", "-r", str(full))
    assert re.search(r"^/entry/data/data +Dataset \{6/Inf, 64, 96\}$", listed, re.MULTILINE), listed
    dumped = tool("h5dump", "-d", "/entry/instrument/beam/incident_wavelength", str(full))
    assert "(0): 1\n" in dumped, dumped


def test_groups_have_classes_and_quantities_have_units(full: Path) -> None:
    without_class: list[str] = []
    without_units: list[str] = []
    plain = re.compile(
        "series_id|frames|frame_state|data$|data_|saturation|underload|bit_depth|mask|flatfield|_applied|table"
        "|pixels_in_detector|count_cutoff"
    )

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Group) and "NX_class" not in item.attrs:
            without_class.append(name)
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf" and "units" not in item.attrs:
            without_units.append(name)

    with h5py.File(full) as file:
        file.visititems(visit)
    assert without_class == []
    assert [name for name in without_units if not plain.search(name)] == []


def test_every_field_of_the_start_message_is_in_the_file(full: Path) -> None:
    with h5py.File(full) as file:

        def value(path: str) -> Any:
            return file[path][()]

        assert value(f"{DETECTOR}/serial_number") == b"E-32-0000"
        assert value(f"{DETECTOR}/threshold_energy") == 6350
        assert value(f"{DETECTOR}/threshold_energy_threshold_2") == 12700
        assert list(value(f"{DETECTOR}/countrate_correction_lookup_table")) == list(range(8))
        assert value(f"{DETECTOR}/flatfield").shape == SHAPE[1:]
        applied = ("countrate_correction", "flatfield", "pixel_mask", "virtual_pixel_interpolation")
        assert [value(f"{DETECTOR}/{name}_applied") for name in applied] == [True, True, False, True]
        assert value(f"{DETECTOR}/flatfield_applied").dtype == bool
        assert value("/entry/start_time") == b"2026-11-20T10:00:00Z"
        assert re.fullmatch(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", value("/entry/end_time"))
        assert json.loads(value("/entry/penstock/user_data")) == {"proposal": "P1", "μ": [1, 2]}
        assert value("/entry/penstock/detector_translation")[2] == -0.25


def test_both_ways_to_tell_the_translation_lead_to_the_same_place(full: Path, recorded: Recorded) -> None:
    with h5py.File(full) as file:
        exact = first_pixel_mm(file)
    assert exact == pytest.approx([48.5 * 0.172, 30.25 * 0.172, 250])
    full.unlink()
    with h5py.File(recorded(frames_of("uint16"))) as file:
        assert first_pixel_mm(file) == pytest.approx(exact)


def test_the_sample_turns_about_omega_alone_and_the_arm_carries_the_detector(full: Path) -> None:
    with h5py.File(full) as file:
        sample = parse_nxmx(file).entries[0].samples[0]
        axes = nxmx.get_rotation_axes(nxmx.get_dependency_chain(sample.depends_on))
        assert (list(axes.names), list(axes.is_scan_axis)) == (["omega"], [True])
        omega = file[f"{AXES}/omega"]
        assert omega.shape == SHAPE[:1]
        assert list(file[f"{AXES}/omega_end"][...] - omega[...]) == pytest.approx([0.1] * SHAPE[0])
        assert file[f"{AXES}/chi"].attrs["units"] == "degree"
        assert "vector" not in file[f"{AXES}/chi"].attrs
        assert file[f"{DETECTOR}/transformations/two_theta"][0] == 20
        assert "two_theta" not in file[AXES]


def test_what_was_not_told_is_not_in_the_file(recorded: Recorded) -> None:
    frames = frames_of("uint16")
    path = recorded(frames, start=least_message("uint16", len(frames)))
    with h5py.File(path) as file:
        assert set(file[DETECTOR]) == {
            "bit_depth_readout",
            "data",
            "depends_on",
            "detectorSpecific",
            "module",
            "sensor_material",
            "transformations",
            "underload_value",
        }
        assert set(file[f"{DETECTOR}/detectorSpecific"]) == {"x_pixels_in_detector", "y_pixels_in_detector"}
        assert set(file[f"{DETECTOR}/module"]) == {"data_origin", "data_size"}
        assert file[f"{DETECTOR}/depends_on"][()] == b"."
        assert list(file["/entry/instrument/beam"]) == []
        assert file["/entry/sample/depends_on"][()] == b"."
        assert numpy.array_equal(file["/entry/data/data"][...], frames)


def test_the_first_channels_mask_is_the_one_that_readers_find(recorded: Recorded) -> None:
    frames = frames_of("uint16")
    start = full_message("uint16", len(frames))
    masks = {
        name: numpy.full(SHAPE[1:], number, "uint32") for number, name in enumerate(("b", "threshold_1"))
    }
    start["channels"] = ["threshold_1", "b"]
    start["pixel_mask"] = {name: multi_dimensional(mask) for name, mask in masks.items()}
    with h5py.File(recorded(frames, start=start)) as file:
        assert numpy.array_equal(file[f"{DETECTOR}/pixel_mask"], masks["threshold_1"])
        assert numpy.array_equal(file[f"{DETECTOR}/pixel_mask_b"], masks["b"])


def test_what_frames_bring_along_is_a_column_each(recorded: Recorded, run: Run) -> None:
    frames = frames_of("uint16")
    told: list[object] = [
        {"note": f"µm {number}", "x": 0.5 * number, "gain": {"mode": ["low", number]}, "ok": number != 3}
        for number in range(len(frames))
    ]
    told[4] = {"x": 2.0}
    path = recorded(frames, user_data=told, start=full_message("uint16", len(frames)))
    checked = run("check", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with h5py.File(path) as file:
        metadata = file["/entry/metadata"]
        notes = metadata["note"].asstr()[...]
        assert list(notes) == ["µm 0", "µm 1", "µm 2", "µm 3", "", "µm 5"]
        assert list(metadata["x"]) == [0, 0.5, 1, 1.5, 2, 2.5]
        assert list(metadata["ok"]) == [1, 1, 1, 0, 0, 1]
        gains = metadata["gain"].asstr()[...]
        assert json.loads(gains[2]) == {"mode": ["low", 2]}
        assert gains[4] == ""
