"""What the last lines of a run say, and what its figures look like wherever they are shown."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from bench_documents import frames_document, run_of
from rich.console import Console, RenderableType
from test_bench_metadata import document_of

from penstock.bench.entries import entry_of
from penstock.bench.figures import metadata_figures
from penstock.model.runs import Check, Run
from penstock.report.comma_separated import csv_of
from penstock.report.metadata import metadata_view
from penstock.report.runs import run_view

TOO_FEW = Check(
    name="long enough",
    outcome="failed",
    expected="at least 10 s",
    actual="24.7 ms",
    bias="either",
    advice="a longer run",
)


def shown(view: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(view)
    return [line.rstrip() for line in console.export_text().splitlines()]


def short_run() -> Run:
    document = document_of(("file_create", 0, True, 0.01, 0.01), ("file_stat", 0, True, 0.01, 0.01))
    run = run_of(frames_document(), [TOO_FEW])
    return run.model_copy(
        update={
            "workload": "metadata",
            "frames": None,
            "metadata": metadata_figures(document),
            "document": document,
        }
    )


def test_an_invalid_run_says_why_in_its_last_lines() -> None:
    lines = shown(run_view(run_of(frames_document(), [TOO_FEW])))
    assert lines[-5:] == [
        "The run is invalid.",
        "why:",
        '- check "long enough" failed: 24.7 ms; expected at least 10 s',
        "what to do:",
        "- long enough: a longer run",
    ]
    assert shown(run_view(run_of(frames_document(), [])))[-1] == "The run is valid."


@pytest.mark.parametrize("problem", [None, "the storage did not answer"])
def test_a_run_that_was_cut_short_says_so(problem: str | None) -> None:
    document = frames_document(interrupted=problem is None, problem=problem)
    lines = shown(run_view(run_of(document, [])))
    assert f"INCOMPLETE: {problem or 'it was interrupted'}" in lines[-2:]


def test_figures_of_fast_metadata_are_whole_at_80_columns() -> None:
    (figures,) = metadata_figures(document_of(("folder_create", 0, True, 10, 10)))
    rates = {"rate_max": 123489634.1, "rate_min": 23489634.2, "rate_mean": 99489634.3}
    fast = figures.model_copy(update=rates | {"rate_deviation": 48963412.4})
    lines = shown(metadata_view([fast]))
    assert not any("…" in line for line in lines)
    assert lines[1].split()[2:] == ["123489634.1", "23489634.2", "99489634.3", "48963412.4"]


def test_figures_that_are_too_short_are_marked_or_left_out(tmp_path: Path) -> None:
    run, path = short_run(), tmp_path / "run.json"
    assert run.validity == "invalid"
    path.write_text(run.model_dump_json())
    assert entry_of(run, path, path.read_bytes()).values == {}
    lines = list(csv.DictReader(StringIO(csv_of({"run.json": run}))))
    assert [line["value"] for line in lines] == ["file create", "file stat"]
    assert {line["outcome"] for line in lines} == {"too short, not to be used"}
