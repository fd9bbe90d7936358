"""Frames as CBF, TIFF and HDF5 files: the readers of the field find the pixels that the seed says."""

import subprocess
from pathlib import Path
from typing import Any

import fabio
import fabio.cbfimage
import fabio.tifimage
import h5py
import numpy
import pytest
from conftest import Run as RunCommand

from penstock.bench.data.frame_choice import frame_bytes_of
from penstock.bench.data.images import ImageRequest, PixelType, make_template, own_images, template_file
from penstock.model.bench.load import FramesWorkload, LoadPlan, PosixBackend
from penstock.model.bench.runs import Run, Verdict
from penstock.model.events import LoadProgress
from penstock.programs.load import load

SEED = 5
ROWS, COLUMNS = 61, 97
_STEP = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def mix(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def key_of(*names: int) -> int:
    key = 0
    for name in names:
        key = mix((key + _STEP) & _MASK) ^ mix((name + 2 * _STEP) & _MASK)
    return mix(key)


def random_at(key: int, index: int) -> bytes:
    return mix((key + (index + 1) * _STEP) & _MASK).to_bytes(8, "little")


def content(size: int, frame: int) -> bytes:
    """What the load generator writes, by its description: random bytes, and a stamp in each 512 of them."""
    key = key_of(SEED, 1)
    whole, rest = divmod(size, 8)
    laid = bytearray(b"".join(random_at(key, index) for index in range(whole)))
    laid += bytes(random_at(key, whole + index)[0] for index in range(rest))
    for at in range(0, size - 7, 512):
        laid[at : at + 8] = random_at(key_of(SEED, 2, frame), at // 512)
    return bytes(laid)


def expected(image: ImageRequest, frame: int) -> Any:
    if image.format != "cbf":
        pixels = ROWS * COLUMNS * numpy.dtype(image.type).itemsize
        return numpy.frombuffer(content(pixels, frame), image.type).reshape(ROWS, COLUMNS)
    own = content(ROWS * COLUMNS, frame).replace(b"\x80", b"\x7f")
    steps = numpy.frombuffer(own, numpy.int8)
    return numpy.cumsum(steps, dtype=numpy.int64).astype(numpy.int32).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("image_format", "kind"),
    [
        ("cbf", "int32"),
        ("tiff", "int32"),
        ("tiff", "uint16"),
        ("hdf5", "int32"),
        ("hdf5", "uint8"),
    ],
)
def test_readers_find_the_pixels(image_format: Any, kind: PixelType, direct: bool, tmp_path: Path) -> None:
    image = ImageRequest(format=image_format, rows=ROWS, columns=COLUMNS, type=kind)
    size = len(make_template(image).data)
    with template_file(image) as template:
        workload = FramesWorkload(frames=3, frame_bytes=size, rate_hz=0, image=template, rename=True)
        backend = PosixBackend(folder=str(tmp_path), direct=direct, sync="none")
        plan = LoadPlan(backend=backend, workload=workload, seed=SEED, prefix="frame-")
        document = load(plan, ignore)
    assert document.problem is None
    paths = sorted(tmp_path.iterdir())
    suffix = {"tiff": "tif", "hdf5": "h5"}.get(image_format, image_format)
    assert [path.name for path in paths] == [f"frame-{number:09}.{suffix}" for number in range(3)]
    for number, path in enumerate(paths):
        if image_format == "hdf5":
            with h5py.File(path) as file:
                dataset = file["entry/data/data"]
                assert dataset.chunks is None
                found = dataset[()]
        else:
            found = fabio.open(str(path)).data
        assert found.dtype == kind
        numpy.testing.assert_array_equal(found, expected(image, number))


def ignore(_: LoadProgress) -> None:
    pass


def test_a_cbf_has_the_header_of_a_detector_and_no_digest_of_other_pixels() -> None:
    template = make_template(ImageRequest(format="cbf", rows=ROWS, columns=COLUMNS, type="int32"))
    head = template.data[: template.pixels_at]
    assert b"PILATUS_1.2" in head
    assert b"# Exposure_time 0.0400000 s" in head
    assert b"MD5" not in head
    assert template.pixels_bytes == ROWS * COLUMNS


def test_compressed_files_are_written_in_turn(run: RunCommand, tmp_path: Path) -> None:
    options = ("--format", "cbf.gz", "--shape", "61x97", "--rate", "0", "--frames", "9", "--keep", "--yes")
    result = Run.model_validate_json(run("bench", "frames", str(tmp_path), *options, "--json").stdout)
    assert result.document.problem is None
    paths = sorted(tmp_path.glob("*/frame-*.cbf.gz"))
    assert len(paths) == 9
    images = [fabio.open(str(path)).data for path in paths]
    assert all(image.shape == (ROWS, COLUMNS) and image.dtype == "int32" for image in images)
    assert len({image.tobytes() for image in images}) == 4
    for number, image in enumerate(images):
        numpy.testing.assert_array_equal(image, images[number % 4])
    for path in paths:  # 2 is a warning: zeros follow
        assert subprocess.run(["gzip", "--test", str(path)], check=False).returncode in (0, 2)
    (check,) = (check for check in result.checks if check.name == "incompressible content")
    assert (check.outcome, check.actual) == ("warning", "4 generated images in turn")


@pytest.mark.slow
def test_a_pilatus_6m_in_gzip_has_the_size_of_the_source() -> None:
    """4000 of them have about 12 GB."""
    template = make_template(ImageRequest(format="cbf.gz", rows=2527, columns=2463, type="int32"))
    assert 4000 * template.frame_bytes == pytest.approx(12e9, rel=0.02)


def test_frames_in_a_format_are_measured_and_removed(run: RunCommand, tmp_path: Path) -> None:
    options = ("--format", "cbf", "--shape", "61x97", "--rate", "100", "--frames", "40", "--rename", "--yes")
    finished = run("bench", "frames", str(tmp_path), *options, "--json")
    result = Run.model_validate_json(finished.stdout)
    assert result.frames is not None
    assert result.frames.written + result.frames.dropped == 40
    assert result.document.frames is not None
    size = len(make_template(ImageRequest(format="cbf", rows=61, columns=97, type="int32")).data)
    assert result.document.frames.bytes == result.frames.written * size
    assert "40 cbf files, 61 x 97 int32" in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_shape_gives_the_size_of_plain_frames(run: RunCommand, tmp_path: Path) -> None:
    options = ("--shape", "100x200", "--type", "uint16", "--rate", "0", "--frames", "3", "--yes", "--json")
    result = Run.model_validate_json(run("bench", "frames", str(tmp_path), *options).stdout)
    assert result.document.frames is not None
    assert result.document.frames.bytes == 3 * 40_000


@pytest.mark.slow
def test_a_verdict_of_a_detector_whose_server_writes_files(run: RunCommand, tmp_path: Path) -> None:
    shown = run("verdict", "pilatus-6m", str(tmp_path), "--format", "cbf", "--rename", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "cbf files, 2527 x 2463 int32, of 6.22 MB" in " ".join(shown.stdout.split())
    detector = (
        "custom",
        str(tmp_path),
        "--rows",
        "64",
        "--columns",
        "64",
        "--type",
        "uint16",
        "--rate",
        "20",
    )
    finished = run("verdict", *detector, "--format", "tiff", "--seconds", "2", "--quick", "--yes", "--json")
    verdict = Verdict.model_validate_json(finished.stdout)
    size = len(make_template(ImageRequest(format="tiff", rows=64, columns=64, type="uint16")).data)
    assert verdict.needed_bytes_per_s == 20 * size
    written = {step.kind: step.run.frames.written for step in verdict.steps if step.run.frames}
    assert set(written) - {"probe"} == {"rate", "full speed"}
    assert min(written.values()) > 0
    assert list(tmp_path.iterdir()) == []
    refused = run("verdict", *detector, "--format", "tiff", "--ratio", "8")
    assert refused.returncode == 2
    assert "--ratio 8" in refused.stderr


def images_of_mine(count: int, kind: str = "int32") -> Any:
    """As weak diffraction, with a few strong pixels, and gaps between modules; no two alike."""
    random = numpy.random.default_rng(3)
    images = random.poisson(2, (count, ROWS, COLUMNS)).astype(kind)
    images[:, ::13, ::7] += random.integers(0, 30_000, images[:, ::13, ::7].shape).astype(kind)
    if numpy.dtype(kind).kind == "i":
        images[:, :, 40:44] = -1
    return images


def written_as_mine(folder: Path, source: str, images: Any) -> Path:
    """A file or a folder that `penstock simulate --replay` reads."""
    folder.mkdir()
    if source == "hdf5":
        with h5py.File(folder / "mine.h5", "w") as file:
            data = file.create_group("entry/data")
            file["entry"].attrs["NX_class"], data.attrs["NX_class"] = "NXentry", "NXdata"
            data.attrs["signal"] = "data"
            data["data"] = images
        return folder / "mine.h5"
    if source == "npy":
        numpy.save(folder / "mine.npy", images)
        return folder / "mine.npy"
    kind, suffix = {"cbf": (fabio.cbfimage.CbfImage, "cbf"), "tiff": (fabio.tifimage.TifImage, "tif")}[source]
    for number, image in enumerate(images):
        kind(data=image).write(str(folder / f"mine-{number}.{suffix}"))
    return folder if len(images) > 1 else folder / f"mine-0.{suffix}"


def pixels_in(path: Path) -> Any:
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file["entry/data/data"][()]
    return fabio.open(str(path)).data


@pytest.mark.parametrize("image_format", ["cbf", "tiff", "hdf5"])
@pytest.mark.parametrize("source", ["cbf", "tiff", "hdf5", "npy"])
def test_images_of_mine_are_the_frames(
    run: RunCommand, tmp_path: Path, source: str, image_format: str
) -> None:
    images = images_of_mine(3)
    mine = written_as_mine(tmp_path / "mine", source, images)
    target = tmp_path / "target"
    target.mkdir()
    options = ("--format", image_format, "--content", "file", "--content-file", str(mine))
    paced = ("--rate", "0", "--frames", "7", "--writers", "2", "--keep", "--yes", "--json")
    result = Run.model_validate_json(run("bench", "frames", str(target), *options, *paced).stdout)
    assert result.document.problem is None
    paths = sorted(target.glob("*/frame-*"))
    assert len(paths) == 7
    for number, path in enumerate(paths):
        found = pixels_in(path)
        assert found.dtype == numpy.int32
        numpy.testing.assert_array_equal(found, images[number % 3])
    (check,) = (check for check in result.checks if check.name == "incompressible content")
    assert check.outcome == "warning"
    assert check.actual.startswith(f"3 in turn of the images of {mine.resolve()}, ")
    assert result.document.plan.content_ratio > 1.5, "they compress, and the check says so"


@pytest.mark.parametrize(
    ("kind", "image_format"), [("uint16", "tiff"), ("uint16", "hdf5"), ("uint16", "cbf"), ("uint32", "tiff")]
)
def test_images_keep_their_pixels_whatever_their_type(
    run: RunCommand, tmp_path: Path, kind: str, image_format: str
) -> None:
    images = images_of_mine(1, kind)
    mine = written_as_mine(tmp_path / "mine", "npy", images)
    target = tmp_path / "target"
    target.mkdir()
    options = ("--format", image_format, "--content", "file", "--content-file", str(mine))
    run("bench", "frames", str(target), *options, "--rate", "0", "--frames", "1", "--keep", "--yes")
    (path,) = target.glob("*/frame-*")
    found = pixels_in(path)
    assert found.dtype == ("int32" if image_format == "cbf" else kind)
    numpy.testing.assert_array_equal(found, images[0])


def test_no_more_images_are_held_than_needed(tmp_path: Path) -> None:
    mine = written_as_mine(tmp_path / "mine", "npy", images_of_mine(40))
    template = make_template(own_images("tiff", mine))
    assert template.images == 16
    assert len(template.data) == 16 * template.frame_bytes


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("int32", ("--shape", "61x97"), ("--shape 61x97", "leave out --shape")),
        ("int32", ("--frame-size", "1MiB"), ("--frame-size 1MiB", "leave it out")),
        ("int32", ("--type", "int32"), ("--type int32", "leave out --type")),
        ("float64", (), ("float64", "uint16")),
        ("uint32", (), ("CBF", "4294967295", "--format tiff")),
    ],
)
def test_images_that_a_format_does_not_hold_are_named(
    kind: str, options: tuple[str, ...], words: tuple[str, ...], run: RunCommand, tmp_path: Path
) -> None:
    images = numpy.full((1, ROWS, COLUMNS), 2**32 - 1 if kind == "uint32" else 1, kind)
    mine = written_as_mine(tmp_path / "mine", "npy", images)
    own = ("--format", "cbf", "--content", "file", "--content-file", str(mine), *options)
    finished = run("bench", "frames", str(tmp_path), "--rate", "1", *own)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr


