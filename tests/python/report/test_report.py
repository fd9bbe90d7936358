"""Pages from documents: what they say, that they need nothing else, and that no document can break them."""

import dataclasses
import errno
import io
import json
import os
import re
import resource
from pathlib import Path

import numpy
import pytest
from bench_documents import (
    CONDITIONS,
    frames_document,
    simulated_document,
    step_of,
    verdict_of,
)
from comparable import set_of
from conftest import Run as RunCommand
from pydantic import BaseModel
from report_documents import (
    DOCUMENTS,
    FAILED,
    Parsed,
    a_campaign,
    a_run,
    a_verdict,
    lines_of,
    require_alone_and_accessible,
    svgs_of,
)
from rich.console import Console

from penstock.bench.compare.storages import compare
from penstock.bench.run.network import network_workload
from penstock.bench.statistics.intervals import median_interval
from penstock.bench.statistics.values import values_of
from penstock.files.documents import Document, read_document
from penstock.files.space import write_document
from penstock.model.bench.campaigns import Campaign, Case, CaseFailure, CaseRun, Target
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.runs import Check, Run, Step, StreamFigures, Verdict
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import counted
from penstock.report.comparisons import comparison_view
from penstock.report.network import network_plan_rows
from penstock.report.pages.documents import page_of
from penstock.report.pages.html import html_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.page import Lines, Page, Section
from penstock.report.pages.parts import conditions_block

