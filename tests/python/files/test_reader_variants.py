"""The recorder's other kinds of files (layouts, scans, chunks, elements), in readers that know none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import nexus_series as sent
import numpy
import nxmx
import pytest
import silx.io.nxdata.parse
import silx.io.utils

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
parse_nxmx: Any = nxmx.NXmx
find_default: Any = silx.io.nxdata.parse.get_default
open_silx: Any = silx.io.utils.open
SHAPE = (sent.FRAMES, sent.ROWS, sent.COLUMNS)
SCAN = (2, 4)
SCAN_TEXT = """
scan:
  axes:
    - {name: y, points: 2, start: 1, step: 0.5, units: mm}
    - {name: x, points: 4, values: [3, 1, 4, 2], units: mm}
  order: given
  place: place
"""


def scanned() -> numpy.ndarray:
    """The frames by place; the last one of the grid never came."""
    frames = numpy.full((8, *SHAPE[1:]), 65535, "uint16")
    frames[: sent.FRAMES] = sent.frames_of(0)
    return frames.reshape(*SCAN, *SHAPE[1:])


# Options, what else, and the frames as readers ought to see them.
VARIANTS: dict[str, tuple[tuple[str, ...], dict[str, Any], Callable[[], numpy.ndarray]]] = {
    "split": (("--frames-per-file", "3"), {}, lambda: sent.frames_of(0)),
    "per_writer": (("--files", "per_writer"), {}, lambda: sent.frames_of(0)),
    "several frames a chunk": (("--chunk-frames", "4"), {}, lambda: sent.frames_of(0)),
    "tiles": (("--chunk", "24x40"), {}, lambda: sent.frames_of(0)),
    "elements": ((), {"elements": 2}, lambda: sent.frames_of(0)),
    "scan": (("scan.yaml",), {}, scanned),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_readers_find_frames_and_geometry(tmp_path: Path, variant: str) -> None:
    options, more, frames = VARIANTS[variant]
    settings = tmp_path / "scan.yaml"
    settings.write_text(SCAN_TEXT + "end_timeout_s: 0.1\n", encoding="utf-8")
    path = sent.record_series(
        tmp_path, *(str(settings) if option == "scan.yaml" else option for option in options), **more
    )
    wanted = frames()
    with h5py.File(path) as file:
        assert numpy.array_equal(file["/entry/data/data"][...], wanted)
        other = file["/entry/data/channel_1_threshold_2"][...].reshape(-1, *SHAPE[1:])
        assert numpy.array_equal(other[: sent.FRAMES], sent.frames_of(1))
        entry: Any = parse_nxmx(file).entries[0]
        detector = entry.instruments[0].detectors[0]
        assert numpy.array_equal(detector.pixel_mask, sent.mask())
        # Of several elements the first one's message tells everything but masks and flat fields.
        assert list(detector.modules[0].data_size) == list(SHAPE[1:])
        chain = nxmx.get_dependency_chain(detector.modules[0].fast_pixel_direction)
        origin = nxmx.get_cumulative_transformation(chain[1:])[0] @ [0, 0, 0, 1]
        place = [sent.CENTER_X * sent.PIXEL_X_M, sent.CENTER_Y * sent.PIXEL_Y_M, sent.DISTANCE_M]
        assert origin[:3] == pytest.approx([1e3 * metres for metres in place])
    with open_silx(str(path)) as file:
        shown = find_default(file)
        assert (shown.is_valid, shown.signal_name) == (True, "data (counts)")
        assert numpy.array_equal(shown.signal[...], wanted)
        if variant == "scan":
            assert "required" not in validated(path).lower()
            assert shown.axes_names == ["y (mm)", "x (mm)", None, None]
            assert list(shown.axes[0]) == [1, 1.5]
            assert list(shown.axes[1]) == [3, 1, 4, 2]


def validated(path: Path) -> str:
    """What pynxtools says; only its words on what is absent count, it warns of NXmx's own names."""
    command = [str(Path(sys.executable).with_name("pynx")), "validate", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "NXmx" in done.stdout + done.stderr
    return done.stdout + done.stderr


def test_names_come_from_the_configuration_and_the_series(tmp_path: Path) -> None:
    settings = tmp_path / "beamline.yaml"
    settings.write_text(
        "nexus: {instrument_name: ID1, source_name: The Ring, source_type: Synchrotron X-ray Source}\n",
        encoding="utf-8",
    )
    told = {"penstock": {"nexus": {"sample_name": "lysozyme 3", "source_name": 7}}}
    path = sent.record_series(tmp_path, str(settings), user_data=told)
    with h5py.File(path) as file:
        entry: Any = parse_nxmx(file).entries[0]
        assert (entry.instruments[0].name, entry.source.name) == ("ID1", "The Ring")
        assert file["/entry/source/type"][()] == b"Synchrotron X-ray Source"
        assert entry.samples[0].name == "lysozyme 3"
        assert file["/entry/instrument/detector/sensor_material"][()] == b"CdTe", "as the detector says"
    said = validated(path)
    assert "required" not in said.lower(), said
    assert "/entry/source" not in said, "the type is one of NXsource's"
