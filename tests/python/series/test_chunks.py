"""Chunks that are parts of a frame, and scans: whole programs, and readers that know nothing of Penstock."""

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy
import plain_client
import pytest
import yaml
from conftest import Record, Recorded
from detector_stream import frames_of, start_message
from mid_series import ended_in_mid_series, stamps_are_right
from plain_client import Client

from penstock.files.structure import check_structure

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FRAMES = frames_of("uint16")
FILL = 65535
# Over one connection nothing comes after the end message.
QUICK = "end_timeout_s: 0.5\n"


def check(run: Run, file: Path, *options: str) -> dict[str, object]:
    done = run("check", str(file), "--json", *options)
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    assert report["ok"], report["findings"]
    return report


@pytest.mark.parametrize(
    ("shape", "codec"),
    [("32x48", "bslz4"), ("20x35", "bslz4"), ("16x96", "none"), ("50x50", "none"), ("1000x40", "deflate")],
)
def test_tiles_are_read_by_plain_h5py_and_checked_pixel_by_pixel(
    recorded: Recorded, run: Run, tmp_path: Path, shape: str, codec: str
) -> None:
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK, encoding="ascii")
    file = recorded(FRAMES, str(path), "--chunk", shape, "--codec", codec, leave_out=(2,))
    rows, columns = (int(extent) for extent in shape.split("x"))
    expected = FRAMES.copy()
    expected[2] = FILL
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.chunks == (1, min(rows, 64), min(columns, 96))
        assert data.shape == FRAMES.shape
        assert numpy.array_equal(data[...], expected)
        assert data.id.get_num_chunks() == 5 * -(-64 // rows) * -(-96 // columns)
        assert list(content["/entry/penstock/frame_state"][...]) == [1, 1, 0, 1, 1, 1]
    numpy.save(tmp_path / "sent.npy", FRAMES)
    report = check(run, file, "--against", str(tmp_path / "sent.npy"))
    assert (report["frames"], report["missing"], report["compared_frames"]) == (6, 1, 5)


def test_frames_that_come_compressed_are_cut_as_well(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--chunk", "40x40", "--codec", "zstd")
    simulated = ("custom", "--rows", "64", "--columns", "96", "--frames", "12", "--series-name", "cut")
    address = f"tcp://{recorder.address}"
    sent = run("simulate", *simulated, "--rate", "max", "--encoding", "bslz4", "--to", address)
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_received, end.frames_written, end.problem) == (12, 12, None)
    _, log = recorder.stop()
    assert "compressed again (zstd)" in log
    report = check(run, tmp_path / "cut.h5", "--against", "recorded")
    assert (report["compared_frames"], report["different_frames"]) == (12, 0)


def test_tiles_go_through_a_filter_plug_in(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    """Blosc keeps the size of a chunk among its parameters: it must be the tile's."""
    path = tmp_path / "blosc.yaml"
    path.write_text("codec: {filter: blosc}\nchunk: {shape: [24, 40]}\n", encoding="ascii")
    file = recorded(FRAMES, str(path))
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.chunks == (1, 24, 40)
        assert data.id.get_create_plist().get_filter(0)[2][3] == 24 * 40 * 2
        assert numpy.array_equal(data[...], FRAMES)
    numpy.save(tmp_path / "sent.npy", FRAMES)
    report = check(run, file, "--against", str(tmp_path / "sent.npy"))
    assert (report["compared_frames"], report["different_frames"]) == (6, 0)


@pytest.mark.slow
def test_a_killed_recorders_tiles_are_recovered(record: Record, run: Run, tmp_path: Path) -> None:
    left = ended_in_mid_series(record, tmp_path, ["--chunk", "24x96", "--codec", "none"])
    copy = tmp_path / "rebuilt.h5"
    copy.write_bytes(left.read_bytes())
    report = json.loads(run("recover", str(left), "--json").stdout)
    assert report["way"] == "repair"
    after = check(run, left, "--against", "recorded")
    assert after["different_frames"] == 0
    whole = stamps_are_right(left)
    assert whole == report["frames"] - report["missing"] > 150
    # Without HDF5's structures the segments alone say as much.
    with copy.open("r+b") as file:
        file.write(b"\0" * 2048)
    rebuilt = json.loads(run("recover", str(copy), "--json").stdout)
    assert rebuilt["way"] == "rebuild"
    assert stamps_are_right(copy) == rebuilt["frames"] - rebuilt["missing"] == whole
    with h5py.File(copy) as content:
        assert content["/entry/data/data"].chunks == (1, 24, 96)


@pytest.mark.parametrize("scan", [None, {"axes": [{"name": "y", "points": 3}, {"name": "x", "points": 2}]}])
@pytest.mark.parametrize("chunk", ["frame", "1x20x96", "2x16x50"])
def test_frames_of_three_dimensions(
    recorded: Recorded, run: Run, tmp_path: Path, chunk: str, scan: dict[str, object] | None
) -> None:
    solid = FRAMES.reshape(6, 2, 32, 96)
    start = {**start_message("uint16", len(solid)), "image_size_z": 2, "image_size_y": 32}
    del start["pixel_mask"]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"scan": scan} if scan else {}), encoding="utf-8")
    file = recorded(solid, str(tmp_path / "c.yaml"), "--chunk", chunk, start=start)
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.shape == ((3, 2, 2, 32, 96) if scan else (6, 2, 32, 96))
        assert (
            data.chunks[-3:] == {"frame": (2, 32, 96), "1x20x96": (1, 20, 96), "2x16x50": (2, 16, 50)}[chunk]
        )
        assert numpy.array_equal(data[...].reshape(solid.shape), solid)
    report = check(run, file)
    assert (report["frames"], report["missing"]) == (6, 0)


