"""What a killed `attach`, `export` or `join` leaves of a file is removed by the next one that writes it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Recorded
from detector_stream import frames_of

from penstock.files import join
from penstock.files.export import export
from penstock.files.export.plan import plan_export
from penstock.files.unfinished import unfinished
from penstock.files.values import attach
from penstock.report.view import files as pictures


def _attach(series: Path) -> Path:
    return Path(attach.attach(series, [], None, attach.How(), dry_run=False).output)


def _export(series: Path) -> Path:
    planned = plan_export(series, "eiger", copies=True)
    export.write_export(planned, False, lambda _n, _of: None)
    return Path(planned.master)


def _join(series: Path) -> Path:
    joint = series.with_name("joint.h5")
    join.JointFile.open(joint, add=False).add([series])
    return joint


def _picture(series: Path) -> Path:
    picture = series.with_name("frame.png")
    with pictures._new_file(picture) as file:
        file.write(b"png")
    return picture


COMMANDS = {
    "attach": (attach, _attach),
    "export": (export, _export),
    "join": (join, _join),
    "view": (pictures, _picture),
}


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_when_written(module: Any, work: Callable[[Path], Path], series: Path) -> None:
    """In a process of its own, which dies when the file would get its name."""
    child = os.fork()
    if child == 0:
        module.give_name = die
        work(series)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("command", list(COMMANDS))
def test_what_a_killed_command_left_is_removed_by_the_next(
    command: str, recorded: Recorded, tmp_path: Path
) -> None:
    module, work = COMMANDS[command]
    series = recorded(frames_of("uint16"))
    kill_when_written(module, work, series)
    assert hidden(series.parent)
    assert work(series).exists()
    assert not hidden(series.parent)


def test_file_that_a_running_command_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with unfinished([path]) as first:
        first[path].write_bytes(b"")
        with unfinished([path]) as second:
            assert second[path] != first[path]
            assert first[path].exists()
    assert not hidden(tmp_path)