LATE = Check(
    name="generator on schedule",
    outcome="failed",
    expected="all within 1 s",
    actual="99.9 % within 2 s",
    bias="worse",
    advice="run on an idle machine",
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_needs_nothing_else_and_can_be_read_aloud(name: str) -> None:
    html = html_of([page_of(DOCUMENTS[name], "x.json")])
    require_alone_and_accessible(html)
    assert len(svgs_of(html)) >= 2


@pytest.mark.slow
def test_several_documents_are_one_page() -> None:
    html = html_of([page_of(document, name) for name, document in DOCUMENTS.items()])
    require_alone_and_accessible(html)
    assert [tag for tag, _ in Parsed(html).tags].count("article") == 3


@pytest.mark.usefixtures("without_plots")
def test_a_verdict_says_what_matters() -> None:
    page = page_of(DOCUMENTS["verdict"], "x.json")
    assert page.answer == "Yes (95 % confidence)"
    words = Parsed(html_of([page])).words
    for said in (
        "Does this storage sustain the PILATUS 6M?",
        "needed 10 MB/s",
        "sustained at least 20 MB/s, less than 30 MB/s 20 Hz sustained (2 runs), 30 Hz not sustained"
        " (2 runs)",
        "margin factor 2",
        "equivalent detectors 2",
        "0 of 600",
        "7 of 310 frames were lost (7 because the queue was full)",
        "10 Hz sustained, 20 Hz sustained, 30 Hz not sustained, 24.5 Hz invalid, 10 Hz sustained.",
        "after 100 ms a frame counts as late, and a rate is not sustained if a frame exceeds the limit",
        "3: search",
        "the backlog does not grow",
        "ext4",
    ):
        assert said in words, said


def a_comparison(threshold: float = 0.05, change: float = 0.8) -> Comparison:
    jitter = numpy.array([1.03, 0.98, 1.01, 0.97, 1.02, 0.99])
    base = set_of("A.json", range(0, 12, 2), throughput=1e9 * jitter, read=1e9 * jitter**3)
    other = set_of("B.json", range(1, 13, 2), throughput=change * 1e9 * jitter[::-1], read=1e9 * jitter)
    return compare(base, other, threshold)


def test_a_comparison_has_a_page_with_its_intervals() -> None:
    page = page_of(a_comparison(), "x.json")
    html = html_of([page])
    require_alone_and_accessible(html)
    assert (page.answer, page.answer_state) == ("B is worse", "bad")
    (plot,) = svgs_of(html)
    assert {"throughput", "read", "worse"} <= set("\n".join(plot.itertext()).split("\n"))
    words = Parsed(html).words
    for said in ("Is B.json better or worse than A.json?", "-20 %", "changes up to 5 % are irrelevant"):
        assert said in words, said
    assert "| frames | throughput |" in markdown_of([page])


def test_comparison_is_called_by_its_targets_if_they_differ() -> None:
    """Two cases of one campaign have the same document."""
    base, other = (
        dataclasses.replace(
            set_of("camp.json", places, throughput=[1e7] * 3),
            runs=[
                dataclasses.replace(run, conditions={"target": target})
                for run in set_of("camp.json", places, throughput=[1e7, 1.1e7, 1.2e7]).runs
            ],
        )
        for places, target in (((0, 2, 4), "/ssd"), ((1, 3, 5), "/nfs"))
    )
    page = page_of(compare(base, other), "x.json")
    assert page.title == "Is camp.json (/nfs) better or worse than camp.json (/ssd)?"
    assert page.subtitle.startswith("A is camp.json (/ssd), B is camp.json (/nfs);")


def test_outcomes_stand_whole_on_a_narrow_terminal() -> None:
    console = Console(width=80, file=io.StringIO(), highlight=False)
    console.print(comparison_view(a_comparison(0.01, 1.0)))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("indistinguishable") == 2
    assert "detectable from 8.65 %" in shown
    assert "Why:\n- frames: throughput: its change is " in shown


def test_a_comparison_that_cannot_tell_says_why_on_its_page() -> None:
    page = page_of(a_comparison(0.01, 1.0), "x.json")
    assert page.answer.startswith("Cannot tell: B was as fast as A (throughput), which is within the noise")
    assert "whose interval includes the threshold of 1 % either way" in Parsed(html_of([page])).words
    one = compare(set_of("A", [0], throughput=[2e9]), set_of("B", [1], throughput=[1e9]))
    require_alone_and_accessible(html_of([page_of(one, "x.json")]))


def test_a_report_of_a_comparison_is_written_and_other_documents_say_what_they_are(
    run: RunCommand, tmp_path: Path
) -> None:
    document = tmp_path / "comparison.json"
    document.write_text(a_comparison().model_dump_json())
    page = tmp_path / "page.html"
    assert run("report", str(document), "--output", str(page)).returncode == 0
    assert "B is worse" in page.read_text(encoding="utf-8")
    refused = run(
        "report", str(document), "--csv", str(tmp_path / "x.csv"), "--markdown", str(tmp_path / "x.md")
    )
    assert refused.returncode == 2
    assert "is a comparison, but --csv requires runs" in refused.stderr
    assert not (tmp_path / "x.md").exists()
    of_run = write(tmp_path / "run.json", a_run())
    both = run("report", str(document), of_run, "--csv", str(tmp_path / "x.csv"))
    assert both.returncode == 0, both.stderr
    assert f"{document} has no runs" in " ".join(both.stderr.split())
    assert of_run in (tmp_path / "x.csv").read_text(encoding="utf-8")
    document.write_text('{"format": "penstock-trend 1"}')
    refused = run("report", str(document), "--output", str(tmp_path / "y.html"))
    assert refused.returncode == 2
    accepted = "runs, verdicts, rehearsals, campaigns and comparisons are accepted here"
    assert f"is a trend; {accepted}" in refused.stderr
    assert "compare --trend" in refused.stderr


def test_a_stall_is_told_beside_the_plot_that_shows_it() -> None:
    html = html_of([page_of(DOCUMENTS["run"], "x.json")])
    assert "the longest stall (shaded) was 2 s" in Parsed(html).words
    (series,) = (svg for svg in svgs_of(html) if "queue depth" in "".join(svg.itertext()))
    assert "red: 20 frames dropped" in "".join(series.itertext())


@pytest.mark.parametrize("document", [a_run(FAILED), verdict_of(step_of("rate", frames_document(), FAILED))])
def test_invalid_figures_are_marked_wherever_they_stand(document: Document) -> None:
    html = html_of([page_of(document, "x.json")])
    parsed = Parsed(html)
    assert "do not use" in parsed.words
    assert any("10 MB/s" in text for text in parsed.struck)
    plots = svgs_of(html)
    if isinstance(document, Run):
        assert plots
        assert all("INVALID" in "".join(svg.itertext()) for svg in plots)
    markdown = markdown_of([page_of(document, "x.json")])
    assert re.search(r"~~10 MB/s~~", markdown)
    assert {line["validity"] for line in lines_of({"x.json": document})} == {"invalid"}


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            step_of("rate", simulated_document(0.2), LATE),
            "The generator was late (99.9 % within 2 s), which cannot make a no wrong",
        ),
        (step_of("rate", frames_document(), LATE), "sustained in spite of it"),
    ],
)
def test_a_late_generator_strikes_out_no_evidence_of_a_verdict(step: Step, why: str) -> None:
    verdict = verdict_of(step)
    html = html_of([page_of(verdict, "x.json")])
    assert step.run.validity == "invalid"
    assert verdict.answer in ("no", "likely yes")
    assert Parsed(html).struck == []
    assert "INVALID" not in html
    assert why in Parsed(html).words
    assert "INVALID" not in markdown_of([page_of(verdict, "x.json")])


