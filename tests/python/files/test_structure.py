"""The NeXus structure checks: a good file has no finding; each fault has one that names it."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy
import pytest

from penstock.files.structure import check_structure
from penstock.model.findings import Finding, is_clean

SHAPE = (3, 8, 9)


def write_good_file(path: Path) -> None:
    """A small NXmx file with all required fields, and the recorder's own columns."""
    with h5py.File(path, "w") as file:
        file.attrs["default"] = "entry"

        def group(name: str, nx_class: str) -> h5py.Group:
            made = file.require_group(name)
            made.attrs["NX_class"] = nx_class
            return made

        entry = group("entry", "NXentry")
        entry.attrs["default"] = "data"
        for name, text in (
            ("definition", "NXmx"),
            ("start_time", "t"),
            ("end_time_estimated", "t"),
            ("end_time", "t"),
        ):
            entry[name] = text
        data = group("entry/data", "NXdata")
        data.attrs["signal"] = "data"
        data["data"] = numpy.zeros(SHAPE, "uint16")
        sample = group("entry/sample", "NXsample")
        sample["name"] = "s"
        sample["depends_on"] = "/entry/sample/transformations/omega"
        axis = group("entry/sample/transformations", "NXtransformations")
        axis["omega"] = numpy.zeros(SHAPE[0])
        axis["omega"].attrs["depends_on"] = "."
        group("entry/source", "NXsource")["name"] = "ring"
        group("entry/instrument", "NXinstrument")["name"] = "beamline"
        group("entry/instrument/beam", "NXbeam")["incident_wavelength"] = 1.0
        detector = group("entry/instrument/detector", "NXdetector")
        detector["sensor_material"] = "Si"
        detector["sensor_thickness"] = 1e-3
        detector["depends_on"] = "."
        detector["data"] = h5py.SoftLink("/entry/data/data")
        module = group("entry/instrument/detector/module", "NXdetector_module")
        module["data_origin"] = [0, 0]
        module["data_size"] = list(SHAPE[1:])
        for name in ("fast_pixel_direction", "slow_pixel_direction"):
            module[name] = 1e-4
            module[name].attrs.update(
                transformation_type="translation", vector=[1.0, 0, 0], offset=[0.0, 0, 0], depends_on="."
            )
        file["entry/penstock/frame_state"] = numpy.ones(SHAPE[0], "uint8")
        file["entry/penstock/timing/received"] = numpy.ones(SHAPE[0], "int64")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.h5"
    write_good_file(path)
    return path


def test_a_good_file_has_no_findings(good: Path) -> None:
    assert check_structure(good) == []


def _replace(file: h5py.File, path: str, value: object) -> None:
    attributes = dict(file[path].attrs)
    del file[path]
    file[path] = value
    file[path].attrs.update(attributes)


