"""Files that the detector writes, one a frame, read back by fabio and h5py."""

import json
import subprocess
from pathlib import Path
from typing import Any

import fabio
import h5py
import hdf5plugin  # noqa: F401 -- registers the filters
import numpy
import pytest

from penstock.programs.locate import find_program

TYPES = ["uint8", "uint16", "uint32", "int16", "int32"]


@pytest.fixture(scope="module")
def program() -> Path:
    return find_program("penstock-detector")


def run_detector(program: Path, detector: dict[str, Any], to: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Runs a plan of three frames; gives the last event."""
    plan = {
        "detector": {"name": "test", "pixel_size_m": [172e-6, 172e-6], "sensor_material": "Si"} | detector,
        "frames": 3,
        "rate_hz": 0,
        "series_unique_id": "run",
        "to": to,
    } | more
    result = subprocess.run(
        [program, "--plan", "-"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout.splitlines()[-1]))


def images_of(kind: str, frames: int = 3) -> numpy.ndarray:
    """Small differences and large ones, and both ends of the type."""
    limits = numpy.iinfo(kind)
    images = numpy.random.default_rng(5).poisson(3, (frames, 61, 47)).astype(kind)
    images[:, 10:20] = numpy.random.default_rng(6).integers(
        limits.min, limits.max, (frames, 10, 47), dtype=kind, endpoint=True
    )
    images[:, 30, ::2] = limits.max
    images[:, 30, 1::2] = limits.min
    return images


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("form", "suffix"), [("cbf", "cbf"), ("tiff", "tif")])
def test_fabio_reads_equal_pixels(program: Path, tmp_path: Path, form: str, suffix: str, kind: str) -> None:
    images = images_of(kind)
    numpy.save(tmp_path / "images.npy", images)
    folder = tmp_path / "files"
    folder.mkdir()
    detector = {"rows": images.shape[1], "columns": images.shape[2], "type": kind}
    to = {"kind": "files", "folder": str(folder), "format": form}
    end = run_detector(program, detector, to, replay=str(tmp_path / "images.npy"), frames=4)
    assert (end["frames_sent"], end["problem"]) == (4, None)
    assert sorted(path.name for path in folder.iterdir()) == [f"run_{n:06}.{suffix}" for n in range(4)]
    for number in range(4):
        with fabio.open(folder / f"run_{number:06}.{suffix}") as read:
            assert read.data.dtype == images.dtype
            assert numpy.array_equal(read.data, images[number % 3])


def test_the_header_of_a_cbf_is_a_pilatus(program: Path, tmp_path: Path) -> None:
    detector = {
        "name": "PILATUS 6M",
        "description": "PILATUS 6M",
        "rows": 407,
        "columns": 487,
        "type": "int32",
        "sensor_thickness_m": 320e-6,
        "saturation_value": 1048575,
        "gaps": [{"row": 195, "column": 0, "rows": 17, "columns": 487}],
    }
    to = {"kind": "files", "folder": str(tmp_path), "format": "cbf"}
    run_detector(program, detector, to, rate_hz=1000, stamp=False)
    with fabio.open(tmp_path / "run_000002.cbf") as read:
        header = read.header["_array_data.header_contents"]
        data = read.data
    assert "# Detector: PILATUS 6M, S/N" in header
    assert "# Silicon sensor, thickness 0.000320 m" in header
    assert "# Exposure_period 0.0010000 s" in header
    assert (data[195:212] == -1).all()
    assert data[:195].min() == 0


def test_h5py_reads_one_frame_a_file(program: Path, tmp_path: Path) -> None:
    images = images_of("uint16")
    numpy.save(tmp_path / "images.npy", images)
    folder = tmp_path / "files"
    folder.mkdir()
    detector = {"rows": images.shape[1], "columns": images.shape[2], "type": "uint16"}
    to = {"kind": "files", "folder": str(folder), "format": "hdf5"}
    run_detector(program, detector, to, replay=str(tmp_path / "images.npy"))
    assert sorted(path.name for path in folder.iterdir()) == [f"run_{n:06}.h5" for n in range(3)]
    for number in range(3):
        with h5py.File(folder / f"run_{number:06}.h5") as file:
            assert file["/entry/data/data"].shape == (1, 61, 47)
            assert numpy.array_equal(file["/entry/data/data"][0], images[number])
            assert file["/entry/instrument/detector/frame_number"][()] == number


def test_a_wrong_plan_ends_with_2(program: Path) -> None:
    for plan, message in (("{", "not valid JSON"), ('{"frames": 0}', "frames: 0 is below the minimum of 1")):
        result = subprocess.run(
            [program, "--plan", "-"],
            input=plan,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert result.returncode == 2
        assert message in result.stderr
        assert result.stdout == ""
