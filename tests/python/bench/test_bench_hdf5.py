"""`penstock bench stream --backend hdf5`: what lies in the files, read by h5py."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy
import pytest

from penstock.bench.run.run import Access, stream_bytes, stream_workload
from penstock.model.bench.runs import Run
from penstock.programs.ranks import Ranks

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]
MIB = 1 << 20
SMALL = ("--size", "8MiB", "--transfer", "1MiB", "--keep", "--yes", "--json")


def measured(run: RunCommand, target: Path, *options: str) -> tuple[Run, list[Path]]:
    """The run, which is too short to be valid and whole otherwise, and its files."""
    target.mkdir()
    finished = run("bench", "stream", str(target), *options, *SMALL)
    assert finished.returncode in (0, 4), finished.stderr
    result = Run.model_validate_json(finished.stdout)
    assert result.document.problem is None
    return result, sorted(target.glob("*/stream-*.bin"))


def plain(run: RunCommand, target: Path) -> list[bytes]:
    """What two threads write through the kernel: the same as two ranks of one thread."""
    _, files = measured(run, target, "--threads", "2", "--no-read")
    return [file.read_bytes() for file in files]


def test_a_store_is_a_file_that_h5py_reads(run: RunCommand, tmp_path: Path) -> None:
    result, files = measured(run, tmp_path / "store", "--backend", "store", "--threads", "2")
    assert result.document.storage.queue_depth == 8
    checks = {check.name: check.actual for check in result.checks}
    assert checks.get("read from storage", "of memory") != "direct I/O", "HDF5 reads through the page cache"
    assert [phase.bytes for phase in result.streams] == [16 * MIB, 16 * MIB]
    assert result.streams[1].mismatches == 0
    expected = plain(run, tmp_path / "plain")
    for file, bytes_of in zip(files, expected, strict=True):
        with h5py.File(file) as content:
            assert content["data"].shape == (8, MIB)
            assert content["data"][:].tobytes() == bytes_of
    result, (file,) = measured(
        run, tmp_path / "shared", "--backend", "store", "--threads", "2", "--shared", "--segments", "4"
    )
    assert result.streams[1].mismatches == 0
    with h5py.File(file) as content:
        assert content["data"].shape == (16, MIB)
        assert len(numpy.unique(content["data"][:, 0:8].view("u8"))) == 16, "each row is another one"


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize("order", ["sequential", "random"])
def test_ranks_fill_one_store(run: RunCommand, tmp_path: Path, mpi: str, order: str) -> None:
    """What lies where is what the same ranks write into a plain file."""
    ranks = ("--ranks", "3", "--mpi", mpi, "--threads", "2", "--shared", "--segments", "4", "--order", order)
    result, (file,) = measured(run, tmp_path / "store", "--backend", "store", *ranks)
    assert [phase.bytes for phase in result.streams] == [48 * MIB, 48 * MIB]
    assert result.streams[1].mismatches == 0
    assert result.document.job is not None
    assert len(result.document.job.parts) == 3
    _, (expected,) = measured(run, tmp_path / "plain", *ranks, "--no-read")
    with h5py.File(file) as content:
        assert content["data"].shape == (48, MIB)
        assert content["data"][:].tobytes() == expected.read_bytes()


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_ranks_have_stores_of_their_own(run: RunCommand, tmp_path: Path, mpi: str) -> None:
    options = ("--backend", "store", "--ranks", "2", "--mpi", mpi)
    result, files = measured(run, tmp_path / "store", *options)
    assert result.streams[1].mismatches == 0
    for file, expected in zip(files, plain(run, tmp_path / "plain"), strict=True):
        with h5py.File(file) as content:
            assert content["data"][:].tobytes() == expected


def test_each_rank_leases_space_for_itself() -> None:
    access = Access(store=True)
    for shared, files in ((True, 1), (False, 2)):
        workload = stream_workload(2, 64 * MIB, MIB, True, True, 0.0, False, shared)
        alone, of_three = (stream_bytes(workload, access, team) for team in (None, Ranks(3)))
        assert of_three == 3 * alone
        assert alone == 128 * MIB + files * 2 * (128 if shared else 64) * MIB


@pytest.mark.parametrize("options", [("--sync", "each"), ("--queue-depth", "1"), ("--chunk", "1MiB")])
def test_what_a_store_does_not_do_is_named(run: RunCommand, tmp_path: Path, options: tuple[str, ...]) -> None:
    finished = run("bench", "stream", str(tmp_path), "--backend", "store", *options, "--dry-run")
    assert finished.returncode == 2
    assert options[0] in finished.stderr


@pytest.mark.parametrize(
    ("options", "chunk", "level"),
    [
        pytest.param((), None, None, id="contiguous"),
        pytest.param(("--chunk", "512KiB"), (1, 512 << 10), None, id="chunks"),
        pytest.param(("--deflate", "1"), (1, MIB), 1, id="deflate"),
    ],
)
def test_each_thread_has_a_file(
    run: RunCommand,
    tmp_path: Path,
    options: tuple[str, ...],
    chunk: tuple[int, int] | None,
    level: int | None,
) -> None:
    result, files = measured(run, tmp_path / "hdf5", "--backend", "hdf5", "--threads", "2", *options)
    assert result.document.storage.hdf5 is not None
    assert [phase.bytes for phase in result.streams] == [16 * MIB, 16 * MIB]
    assert result.streams[1].mismatches == 0
    for file, expected in zip(files, plain(run, tmp_path / "plain"), strict=True):
        with h5py.File(file) as content:
            data = content["data"]
            assert (data.chunks, data.compression_opts) == (chunk, level)
            assert data[0].tobytes() == expected


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="independent"),
        pytest.param(("--chunk", "1MiB"), id="independent in chunks"),
        pytest.param(("--collective", "--sync", "each"), id="collective"),
        pytest.param(("--collective", "--deflate", "1"), id="collective with deflate"),
    ],
)
def test_ranks_share_a_file(run: RunCommand, tmp_path: Path, options: tuple[str, ...]) -> None:
    shared = ("--backend", "hdf5", "--ranks", "2", "--shared", *options)
    result, (file,) = measured(run, tmp_path / "hdf5", *shared)
    assert result.streams[1].mismatches == 0
    with h5py.File(file) as content:
        data = content["data"]
        assert (data.compression == "gzip") == ("--deflate" in options)
        assert [row.tobytes() for row in data] == plain(run, tmp_path / "plain")


def test_ranks_have_files_of_their_own(run: RunCommand, tmp_path: Path) -> None:
    _, files = measured(run, tmp_path / "hdf5", "--backend", "hdf5", "--ranks", "2")
    for file, expected in zip(files, plain(run, tmp_path / "plain"), strict=True):
        with h5py.File(file) as content:
            assert content["data"][0].tobytes() == expected


def test_hdf5_is_a_workload_of_its_own_name(run: RunCommand, tmp_path: Path) -> None:
    options = ("--chunk", "512KiB", "--deflate", "1", "--content", "compressible", "--ratio", "4")
    (tmp_path / "named").mkdir()
    finished = run("bench", "hdf5", str(tmp_path / "named"), *options, *SMALL)
    assert finished.returncode in (0, 4), finished.stderr
    result = Run.model_validate_json(finished.stdout)
    assert result.workload == "stream"
    assert result.streams[1].mismatches == 0
    other, (file,) = measured(run, tmp_path / "stream", "--backend", "hdf5", *options)
    (named,) = (tmp_path / "named").glob("*/stream-*.bin")
    assert result.document.plan.workload == other.document.plan.workload
    with h5py.File(named) as content, h5py.File(file) as expected:
        data = content["data"]
        assert data[0].tobytes() == expected["data"][0].tobytes()
        assert data.chunks == (1, 512 << 10)
        assert data.nbytes / data.id.get_storage_size() == pytest.approx(4, rel=0.1)


def test_deflate_makes_zeros_small(run: RunCommand, tmp_path: Path) -> None:
    options = ("--backend", "hdf5", "--deflate", "1", "--content", "zeros")
    _, (file,) = measured(run, tmp_path / "hdf5", *options)
    assert file.stat().st_size < MIB
    with h5py.File(file) as content:
        assert not numpy.any(content["data"][...])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--backend", "hdf5", "--hint", "a=b"], ["--hint", "--backend mpiio"]),
        (["--backend", "mpiio", "--deflate", "1"], ["--deflate", "--backend hdf5"]),
        (["--chunk", "1MiB"], ["--chunk", "--backend hdf5"]),
        (["--backend", "hdf5", "--chunk", "3MiB"], ["--chunk", "3145728"]),
        (["--backend", "hdf5", "--ranks", "2", "--shared", "--deflate", "1"], ["--deflate", "--collective"]),
        (["--backend", "hdf5", "--ranks", "2", "--mpi", "mpich"], ["mpich", "openmpi"]),
        (["--backend", "hdf5", "--ranks", "2", "--shared", "--threads", "2"], ["--threads 2", "--ranks"]),
    ],
)
def test_options_that_do_not_go_together_are_named(
    run: RunCommand, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    finished = run("bench", "stream", str(tmp_path), *options, "--yes")
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr
    assert list(tmp_path.iterdir()) == []
