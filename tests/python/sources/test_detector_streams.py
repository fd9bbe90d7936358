"""Detectors' own streams as they go wrong: several pushers, detectors that start anew, old formats."""

import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitshuffle
import cbor2
import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
import v1_detector as v1
from conftest import Record, Recorded
from detector_stream import IDENTITY, SHAPE, multi_dimensional, start_message
from plain_client import Client
from pulled_series import FRAMES, PATIENCE, end, endpoints, image, noted, pull, rejected, start
from pusher import Pusher

from penstock.files.inspect import FileInfo
from penstock.model.events import RecorderSeriesEnd, Rejected, SeriesRefused, SeriesStart
from penstock.report.progress import recorder_summary


def test_the_end_of_one_pusher_does_not_cut_the_tail_of_another(record: Record, tmp_path: Path) -> None:
    """An open-ended series, dealt in turn: one has ended before the other, which is late, has begun."""
    one, other = endpoints(2)
    waits_s = 120
    settings = f"end_timeout_s: {waits_s}\nidle_timeout_s: {waits_s}\n"
    recorder = pull(record, tmp_path, one, other, settings=settings)
    with Pusher(one) as first, Pusher(other) as second:
        first.send(start(), *(image(frame) for frame in (0, 2, 4)), end())
        time.sleep(0.3)
        second.send(start())
        time.sleep(0.3)
        began = time.monotonic()
        second.send(*(image(frame) for frame in (1, 3, 5)), end())
        ended = recorder.series_end()
        took = time.monotonic() - began
    assert (ended.frames_received, ended.missing, ended.duplicate, ended.problem) == (6, 0, 0, None)
    assert took < waits_s / 2, "both have ended, and nobody is waited for"
    assert rejected(recorder) == []
    with h5py.File(tmp_path / "s.h5") as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()


def test_pushers_that_die_or_disagree_cost_nobody_elses_frames(record: Record, tmp_path: Path) -> None:
    one, other, third = endpoints(3)
    recorder = pull(record, tmp_path, one, other, third, settings="end_timeout_s: 9\nidle_timeout_s: 1\n")
    with Pusher(one) as first, Pusher(third) as odd:
        with Pusher(other) as dies:
            first.send(start(frames=6), image(0))
            recorder.until(SeriesStart)  # whoever comes first is right
            dies.send(start(frames=6), image(1))
        odd.send(start(frames=7), image(4))
        time.sleep(0.3)
        first.send(image(2), end())
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.problem) == (4, 2, None)
    assert rejected(recorder) == []
    assert [message.rpartition(": ")[2] for message in noted(recorder)] == [
        'number_of_images is 7; series "s" started with 6'
    ]
    with h5py.File(tmp_path / "s.h5") as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, 1, 1, 0, 1, 0]
        assert (file["/entry/data/data"][4] == FRAMES[4]).all()


def test_a_detector_that_starts_anew_with_its_old_number_overwrites_nothing(
    record: Record, tmp_path: Path
) -> None:
    (endpoint,) = endpoints(1)
    settings = "end_timeout_s: 0.3\nfile_name: 'run{series_id}.h5'\n"
    recorder = pull(record, tmp_path, endpoint, series=2, settings=settings)
    with Pusher(endpoint) as before:
        before.send(start("before", 1, frames=6), *(image(frame, "before") for frame in (0, 1, 2)))
    time.sleep(0.3)
    with Pusher(endpoint) as after:  # ZeroMQ connects again by itself
        after.send(start("after", 1, frames=6), *(image(frame, "after") for frame in range(6)), end("after"))
        ends = [recorder.series_end() for _ in range(2)]
    assert {item.series_unique_id: item.ended_by for item in ends} == {
        "before": "new_start",
        "after": "message",
    }
    files = {item.series_unique_id: Path(item.file).name for item in ends}
    assert files == {"before": "run1.h5", "after": "run1-2.h5"}
    with h5py.File(tmp_path / "run1.h5") as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, 1, 1, 0, 0, 0]
        assert (file["/entry/data/data"][:3] == FRAMES[:3]).all()
    with h5py.File(tmp_path / "run1-2.h5") as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
        assert file["/entry/penstock/series_unique_id"][()] == b"after"