AXES = [
    {"name": "sample_y", "points": 2, "start": 0, "step": 0.5, "units": "mm"},
    {"name": "sample_x", "values": [-1.0, 0.0, 2.0], "units": "um"},
]


def scan_file(tmp_path: Path, **scan: object) -> str:
    path = tmp_path / "scan.yaml"
    path.write_text(QUICK + yaml.safe_dump({"scan": {"axes": AXES, **scan}}), encoding="utf-8")
    return str(path)


PLACES = {
    "raster": [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)],
    "snake": [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)],
    "given": [(1, 1), (0, 2), (0, 0), (1, 0), (1, 2), (0, 1)],
}


@pytest.mark.parametrize("order", list(PLACES))
@pytest.mark.parametrize("chunk", ["frame", "40x50"])
def test_a_scan_has_each_frame_at_its_place(
    recorded: Recorded, run: Run, tmp_path: Path, order: str, chunk: str
) -> None:
    places = PLACES[order]
    user_data = [{"position": 3 * y + x} if x % 2 else {"position": [y, x]} for y, x in places]
    options = (scan_file(tmp_path, order=order), "--chunk", chunk)
    given = {"user_data": [{"position": 3 * y + x} for y, x in places]} if order == "given" else {}
    del user_data
    file = recorded(FRAMES, *options, leave_out=(4,), **given)
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.shape == (2, 3, 64, 96)
        for number, (y, x) in enumerate(places):
            expected = FRAMES[number] if number != 4 else numpy.full((64, 96), FILL)
            assert numpy.array_equal(data[y, x], expected), f"frame {number} at {y}, {x}"
        group = content["/entry/data"]
        assert list(group.attrs["axes"]) == ["sample_y", "sample_x", ".", "."]
        assert (group.attrs["sample_y_indices"], group.attrs["sample_x_indices"]) == (0, 1)
        assert list(group["sample_y"]) == [0.0, 0.5]
        assert list(group["sample_x"]) == [-1.0, 0.0, 2.0]
        assert group["sample_x"].attrs["units"] == "um"
        linear = [3 * y + x if number != 4 else -1 for number, (y, x) in enumerate(places)]
        assert list(content["/entry/penstock/place"]) == linear
        assert list(content["/entry/penstock/frame_state"]) == [1, 1, 1, 1, 0, 1]
    numpy.save(tmp_path / "sent.npy", FRAMES)
    report = check(run, file, "--against", str(tmp_path / "sent.npy"))
    assert (report["frames"], report["missing"], report["compared_frames"]) == (6, 1, 5)
    assert not [finding for finding in check_structure(file) if finding.level == "error"]


