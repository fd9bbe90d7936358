"""The first page of a report of several documents."""

from pathlib import Path

import pytest
from bench_documents import CONDITIONS
from comparable import set_of
from conftest import Run as RunCommand
from pydantic import BaseModel
from report_documents import (
    DOCUMENTS,
    FAILED,
    Parsed,
    a_campaign,
    a_rehearsal,
    a_run,
    a_verdict,
    require_alone_and_accessible,
)

from penstock.bench.compare.storages import compare
from penstock.files.documents import Shown
from penstock.model.bench.campaigns import Campaign, Case, CaseRun, Target
from penstock.model.bench.runs import Run
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.overview import overview_page
from penstock.report.pages.page import Cell, Page, Table


def overview(documents: dict[str, Shown]) -> Page:
    return overview_page(documents, [page_of(each, source) for source, each in documents.items()])


def rows_of(page: Page) -> list[list[Cell]]:
    ((table,),) = (section.blocks for section in page.sections)
    assert isinstance(table, Table)
    return table.rows


def texts_of(page: Page) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows_of(page)]


def run_on(target: str, started: str, **changes: object) -> Run:
    return a_run(started=started, **changes).model_copy(update={"target": target})


def test_documents_are_sorted_by_target_and_date() -> None:
    documents: dict[str, Shown] = {
        "late.json": run_on("/b", "2026-03-01T10:00:00Z"),
        "other.json": run_on("/a", "2026-05-01T10:00:00Z"),
        "early.json": run_on("/b", "2026-01-01T10:00:00Z"),
    }
    page = overview(documents)
    assert page.title == "3 documents"
    assert [[row[0], row[1], row[5]] for row in texts_of(page)] == [
        ["/a", "2026-05-01 10:00", "other.json"],
        ["/b", "2026-01-01 10:00", "early.json"],
        ["/b", "2026-03-01 10:00", "late.json"],
    ]
    assert texts_of(page)[0][2:5] == ["Run of frames on /a", "valid", "throughput 10 MB/s"]


@pytest.mark.usefixtures("without_plots")
def test_each_kind_of_document_says_what_it_found() -> None:
    comparison = compare(set_of("A.json", [0], throughput=[9e9]), set_of("B.json", [1], throughput=[1e9]))
    documents: dict[str, Shown] = {
        "v": a_verdict("it was interrupted"),
        "c": a_campaign(made=5),
        "x": comparison,
        "i": a_run(FAILED),
        "r": a_rehearsal(problem="it was interrupted"),
    }
    page = overview(documents)
    said = {row[5]: row[2:5] for row in texts_of(page)}
    assert said["v"][0] == "Does this storage sustain the PILATUS 6M?"
    assert said["v"][1].endswith(", incomplete")
    assert said["v"][2] == "at least 20 MB/s, less than 30 MB/s; factor 2"
    assert said["c"] == ["Writers", "5 runs, incomplete", "2 cases"]
    assert said["x"] == [
        f"Is {comparison.other.name} better or worse than {comparison.base.name}?",
        "Cannot tell",
        "B was 9 times slower (throughput), in one run each, which may be noise",
    ]
    assert said["r"] == [
        "Does the chain keep up with the PILATUS 6M?",
        "Yes (95 % confidence), incomplete",
        "at least 50 Hz (50 MB/s), less than 52 Hz (52 MB/s)",
    ]
    assert said["i"][0].startswith("Run of frames on ")
    assert said["i"][1:] == ["invalid", "throughput 10 MB/s"]
    (invalid,) = (row for row in rows_of(page) if row[5].text == "i")
    assert invalid[4].state == "void", "its metric is not to be used"


@pytest.mark.usefixtures("without_plots")
def test_a_campaign_has_a_row_for_each_target() -> None:
    folders = {"ssd": "/ssd", "far": "/far"}
    runs = []
    for block in range(3):
        for number, (name, path) in enumerate(folders.items()):
            seconds = 30.0 * (1 + number)
            made = a_run(duration_s=seconds, started=f"2026-01-0{block + 1}T00:00:00Z")
            made = made.model_copy(update={"target": path, "conditions": CONDITIONS})
            runs.append(CaseRun(case=f"target={name}", block=block, run=made))
    campaign = Campaign(
        name="c",
        title="Two",
        seed=1,
        blocks=3,
        targets=[Target(name=name, path=path) for name, path in folders.items()],
        cases=[Case(name=f"target={name}", target=name) for name in folders],
        runs=runs,
    )
    assert [[row[0], row[3], row[4]] for row in texts_of(overview({"c.json": campaign, "r": a_run()}))] == [
        ["/far", "3 runs", "throughput 5 MB/s"],
        ["/ssd", "3 runs", "throughput 10 MB/s"],
        ["/x", "valid", "throughput 10 MB/s"],
    ]


@pytest.mark.slow
def test_only_reports_of_several_documents_have_an_overview(run: RunCommand, tmp_path: Path) -> None:
    paths = []
    for name, document in DOCUMENTS.items():
        assert isinstance(document, BaseModel)
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(document.model_dump_json())
    several, one = tmp_path / "several", tmp_path / "one"
    for named, output in ((paths, several), (paths[:1], one)):
        words = [str(path) for path in named]
        finished = run("report", *words, "--output", f"{output}.html", "--markdown", f"{output}.md")
        assert finished.returncode == 0, finished.stderr
    html = Path(f"{several}.html").read_text(encoding="utf-8")
    require_alone_and_accessible(html)
    assert "<title>3 documents</title>" in html
    assert [tag for tag, _ in Parsed(html).tags].count("article") == 4
    assert Path(f"{several}.md").read_text(encoding="utf-8").startswith("# 3 documents\n")
    assert "Documents by target and date" not in Path(f"{one}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["|", "<script>alert(1)</script>", "a\nb"])
def test_names_of_targets_break_no_table(name: str) -> None:
    documents: dict[str, Shown] = {"a": run_on(name, "2026-01-01T00:00:00Z"), "b": a_run()}
    page = overview(documents)
    require_alone_and_accessible(html_of([page]))
    lines = [line for line in markdown_of([page]).splitlines() if line.startswith("|")]
    assert len(lines) == 4


@pytest.mark.usefixtures("without_plots")
def test_document_has_one_title_in_a_report() -> None:
    """In the overview, and on its own page."""
    documents: dict[str, Shown] = {"v": a_verdict(), "c": a_campaign(), "r": a_run(), "y": a_rehearsal()}
    pages = {source: page_of(each, source).title for source, each in documents.items()}
    for row in texts_of(overview(documents)):
        assert row[2].startswith(pages[row[5]])
