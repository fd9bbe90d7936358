"""The programs for readers without a client library work as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
from conftest import Record
from warm_command import penstock

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "how-to" / "develop" / "record-from-your-own-program.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
OVER_ZEROMQ, COMPRESSED = PROGRAMS
OVER_TCP = (DOCS / "examples" / "send_over_tcp.py").read_text(encoding="utf-8")


def complete(file: str) -> bool:
    """The check finds nothing that the program could have told."""
    checked = penstock("check", file, "--require-complete")
    return (
        checked.returncode == 0
        and checked.stdout.splitlines()[-1] == "fine"
        and "warning" not in checked.stdout
    )


def run(program: str, argument: str, folder: Path) -> str:
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), argument], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_over_zeromq(record: Record, tmp_path: Path, free_port: int) -> None:
    recorder = record(tmp_path, "--zmq", f"tcp://127.0.0.1:{free_port}", listen=False)
    run(OVER_ZEROMQ, f"tcp://127.0.0.1:{free_port}", tmp_path)
    end = recorder.series_end()
    recorder.stop()
    assert (end.frames_written, end.problem, end.missing) == (20, None, 0)
    assert complete(end.file)
    with h5py.File(end.file) as file:
        assert file["/entry/data/data"].shape == (20, 512, 1024)
        assert numpy.mean(file["/entry/data/data"][7]) > 2
        assert b"lysozyme" in file["/entry/penstock/user_data"][()]
        assert numpy.allclose(file["/entry/metadata/motor_position"][...], 0.1 * numpy.arange(20))


def test_over_zeromq_compressed(record: Record, tmp_path: Path, free_port: int) -> None:
    """The second program's function, put into the first."""
    recorder = record(tmp_path, "--zmq", f"tcp://127.0.0.1:{free_port}", listen=False)
    head, tail = OVER_ZEROMQ.split("endpoint = ", 1)
    program = (
        head + COMPRESSED + "\n\nendpoint = " + tail.replace("pixels(frame)", "compressed_pixels(frame)")
    )
    program = program.replace("numpy.random.poisson", "numpy.random.default_rng(number).poisson")
    run(program, f"tcp://127.0.0.1:{free_port}", tmp_path)
    end = recorder.series_end()
    recorder.stop()
    assert (end.frames_written, end.problem) == (20, None)
    with h5py.File(end.file) as file:
        for number in (0, 19):
            expected = numpy.random.default_rng(number).poisson(3, (512, 1024)).astype("uint16")
            assert numpy.array_equal(file["/entry/data/data"][number], expected)


def test_over_tcp(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    said = run(OVER_TCP, recorder.address, tmp_path)
    assert "frames below 20 are safe" in said, "acknowledgements come before the series is closed"
    assert "recorded without a problem" in said
    end = recorder.series_end()
    recorder.stop()
    assert (end.frames_written, end.problem) == (20, None)
    assert complete(end.file)
    with h5py.File(end.file) as file:
        assert numpy.mean(file["/entry/data/data"][19]) > 2
