"""A dry run names the space, and what is too large for the target is refused with the options that matter."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import application

CUSTOM = ["custom", "--rows", "1000", "--columns", "1000", "--type", "uint16"]
FITS = {
    "analysis": ([], "40 MB"),
    "imaging": (["--frames", "10"], "7.34 MB"),
    "seismic-sort": (["--size", "64MiB"], "198 MB"),
    "uvbuffer": (["--channels", "80"], "101 MB"),
    "acquire-and-analyse": ([*CUSTOM, "--rate", "10", "--seconds", "4"], "160 MB"),
}
TOO_LARGE = {
    "analysis": (
        ["--file-size", "90GB", "--files", "1000", "--jobs", "1000"],
        "--file-size, --files or --jobs",
    ),
    "imaging": (["--frames", "10000000", "--shape", "10000x10000"], "reduce --frames or --shape"),
    "seismic-sort": (["--size", "1PiB", "--memory", "1TiB"], "reduce --size"),
    "uvbuffer": (
        ["--file-size", "1GiB", "--channels", "1000000"],
        "reduce --file-size, --channels or --lifetime",
    ),
    "acquire-and-analyse": (
        [*CUSTOM, "--rate", "1000000", "--seconds", "86400"],
        "reduce --rate or --seconds",
    ),
}


def shown_of(name: str, target: Path, arguments: list[str]) -> str:
    words = ["bench", name, str(target), *arguments, "--dry-run"]
    return " ".join(CliRunner().invoke(application, words).output.split())


@pytest.mark.parametrize("name", FITS)
def test_a_dry_run_names_the_space(tmp_path: Path, name: str) -> None:
    arguments, space = FITS[name]
    assert f" space {space} at most: " in shown_of(name, tmp_path, arguments)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_little_space_names_the_options_of_the_workload(tmp_path: Path, name: str) -> None:
    arguments, advice = TOO_LARGE[name]
    shown = shown_of(name, tmp_path, arguments)
    assert "the run writes " in shown
    assert f"{advice} (at most " in shown
    assert " fits), or choose another target" in shown
