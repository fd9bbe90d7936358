"""`penstock view` shows the pixels that were sent, and what is missing not as zero."""

import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import nexus_series as sent
import numpy
import pytest
from conftest import Run
from PIL import Image, ImageSequence

import penstock.files.view.frames as frames_module
from penstock.cli.files.view import _frames_done
from penstock.files.aside import reading_here
from penstock.files.export.export import write_export
from penstock.files.export.plan import plan_export
from penstock.files.view.picture import (
    Choice,
    Look,
    Picture,
    Span,
    frame_picture,
    limits_of,
    movie_pictures,
    sum_picture,
)
from penstock.model.errors import PenstockError, UsageError
from penstock.report.view.files import write_movie, write_picture

Array = numpy.typing.NDArray[Any]
SCAN = """
scan:
  axes:
    - {name: y, points: 2, units: mm}
    - {name: x, points: 4, units: mm}
  order: given
  place: place
end_timeout_s: 0.1
"""
SMALL = (12, 20, 30)


def shown(frame: Array, mask: Array | None = None) -> Array:
    """What a picture of a frame has: NaN where a pixel has no value."""
    known = frame < 65534 if mask is None else (frame < 65534) & (mask == 0)
    return numpy.where(known, frame, numpy.nan)


def same(picture: Picture, wanted: Array) -> bool:
    return bool(numpy.array_equal(picture.values, wanted, equal_nan=True))


