"""Values joined to series of every kind that a real recorder writes: scans, layouts, several files."""

import time
from pathlib import Path
from typing import Any

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import silx.io.utils
from conftest import Record, Recorded
from detector_stream import IDENTITY, frames_of, least_message, multi_dimensional
from pusher import Pusher

from penstock.files.values.attach import How, attach, summary
from penstock.files.values.journal import JournalWriter

silx_open: Any = silx.io.utils.open
pytestmark = pytest.mark.usefixtures("nothing_stays_open")
SCAN = "scan:\n  axes:\n    - {name: y, points: 2, units: mm}\n    - {name: x, points: 3}\n"
# By kind: the recorder's settings and options, and where readers of the joined file find the frames.
SERIES = {
    "scan": (SCAN, (), "data/data"),
    "nxdata-scan": ("layout: nxdata-scan\n" + SCAN, (), "scan/data"),
    "nxmx": ("", ("--layout", "nxmx"), "data/data"),
    "raw": ("", ("--layout", "raw"), "frames"),
    "areadetector-default": ("", ("--layout", "areadetector-default"), "data/data"),
    "split": ("", ("--frames-per-file", "4"), "data/data"),
    "per_writer": ("", ("--files", "per_writer"), "data/data"),
    "moved": ("", ("--layout", "moved.yaml"), "data/pictures"),
}
MOVED = """\
tree:
  run:
    attributes: {NX_class: NXentry, default: plot}
    tree:
      plot:
        attributes: {NX_class: NXdata, signal: pictures}
        tree: {pictures: {frames: 0}}
      begun: {series: arm_date}
      finished: {series: end_time}
"""


def journal_of(folder: Path, *groups: dict[str, Any]) -> Path:
    writer = JournalWriter(folder)
    writer.append(cbor2.dumps({"type": "values", "client": "c", "batch": 0, "groups": list(groups)}))
    writer.close()
    return writer.path