Fault = Callable[[h5py.File], None]
FAULTS: dict[str, tuple[Fault, str, str]] = {
    "default points nowhere": (lambda f: f.attrs.__setitem__("default", "x"), "@default points nowhere", "/"),
    "default in circles": (
        lambda f: (f["entry"].attrs.__setitem__("default", "/entry"), None)[1],
        "@default forms a loop",
        "/entry",
    ),
    "signal absent": (
        lambda f: f["entry/data"].attrs.__setitem__("signal", "x"),
        "@signal names no dataset",
        "/entry/data",
    ),
    "axes of the wrong number": (
        lambda f: f["entry/data"].attrs.__setitem__("axes", ["a", "."]),
        "@axes does not fit the signal",
        "/entry/data",
    ),
    "an axis that is absent": (
        lambda f: f["entry/data"].attrs.__setitem__("axes", ["a", ".", "."]),
        "an axis is missing",
        "/entry/data/a",
    ),
    "too few dimensions": (
        lambda f: _replace(f, "entry/data/data", numpy.zeros((3, 8), "uint16")),
        "too few dimensions",
        "/entry/data/data",
    ),
    "no start time": (
        lambda f: f.__delitem__("entry/start_time"),
        "required field is missing",
        "/entry/start_time",
    ),
    "no source": (lambda f: f.__delitem__("entry/source"), "no NXsource", "/entry"),
    "no sample name": (lambda f: f.__delitem__("entry/sample/name"), "required field", "/entry/sample/name"),
    "no instrument": (lambda f: f.__delitem__("entry/instrument"), "no NXinstrument", "/entry"),
    "no module": (
        lambda f: f.__delitem__("entry/instrument/detector/module"),
        "no NXdetector_module",
        "/entry/instrument/detector",
    ),
    "no sensor material": (
        lambda f: f.__delitem__("entry/instrument/detector/sensor_material"),
        "required field",
        "/entry/instrument/detector/sensor_material",
    ),
    "module too large": (
        lambda f: _replace(f, "entry/instrument/detector/module/data_size", [8, 10]),
        "beyond the frame",
        "/entry/instrument/detector/module",
    ),
    "direction without a vector": (
        lambda f: f["entry/instrument/detector/module/fast_pixel_direction"].attrs.__delitem__("vector"),
        "no @vector",
        "/entry/instrument/detector/module/fast_pixel_direction",
    ),
    "sample depends on nothing": (
        lambda f: _replace(f, "entry/sample/depends_on", "/entry/sample/absent"),
        "depends_on points nowhere",
        "/entry/sample",
    ),
    "axes in circles": (
        lambda f: f["entry/sample/transformations/omega"].attrs.__setitem__(
            "depends_on", "/entry/sample/transformations/omega"
        ),
        "depends_on forms a loop",
        "/entry/sample/transformations/omega",
    ),
    "a mask of a different shape": (
        lambda f: f["entry/instrument/detector"].__setitem__("pixel_mask", numpy.zeros((8, 8), "uint32")),
        "the mask does not fit",
        "/entry/instrument/detector/pixel_mask",
    ),
    "a ledger of another length": (
        lambda f: _replace(f, "entry/penstock/frame_state", numpy.ones(2, "uint8")),
        "lengths disagree",
        "/entry/penstock/frame_state",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_named(good: Path, name: str) -> None:
    fault, what, where = FAULTS[name]
    with h5py.File(good, "r+") as file:
        fault(file)
    findings = check_structure(good)
    assert any(what in finding.what and finding.where == where for finding in findings), findings
    assert all(finding.remedy for finding in findings)
    assert not is_clean(findings)


def test_what_readers_can_do_without_is_a_warning(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        del file["entry/end_time"]
        del file["entry/instrument/beam/incident_wavelength"]
    findings = check_structure(good)
    assert [finding.level for finding in findings] == ["warning", "warning"]
    assert is_clean(findings)


def test_a_source_that_does_not_tell_the_size_of_a_pixel_damages_nothing(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        for name in ("fast_pixel_direction", "slow_pixel_direction"):
            del file["entry/instrument/detector/module"][name]
    findings = check_structure(good)
    assert [finding.level for finding in findings] == ["warning", "warning"]
    assert all("pixel_size_x" in finding.remedy for finding in findings)


def test_an_entry_that_was_copied_without_the_default_of_its_root_is_no_damage(good: Path) -> None:
    """As `h5copy` leaves it. The only entry is what is meant: its signal is looked at all the same."""
    with h5py.File(good, "r+") as file:
        del file.attrs["default"]
    findings = check_structure(good)
    assert [(each.level, each.what, each.where) for each in findings] == [("warning", "no @default", "/")]
    with h5py.File(good, "r+") as file:
        del file["entry"].attrs["default"]
        file["entry/data"].attrs["signal"] = "gone"
    found = [(each.level, each.what) for each in check_structure(good)]
    assert found == [("warning", "no @default")] * 2 + [("error", "@signal names no dataset")]


def test_a_file_without_an_entry(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data"] = 1
    assert [finding.what for finding in check_structure(tmp_path / "x.h5")] == ["no NXentry"]


def test_findings_take_null_and_numbers() -> None:
    finding = Finding.model_validate(
        {"level": "error", "what": "w", "where": None, "expected": 3, "actual": 1.5}
    )
    assert (finding.where, finding.expected, finding.actual) == ("", "3", "1.5")