def big_endian(array: numpy.ndarray) -> Any:
    tag = {"uint16": 65, "uint32": 66}[array.dtype.name]
    return cbor2.CBORTag(40, [list(array.shape), cbor2.CBORTag(tag, array.byteswap().tobytes())])


def compressed(array: numpy.ndarray, tag: int, algorithm: str = "bslz4") -> Any:
    compress = bitshuffle.compress_lz4 if algorithm == "bslz4" else bitshuffle.compress_zstd
    framing = array.nbytes.to_bytes(8, "big") + (8192).to_bytes(4, "big")
    data = framing + bytes(compress(array, 8192 // array.itemsize))
    packed = cbor2.CBORTag(56500, [algorithm, array.itemsize, data])
    return cbor2.CBORTag(40, [list(array.shape), cbor2.CBORTag(tag, packed)])


def column_major(array: numpy.ndarray, tag: int) -> Any:
    return cbor2.CBORTag(1040, [list(array.shape), cbor2.CBORTag(tag, array.tobytes("F"))])


@pytest.mark.parametrize("settings", ["", "chunk: {shape: [32, 96]}\n", "chunk: {frames: 3}\n"])
def test_images_of_every_order_come_right(record: Record, tmp_path: Path, settings: str) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, settings=PATIENCE + settings)
    forms = [
        big_endian(FRAMES[0]),
        compressed(FRAMES[1].byteswap(), 65),
        column_major(FRAMES[2], 69),
        compressed(FRAMES[3], 69),
        compressed(FRAMES[4], 69, "bszstd"),
        column_major(FRAMES[5].byteswap(), 65),
    ]
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=6), *(image(frame, data=data) for frame, data in enumerate(forms)), end())
        assert recorder.series_end().frames_received == 6
    assert rejected(recorder) == []
    with h5py.File(tmp_path / "s.h5") as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()


def test_half_floats_become_single_ones(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    halves = numpy.linspace(-60000, 60000, 64 * 96, dtype="float16").reshape(64, 96)
    plain = cbor2.CBORTag(40, [[64, 96], cbor2.CBORTag(84, halves.tobytes())])
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=2, image_dtype="float16"), image(0, data=plain))
        pusher.send(image(1, data=compressed(halves.byteswap(), 80)), end())
        assert recorder.series_end().frames_received == 2
    with h5py.File(tmp_path / "s.h5") as file:
        data = file["/entry/data/data"]
        assert data.dtype == "float32"
        assert (data[...] == halves.astype("float32")).all()


def test_arrays_are_understood_wherever_they_stand(recorded: Recorded) -> None:
    mask = numpy.arange(64 * 96, dtype="uint32").reshape(64, 96)
    flat = numpy.linspace(0, 1, 64 * 96, dtype="float32").reshape(64, 96)
    packed = compressed(mask, 70, "bszstd")
    message = {
        **start_message("uint16", len(FRAMES)),
        "pixel_mask": {"threshold_1": big_endian(mask)},
        "flatfield": {"threshold_1": column_major(flat, 85)},
        "countrate_correction_lookup_table": packed,
        "user_data": {"dark": {"a": compressed(FRAMES[0].byteswap(), 65)}, "sample": "lysozyme"},
        "tomorrow": {"masks": {"threshold_1": packed}, "n": 4, "f": 1.5, "on": True, "none": None},
        "texts": ["a", "b"],
        "numbers": [1, 2.5],
        "mixed": [1, "a"],
        "bytes": b"\x01\x02",
        "packed bytes": packed.value[1].value,
        "date": cbor2.CBORTag(0, "2026-11-20T10:00:00Z"),
    }
    path = recorded(FRAMES, start=message)
    with h5py.File(path) as file:
        detector = file["/entry/instrument/detector"]
        assert (detector["pixel_mask"][...] == mask).all()
        assert (detector["flatfield"][...] == flat).all()
        assert (detector["countrate_correction_lookup_table"][...] == mask).all()
        assert (file["/entry/penstock/user_data_arrays/dark/a"][...] == FRAMES[0]).all()
        kept = file["/entry/penstock/start"]
        assert (kept["tomorrow/masks/threshold_1"][...] == mask).all()
        assert (kept["tomorrow/n"][()], kept["tomorrow/f"][()], kept["tomorrow/on"][()]) == (4, 1.5, True)
        assert kept["tomorrow/n"].dtype == "int64"
        assert "none" not in kept["tomorrow"]
        assert kept["tomorrow/masks"].attrs["NX_class"] == "NXcollection"
        assert list(kept["texts"]) == [b"a", b"b"]
        assert list(kept["numbers"]) == [1, 2.5]
        assert kept["mixed"][()] == b'[1,"a"]'
        assert list(kept["bytes"]) == [1, 2]
        assert (kept["packed_bytes"][...] == mask.ravel()).all()
        assert kept["date"][()] == b"2026-11-20T10:00:00Z"