@pytest.mark.parametrize("kind", SERIES)
def test_a_row_for_each_frame_whatever_the_file_looks_like(
    recorded: Recorded, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, options, place = SERIES[kind]
    (tmp_path / "settings.yaml").write_text(settings or "{}\n")
    (tmp_path / "moved.yaml").write_text(MOVED)
    frames = frames_of("uint16")
    count = len(frames)
    early = time.time_ns()
    series = recorded(frames, "settings.yaml", *options)
    numbers = list(range(count))
    journal = journal_of(
        tmp_path,
        {"frame": numbers, "columns": {"omega": [0.5 * number for number in numbers]}},
        {"time": [early, time.time_ns()], "columns": {"current": [200.0, 100.0]}},
    )
    done = attach(series, [journal], None, How(), dry_run=False)
    assert done.frames == count
    with h5py.File(done.output) as file, h5py.File(series) as source:
        rows = file["entry/per_frame"]
        assert rows["omega"][...].tolist() == [0.5 * number for number in numbers]
        assert rows["current"][...].tolist() == [200.0] * count
        shown = file[f"entry/{place}"]
        assert np.array_equal(shown[...].reshape(frames.shape), frames)
        assert file["entry/recorded/penstock/frame_state"].shape == (count,)
        if "scan" in kind:
            assert shown.shape == (2, 3, *frames.shape[1:])
            where = file["entry/recorded/penstock/place"][...]
            image = np.empty(6)
            image[where] = rows["omega"][...]
            assert image.reshape(2, 3)[1, 2] == 2.5, "as docs/reference/values.md makes a map of it"
        assert source["/entry/penstock/frame_state"].shape == (count,)
    with silx_open(done.output) as file:
        assert np.array_equal(file[f"entry/{place}"][...].reshape(frames.shape), frames)


@pytest.mark.parametrize("dated", [True, False])
def test_exposures_without_a_date_tell_no_time(
    record: Record, free_port: int, tmp_path: Path, dated: bool
) -> None:
    """They count from when the detector was armed, which need not be when the recorder made the file."""
    frames = frames_of("uint16")
    start = least_message("uint16", len(frames))
    if dated:
        start["arm_date"] = cbor2.CBORTag(0, "2026-11-20T10:00:00Z")
    images = [
        {"type": "image", **IDENTITY, "image_id": number, "start_time": [number, 1]}
        | {"data": {"threshold_1": multi_dimensional(frame)}}
        for number, frame in enumerate(frames)
    ]
    recorder = record(tmp_path, "--zmq", f"tcp://127.0.0.1:{free_port}", "--series", "1", listen=False)
    with Pusher(f"tcp://127.0.0.1:{free_port}") as pusher:
        pusher.send(start, *images, {"type": "end", **IDENTITY})
        end = recorder.series_end()
    journal = journal_of(tmp_path, {"time": [1, time.time_ns() + 10**12], "columns": {"x": [1, 2]}})
    done = attach(Path(end.file), [journal], None, How(), dry_run=False)
    assert done.time.startswith("start of the exposure" if dated else "reception")
    with h5py.File(end.file) as file:
        assert file["/entry/penstock/timing/exposure_start"][3] == 3 * 10**9
        assert ("clock" in file["/entry/start_time"].attrs) != dated


def test_a_value_that_is_older_than_an_hour_before_the_first_frame_is_a_warning(
    recorded: Recorded, tmp_path: Path
) -> None:
    """A forgotten time, as of 1970, would otherwise look like a value of the series."""
    series = recorded(frames_of("uint16"))
    hour = 3600 * 10**9
    ages = {"old": time.time_ns() - 26 * hour, "forgotten": 1, "fresh": time.time_ns() - hour // 2}
    groups = [{"time": [since], "columns": {name: [1.0]}} for name, since in ages.items()]
    journal = journal_of(tmp_path, *groups)
    done = attach(series, [journal], None, How(), dry_run=True)
    assert {each.name for each in done.channels if each.stale_s is not None} == {"old", "forgotten"}
    told = [line for line in summary(done) if "warning" in line]
    assert "is 1 day older than the frame; --max-age ignores" in told[0]
    assert " years older than the frame" in told[1]
    limited = attach(series, [journal], None, How(max_age_s=10.0), dry_run=True)
    assert not any(each.stale_s for each in limited.channels), "old values are not used"


def test_a_frame_that_is_missing_at_the_end_of_a_scan_has_a_row(recorded: Recorded, tmp_path: Path) -> None:
    """The scan announces more frames than came: rows are those of the ledger."""
    (tmp_path / "settings.yaml").write_text(SCAN.replace("points: 2", "points: 4"))
    frames = frames_of("uint16")
    series = recorded(frames, str(tmp_path / "settings.yaml"))
    journal = journal_of(tmp_path, {"frame": list(range(12)), "columns": {"x": list(range(12))}})
    done = attach(series, [journal], None, How(), dry_run=False)
    with h5py.File(done.output) as file, h5py.File(series) as source:
        ledger = source["/entry/penstock/frame_state"]
        assert done.frames == len(ledger)
        assert file["entry/per_frame/x"][...].tolist() == list(range(len(ledger)))
        assert file["entry/per_frame/x"].attrs["values_outside"] == 12 - len(ledger)


def seconds_to_attach(folder: Path, channels: int) -> float:
    """Of this process alone."""
    folder.mkdir()
    with h5py.File(folder / "s.h5", "w") as file:
        file["/entry/penstock/frame_state"] = np.ones(1000, np.uint8)
        file["/entry/penstock/timing/received"] = 10**18 + 10**6 * np.arange(1000)
        file["/entry/end_time"] = "2026-01-01T00:00:00Z"
    names = [f"bl:device:{number}" for number in range(channels)]
    times = (10**18 + 10**8 * np.arange(10)).tolist()
    journal = journal_of(
        folder, {"time": times, "columns": {name: np.arange(10.0).tolist() for name in names}}
    )
    began = time.process_time()
    done = attach(folder / "s.h5", [journal], None, How(), dry_run=False)
    seconds = time.process_time() - began
    assert len(done.channels) == len(names)
    with h5py.File(done.output) as file:
        assert len(file["entry/per_frame"]) == len(names)
        last = f"bl_device_{channels - 1}"
        log = file[f"entry/values/{last}"]
        assert log["value"][...].tolist() == list(range(10))
        assert (log.attrs["NX_class"], log.attrs["channel"]) == ("NXlog", f"bl:device:{channels - 1}")
        assert log["time"].attrs["start"] == "1970-01-01T00:00:00Z"
        assert file[f"entry/per_frame/{last}"][...].tolist() == np.repeat(np.arange(10.0), 100).tolist()
    return seconds


@pytest.mark.slow
def test_the_time_to_attach_grows_no_faster_than_the_number_of_channels(tmp_path: Path) -> None:
    """Ten times as many; if each channel looked at all others, it would take a hundred times as long."""
    few = seconds_to_attach(tmp_path / "few", 500)
    assert seconds_to_attach(tmp_path / "many", 5000) < 40 * few