def ignore(*_: object) -> None:
    pass


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Frames 0 and 5 of twelve are missing: they have no chunk."""
    path = tmp_path / "small.h5"
    with h5py.File(path, "w") as file:
        frames = file.create_dataset(
            "entry/data/data", SMALL, "uint16", chunks=(1, *SMALL[1:]), fillvalue=0, **hdf5plugin.LZ4()
        )
        for number in set(range(12)) - {0, 5}:
            frames[number] = pixels(number)
    return path


def pixels(number: int) -> Array:
    frame = numpy.random.default_rng(number).poisson(4, SMALL[1:]).astype("uint16")
    frame[3, 7] = 65535 if number == 2 else 900 + number
    return frame


VARIANTS: dict[str, tuple[str, ...]] = {
    "one file": (),
    "split": ("--frames-per-file", "3"),
    "per writer": ("--files", "per_writer"),
    "several frames a chunk": ("--chunk-frames", "4"),
    "tiles": ("--chunk", "24x40"),
    "elements": (),
    "scan": ("scan.yaml",),
    "nxtomo": ("--layout", "nxtomo"),
    "only frames": ("--layout", "raw"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_pictures_have_the_pixels_that_were_sent(tmp_path: Path, variant: str) -> None:
    """With the mask of the first channel; the last frame is missing."""
    (tmp_path / "scan.yaml").write_text(SCAN, encoding="utf-8")
    options = [str(tmp_path / each) if each == "scan.yaml" else each for each in VARIANTS[variant]]
    elements, missing = (2, 0) if variant == "elements" else (1, 1)
    path = sent.record_series(tmp_path, *options, elements=elements, missing=missing)
    frames = sent.frames_of(0)[: sent.FRAMES - missing]
    for number in (0, 4):
        assert same(frame_picture(path, Choice(), number), shown(frames[number], sent.mask()))
    total = sum_picture(path, Choice(), Span(), ignore)
    assert same(total, shown(frames.astype("uint32"), sent.mask()).sum(axis=0))
    assert total.numbers.frames == len(frames)
    if missing:
        last = frame_picture(path, Choice(), sent.FRAMES - 1)
        assert last.numbers.frames == 0
        assert numpy.isnan(last.values).all()


def test_other_channels_have_their_own_frames_and_mask(tmp_path: Path) -> None:
    path = sent.record_series(tmp_path)
    picture = frame_picture(path, Choice(channel="threshold_2"), 3)
    assert same(picture, shown(sent.frames_of(1)[3], sent.mask()))
    assert picture.numbers.channel == "threshold_2"
    with pytest.raises(UsageError, match="no such channel") as error:
        frame_picture(path, Choice(channel="threshold_3"), 3)
    assert error.value.remedy == "it has threshold_1, threshold_2"


def test_pixels_of_the_mask_can_be_shown(tmp_path: Path) -> None:
    path = sent.record_series(tmp_path)
    assert same(frame_picture(path, Choice(masked=False), 3), shown(sent.frames_of(0)[3]))


@pytest.mark.parametrize("single", [False, True])
def test_masters_of_eiger_are_shown_through_their_links(tmp_path: Path, single: bool) -> None:
    path = sent.record_series(tmp_path)
    export = plan_export(path, "eiger", None, not single, 3, single)
    write_export(export, False, ignore)
    master = Path(export.master)
    assert same(frame_picture(master, Choice(), 5), shown(sent.frames_of(0)[5], sent.mask()))
    assert frame_picture(master, Choice(), -1).numbers.frames_in_file == sent.FRAMES


def test_frames_of_a_lost_source_file_are_missing(tmp_path: Path) -> None:
    """A virtual dataset of another program has 0 there, which is a value."""
    layout = h5py.VirtualLayout(shape=(6, 8, 9), dtype="uint16")
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["data"] = numpy.full((3, 8, 9), 4, "uint16")
        layout[3 * number : 3 * number + 3] = h5py.VirtualSource(f"{number}.h5", "data", shape=(3, 8, 9))
    with h5py.File(tmp_path / "master.h5", "w") as file:
        file.create_virtual_dataset("entry/data/data", layout, fillvalue=0)
    (tmp_path / "1.h5").unlink()
    picture = sum_picture(tmp_path / "master.h5", Choice(), Span(), ignore)
    assert (picture.numbers.frames, picture.numbers.missing) == (3, [3, 4, 5])
    assert (picture.values == 12).all()


def test_files_that_a_pattern_names_are_shown(tmp_path: Path) -> None:
    for number in range(2):
        with h5py.File(tmp_path / f"part_{number}.h5", "w") as file:
            file["data"] = numpy.full((3, 8, 9), 4 + number, "uint16")
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    unlimited = (h5py.h5s.UNLIMITED, 8, 9)
    space = h5py.h5s.create_simple((6, 8, 9), unlimited)
    # Blocks of three frames, as many as there are files.
    space.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), (3, 1, 1), (3, 8, 9))
    properties.set_virtual(space, b"part_%b.h5", b"data", h5py.h5s.create_simple((3, 8, 9)))
    with h5py.File(tmp_path / "master.h5", "w", libver="latest") as file:
        where = h5py.h5s.create_simple((6, 8, 9), unlimited)
        group = file.create_group("entry/data")
        h5py.h5d.create(group.id, b"data", h5py.h5t.STD_U16LE, where, properties)
    picture = sum_picture(tmp_path / "master.h5", Choice(), Span(), ignore)
    assert picture.numbers.missing == []
    assert (picture.values == 3 * 4 + 3 * 5).all()


def test_an_interrupted_movie_leaves_nothing(small: Path, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = set(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        write_movie(small, Choice(), Span(), Look(), 5, tmp_path / "m.gif", stop)
    assert set(tmp_path.iterdir()) == before


def test_missing_frames_are_neither_zero_nor_added_up(small: Path) -> None:
    assert numpy.isnan(frame_picture(small, Choice(), 5).values).all()
    assert frame_picture(small, Choice(), None).numbers.frame == 1, "the first that is there"
    total = sum_picture(small, Choice(), Span(), ignore)
    there = [shown(pixels(number)) for number in range(12) if number not in (0, 5)]
    assert same(total, numpy.nansum(there, axis=0))
    assert total.numbers.missing == [0, 5]
    assert total.numbers.pixels_partial == 1, "without a value in frame 2"


def test_regions_and_numbers_are_those_of_the_file(small: Path) -> None:
    picture = frame_picture(small, Choice(rows=(2, 9), columns=(5, 25)), 3)
    assert same(picture, shown(pixels(3))[2:9, 5:25])
    assert picture.numbers.maximum_at == (3, 7)
    assert picture.numbers.total == pixels(3)[2:9, 5:25].sum()


def test_only_the_chosen_frames_are_added_up(small: Path) -> None:
    total = sum_picture(small, Choice(), Span(1, 5, 3), ignore)
    assert same(total, shown(pixels(1)) + shown(pixels(4)))


TILES = [
    (Choice(), 7 * SMALL[2]),  # pixels of a tile
    (Choice(size=8), 7 * SMALL[2]),
    (Choice(size=7, rows=(2, 19), columns=(1, 30)), 11),
]


@pytest.mark.parametrize(("choice", "tile"), TILES)
def test_tiles_of_a_large_frame_make_the_same_picture(
    small: Path, monkeypatch: pytest.MonkeyPatch, choice: Choice, tile: int
) -> None:
    with h5py.File(small, "r+") as file:
        mask = numpy.arange(20 * 30).reshape(20, 30) % 7 == 0
        file.create_dataset("entry/instrument/detector/pixel_mask", data=mask.astype("uint32"))

    def pictures() -> list[Picture]:
        frames = [frame_picture(small, choice, number) for number in (2, 5)]
        return [*frames, sum_picture(small, choice, Span(), ignore)]

    whole = pictures()
    monkeypatch.setattr(frames_module, "TILE_PIXELS_MAX", tile)
    for one, other in zip(pictures(), whole, strict=True):
        assert same(one, other.values)
        assert (one.numbers, one.step, one.zoom) == (other.numbers, other.step, other.zoom)


def test_a_sum_of_large_images_takes_less_memory_than_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5's own memory is not counted: a chunk at a time."""
    monkeypatch.setattr(frames_module, "TILE_PIXELS_MAX", 1 << 18, raising=False)
    path, side = tmp_path / "large.h5", 4096
    with h5py.File(path, "w") as file:
        storage = {"dtype": "uint8", "chunks": (1, 64, side), "compression": "gzip"}
        frames = file.create_dataset("entry/data/data", (2, side, side), fillvalue=1, **storage)
        file.create_dataset("entry/instrument/detector/pixel_mask", (side, side), "uint64", chunks=(64, side))
        for row in range(0, side, 64):
            frames[:, row : row + 64] = 3
    with reading_here():
        tracemalloc.start()
        try:
            picture = sum_picture(path, Choice(), Span(), ignore)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert picture.numbers.total == 2 * 3 * side * side
    assert most < side * side