def test_signs_of_numbers_are_not_escaped_in_markdown() -> None:
    def rendered(line: str) -> str:
        page = Page(
            title="t",
            answer="",
            answer_state="",
            subtitle="s",
            source="x",
            sections=[Section("", [Lines("", [line])])],
        )
        return markdown_of([page])

    assert "\n- -1.21 % at the end\n" in rendered("-1.21 % at the end")
    for mark in ("- a list", "---", "+ a list", "> a quote", "# a title"):
        assert f"\n- \\{mark}\n" in rendered(mark)


def test_versions_that_differ_between_runs_are_named_once() -> None:
    made = [
        CONDITIONS.model_copy(update={"versions": {"penstock": "0.1.0", "commit": commit}})
        for commit in ("1a2b", "3c4d", "1a2b")
    ]
    assert conditions_block(made).rows["versions"] == "penstock 0.1.0, commit 1a2b / 3c4d"


def test_valid_figures_are_not_marked() -> None:
    html = html_of([page_of(a_run(), "x.json")])
    assert Parsed(html).struck == []
    assert "INVALID" not in html


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize(
    "document",
    [a_run(interrupted=True), a_run(problem="no space"), a_verdict("it was interrupted"), a_campaign(made=5)],
)
def test_what_was_cut_short_has_a_banner(document: Document) -> None:
    page = page_of(document, "x.json")
    assert any("Incomplete" in banner.text for banner in page.banners)
    assert "Incomplete" in Parsed(html_of([page])).words
    assert "**Incomplete" in markdown_of([page])
    assert {line["incomplete"] for line in lines_of({"x.json": document})} == {"yes"}


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize("document", DOCUMENTS.values())
def test_what_is_complete_has_no_banner_of_that(document: Document) -> None:
    assert not any("Incomplete" in banner.text for banner in page_of(document, "x.json").banners)


@pytest.mark.usefixtures("without_plots")
def test_a_campaign_shows_medians_of_sound_runs_and_how_sure_they_are() -> None:
    campaign = a_campaign()
    values = [each.run.frames.carried_bytes_per_s for each in campaign.runs if each.run.frames is not None]
    slow, fast = values[0::2], values[1::2][:-1]  # the last run is invalid
    page = page_of(campaign, "x.json")
    words = Parsed(html_of([page])).words
    for case in (slow, fast):
        interval = median_interval(case, 3)
        low, middle, high = (
            f"{value / 1e6:.3g} MB/s" for value in (interval.low, interval.middle, interval.high)
        )
        assert f"{middle} {low} to {high}" in words
    assert "3, 1 invalid" in words
    assert "1 of 8 runs are invalid" in words


@pytest.mark.usefixtures("without_plots")
def test_a_campaign_without_a_run_and_one_with_invalid_runs_alone_have_a_page() -> None:
    require_alone_and_accessible(html_of([page_of(a_campaign(made=0), "x.json")]))
    campaign = a_campaign()
    void = [
        each.model_copy(update={"run": each.run.model_copy(update={"validity": "invalid"})})
        for each in campaign.runs
    ]
    parsed = Parsed(html_of([page_of(campaign.model_copy(update={"runs": void}), "x.json")]))
    assert "all runs are invalid" in parsed.words
    assert parsed.struck


