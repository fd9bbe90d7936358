"""What the last lines of a run say, and what its figures look like wherever they are shown."""

import csv
import re
from io import StringIO
from pathlib import Path

import pytest
from bench_documents import frames_document, paced_document, run_of, simulated_document
from rich.console import Console, RenderableType
from test_bench_metadata import document_of

from penstock.bench.campaign.entries import entry_of
from penstock.bench.statistics.figures import metadata_figures
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Check, Run, StreamFigures
from penstock.report.metadata import metadata_view
from penstock.report.pages.comma_separated import csv_of
from penstock.report.pages.parts import figures_block
from penstock.report.runs import phase_text, run_view

TOO_FEW = Check(
    name="long enough",
    outcome="failed",
    expected="at least 10 s",
    actual="24.7 ms",
    bias="either",
    advice="make the run longer",
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
        "Why:",
        '- check "long enough" failed: 24.7 ms; expected: at least 10 s',
        "What to do:",
        "- long enough: make the run longer",
    ]
    assert shown(run_view(run_of(frames_document(), [])))[-2:] == ["The run is valid.", "10 Hz sustained"]


def test_a_run_at_a_rate_says_in_its_last_line_whether_that_was_sustained() -> None:
    """The deadline is half of what the queue takes, as in a verdict, 500 ms; late are frames after 100 ms."""

    def last(document: LoadDocument, late: int = 0) -> str:
        assert document.frames is not None
        frames = document.frames.model_copy(update={"late": late})
        return shown(run_view(run_of(document.model_copy(update={"frames": frames}), [])), 200)[-1]

    slow = [0.002] * 300
    assert last(simulated_document(slow)) == "10 Hz sustained"
    slow[100] = 0.3
    assert last(simulated_document(slow), 3) == "10 Hz sustained: 3 late, none after more than 500 ms"
    slow[100] = 2.0
    words = last(simulated_document(slow), 21)
    assert re.fullmatch(r"10 Hz not sustained: \d+ dropped, 21 late", words), words
    growing = last(simulated_document(0.105))
    assert growing.startswith("10 Hz not sustained: "), growing
    assert "the backlog grew by" in growing
    waiting = last(simulated_document(0.05, waited_s=0.1))
    assert waiting.startswith("10 Hz not sustained, but disturbed by other load: "), waiting
    assert last(paced_document(0.0, 300)) == "The run is valid.", "it had no rate"


@pytest.mark.parametrize("problem", [None, "the storage did not answer"])
def test_a_run_that_was_cut_short_says_so(problem: str | None) -> None:
    document = frames_document(interrupted=problem is None, problem=problem)
    lines = shown(run_view(run_of(document, [])))
    assert f"INCOMPLETE: {problem or 'the run was interrupted'}" in lines[-2:]


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
    assert [line["metric"] for line in lines] == ["file create", "file stat"]
    assert {line["outcome"] for line in lines} == {"too short"}


def test_a_figure_that_is_too_short_is_no_number() -> None:
    document = document_of(("file_create", 0, True, 11, 12), ("file_stat", 0, True, 0.01, 0.01))
    lines = [line for line in shown(metadata_view(metadata_figures(document))) if "File stat" in line]
    assert len(lines) == 2, "rates, and times of single operations"
    assert all("too short" in line and not any(map(str.isdigit, line)) for line in lines)
    stream = StreamFigures(
        phase="read",
        bytes=64 << 20,
        bytes_per_s=1e9,
        first_done_s=0.06,
        last_done_s=0.067,
        service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
        cached_share=None,
        mismatches=0,
    )
    assert phase_text(stream) == "too short: 67.1 MB in 67 ms"
    assert phase_text(stream.model_copy(update={"last_done_s": 2.0})) == "1 GB/s (67.1 MB)"


def test_a_figure_that_is_too_short_beside_others_has_a_line_and_no_number() -> None:
    document = document_of(("file_create", 0, True, 11, 12), ("file_stat", 0, True, 0.01, 0.01))
    update = {"workload": "metadata", "frames": None, "metadata": metadata_figures(document)}
    run = run_of(frames_document(), []).model_copy(update=update | {"document": document})
    lines = {line["metric"]: line for line in csv.DictReader(StringIO(csv_of({"run.json": run})))}
    assert lines["file create"]["value"]
    assert (lines["file stat"]["value"], lines["file stat"]["outcome"]) == ("", "too short")
    facts = figures_block(run, is_void=False).rows
    assert facts["File stat"].startswith("too short")
    assert "too short" not in facts["File creation"]