@pytest.mark.parametrize(
    ("choice", "number", "expected"),
    [
        (Choice(), 12, "--frame 12: .* has 12 frames"),
        (Choice(), -13, "--frame -13"),
        (Choice(rows=(0, 21)), 1, "rows 0:21 are not in the frame, which has 20 rows"),
        (Choice(columns=(7, 7)), 1, "columns 7:7"),
        (Choice(channel="a"), 1, "has no channels"),
    ],
)
def test_choices_beyond_the_file_are_rejected(
    small: Path, choice: Choice, number: int, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        frame_picture(small, choice, number)


def test_frame_beyond_an_unfinished_file_names_its_recovery(small: Path) -> None:
    with h5py.File(small, "r+") as file:
        file.create_group("entry/penstock")
    with pytest.raises(UsageError, match="has 12 frames so far") as rejected:
        frame_picture(small, Choice(), 12)
    assert f"penstock recover {small}" in rejected.value.remedy


def test_a_corrupt_frame_is_reported(small: Path) -> None:
    with h5py.File(small, "r+") as file:
        where = file["entry/data/data"].id.get_chunk_info_by_coord((4, 0, 0))
    with small.open("r+b") as raw:
        raw.seek(where.byte_offset)
        raw.write(b"\xff" * where.size)
    with pytest.raises(PenstockError, match=r"image 4 in /entry/data/data .* cannot be read"):
        sum_picture(small, Choice(), Span(), ignore)


WRITER = """
import sys, h5py, numpy
with h5py.File(sys.argv[1], "w", libver="v110") as file:
    shape = {"shape": (3, 4, 5), "chunks": (1, 4, 5), "maxshape": (None, 4, 5)}
    frames = file.create_dataset("entry/data/data", dtype="uint16", **shape)
    file.swmr_mode = True
    frames[0] = numpy.arange(20).reshape(4, 5)
    frames.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_growing_file_shows_the_frames_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "swmr.h5"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        picture = sum_picture(path, Choice(), Span(), ignore)
        writer.communicate("")
    assert same(picture, numpy.arange(20.0).reshape(4, 5))
    assert picture.numbers.missing == [1, 2]


def test_a_movie_has_one_range_for_all_frames(small: Path) -> None:
    limits = set()
    frames = []

    def add(picture: Picture, count: int, found: tuple[float, float]) -> None:
        assert count == 12
        limits.add(found)
        frames.append(picture.numbers.frame)

    movie_pictures(small, Choice(), Span(), "log", add)
    assert frames == list(range(12))
    assert len(limits) == 1


def test_colours_are_between_percentiles_and_zero_has_its_own() -> None:
    values = numpy.append(numpy.full(990, 3.0), numpy.full(10, 1e6))
    values[:500] = 0
    assert limits_of(values, "log") == (1.5, 1e6)
    assert limits_of(numpy.append(values, [numpy.nan, -4]), "linear")[0] == 0
    assert limits_of(numpy.full(3, numpy.nan), "log") == (0.5, 1.0)
    low, high = limits_of(numpy.full(9, 7.0), "linear")
    assert low == 7 < high


@pytest.mark.parametrize(("scale", "found"), [("log", (2.0, 5.0)), ("linear", (2.0, 5.0))])
@pytest.mark.parametrize("own", [(None, None), (1.0, None), (9.0, None), (None, 0.5), (1.0, 2.0)])
def test_colours_have_a_range_whatever_was_given(
    scale: Any, found: tuple[float, float], own: tuple[float | None, float | None]
) -> None:
    low, high = Look(scale=scale, limits=own).limits_for(found)
    assert low < high
    assert own[0] in (None, low)
    assert own[1] in (None, high)


def colours_of(path: Path) -> Array:
    with Image.open(path) as image:
        return numpy.asarray(image.convert("RGB"))


def test_a_plain_picture_has_a_colour_for_each_value(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "plain.png"
    picture = frame_picture(small, Choice(), 2)
    write_picture(picture, Look("gray", "linear", (0, 10), plain=True), output)
    colours = colours_of(output)
    wanted = numpy.clip(pixels(2), 0, 10) / 10 * 255
    has_value = pixels(2) < 65535
    assert colours.shape == (20, 30, 3)
    assert numpy.abs(colours[has_value] - wanted[has_value][:, None]).max() <= 1
    assert tuple(colours[3, 7]) == (0x64, 0x70, 0x7D)


def test_large_frames_keep_their_spots(tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        file["data"] = numpy.zeros((1, 300, 500), "uint16")
        file["data"][0, 123, 456] = 77
    picture = frame_picture(path, Choice(size=100), 0)
    assert (picture.values.shape, picture.step) == ((60, 100), 5)
    assert picture.values[123 // 5, 456 // 5] == 77


@pytest.mark.parametrize("suffix", [".gif", ".png"])
def test_a_movie_has_every_frame(small: Path, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"movie{suffix}"
    plain = Look("gray", "linear", (0, 10), plain=True)
    frames = write_movie(small, Choice(), Span(), plain, 4, output, ignore)
    assert [each.frame for each in frames] == list(range(12))
    with Image.open(output) as movie:
        read = [numpy.asarray(each.convert("RGB")) for each in ImageSequence.Iterator(movie)]
        assert movie.info["duration"] == 250
        assert movie.info.get("loop") == 0
    assert len(read) == 12
    missing = numpy.array([0x64, 0x70, 0x7D])
    for number, frame in enumerate(read):
        small_frame = frame.astype(int)
        if number in (0, 5):
            assert (numpy.abs(small_frame - missing) <= 5).all(), "missing is not zero"
            continue
        wanted = numpy.clip(pixels(number), 0, 10) / 10 * 255
        has_value = pixels(number) < 65535
        # A GIF has 236 shades, of which Pillow takes one that is near.
        assert numpy.abs(small_frame[has_value] - wanted[has_value][:, None]).max() <= 5


@pytest.mark.slow
def test_the_command_writes_into_the_current_folder(
    small: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for options, name in (([], "frame1.png"), (["--sum"], "sum.png"), (["--movie"], "movie.gif")):
        done = run("view", "small.h5", *options)
        assert done.returncode == 0, done.stderr
        assert f"wrote small-{name}" in done.stdout
        assert Image.open(f"small-{name}").size[0] > 400
        again = run("view", "small.h5", *options)
        assert again.returncode == 2
        assert "exists already and is not overwritten" in again.stderr
    missing = run("view", "small.h5", "--frame", "5", "--output", "five.png")
    assert "frame 5 of 12 is missing" in missing.stdout
    assert not list(tmp_path.glob(".*")), "no temporary files"


def test_progress_of_a_sum_leaves_the_time_left_to_the_view() -> None:
    shown: list[tuple[object, ...]] = []
    report = _frames_done(lambda *words: shown.append(words), "adding up frames")
    report(88, 200)
    assert shown == [("adding up frames", 88, 200, "88 of 200")]


def test_the_command_prints_numbers(small: Path, run: Run, tmp_path: Path) -> None:
    output = tmp_path / "a.png"
    done = run("view", str(small), "--frame", "3", "--range", "1:50", "-o", str(output), "--json")
    numbers = json.loads(done.stdout)
    assert numbers["output"] == str(output)
    assert numbers["range"] == [1, 50]
    assert (numbers["maximum"], numbers["maximum_at"]) == (903, [3, 7])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--frame", "1", "--sum"], "--frame and --sum exclude each other"),
        (["--frames", "0:3"], "--frames requires --sum or --movie"),
        (["--sum", "--frames", "3"], "--frames 3 is not FIRST:END"),
        (["--sum", "--frames", "20:30"], "--frames 20:30: .* has 12 frames"),
        (["--sum", "--frames", "10:13"], "--frames 10:13: .* has 12 frames"),
        (["--region", "0:3"], "--region 0:3 is not ROW:ROW,COLUMN:COLUMN"),
        (["--range", "9:3"], "--range 9:3: 3 is not greater than 9"),
        (["--range", "0:3"], "a logarithmic scale requires values above 0"),
        (["--range", "x"], "--range x is not LOW:HIGH"),
        (["--colormap", "pink floyd"], "does not have this colour map"),
        (["-o", "png"], r"--output png does not end with \.png"),
    ],
)
def test_wrong_options_are_reported(run: Run, small: Path, options: list[str], expected: str) -> None:
    done = run("view", str(small), *options)
    assert done.returncode == 2
    assert re.search(expected, done.stderr), done.stderr


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_bytes(b"not HDF5"), id="not HDF5"),
        pytest.param(lambda path: h5py.File(path, "w").close(), id="empty"),
    ],
)
def test_files_without_frames_are_reported(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x.h5")
    with pytest.raises(PenstockError, match=r"x\.h5"):
        frame_picture(tmp_path / "x.h5", Choice(), None)