def test_what_is_no_image_is_named(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "not.cbf").write_bytes(b"no image")
    for path, words in ((tmp_path / "not.cbf", "not.cbf"), (tmp_path / "nowhere", "does not exist")):
        own = ("--format", "cbf", "--content", "file", "--content-file", str(path))
        finished = run("bench", "frames", str(tmp_path), "--rate", "1", *own, "--dry-run")
        assert finished.returncode in (1, 2), finished.stderr
        assert words in finished.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "cbf"), ("--format cbf", "--shape")),
        (("--format", "cbf", "--shape", "10x10", "--type", "uint16"), ("CBF", "uint16", "int32")),
        (("--format", "tiff", "--shape", "10 by 10"), ("--shape 10 by 10", "2527x2463")),
        (("--format", "tiff", "--shape", "10x0"), ("--shape 10x0",)),
        (("--format", "hdf5", "--shape", "1000000x1000000"), ("1000000 x 1000000", "4 GiB")),
        (("--shape", "10x10", "--frame-size", "1MiB"), ("--frame-size and --shape",)),
        (("--frame-size", "1MiB", "--type", "uint16"), ("--type uint16 with --frame-size 1MiB", "--shape")),
        ((), ("--frame-size and --shape",)),
        (("--shape", "9x9", "--rename", "--layout", "file_a_writer"), ("file_a_writer", "--rename")),
    ],
)
def test_bad_input_is_named(
    options: tuple[str, ...], words: tuple[str, ...], run: RunCommand, tmp_path: Path
) -> None:
    finished = run("bench", "frames", str(tmp_path), "--rate", "1", *options)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr


def test_cases_that_alternate_between_images_make_each_image_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ImageRequest] = []

    def counted(image: ImageRequest) -> Any:
        made.append(image)
        return make_template(image)

    monkeypatch.setattr("penstock.bench.data.frame_choice.make_template", counted)
    images = [ImageRequest(format=name, rows=7, columns=11, type="int32") for name in ("cbf", "tiff")]
    sizes = [frame_bytes_of(None, None, None, image) for image in images * 3]
    assert sizes == [make_template(image).frame_bytes for image in images] * 3
    assert made == images
