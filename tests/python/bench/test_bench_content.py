"""`--content` of `penstock bench`: what the files hold, and how far compressors get with it."""

import subprocess
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import pytest
from lz4_block import compress

from penstock.bench.data.content import chosen_content
from penstock.bench.run.workloads import parameters_of
from penstock.model.bench.runs import Run
from penstock.model.errors import UsageError

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]
SECTOR, STAMP, RECORD = 512, 8, 128 << 10
STREAM = ("stream", "--size", "2MiB", "--transfer", "256KiB")
FRAMES = ("frames", "--frame-size", "256KiB", "--rate", "0", "--frames", "8", "--writers", "2")


def measured(run: RunCommand, target: Path, *options: str) -> tuple[Run, bytes]:
    """The run, which is too short to be valid and whole otherwise, and what its files hold."""
    workload, *others = options
    finished = run("bench", workload, str(target), *others, "--keep", "--yes", "--json")
    assert finished.returncode in (0, 4), finished.stderr
    result = Run.model_validate_json(finished.stdout)
    assert result.document.problem is None
    return result, b"".join(file.read_bytes() for file in sorted(target.glob("*/*.bin")))


def said_of_content(result: Run) -> tuple[str, str]:
    return next((each.outcome, each.actual) for each in result.checks if "content" in each.name)


def deflated(record: bytes) -> int:
    return len(zlib.compress(record, 1))


def packed_by_lz4(record: bytes) -> int:
    return len(compress(record))


@pytest.mark.parametrize("size_of", [deflated, packed_by_lz4], ids=["deflate", "lz4"])
@pytest.mark.parametrize("workload", [STREAM, FRAMES], ids=["stream", "frames"])
@pytest.mark.parametrize("ratio", [1.5, 4, 10])
def test_files_compress_as_the_ratio_says(
    run: RunCommand, tmp_path: Path, workload: Sequence[str], ratio: float, size_of: Callable[[bytes], int]
) -> None:
    result, data = measured(run, tmp_path, *workload, "--content", "compressible", "--ratio", f"{ratio}")
    assert len(data) == 2 << 20
    packed = sum(size_of(data[at : at + RECORD]) for at in range(0, len(data), RECORD))
    assert len(data) / packed == pytest.approx(ratio, rel=0.1)
    sectors = {data[at : at + SECTOR] for at in range(0, len(data), SECTOR)}
    assert len(sectors) == len(data) // SECTOR, "none is equal to another one"
    assert said_of_content(result) == ("warning", f"compressible {ratio:g}:1")
    for phase in result.streams[1:]:
        assert phase.mismatches == 0


def test_a_file_of_the_user_is_written_again_and_again(run: RunCommand, tmp_path: Path) -> None:
    images = tmp_path / "images.raw"
    image = numpy.random.default_rng(1).poisson(3, 100_000).astype("<u2").tobytes()
    images.write_bytes(image)
    target = tmp_path / "target"
    target.mkdir()
    result, data = measured(run, target, *STREAM, "--content", "file", "--content-file", str(images))
    own = numpy.arange(len(data)) % SECTOR >= STAMP
    expected = numpy.resize(numpy.frombuffer(image, "u1"), len(data))
    assert numpy.array_equal(numpy.frombuffer(data, "u1")[own], expected[own])
    assert result.streams[1].mismatches == 0
    outcome, actual = said_of_content(result)
    ratio = len(image) / sum(deflated(image[at : at + RECORD]) for at in range(0, len(image), RECORD))
    assert (outcome, actual) == ("warning", f"file {images}, {ratio:.3g}:1 by deflate")
    assert images.read_bytes() == image


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--content", "compressible"), "--ratio"),
        (("--content", "file"), "--content-file"),
        (("--ratio", "4"), "--content compressible"),
        (("--content-file", "x"), "--content file"),
        (("--content", "compressible", "--ratio", "17"), "--ratio: 17 exceeds the maximum of 10"),
        (("--ratio", "99"), "error: --ratio: 99 exceeds the maximum of 10"),
        (("--ratio", "nan"), "--ratio: "),
        (("--content", "file", "--content-file", "/dev/zero"), "is not a file"),
        (("--content", "file", "--content-file", "/nowhere/x"), "/nowhere/x"),
    ],
)
def test_what_does_not_go_together_is_named(
    run: RunCommand, tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    for workload in (STREAM, FRAMES, ("metadata", "--size", "4KiB")):
        finished = run("bench", workload[0], str(tmp_path), *workload[1:], *options, "--dry-run")
        assert finished.returncode == 2
        assert named in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(UsageError, match="is empty"):
        chosen_content("file", None, tmp_path / "x")


def test_a_campaign_varies_the_ratio() -> None:
    parameters_of("stream", {"content": "compressible", "ratio": 4}).job()
    parameters_of("frames", {"frame_size": "4096 B", "rate": 1, "content": "compressible", "ratio": 2}).job()
    with pytest.raises(UsageError, match="requires --ratio"):
        parameters_of("stream", {"content": "compressible"}).job()
