"""Fly scans, step scans and trigger tables: each frame at its place, as each start message says."""

from itertools import product
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
import yaml
from conftest import Record, Run
from plain_client import CLOSED, END, ERROR, Client
from test_ranks import Job

from penstock.model.events import Note

pytestmark = pytest.mark.usefixtures("nothing_stays_open")
Y = {"name": "y", "points": 2, "start": 10, "step": 5, "units": "mm"}
X = {"name": "x", "points": 3}
PIXELS = np.random.default_rng(7).integers(0, 9, (24, 30, 40), dtype=np.uint16)
FILL = np.full((30, 40), 0xFFFF, np.uint16)


def user_data(scan: dict[str, Any]) -> dict[str, Any]:
    return {"user_data": {"penstock": {"scan": scan}}}


def send(address: str, name: str, scan: dict[str, Any], frames: list[int]) -> None:
    with Client(address) as client:
        client.start(name, len(frames), (30, 40), **user_data(scan))
        for number in frames:
            client.image(name, number, PIXELS[number])
        assert client.end(name)["problem"] is None


SNAKE: list[tuple[int, ...]] = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
TABLE = [[1, 1], 0, [0, 2]]  # as lists and as numbers
# A scan, and the indices of each frame's place in turn.
SCANS: dict[str, tuple[dict[str, Any], list[tuple[int, ...]]]] = {
    "fly": ({"axes": [Y, X], "order": "snake"}, SNAKE),
    "step": (
        {"axes": [Y, X], "order": "snake", "repeats": 4},
        [(*point, repeat) for point, repeat in product(SNAKE, range(4))],
    ),
    "step-by-rows": (
        {"axes": [Y, X], "repeats": 3},
        list(product(range(2), range(3), range(3))),
    ),
    "table": ({"axes": [Y, X], "order": "table", "table": TABLE}, [(1, 1), (0, 0), (0, 2)]),
    "table-of-repeats": (
        {"axes": [Y, X], "order": "table", "table": TABLE, "repeats": 2},
        [(*point, repeat) for point, repeat in product([(1, 1), (0, 0), (0, 2)], range(2))],
    ),
}


def verify(path: Path, places: list[tuple[int, ...]], repeats: int) -> None:
    with h5py.File(path) as file:
        data = file["/entry/data/data"]
        grid = (2, 3) if repeats == 1 else (2, 3, repeats)
        assert data.shape == (*grid, 30, 40)
        axes = ["y", "x"] + (["repeat"] if repeats > 1 else [])
        assert list(file["/entry/data"].attrs["axes"]) == [*axes, ".", "."]
        assert list(file["/entry/data/y"]) == [10.0, 15.0]
        if repeats > 1:
            assert list(file["/entry/data/repeat"]) == list(range(repeats))
        for number, place in enumerate(places):
            assert np.array_equal(data[place], PIXELS[number]), (number, place)
        blank = set(np.ndindex(grid)) - set(places)
        for place in blank:
            assert np.array_equal(data[place], FILL), place
        states = file["/entry/penstock/frame_state"]
        assert list(states) == [1] * len(places)
        assert states.attrs["filled"] == len(blank)
        linear = [int(np.ravel_multi_index(place, grid)) for place in places]
        assert list(file["/entry/penstock/place"]) == linear


