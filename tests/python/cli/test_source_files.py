"""Source files of a split series: named on their own, or cut off."""

import shutil
from collections.abc import Callable
from pathlib import Path

import nexus_series as sent
import pytest
from typer.testing import CliRunner, Result

from penstock.cli import application
from penstock.model.errors import ExitCode

pytestmark = pytest.mark.usefixtures("nothing_stays_open")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A series of 7 frames in three source files. Tests leave it as it is."""
    return sent.record_series(tmp_path_factory.mktemp("split"), "--frames-per-file", "3")


@pytest.fixture
def series(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded.parent, tmp_path / "split") / recorded.name


@pytest.fixture
def cut(series: Path) -> Path:
    """Of this series the second source file has lost half of its bytes."""
    source = series.with_name("s_member_1.h5")
    with source.open("r+b") as file:
        file.truncate(source.stat().st_size // 2)
    return series


def run(*arguments: object) -> Result:
    return CliRunner().invoke(application, [*map(str, arguments)], catch_exceptions=False)


def in_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "command",
    [
        lambda source: ("join", source.with_name("joined.h5"), source),
        lambda source: ("attach", source, source.with_name("values.pnval")),
        lambda source: ("export", source, "--for", "xds"),
    ],
    ids=["join", "attach", "export"],
)
def test_source_file_is_rejected_with_the_name_of_its_series(
    recorded: Path, command: Callable[[Path], tuple[object, ...]]
) -> None:
    done = run(*command(recorded.with_name("s_member_2.h5")))
    assert done.exit_code == ExitCode.USAGE
    assert "s_member_2.h5 is a source file: it holds a part of a series" in done.stderr
    assert f"name the file that presents the complete series: {recorded}" in done.stderr


def test_info_of_a_source_file_names_its_series(recorded: Path) -> None:
    done = run("info", recorded.with_name("s_member_2.h5"))
    shown = in_line(done.stdout)
    assert done.exit_code == 0
    assert f"it has a part of the series in {recorded}"[:40] in shown
    assert f"what to do: name the file of the series: penstock info {recorded}" in shown
    assert "not complete" not in shown
    assert "not written by penstock" not in shown


def test_copy_names_a_cut_source_file_and_the_frames_of_others(cut: Path) -> None:
    done = run("export", cut, "--for", "xds", "--copy")
    assert done.exit_code == ExitCode.FAILED
    assert "s_member_1.h5 is truncated" in done.stderr
    assert "--copy --frames 0:3" in done.stderr
    assert "HDF5_PLUGIN_PATH" not in done.stderr


def test_view_names_a_cut_source_file_and_its_frames(cut: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = run("view", cut, "--frame", 4, "--output", picture)
    assert done.exit_code == ExitCode.FAILED
    assert "frame 4 cannot be read" in done.stderr
    assert "s_member_1.h5 is truncated" in done.stderr
    assert "it has frames 3 to 5" in done.stderr
    assert run("view", cut, "--frame", 6, "--output", picture).exit_code == 0


def test_info_of_a_series_with_a_cut_source_file_fails_with_a_remedy(cut: Path) -> None:
    done = run("info", cut)
    shown = in_line(done.stdout)
    assert done.exit_code == ExitCode.FAILED
    assert "3 in source files that are missing or not readable" in shown
    assert "s_member_1.h5 is truncated" in shown
    assert "what to do: copy s_member_1.h5 again from the source" in shown
