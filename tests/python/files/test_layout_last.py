"""Single values of a layout that only the last frame has: in a finished file, and after a crash."""

import shutil
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy
import pytest
from conftest import Record, Recorded, Run
from detector_stream import frames_of, send
from mid_series import ended_in_mid_series, kill

from penstock.model.events import RecorderProgress

pytestmark = pytest.mark.usefixtures("nothing_stays_open")

LAYOUT = """\
metadata: /each
tree:
  data: {frames: 0}
  first: {metadata: VALUE, when: first}
  last: {metadata: VALUE, when: last, attributes: {units: {constant: Gy}}}
  last_too: {link: /last}
  note: {metadata: Note, when: last}
  group: {attributes: {last: {metadata: VALUE, when: last}}}
"""


def layout_of(folder: Path, value: str) -> str:
    layout = folder / "last.yaml"
    layout.write_text(LAYOUT.replace("VALUE", value), encoding="utf-8")
    return str(layout)


def test_number_that_changes_until_the_last_frame_is_no_damage(
    recorded: Recorded, run: Run, tmp_path: Path
) -> None:
    frames = frames_of("uint16")
    told = [{"dose": 0.5 * number, "Note": f"n{number}"} for number in range(len(frames))]
    del told[-1]["Note"]
    path = recorded(frames, "--layout", layout_of(tmp_path, "dose"), user_data=told)
    checked = run("check", str(path), "--require-complete")
    assert (checked.returncode, "warning" in checked.stdout) == (0, False), checked.stdout + checked.stderr
    last = 0.5 * (len(frames) - 1)
    with h5py.File(path) as file:
        assert (file["/first"][()], file["/last"][()]) == (0, last)
        assert file["/last"].attrs["units"] == "Gy"
        assert file["/last_too"] == file["/last"]
        assert file["/group"].attrs["last"] == last
        assert file["/note"].asstr()[()] == f"n{len(frames) - 2}", "of the last frame that brings one"
        place = file["/last"].id.get_offset()
    with path.open("r+b") as changed:
        changed.seek(place)
        changed.write(b"\x01")
    checked = run("check", str(path))
    assert checked.returncode == 1
    assert "is corrupt" in checked.stdout


def test_recovered_file_has_values_of_the_last_frame(record: Record, run: Run, tmp_path: Path) -> None:
    path = ended_in_mid_series(record, tmp_path, ("--layout", layout_of(tmp_path, "NDArrayUniqueId")))
    anew = tmp_path / "anew.h5"
    shutil.copy(path, anew)
    recovered = run("recover", str(path))
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert run("check", str(path)).returncode == 0
    with h5py.File(path) as file:
        last = numpy.flatnonzero(file["/entry/penstock/frame_state"][...] == 1)[-1]
        assert last > 100
        assert (file["/first"][()], file["/last"][()]) == (0, last)
        assert file["/last"].attrs["units"] == "Gy"
        assert file["/last_too"] == file["/last"]
        assert file["/group"].attrs["last"] == last
    assert "values of the last frame are lost" not in recovered.stdout + recovered.stderr
    rebuilt = run("recover", str(anew), "--rebuild")
    assert "a value of the last frame" not in rebuilt.stdout + rebuilt.stderr
    with h5py.File(anew) as file:
        assert (file["/first"][()], file["/last"][()]) == (0, last)
        assert file["/last"].attrs["units"] == "Gy"
        assert file["/last_too"] == file["/last"]
        assert file["/group"].attrs["last"] == last


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--rebuild",), 1)])  # 1: times are lost
def test_recovered_value_is_that_of_the_last_frame_that_brings_one(
    record: Record, run: Run, tmp_path: Path, free_port: int, options: tuple[str, ...], code: int
) -> None:
    frames = frames_of("uint16")
    told = [{"dose": 0.5 * number, "Note": f"n{number}"} for number in range(len(frames))]
    for each in told[-2:]:
        del each["Note"]
    endpoint = f"tcp://127.0.0.1:{free_port}"
    recorder = record(tmp_path, "--zmq", endpoint, "--layout", layout_of(tmp_path, "dose"), listen=False)
    send(endpoint, frames, user_data=told, ends=False)
    while True:
        progress = recorder.until(RecorderProgress)
        assert isinstance(progress, RecorderProgress)
        if progress.frames_written == len(frames):
            break
    kill(recorder)
    recovered = run("recover", str(tmp_path / "s.h5"), *options)
    assert recovered.returncode == code, recovered.stdout + recovered.stderr
    with h5py.File(tmp_path / "s.h5") as file:
        assert file["/note"].asstr()[()] == f"n{len(frames) - 3}"
        assert file["/last"][()] == told[-1]["dose"]
