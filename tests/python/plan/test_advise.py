"""`penstock advise`: its figures are those of real reads, and its configuration is one."""

import io
import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import hdf5plugin
import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from penstock.files.images.compressibility import measure_ratios
from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.plan.access import Chunk, Geometry, Pattern, reading
from penstock.model.plan.advice import Ratios, advise
from penstock.model.storage import StorageFacts
from penstock.model.yaml_file import read_yaml

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DISK = StorageFacts("ext4", "/data", 4096)


class CountedFile(io.FileIO):
    """Keeps where it was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "r")
        self.reads: list[tuple[int, int]] = []

    def readinto(self, buffer: object) -> int:
        at = self.tell()
        count = super().readinto(buffer)  # type: ignore[arg-type]
        self.reads.append((at, count))
        return count


def accesses(pattern: Pattern, geometry: Geometry) -> Iterator[tuple[slice, slice, slice]]:
    """Every region that the pattern may mean: at its place, or at all places."""
    frames, rows, columns = pattern.region(geometry)
    row_places = [pattern.row] if pattern.row is not None else range(geometry.rows - rows + 1)
    column_places = [pattern.column] if pattern.column is not None else range(geometry.columns - columns + 1)
    for frame, row, column in itertools.product(
        range(geometry.frames - frames + 1), row_places, column_places
    ):
        yield slice(frame, frame + frames), slice(row, row + rows), slice(column, column + columns)


def chunks_touched(region: tuple[slice, slice, slice], chunk: Chunk) -> int:
    extents = (chunk.frames, chunk.rows, chunk.columns)
    return int(
        numpy.prod([(r.stop - 1) // e - r.start // e + 1 for r, e in zip(region, extents, strict=True)])
    )


@settings(deadline=None)
@given(
    shape=some.tuples(some.integers(1, 4), some.integers(1, 12), some.integers(1, 12)),
    chunk=some.tuples(some.integers(1, 12), some.integers(1, 12)),
    region=some.tuples(some.integers(1, 12), some.integers(1, 12)),
    kind=some.sampled_from(["frames", "roi", "rows", "pixel"]),
)
@example(shape=(3, 10, 7), chunk=(4, 7), region=(4, 3), kind="roi")
def test_the_mean_over_all_places_is_that_of_counting(
    shape: tuple[int, int, int], chunk: tuple[int, int], region: tuple[int, int], kind: str
) -> None:
    geometry = Geometry(frames=shape[0], rows=shape[1], columns=shape[2], element_bytes=2)
    tile = Chunk(rows=min(chunk[0], shape[1]), columns=min(chunk[1], shape[2]))
    rows, columns = min(region[0], shape[1]), min(region[1], shape[2])
    pattern = Pattern.parse({"roi": f"roi:{rows}x{columns}", "rows": f"rows:{rows}"}.get(kind, kind))
    counted = [chunks_touched(each, tile) for each in accesses(pattern, geometry)]
    found = reading(pattern, tile, geometry)
    assert found.chunks == pytest.approx(sum(counted) / len(counted))
    assert found.expanded_bytes == pytest.approx(found.chunks * tile.rows * tile.columns * 2)


def test_a_chunk_that_needs_more_memory_brings_it() -> None:
    geometry = Geometry(frames=10, rows=12000, columns=12000, element_bytes=4)
    advice = advise(geometry, [Pattern.parse("frames")], DISK, Ratios())
    assert advice.recommended.chunks_a_frame == 1
    assert "pool_bytes: 16 GiB" in advice.configuration()
    assert any("the recorder would refuse it" in reason for reason in advice.reasons)
    smaller = advise(geometry, [Pattern.parse("roi:100x100")], DISK, Ratios())
    assert "pool_bytes" not in smaller.configuration()


def stored_chunks(data: h5py.Dataset) -> list[tuple[int, int]]:
    infos = [data.id.get_chunk_info(number) for number in range(data.id.get_num_chunks())]
    return sorted((info.byte_offset, info.size) for info in infos)


def counted_read(path: Path, region: tuple[slice, slice, slice]) -> tuple[int, int]:
    """How many chunks, and how many bytes of chunks, one read of h5py takes from the file."""
    with CountedFile(path) as raw, h5py.File(raw, "r") as file:
        data = file["data"]
        chunks = stored_chunks(data)
        raw.reads.clear()
        data[region]
        touched, taken = set(), 0
        for at, count in raw.reads:
            for start, size in chunks:
                common = min(at + count, start + size) - max(at, start)
                if common > 0:
                    taken += common
                    touched.add(start)
    return len(touched), taken


@pytest.mark.slow
@pytest.mark.parametrize("text", ["frames", "roi:40x40", "roi:40x40@30,17", "rows:3@62", "pixel@100,100"])
def test_figures_are_those_of_real_reads(text: str, tmp_path: Path) -> None:
    """A file with the advised chunks, and every read of it counted."""
    geometry = Geometry(frames=3, rows=300, columns=260, element_bytes=4)
    random = numpy.random.default_rng(5)
    frames = random.integers(0, 4000, (3, 300, 260), dtype=numpy.uint32)
    numpy.save(tmp_path / "images.npy", frames)
    ratios = measure_ratios(tmp_path / "images.npy")
    pattern = Pattern.parse(text)
    advice = advise(geometry, [pattern], DISK, ratios)
    for choice in (advice.recommended, *advice.alternatives):
        path = tmp_path / "read.h5"
        with h5py.File(path, "w") as file:
            shape = (choice.chunk.frames, choice.chunk.rows, choice.chunk.columns)
            file.create_dataset("data", data=frames, chunks=shape, **hdf5plugin.Bitshuffle(cname="lz4"))
        regions = list(accesses(pattern, geometry))
        regions = [regions[i] for i in sorted(random.choice(len(regions), min(6, len(regions)), False))]
        for region in regions:
            chunks, taken = counted_read(path, region)
            assert chunks == chunks_touched(region, choice.chunk)
            # What lies beyond the frame compresses to next to nothing, and chunks differ a little.
            predicted = chunks * choice.bytes / ratios.of("bslz4")
            assert taken <= 1.05 * predicted
            assert taken * choice.padding >= 0.8 * predicted / 4
        cost = choice.costs[0]
        if pattern.row is not None or pattern.kind == "frames":
            assert cost.chunks == chunks_touched(regions[0], choice.chunk)
        assert cost.stored_bytes == pytest.approx(cost.chunks * choice.bytes / ratios.of("bslz4"))
        assert cost.amplification == pytest.approx(cost.chunks * choice.bytes / cost.wanted_bytes)


def test_tiles_for_regions_and_whole_frames_for_frames() -> None:
    geometry = Geometry(frames=1000, rows=4362, columns=4148, element_bytes=2)
    whole = advise(geometry, [Pattern.parse("frames")], DISK, Ratios())
    assert whole.chunk.shape == []
    assert whole.recommended.costs[0].amplification == 1
    tiles = advise(geometry, [Pattern.parse("roi:128x128")], DISK, Ratios())
    assert tiles.recommended.costs[0].amplification < 30
    assert next(a.costs[0].amplification for a in tiles.alternatives if a.chunks_a_frame == 1) > 1000
    mixed = advise(geometry, [Pattern.parse("frames*20"), Pattern.parse("roi:128x128")], DISK, Ratios())
    assert mixed.recommended.bytes > tiles.recommended.bytes


def test_a_remote_file_system_wants_larger_chunks_and_its_block_aligned() -> None:
    geometry = Geometry(frames=1000, rows=2048, columns=2048, element_bytes=2)
    patterns = [Pattern.parse("roi:100x100")]
    near = advise(geometry, patterns, DISK, Ratios())
    far = advise(geometry, patterns, StorageFacts("gpfs", "/gpfs", 4 << 20, stripe_bytes=4 << 20), Ratios())
    assert far.recommended.bytes > near.recommended.bytes
    assert (near.store.alignment_bytes, far.store.alignment_bytes) == (4096, 4 << 20)
    assert far.store.segment_bytes % far.store.alignment_bytes == 0


def test_a_fast_detector_does_not_get_more_chunks_than_the_index_takes() -> None:
    geometry = Geometry(frames=1000, rows=512, columns=512, element_bytes=2)
    advice = advise(geometry, [Pattern.parse("pixel")], DISK, Ratios(), rate_hz=50_000)
    best = advice.recommended
    assert best.chunk.frames == advice.chunk.frames == 32
    assert 1 < best.chunks_a_frame <= 2 * best.chunk.frames


def test_readers_through_all_frames_get_chunks_of_several() -> None:
    geometry = Geometry(frames=10_000, rows=256, columns=256, element_bytes=2)
    through = advise(geometry, [Pattern.parse("pixel")], DISK, Ratios())
    assert through.chunk.frames == 32
    assert "  frames: 32\n" in through.configuration()
    assert through.recommended.costs[0].chunks == 313
    whole = next(choice for choice in through.alternatives if choice.is_frame)
    assert whole.costs[0].amplification > 10 * through.recommended.costs[0].amplification
    assert any("32 frames gather" in reason for reason in through.reasons)
    # Whoever reads single frames loses by it.
    alone = advise(geometry, [Pattern.parse("frames")], DISK, Ratios())
    assert alone.chunk.frames == 1
    assert "frames:" not in alone.configuration()


def test_frames_that_are_too_large_to_gather_do_not() -> None:
    geometry = Geometry(frames=10_000, rows=4362, columns=4148, element_bytes=4)
    advice = advise(geometry, [Pattern.parse("pixel")], DISK, Ratios())
    assert advice.chunk.frames == 1
    assert any("too large to gather" in reason for reason in advice.reasons)


def test_a_pool_for_the_frames_that_gather_comes_with_the_advice() -> None:
    geometry = Geometry(frames=1000, rows=1024, columns=1024, element_bytes=2)
    pixel = advise(geometry, [Pattern.parse("pixel")], DISK, Ratios())
    assert pixel.chunk.frames == 32
    # 32 frames of 2 MiB, three times and a quarter more, in a sixteenth of it.
    assert pixel.pool_bytes is not None
    assert pixel.pool_bytes >= 16 * 3 * 64 * 1024 * 1024 * 1.25


def test_the_codec_follows_from_the_images(tmp_path: Path) -> None:
    def ratios_of(images: numpy.ndarray) -> Ratios:
        numpy.save(tmp_path / "images.npy", images)
        return measure_ratios(tmp_path / "images.npy")

    random = numpy.random.default_rng(2)
    geometry = Geometry(frames=10, rows=64, columns=64, element_bytes=2)
    noise = ratios_of(random.integers(0, 65536, (2, 64, 64), dtype=numpy.uint16))
    assert advise(geometry, [Pattern.parse("frames")], DISK, noise).codec.encoding == "none"
    sparse = ratios_of(random.poisson(0.3, (2, 256, 256)).astype(numpy.uint16))
    assert sparse.images == 2
    assert 5 < sparse.of("bslz4") < sparse.of("bszstd")
    assert advise(geometry, [Pattern.parse("frames")], DISK, sparse).codec.encoding != "none"


@pytest.mark.parametrize(
    "text", ["", "roi", "roi:5", "frames:3", "pixel:3", "rows:3x3", "roi:0x5", "roi:5x5*0", "roi:5x5@1"]
)
def test_other_patterns_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Pattern.parse(text)


def test_a_region_beyond_the_frame_is_refused() -> None:
    geometry = Geometry(frames=1, rows=10, columns=10, element_bytes=1)
    chunk = Chunk(rows=10, columns=10)
    for text in ("roi:11x1", "roi:5x5@6,0", "pixel@0,10"):
        with pytest.raises(UsageError):
            reading(Pattern.parse(text), chunk, geometry)


def test_the_command_says_why_and_its_configuration_is_one(run: Run, tmp_path: Path) -> None:
    arguments = (
        "advise",
        "eiger2-4m",
        "--read",
        "frames",
        "--read",
        "roi:128x128*3",
        "--folder",
        str(tmp_path),
    )
    shown = run(*arguments, "--ratio", "8")
    assert shown.returncode == 0, shown.stderr
    assert "Why:" in shown.stdout
    assert "HDF5 reads and expands whole chunks" in shown.stdout
    told = run(*arguments, "--ratio", "8", "--json")
    advice = json.loads(told.stdout)
    assert advice["recommended"]["costs"][1]["pattern"] == "roi:128x128*3"
    start = shown.stdout.index("chunk:")
    configuration = tmp_path / "advised.yaml"
    configuration.write_text(shown.stdout[start : shown.stdout.index("Why:")])
    read = read_yaml(configuration, Configuration)
    assert read.chunk.shape == advice["chunk"]["shape"] != []
    assert read.store.alignment_bytes == advice["store"]["alignment_bytes"]
    dry = run("record", str(configuration), "--folder", str(tmp_path), "--dry-run")
    assert dry.returncode == 0, dry.stderr


def test_images_are_tried_on_the_codecs(run: Run, tmp_path: Path) -> None:
    numpy.save(
        tmp_path / "images.npy", numpy.random.default_rng(1).poisson(0.5, (3, 64, 64)).astype("uint16")
    )
    shape = ("custom", "--rows", "64", "--columns", "64")
    told = run("advise", *shape, "--images", str(tmp_path / "images.npy"), "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["ratios"]["images"] == 3


@pytest.mark.parametrize(
    "options",
    [
        ("eiger2-4m", "--read", "backwards"),
        ("eiger2-4m", "--read", "roi:9999x1"),
        ("eiger2-4m", "--ratio", "2", "--images", "x"),
        ("eiger2-4m", "--rows", "5"),
        ("no-such-detector",),
        ("eiger2-4m", "--folder", "/no/such/folder"),
    ],
)
def test_wrong_options_are_exit_2_with_a_remedy(run: Run, options: tuple[str, ...]) -> None:
    done = run("advise", *options)
    assert done.returncode == 2
    assert "what to do:" in done.stderr