@pytest.mark.parametrize("encoding", ["<", ">", "lz4<", "bs16-lz4<", "bs16-lz4>"])
def test_the_old_stream_becomes_the_same_file(record: Record, tmp_path: Path, encoding: str) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as pusher:
        pusher.parts(v1.header(7, "all", SHAPE[1:], b'{"sample": "lysozyme"}'))
        for number, pixels in enumerate(FRAMES):
            pusher.parts(v1.image(7, number, pixels, encoding, b'{"dose": %d.5}' % number))
        pusher.parts(v1.end(7))
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.problem) == (6, 0, None)
    assert rejected(recorder) == []
    with h5py.File(ended.file) as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
        filters = [file["/entry/data/data"].id.get_create_plist().get_filter(0)[0]]
        assert filters == [32004 if encoding == "lz4<" else 32008]
        detector = file["/entry/instrument/detector"]
        assert (detector["flatfield"][...] == 0.5).all()
        assert (detector["pixel_mask"][...].ravel() == numpy.arange(64 * 96)).all()
        assert detector["countrate_correction_lookup_table"].shape == (3, 2)
        assert detector["distance"][()] == 0.25
        assert detector["serial_number"][()] == b"E-32-0000"
        assert file["/entry/instrument/beam/incident_wavelength"][()] == 1.0
        assert numpy.allclose(file["/entry/sample/transformations/omega"], 10 + 0.1 * numpy.arange(6))
        assert file["/entry/penstock/series_id"][()] == 7
        assert file["/entry/penstock/start/software_version"][()] == b"1.8.0"
        assert file["/entry/penstock/user_data"][()] == b'{"sample":"lysozyme"}'
        assert list(file["/entry/metadata/dose"]) == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
        assert list(file["/entry/penstock/timing/exposure_start"]) == [frame * 10**7 for frame in range(6)]


def test_odd_times_of_the_old_stream_cost_no_frame(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    odd = {1: {"start_time": "soon"}, 2: {"stop_time": -7, "real_time": 0.5}, 3: {"htype": "dother-1.0"}}
    with Pusher(endpoint) as pusher:
        pusher.parts(v1.header(7, "basic", SHAPE[1:]))
        for number, pixels in enumerate(FRAMES):
            parts = v1.image(7, number, pixels, "<", b'{"dose": %d}' % number)
            parts[3] = v1.text(json.loads(parts[3]) | odd.get(number, {}))
            pusher.parts(parts)
        pusher.parts(v1.end(7))
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.damaged, ended.problem) == (6, 0, 0, None)
    assert rejected(recorder) == []
    told = noted(recorder)
    assert len(told) == 4, told
    assert told[0].startswith('image 1 of series 7: image config.start_time is "soon"')
    assert told[3].endswith("its times are left out")
    with h5py.File(ended.file) as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
        timing = file["/entry/penstock/timing"]
        assert list(timing["exposure_start"]) == [0, -1, 2 * 10**7, -1, 4 * 10**7, 5 * 10**7]
        assert list(timing["exposure_stop"])[1:4] == [10**7 + 9 * 10**6, -1, -1]
        assert list(file["/entry/metadata/dose"]) == list(range(6))