def test_csv_has_a_line_for_each_run_and_value() -> None:
    lines = lines_of(DOCUMENTS)
    verdict, campaign = DOCUMENTS["verdict"], DOCUMENTS["campaign"]
    assert isinstance(verdict, Verdict)
    assert isinstance(campaign, Campaign)
    assert isinstance(DOCUMENTS["run"], Run)
    runs = [DOCUMENTS["run"], *(s.run for s in verdict.steps), *(each.run for each in campaign.runs)]
    expected = [value.value for run in runs for value in values_of(run).values()]
    assert [float(line["value"]) for line in lines] == expected
    assert {line["kind"] for line in lines} == {"run", "verdict", "campaign"}
    assert [line["outcome"] for line in lines if line["part"] == "soak"] == ["sustained"] * 6


def test_csv_has_a_line_for_each_run_that_failed() -> None:
    campaign = DOCUMENTS["campaign"]
    assert isinstance(campaign, Campaign)
    case = campaign.cases[0]
    failure = CaseFailure(case=case.name, block=7, problem="the disk went away", when="2026-01-02T00:00:00Z")
    (line,) = (
        line
        for line in lines_of({"campaign": campaign.model_copy(update={"failures": [failure]})})
        if line["outcome"]
    )
    assert line["outcome"] == "failed: the disk went away"
    assert (line["part"], line["block"], line["value"]) == (case.name, "7", "")


def test_a_run_of_streams_has_a_page() -> None:
    phase = StreamFigures(
        phase="read",
        bytes=10**9,
        bytes_per_s=1e8,
        first_done_s=9,
        last_done_s=10,
        service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
        cached_share=0.25,
        mismatches=0,
    )
    run = a_run().model_copy(update={"workload": "stream", "frames": None, "streams": [phase]})
    words = Parsed(html_of([page_of(run, "x.json")])).words
    for said in ("read 100 MB/s (1 GB)", "9 s, 10 s", "25.0 %"):
        assert said in words


def write(path: Path, document: BaseModel) -> str:
    path.write_text(document.model_dump_json())
    return str(path)