def test_a_place_as_a_list_and_places_that_cannot_be(recorded: Recorded, tmp_path: Path) -> None:
    """Beyond the grid, taken by another frame, not told: counted as damaged, and the others are there."""
    user_data = [{"at": [1, 2]}, {"at": 6}, {"at": 5}, {"at": [0, 1]}, {}, {"at": [0, 9]}]
    file = recorded(FRAMES, scan_file(tmp_path, order="given", place="at"), user_data=user_data)
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert numpy.array_equal(data[1, 2], FRAMES[0])
        assert numpy.array_equal(data[0, 1], FRAMES[3])
        assert list(content["/entry/penstock/frame_state"]) == [1, 2, 2, 1, 2, 2]
        assert content["/entry/penstock/frame_state"].attrs["damaged"] == 4
        assert list(content["/entry/penstock/place"][:4]) == [5, -1, -1, 1]


def test_a_scan_that_is_repeated_grows(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    axes = [{"name": "y", "points": 1}, {"name": "x", "points": 2}]
    path = tmp_path / "scan.yaml"
    path.write_text(yaml.safe_dump({"scan": {"axes": axes, "order": "snake"}}), encoding="utf-8")
    file = recorded(FRAMES, str(path))
    with h5py.File(file) as content:
        data = content["/entry/data/data"][...]
    assert data.shape == (3, 2, 64, 96)
    assert numpy.array_equal(data.reshape(6, 64, 96), FRAMES[[0, 1, 3, 2, 4, 5]])
    assert not [finding for finding in check_structure(file) if finding.level == "error"]
    check(run, file)


def test_a_start_message_may_bring_the_scan(recorded: Recorded, run: Run) -> None:
    scan = {"axes": [{"name": "z", "points": 3}, {"name": "y", "points": 2}], "order": "raster"}
    start = {**start_message("uint16", len(FRAMES)), "user_data": {"penstock": {"scan": scan}}}
    file = recorded(FRAMES, start=start)
    with h5py.File(file) as content:
        assert numpy.array_equal(content["/entry/data/data"][...].reshape(FRAMES.shape), FRAMES)
        assert content["/entry/data/data"].shape == (3, 2, 64, 96)
    check(run, file)


@pytest.mark.slow
def test_a_killed_recorders_scan_is_recovered(record: Record, run: Run, tmp_path: Path) -> None:
    """Which frame a place has is in the segments, also where HDF5's structures and columns are gone."""
    path = tmp_path / "scan.yaml"
    axes = [{"name": "y", "points": 500}, {"name": "x", "points": 7}]
    store = {"segment_bytes": 65536, "flush_interval_ms": 200}
    path.write_text(
        yaml.safe_dump({"scan": {"axes": axes, "order": "snake"}, "store": store}), encoding="utf-8"
    )
    detector = ["custom", "--rows", "64", "--columns", "96", "--frames", "3500", "--rate", "300"]
    left = ended_in_mid_series(record, tmp_path, [str(path), "--codec", "none"], detector)
    copy = tmp_path / "rebuilt.h5"
    copy.write_bytes(left.read_bytes())
    with copy.open("r+b") as file:
        file.write(b"\0" * 2048)
    for path, way in ((left, "repair"), (copy, "rebuild")):
        report = json.loads(run("recover", str(path), "--json").stdout)
        assert report["way"] == way
        with h5py.File(path) as content:
            data = content["/entry/data/data"]
            assert data.shape == (500, 7, 64, 96)
            received = numpy.flatnonzero(content["/entry/penstock/frame_state"][...] == 1)
            assert len(received) == report["frames"] - report["missing"] > 150
            for number in received:
                y, x = divmod(int(number), 7)
                x = x if y % 2 == 0 else 6 - x
                assert content["/entry/penstock/place"][number] == 7 * y + x
                assert numpy.ascontiguousarray(data[y, x][0, :4]).view("uint64")[0] == number
    check(run, left, "--against", "recorded")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chunk: {shape: [0, 5]}", "chunk.shape"),
        ("chunk: {shape: [1, 2, 3, 4]}", "chunk.shape"),
        ("scan: {axes: [{name: y}]}", "points is missing"),
        ("scan: {axes: [{name: data, points: 2}]}", "name is that of the frames"),
        ("scan: {axes: [{name: channel_1_low, points: 2}]}", "name is that of the frames"),
        ("scan: {axes: [{name: y, points: 2}, {name: y, points: 2}]}", "same name"),
        ("scan: {axes: [{name: y, points: 2, values: [1, 2, 3]}]}", "3 values"),
        ("scan: {axes: [{name: y, points: 2}], order: spiral}", "order"),
        ("chunk: {shape: [8, 8]}\nfiles: {layout: per_writer}", "files.layout"),
        ("scan: {axes: [{name: y, points: 2}]}\nresume: true", "resume"),
        ("chunk: {shape: [8, 8]}\nstore: {placement: slots}", "store.placement"),
        ("chunk: {frames: 0}", "chunk.frames"),
        ("chunk: {frames: 33}", "chunk.frames"),
        ("chunk: {frames: 2}\nfiles: {layout: per_writer}", "files.layout"),
        ("chunk: {frames: 2}\nresume: true", "resume"),
        ("chunk: {frames: 2}\nstore: {placement: slots}", "store.placement"),
        ("chunk: {frames: 2}\nscan: {axes: [{name: y, points: 2}]}", "chunk.frames is 2 and scan"),
    ],
)
def test_wrong_settings_are_refused(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text, encoding="utf-8")
    done = run("record", str(tmp_path / "wrong.yaml"), "--folder", str(tmp_path), "--dry-run")
    assert done.returncode == 2
    assert said in done.stderr


