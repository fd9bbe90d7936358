"""File systems that refuse locks, direct I/O or reserved space, around the real programs.

A preloaded library answers in the place of the file system. 524 is an error of the kernel's own that the C
library has no name for.
"""

import errno
import json
import os
import subprocess
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import pytest
from conftest import Record, Run
from mid_series import ended_in_mid_series

from penstock.model.bench.runs import Run as BenchRun

SOURCE = Path(__file__).with_name("refusing_storage.c")
KERNELS_OWN = 524
NAMES = {
    "lock": "-o flock",
    "open": "store.direct",
    "transfer": "store.direct",
    "reserve": "store.extent_bytes",
}
# Each error of each call once; a row is one recording.
ANSWERS = [
    {"lock": errno.ENOLCK, "open": errno.EOPNOTSUPP, "reserve": errno.EINTR},
    {"lock": KERNELS_OWN, "open": errno.EPERM, "reserve": errno.ENOSYS},
    {"lock": errno.EINVAL, "open": errno.EINVAL, "reserve": errno.EINVAL},
    {"lock": errno.EACCES, "transfer": errno.EINVAL, "reserve": errno.EOPNOTSUPP},
    {"lock": errno.ENOSYS, "transfer": errno.EOPNOTSUPP, "reserve": KERNELS_OWN},
    # A filter of system calls, and a server that answers what no one expects.
    {"lock": errno.EPERM, "open": errno.EPERM, "reserve": errno.EPERM},
    {"lock": errno.EREMOTEIO, "reserve": errno.EREMOTEIO},
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("refusing") / "refusing_storage.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, SOURCE], check=True)
    return built


def refuse(monkeypatch: pytest.MonkeyPatch, library: Path, answers: dict[str, int]) -> None:
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("PENSTOCK_REFUSALS", ",".join(f"{kind}={number}" for kind, number in answers.items()))


@pytest.mark.parametrize("answers", ANSWERS, ids="-".join)
def test_series_is_recorded_without_what_the_file_system_refuses(
    record: Record,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: Path,
    answers: dict[str, int],
) -> None:
    refuse(monkeypatch, library, answers)
    recorder = record(tmp_path)
    shape = ("custom", "--rows", "64", "--columns", "96", "--frames", "40", "--rate", "max")
    for name in ("first", "second"):
        sent = run("simulate", *shape, "--series-name", name, "--to", f"tcp://{recorder.address}")
        assert sent.returncode == 0, sent.stderr
        end = recorder.series_end()
        assert (end.problem, end.lost) == (None, 0)
    code, log = recorder.stop()
    assert code == 0, log
    for kind in answers:
        assert log.count(NAMES[kind]) == 1, (kind, log)
    for name in ("first", "second"):
        with h5py.File(tmp_path / f"{name}.h5") as content:
            assert content["/entry/data/data"][...].shape == (40, 64, 96)
    checked = run("check", str(tmp_path / "first.h5"), "--against", "recorded")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def test_recording_onto_full_storage_is_told_to_free_space(
    record: Record, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path, number: int
) -> None:
    refuse(monkeypatch, library, {"reserve": number})
    recorder = record(tmp_path)
    shape = ("custom", "--rows", "64", "--columns", "96", "--frames", "4", "--rate", "max")
    sent = run("simulate", *shape, "--to", f"tcp://{recorder.address}")
    assert sent.returncode == 1, sent.stderr
    code, log = recorder.stop()
    assert code == 1, log
    assert "what to do: free space on the storage" in log, log


def test_killed_recorders_file_is_recovered_without_locks(
    record: Record, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path
) -> None:
    refuse(monkeypatch, library, {"lock": errno.ENOLCK, "reserve": KERNELS_OWN})
    file = ended_in_mid_series(record, tmp_path)
    before = file.read_bytes()
    assert run("recover", str(file), "--dry-run").returncode == 0
    rejected = run("recover", str(file))
    assert (rejected.returncode, "--not-in-use" in rejected.stderr) == (1, True), rejected.stderr
    assert file.read_bytes() == before, "a recorder could have it open"
    done = run("recover", str(file), "--not-in-use")
    assert done.returncode == 0, done.stderr
    with h5py.File(file) as content:
        assert len(content["/entry/data/data"]) > 150


def test_unfinished_file_without_locks_is_not_overwritten(
    record: Record, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path
) -> None:
    refuse(monkeypatch, library, {"lock": errno.ENOLCK})
    file = ended_in_mid_series(record, tmp_path)
    before = file.read_bytes()
    recorder = record(tmp_path, "--overwrite")
    shape = ("custom", "--rows", "64", "--columns", "96", "--frames", "4", "--rate", "max")
    sent = run("simulate", *shape, "--series-name", file.stem, "--to", f"tcp://{recorder.address}")
    assert (sent.returncode, "may be recorded" in sent.stderr) == (1, True), sent.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "answers", [{"open": errno.EOPNOTSUPP}, {"transfer": errno.EINVAL}], ids=["open", "transfer"]
)
def test_bench_without_direct_io_names_the_option_that_chooses_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path, answers: dict[str, int]
) -> None:
    refuse(monkeypatch, library, answers)
    size = ("--frame-size", "100KiB", "--rate", "200", "--frames", "100", "--writers", "2")
    done = run("bench", "frames", str(tmp_path), *size, "--yes", "--json")
    result = BenchRun.model_validate(json.loads(done.stdout))
    assert result.frames is not None, done.stderr
    assert result.frames.written == 100
    if result.conditions.file_system == "tmpfs":
        pytest.skip("what lies in memory has no direct I/O")
    assert not result.document.storage.direct
    (check,) = (each for each in result.checks if each.name == "storage, not the page cache")
    assert (check.outcome, "--buffered" in check.advice) == ("warning", True), check