@pytest.mark.slow
def test_the_command_writes_what_it_is_asked_for(run: RunCommand, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.json", document) for name, document in DOCUMENTS.items()]
    files = {"--output": tmp_path / "r.html", "--markdown": tmp_path / "r.md", "--csv": tmp_path / "r.csv"}
    options = [str(word) for pair in files.items() for word in pair]
    finished = run("report", *paths, *options)
    assert finished.returncode == 0, finished.stderr
    require_alone_and_accessible(files["--output"].read_text(encoding="utf-8"))
    markdown = files["--markdown"].read_text(encoding="utf-8")
    assert markdown.count("# Does this storage sustain the PILATUS 6M?") == 1
    assert len(files["--csv"].read_text(encoding="utf-8").splitlines()) == 1 + 14 * 6 + 4
    again = run("report", *paths, *options)
    assert again.returncode == 2
    assert "exists already" in again.stderr


def a_campaign_of_two_targets() -> Campaign:
    """One on an xfs, the other on NFS."""
    places = {
        "ssd": CONDITIONS.model_copy(update={"file_system": "xfs", "mount": "/ssd"}),
        "far": CONDITIONS.model_copy(update={"file_system": "nfs4", "mount": "/far"}),
    }
    runs = [
        CaseRun(
            case=f"target={name}",
            block=0,
            run=a_run().model_copy(update={"conditions": there, "target": there.mount}),
        )
        for name, there in places.items()
    ]
    return Campaign(
        name="c",
        title="Two",
        seed=1,
        blocks=1,
        targets=[Target(name=name, path=there.mount) for name, there in places.items()],
        cases=[Case(name=f"target={name}", target=name) for name in places],
        runs=runs,
    )


@pytest.mark.usefixtures("without_plots")
def test_a_campaign_names_all_its_targets() -> None:
    campaign = a_campaign_of_two_targets()
    page = page_of(campaign, "x.json")
    assert page.subtitle == (
        "c: 2 cases in 1 block, seed 1; ssd: xfs on /ssd, from /dev/x; far: nfs4 on /far, from /dev/x"
    )
    words = Parsed(html_of([page])).words
    assert "target /ssd; /far" in words
    half = page_of(campaign.model_copy(update={"runs": campaign.runs[1:]}), "x.json")
    assert "ssd: no run; far: nfs4" in half.subtitle
    none = page_of(campaign.model_copy(update={"runs": []}), "x.json")
    assert none.subtitle.endswith("; no run")


@pytest.mark.usefixtures("without_plots")
def test_every_back_end_has_a_page() -> None:
    for backend in (
        {"kind": "store", "folder": "/x"},
        {"kind": "mpiio", "folder": "/x"},
        {"kind": "hdf5", "folder": "/x"},
        {"kind": "null"},
    ):
        plan = frames_document().plan.model_dump() | {"backend": backend}
        page = page_of(a_run(plan=plan), "x.json")
        assert "access none" in Parsed(html_of([page])).words or backend["kind"] != "null"


def test_a_run_without_storage_names_the_machine() -> None:
    nowhere = CONDITIONS.model_copy(update={"file_system": "", "mount": "", "mount_source": ""})
    run = a_run().model_copy(update={"conditions": nowhere})
    assert page_of(run, "x.json").subtitle.startswith("no storage, on h; ")


def test_what_cannot_be_written_whole_is_not_left_half(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(PenstockError, match="cannot be written"):
            write_document(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(PenstockError, match="cannot be written"):
        write_document(path, "x")
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free space, or name another file"), (errno.EACCES, "name another file")],
)
def test_remedy_for_a_full_file_system_is_to_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PenstockError) as caught:
        write_document(tmp_path / "r.html", "x")
    assert caught.value.remedy == remedy


def test_one_is_no_plural() -> None:
    workload = network_workload(host="h", port=1, streams=1)
    assert "1 stream," in network_plan_rows(workload, "h")["transfers"]
    assert [counted(n, "frame") for n in range(3)] == ["0 frames", "1 frame", "2 frames"]


def test_documents_that_are_not_understood_are_named(run: RunCommand, tmp_path: Path) -> None:
    good = json.loads(a_run().model_dump_json())
    endless = good | {"ceiling_hz": 1.0}
    broken = {
        "nothing.json": "",
        "text.json": "hello",
        "other.json": '{"format": "something else"}',
        "list.json": "[1, 2]",
        "newer.json": json.dumps(good | {"format": "penstock-run 2"}),
        "more.json": json.dumps(good | {"extra": 1}),
        "less.json": json.dumps({key: value for key, value in good.items() if key != "document"}),
        "endless.json": json.dumps(endless).replace('"ceiling_hz": 1.0', '"ceiling_hz": 1e999'),
        "nan.json": json.dumps(endless).replace('"ceiling_hz": 1.0', '"ceiling_hz": NaN'),
        "deep.json": "[" * 100_000,
        "cut.json": json.dumps(good)[:5000],
    }
    for name, text in broken.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError) as caught:
            read_document(tmp_path / name)
        assert name in caught.value.message
        assert len(caught.value.message) < 2000
    finished = run("report", str(tmp_path / "cut.json"), "--output", str(tmp_path / "r.html"))
    assert finished.returncode == 2
    assert "cut.json cannot be read" in finished.stderr
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.json", "--output", "r.html"], ["absent.json", "it does not exist"]),
        ([".", "--output", "r.html"], [". is not a document"]),
        (["run.json"], ["--output"]),
        (["run.json", "--output", "run.json"], ["run.json", "exists already"]),
        (["run.json", "--csv", "absent/r.csv"], ["absent/r.csv", "does not exist"]),
        (["run.json", "--csv", "r", "--markdown", "r"], ["--csv", "--markdown"]),
        (["run.json", "--output", "r.md"], ["--output r.md writes HTML", "use --markdown r.md"]),
        (["run.json", "--csv", "r.HTML"], ["--csv r.HTML writes CSV", "use --output r.HTML"]),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], words: list[str], run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = write(tmp_path / "run.json", a_run())
    finished = run("report", *arguments)
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr
    assert [str(path) for path in tmp_path.iterdir()] == [written]


def test_a_report_does_not_go_into_a_file_named_dash(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "comparison.json"
    document.write_text(a_comparison().model_dump_json())
    monkeypatch.chdir(tmp_path)
    refused = run("report", str(document), "--markdown", "-")
    assert refused.returncode == 2
    assert "--markdown" in refused.stderr
    assert not (tmp_path / "-").exists()