def test_frames_that_cannot_be_cut_as_configured_are_recorded_whole(
    record: Record, run: Run, tmp_path: Path
) -> None:
    recorder = record(tmp_path, "--chunk", "2x3x4")
    shape = ("custom", "--rows", "8", "--columns", "8", "--frames", "1", "--rate", "max")
    sent = run("simulate", *shape, "--series-name", "s", "--to", f"tcp://{recorder.address}")
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    _, log = recorder.stop()
    assert "3 dimensions" in log
    with h5py.File(tmp_path / "s.h5") as content:
        assert content["/entry/data/data"].chunks == (1, 8, 8)


def test_a_frame_that_cannot_be_expanded_is_damaged_and_holds_nothing_back(
    record: Record, tmp_path: Path
) -> None:
    recorder = record(tmp_path, "--chunk", "10x10")
    frames = plain_client.frames_of(3)
    with Client(recorder.address) as client:
        client.start("series-d", 3, (30, 40))
        client.image("series-d", 0, frames[0])
        broken = struct.pack(">QII", 2400, 8192, 64) + b"\xff" * 64
        fields = plain_client.image_fields(1, "series-d", 1, [30, 40], 0)
        compressed = cbor2.CBORTag(56500, ["bslz4", 2, broken])
        fields["data"] = {"a": cbor2.CBORTag(40, [[30, 40], cbor2.CBORTag(69, compressed)])}
        client.send(plain_client.IMAGE, fields)
        client.image("series-d", 2, frames[2])
        closed = client.end("series-d")
    assert (closed["safe_below"], closed["problem"]) == (3, None)
    end = recorder.series_end()
    assert (end.damaged, end.lost, end.frames_written) == (1, 0, 2)
    with h5py.File(end.file) as content:
        assert numpy.array_equal(content["/entry/data/data"][::2], frames[::2])
        assert list(content["/entry/penstock/frame_state"]) == [1, 2, 1]
