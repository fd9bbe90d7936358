"""The programs of the pages on the client libraries work as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
from conftest import Record

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def programs_of(page: str, language: str) -> list[str]:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python(record: Record, tmp_path: Path) -> None:
    """One program after another, as one reads them: later ones use the imports of the first."""
    recorder = record(tmp_path)
    program = tmp_path / "program.py"
    text = "\n".join(programs_of("send-from-python.md", "python"))
    program.write_text(text.replace("127.0.0.1:9900", recorder.address), encoding="utf-8")
    assert run(sys.executable, str(program)) == "20 frames are in the file, 0 were sent twice\n"
    ends = [recorder.series_end() for _ in range(3)]
    assert [(end.frames_written, end.missing, end.problem) for end in ends] == [(20, 0, None)] * 3
    with h5py.File(ends[0].file) as file:
        assert np.allclose(file["/entry/metadata/motor_position"][...], 0.1 * np.arange(20))
        assert 2 < file["/entry/data/data"][7].mean() < 4
    with h5py.File(ends[1].file) as file:
        assert file["/entry/data/data"][:, 0, 0].tolist() == list(range(20))