def test_the_old_stream_with_text_for_numbers_with_nan_and_a_damaged_first_image(
    record: Record, tmp_path: Path
) -> None:
    """What costs one field, or one image, costs nothing else."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    header = v1.header(7, "basic", SHAPE[1:])
    odd = {"count_time": float("nan"), "x_pixels_in_detector": str(SHAPE[2]), "nimages": "3"}
    header[1] = v1.text(v1.CONFIG | odd)
    images = [v1.image(7, number, pixels, "<", b'{"t": NaN}') for number, pixels in enumerate(FRAMES)]
    images[0][2] = b"cut"
    for parts in images:
        data = json.loads(parts[1])
        sizes = {"shape": [str(extent) for extent in data["shape"]], "size": str(data["size"])}
        parts[1] = v1.text(data | sizes)
    with Pusher(endpoint) as pusher:
        pusher.parts(header, *images, v1.end(7))
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.damaged, ended.problem) == (5, 1, 1, None)
    with h5py.File(ended.file) as file:
        assert (file["/entry/data/data"][1:] == FRAMES[1:]).all()
        assert file["/entry/penstock/frames_announced"][()] == 6
        assert "count_time" not in file["/entry/instrument/detector"]
        assert file["/entry/penstock/start/count_time"][()] == b"NaN"
        assert file["/entry/instrument/detector/frame_time"][()] == 0.01
        assert numpy.isnan(file["/entry/metadata/t"][...]).all()


def test_whole_numbers_of_the_old_stream_may_get_fractions(record: Record, tmp_path: Path) -> None:
    """An encoder of JSON writes 2.0 as 2. Times in nanoseconds are exact all the same."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    epoch_ns = 1_764_340_000_000_000_001
    values = [{"x": number / 2 if number % 2 else number // 2, "t": epoch_ns + number} for number in range(6)]
    with Pusher(endpoint) as pusher:
        pusher.parts(v1.header(7, "basic", SHAPE[1:]))
        for number, pixels in enumerate(FRAMES):
            pusher.parts(v1.image(7, number, pixels, "<", v1.text(values[number])))
        pusher.parts(v1.end(7))
        ended = recorder.series_end()
    with h5py.File(ended.file) as file:
        metadata = file["/entry/metadata"]
        assert list(metadata["x"]) == [0, 0.5, 1, 1.5, 2, 2.5]
        assert list(metadata["t"]) == [epoch_ns + number for number in range(6)]
        assert all("unfitting" not in metadata[name].attrs for name in ("x", "t"))


def test_series_whose_names_differ_in_replaced_characters_get_files_of_their_own(
    record: Record, tmp_path: Path
) -> None:
    """Over TCP the start of the second would be rejected, because its file is there."""
    recorder = record(tmp_path, "--series", "4")
    names = ["a b", "a/b", "a\u00df", "a\u00e4"]
    with Client(recorder.address) as client:
        for name in names:
            client.start(name, 1, FRAMES[0].shape)
            client.image(name, 0, FRAMES[0])
            client.end(name)
    files = {recorder.series_end().file for _ in names}
    assert len(files) == len(names)
    stored = set()
    for path in files:
        with h5py.File(path) as file:
            stored.add(file["/entry/penstock/series_unique_id"].asstr()[()])
    assert stored == set(names)


def test_the_old_stream_with_an_old_number_and_with_no_header(record: Record, tmp_path: Path) -> None:
    """A recorder that comes late, a detector that dies and counts anew, rubbish, and a port for both."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=4, settings="end_timeout_s: 0.3\n")
    ends: list[RecorderSeriesEnd] = []
    with Pusher(endpoint) as pusher:
        pusher.parts(v1.image(5, 2, FRAMES[2]), v1.image(5, 3, FRAMES[3], "bs16-lz4<"), v1.end(5))
        ends.append(recorder.series_end())
        pusher.parts(v1.header(5, "basic", SHAPE[1:]), v1.image(5, 0, FRAMES[0]))
        pusher.parts([b"{"], [b"no", b"json"], v1.image(5, 1, FRAMES[1])[:3], v1.image(9, 1, FRAMES[1]))
    with Pusher(endpoint) as pusher:
        pusher.parts(v1.header(5, "none", SHAPE[1:]))
        pusher.parts(*(v1.image(5, number, FRAMES[number], "lz4<") for number in range(6)), v1.end(5))
        ends += [recorder.series_end(), recorder.series_end()]
        pusher.send(start(frames=1), image(0), end())
        ends.append(recorder.series_end())
    assert len({item.file for item in ends}) == 4
    late = next(item for item in ends if item.frames_received == 2)
    died = next(item for item in ends if item.frames_announced == 6)
    anew = next(item for item in ends if item.frames_received == 6)
    with h5py.File(late.file) as file:
        assert (file["/entry/data/data"][2:] == FRAMES[2:4]).all()
        assert list(file["/entry/penstock/frame_state"]) == [0, 0, 1, 1]
    with h5py.File(died.file) as file:
        assert list(file["/entry/penstock/frame_state"]) == [1, 2, 0, 0, 0, 0]
    with h5py.File(anew.file) as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
    told = rejected(recorder)
    assert len(told) == 5, told
    assert "part 1 is not valid JSON" in told[0]
    assert "image 1 of series 5 has 3 parts, expected 4" in told[3]
    assert re.search(r"image 1 .*series 9, .*header .*series 5", told[4])
    # The series is recorded, and nothing is refused.
    assert "whose header did not arrive" in noted(recorder)[0]


def test_arrays_that_frames_bring_along_are_columns_of_their_shape(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    positions = numpy.arange(18, dtype="float64").reshape(6, 3)
    counts = numpy.arange(6 * 8 * 4, dtype="uint16").reshape(6, 8, 4)
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=6))
        for number in range(6):
            user_data: dict[str, object] = {
                "position": cbor2.CBORTag(86, positions[number].tobytes()),
                "counts": compressed(counts[number], 69) if number % 2 else big_endian(counts[number]),
                "list": [1, 2],
                "large": cbor2.CBORTag(64, bytes(5000)),
            }
            if number == 4:
                user_data = {"position": cbor2.CBORTag(86, bytes(16)), "counts": 1}
            pusher.send({**image(number), "user_data": user_data})
        pusher.send(end())
        assert recorder.series_end().frames_received == 6
    code, log = recorder.stop()
    assert code == 0, log
    assert re.search(r'"position".* type or length', log), log
    with h5py.File(tmp_path / "s.h5") as file:
        metadata = file["/entry/metadata"]
        assert metadata["position"].shape == (6, 3)
        others = [0, 1, 2, 3, 5]
        assert (metadata["position"][...][others] == positions[others]).all()
        assert numpy.isnan(metadata["position"][4]).all()
        assert metadata["counts"].dtype == "uint16"
        assert (metadata["counts"][...][others] == counts[others]).all()
        assert (metadata["counts"][4] == 0).all()
        assert (metadata["position"].attrs["unfitting"], metadata["counts"].attrs["unfitting"]) == (1, 1)
        assert "unfitting" not in metadata["list"].attrs
        assert metadata["list"].asstr()[0] == "[1,2]"
        assert metadata["large"].asstr()[0].startswith('"AAAA')


@pytest.mark.parametrize("layout", ["nxmx", "raw", "areadetector-default"])
def test_values_that_do_not_fit_are_counted(
    record: Record, run: Callable[..., Any], tmp_path: Path, layout: str
) -> None:
    """Wherever their columns are: 0 and a text that is cut look like any other value."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, settings=f"{PATIENCE}layout: {layout}\n")
    with Pusher(endpoint) as pusher:
        pusher.send(start(frames=6))
        for number in range(6):
            told = {"dose": number + (0.5 if number % 2 else 0), "name": "n" * (200 if number == 3 else 5)}
            pusher.send({**image(number), "user_data": told | {"fine": number}})
        pusher.send(end())
        assert recorder.series_end().frames_received == 6
    info = FileInfo.model_validate_json(run("info", str(tmp_path / "s.h5"), "--json").stdout)
    assert {path.rsplit("/", 1)[1]: count for path, count in info.unfitting.items()} == {"dose": 3, "name": 1}
    with h5py.File(tmp_path / "s.h5") as file:
        for path, count in info.unfitting.items():
            assert file[path].attrs["unfitting"] == count
    page = run("info", str(tmp_path / "s.h5")).stdout
    assert "3 of " in page
    assert "/dose" in page


def test_what_a_start_message_cannot_mean_is_only_kept(record: Record, tmp_path: Path) -> None:
    """The frames would not come again."""
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    nan = float("nan")
    wrong = {
        "pixel_size_x": 0.0,
        "pixel_size_y": nan,
        "count_time": -1.0,
        "incident_wavelength": float("inf"),
        "detector_translation": [0.0, 0.0, nan],
        "goniometer": {"omega": {"start": nan, "increment": 0.1}, "phi": {"start": 1.0, "increment": 0.0}},
    }
    with Pusher(endpoint) as pusher:
        pusher.send({**start_message("uint16", 6), **IDENTITY, **wrong})
        pusher.send(*(image(number) for number in range(6)), end())
        ended = recorder.series_end()
    assert (ended.frames_received, ended.problem) == (6, None)
    assert rejected(recorder) == []
    assert [message.split(", expected")[0] for message in noted(recorder)] == [
        'series "s": pixel_size_x is 0',
        'series "s": pixel_size_y is nan',
        'series "s": incident_wavelength is inf',
        'series "s": count_time is -1',
        'series "s": detector_translation is [0, 0, nan]',
        'series "s": goniometer is nan + 0.1 a frame of axis "omega"',
    ]
    with h5py.File(ended.file) as file:
        detector = file["/entry/instrument/detector"]
        for name in ("x_pixel_size", "y_pixel_size", "count_time", "distance"):
            assert name not in detector, name
        assert detector["frame_time"][()] == 0.01
        # From the energy, which was told as well.
        assert file["/entry/instrument/beam/incident_wavelength"][()] == pytest.approx(1.0)
        assert list(file["/entry/sample/transformations"]) == ["phi", "phi_end", "phi_increment_set"]
        kept = file["/entry/penstock/start"]
        assert kept["pixel_size_x_as_sent"][()] == 0
        assert numpy.isnan(kept["pixel_size_y_as_sent"][()])
        assert numpy.isnan(kept["goniometer_as_sent/omega/start"][()])


ODD_FIELDS: dict[str, Any] = {
    "sensor_thickness": "450 um",
    "saturation_value": -1,
    "count_time": "fast",
    "pixel_mask": {"threshold_1": multi_dimensional(numpy.zeros((2, 2), "uint32"))},
    "flatfield": {"threshold_9": multi_dimensional(numpy.ones(SHAPE[1:], "float32"))},
    "goniometer": {"omega": {"start": "here", "increment": 0.1}},
}


def test_odd_fields_that_no_pixel_needs_cost_no_frame(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as detector:
        odd = {**image(2), "start_time": [1, 0], "user_data": '{"gain": 3}'}
        detector.send(start(frames=6, beam_center_x=48.5, user_data='{"sample": "lysozyme"}', **ODD_FIELDS))
        detector.send(*(odd if frame == 2 else image(frame) for frame in range(6)), end())
        ended = recorder.series_end()
    assert (ended.frames_received, ended.missing, ended.damaged, ended.problem) == (6, 0, 0, None)
    assert rejected(recorder) == []
    told = noted(recorder)
    for field in (*ODD_FIELDS, "start_time"):
        assert any(f": {field}" in message for message in told), (field, told)
    assert any('sensor_thickness is "450 um"' in message for message in told)
    with h5py.File(tmp_path / "s.h5") as file:
        assert (file["/entry/data/data"][...] == FRAMES).all()
        kept = file["/entry/penstock/start"]
        assert kept["sensor_thickness_as_sent"][()] == b"450 um"
        assert kept["saturation_value_as_sent"][()] == -1
        assert kept["pixel_mask_as_sent/threshold_1"].shape == (2, 2)
        assert file["/entry/penstock/user_data"][()] == b'{"sample":"lysozyme"}'
        assert "sensor_thickness" not in file["/entry/instrument/detector"]
        assert "count_time" not in file["/entry/instrument/detector"]


def test_a_start_that_cannot_be_understood_is_a_refused_series(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=2)
    with Pusher(endpoint) as detector:
        detector.send(start("bad", image_dtype="uint12"), image(0, "bad"), end("bad"))
        refused = recorder.until(SeriesRefused)
        assert isinstance(refused, SeriesRefused)
        detector.send(start("good", frames=1), image(0, "good"), end("good"))
        assert recorder.series_end().frames_received == 1
        assert recorder.process.wait(timeout=30) == 1, "a series was refused"
    assert (refused.series_unique_id, "uint12" in refused.message) == ("bad", True)


@pytest.mark.slow
def test_series_that_never_end_keep_no_other_out(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=5, settings="end_timeout_s: 12\nidle_timeout_s: 12\n")
    names = ("a", "b", "c", "d", "e")
    with Pusher(endpoint) as detector:
        for name in names:
            detector.send(start(name, frames=1))
        for name in names:
            detector.send(image(0, name))
        ended = {recorder.series_end().series_unique_id for _ in names}
    assert ended == set(names)
    assert rejected(recorder) == []
    assert recorder.process.wait(timeout=30) == 0


@pytest.mark.parametrize("transport", ["v2", "v1", "tcp"])
def test_series_that_end_early_are_closed_at_once_and_all_recorded(
    record: Record, tmp_path: Path, transport: str
) -> None:
    """One ordered connection: nothing can follow the end, whatever was announced."""
    count = 8
    settings = "end_timeout_s: 3600\nidle_timeout_s: 3600\n"
    if transport == "tcp":
        config = tmp_path / "settings.yaml"
        config.write_text(settings, encoding="ascii")
        recorder = record(tmp_path, str(config), "--series", str(count))
        with Client(recorder.address) as client:
            for number in range(count):
                client.start(f"t{number}", 1000, (SHAPE[1], SHAPE[2]))
                client.image(f"t{number}", 0, FRAMES[0])
                assert client.end(f"t{number}")["ended_by"] == "message"
    else:
        (endpoint,) = endpoints(1)
        recorder = pull(record, tmp_path, endpoint, series=count, settings=settings)
        with Pusher(endpoint) as detector:
            for number in range(count):
                if transport == "v2":
                    name = f"t{number}"
                    detector.send(start(name, frames=1000), image(0, name), end(name))
                else:
                    detector.parts(
                        v1.header(number + 1, "basic", SHAPE[1:]), v1.image(number + 1, 0, FRAMES[0])
                    )
                    detector.parts(v1.end(number + 1))
            ends = [recorder.series_end() for _ in range(count)]
    if transport == "tcp":
        ends = [recorder.series_end() for _ in range(count)]
    assert [ended.frames_received for ended in ends] == [1] * count
    assert recorder.process.wait(timeout=60) == 0
    assert len(list(tmp_path.glob("*.h5"))) == count


def test_frames_without_a_start_are_told_once(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint)
    with Pusher(endpoint) as detector:
        detector.send(*(image(frame % 6, "early") for frame in range(200)))
        detector.send(start(frames=6), *(image(frame) for frame in range(6)), end())
        recorder.series_end()
    assert len([message for message in rejected(recorder) if '"early"' in message]) == 1


def test_a_recording_whose_messages_are_all_refused_is_no_success(record: Record, tmp_path: Path) -> None:
    (endpoint,) = endpoints(1)
    recorder = pull(record, tmp_path, endpoint, series=0)
    with Pusher(endpoint) as detector:
        detector.send(image(0), image(1))
        recorder.until(Rejected)
        code, log = recorder.stop()
    assert code == 1
    assert "every message was rejected; nothing was recorded" in log


def test_a_connection_that_says_nothing_is_no_refused_message(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    host, _, port = recorder.address.rpartition(":")
    with socket.create_connection((host, int(port))):
        recorder.until(Rejected)
        code, _ = recorder.stop()
    assert code == 0


def test_a_damaged_frame_is_not_counted_as_missing_too() -> None:
    end = RecorderSeriesEnd(event="series_end", frames_written=7, missing=3, never_came=1, damaged=2)
    assert "; 3 missing (2 damaged)" in recorder_summary(end)
