"""What reports say of workloads of the sciences, and what a campaign says that it leaves."""

from pathlib import Path

import pytest
from comparable import run_at, science_run
from typer.testing import CliRunner

from penstock.bench.science.data.clean import is_complete
from penstock.bench.science.data.manifest import CONTENTS
from penstock.cli import application
from penstock.model.bench.science import JobFigures
from penstock.report.pages.parts import pattern_block
from penstock.report.science import science_rows

LEFT = "has directories of another run, active or killed"


def plan_of(name: str, target: Path) -> str:
    found = CliRunner().invoke(application, ["campaign", name, "--target", str(target), "--dry-run"])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


def test_access_and_content_of_a_load_are_not_those_of_an_analysis() -> None:
    assert {"access", "content"} <= set(pattern_block(run_at(0)).rows)
    rows = pattern_block(science_run(0, "analysis", [], pattern="scan")).rows
    assert not {"access", "content"} & set(rows)
    assert rows["pattern"] == "scan"


@pytest.mark.parametrize(
    ("jobs", "units", "unit", "said"),
    [
        (1, 1, "frames", "1 frame in 10 s"),
        (2, 7, "traces written", "7 traces written in 10 s, all jobs at work"),
    ],
)
def test_one_is_not_many(jobs: int, units: int, unit: str, said: str) -> None:
    figures = science_run(0, "analysis", []).science
    assert figures is not None
    job = JobFigures(job=0, place="/", units=1, seconds=1, asked_bytes=0, received_bytes=0, calls=0)
    changes = {"units": units, "unit": unit, "jobs": [job] * jobs, "spent_s": {"storage": 1.0}}
    rows = science_rows(figures.model_copy(update=changes))
    assert rows["counted"] == said
    assert ("of all jobs" in rows["time: storage"]) == (jobs > 1)


def test_a_run_that_ends_at_once_counts_nothing() -> None:
    figures = science_run(0, "analysis", []).science
    assert figures is not None
    job = JobFigures(job=0, place="/", units=0, seconds=0, asked_bytes=0, received_bytes=0, calls=0)
    rows = science_rows(figures.model_copy(update={"units": 0, "seconds": 0.0, "jobs": [job] * 2}))
    assert rows["counted"] == "nothing"


def test_a_plan_says_which_data_stays(tmp_path: Path) -> None:
    assert "stay until `penstock bench clean TARGET`" in plan_of("analysis-jobs", tmp_path)
    buffer = tmp_path / "buffer.yaml"  # a small one: plans require room for what they write
    buffer.write_text(
        "title: a buffer\nworkload: uvbuffer\nparameters: {channels: 64, writers: 1, readers: 1}\n"
        "vary: {file_size: [512 KiB]}\n"
    )
    assert "each run in a new directory, removed afterwards" in plan_of(str(buffer), tmp_path)


def test_a_complete_data_set_is_not_the_directory_of_a_killed_run(tmp_path: Path) -> None:
    data = tmp_path / "penstock-data-events-0123456789abcdef"
    data.mkdir()
    command = ["campaign", "analysis-jobs", "--target", str(tmp_path), "--output", str(tmp_path / "x.json")]
    assert LEFT in " ".join(CliRunner().invoke(application, command).output.split())
    (data / CONTENTS).write_text("{}")
    assert is_complete(data)
    assert LEFT not in " ".join(CliRunner().invoke(application, command).output.split())