def test_each_frame_is_at_its_place(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    for name, (scan, places) in SCANS.items():
        order = list(range(len(places)))
        send(recorder.address, name, scan, order[::-1])  # whatever the order in which they come
        end = recorder.series_end()
        verify(Path(end.file), places, scan.get("repeats", 1))
        assert (end.missing, end.filled) == (0, 6 * scan.get("repeats", 1) - len(places))
        assert run("check", end.file).returncode == 0


def test_frames_beyond_the_table_are_refused(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    with Client(recorder.address) as client:
        client.start("s", 4, (30, 40), **user_data({"axes": [Y, X], "order": "table", "table": TABLE}))
        for number in range(4):
            client.image("s", number, PIXELS[number])
        assert "beyond the table of the scan, which has 3 triggers" in client.until(ERROR)["message"]
        client.send(END, {"type": "end", "series_id": 1, "series_unique_id": "s"})
        assert client.until(CLOSED)["problem"] is None
    assert recorder.series_end().damaged == 1


def test_a_table_in_the_configuration_and_two_ranks(run: Run, tmp_path: Path) -> None:
    table = [5, 4, 3, 2, 1, 0]
    path = tmp_path / "scan.yaml"
    axes = [{"name": "y", "points": 2}, {"name": "x", "points": 3}]
    path.write_text(
        yaml.safe_dump({"scan": {"axes": axes, "order": "table", "table": table}}), encoding="utf-8"
    )
    job = Job(tmp_path, 2, str(path), "--threads", "1", "--pool", "256MiB")
    try:
        sent = run(
            *("simulate", "custom", "--rows", "30", "--columns", "40", "--frames", "6", "--rate", "max"),
            *("--to", job.target, "--series-name", "s"),
        )
        assert sent.returncode == 0, sent.stderr
        assert job.until("series_end")["missing"] == 0
        assert job.stop() == 0, "".join(job.log)
    finally:
        job.close()
    with h5py.File(tmp_path / "s.h5") as file:
        frames = file["/entry/data/data"][()].reshape(6, 30, 40)
        stamps = [int(np.ascontiguousarray(frame[0, :4]).view("uint64")[0]) for frame in frames]
        assert stamps == table
        assert file["/entry/penstock/frame_state"].attrs["filled"] == 0


@pytest.mark.parametrize(
    ("scan", "says"),
    [
        ({"order": "table"}, "scan.table must be a list of 1 to 6 points"),
        ({"order": "table", "table": [0, 1, 0]}, "table[2] is 0, the point of another trigger"),
        ({"order": "table", "table": [6]}, "table[0] is 6; expected 0 to 5"),
        ({"order": "table", "table": [[0, 3]]}, "table[0] is [0,3]"),
        ({"order": "table", "table": [-1]}, "table[0] is -1"),
        ({"repeats": 0}, "repeats is 0"),
        ({"repeats": 2**31}, "repeats is 2147483648"),
        ({"axes": [Y, {"name": "repeat", "points": 3}], "repeats": 2}, "that of the repeats"),
    ],
)
def test_a_scan_that_cannot_be_costs_no_frame(
    record: Record, run: Run, tmp_path: Path, scan: dict[str, Any], says: str
) -> None:
    """Of the configuration, the recorder does not start; of a start message, it is left out."""
    config = tmp_path / "scan.yaml"
    config.write_text(yaml.safe_dump({"scan": {"axes": [Y, X], **scan}}), encoding="utf-8")
    refused = run("record", str(config), "--folder", str(tmp_path), "--dry-run")
    assert refused.returncode == 2, refused.stderr
    recorder = record(tmp_path)
    send(recorder.address, "s", {"axes": [Y, X], **scan}, list(range(6)))
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.damaged, end.problem) == (6, 0, 0, None)
    (note,) = [event.message for event in recorder.events if isinstance(event, Note)]
    assert says in note
    assert note.endswith("it is stored only as scan_as_sent, and the frames are recorded in their order")
    code, log = recorder.stop()
    assert code == 0, log
    with h5py.File(end.file) as file:
        assert (file["/entry/data/data"][...] == PIXELS[:6]).all()
        assert "place" not in file["/entry/penstock"]
        kept = file["/entry/penstock/start/scan_as_sent"]
        assert kept["axes"].asstr()[()].startswith('[{"name":"y"')
        assert set(kept) == {"axes", *scan}
        assert "repeats" not in scan or kept["repeats"][()] == scan["repeats"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            "files: {layout: split, frames: 2}",
            'files.layout is not "one" and frames belong to the points of a scan',
        ),
        ("resume: true", "resume is true and frames belong to the points of a scan"),
        ("", "user_data.penstock.scan is 5; an object is expected"),
    ],
)
def test_a_scan_that_does_not_go_with_the_recorder_is_left_out(
    record: Record, tmp_path: Path, settings: str, says: str
) -> None:
    config = tmp_path / "record.yaml"
    config.write_text(settings or "{}", encoding="utf-8")
    recorder = record(tmp_path, str(config))
    scan: Any = {"axes": [Y, X]} if settings else 5
    send(recorder.address, "s", scan, list(range(6)))
    end = recorder.series_end()
    assert (end.frames_received, end.missing, end.problem) == (6, 0, None)
    assert any(says in event.message for event in recorder.events if isinstance(event, Note))
    with h5py.File(end.file) as file:
        assert (file["/entry/data/data"][...] == PIXELS[:6]).all()
        assert "scan_as_sent" in file["/entry/penstock/start"]
