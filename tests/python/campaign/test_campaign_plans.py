"""Descriptions of campaigns and what is planned from them: no storage is touched here."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest
from campaign_documents import made_up_campaign, made_up_run
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.bench.campaign.campaigns import left_of, order_of, plan_campaign, resumed
from penstock.bench.campaign.views import cell_of, grid_of, shown_cases
from penstock.bench.run.library import check_access
from penstock.bench.run.run import Access, stream_workload
from penstock.bench.run.workloads import WORKLOADS, StreamParameters, parameters_of
from penstock.bench.statistics.values import values_of
from penstock.model.bench.campaign_files import CampaignFile, read_campaign_file
from penstock.model.bench.campaigns import Baseline, Campaign, CaseFailure, CaseRun, Parameter, Target, View
from penstock.model.bench.load import Hdf5Access, MpiioAccess, StreamWorkload
from penstock.model.errors import UsageError
from penstock.model.yaml_file import parse_yaml
from penstock.programs.locate import campaigns_folder
from penstock.report.pages.campaign import campaign_page
from penstock.report.pages.page import Facts, Lines, Picture, Table

HERE = [Target(name="here", path="/tmp")]
BOTH = [Target(name="ssd", path="/tmp"), Target(name="disk", path="/var")]
SMALL = """
title: Small
workload: frames
parameters: {frame_size: 4 KiB, seconds: 1}
vary: {rate: [10, 20], writers: [1, 2, 4]}
blocks: 3
"""


def file_of(text: str = SMALL) -> CampaignFile:
    return parse_yaml(text, CampaignFile, "campaign.yaml")


@given(seed=st.integers(0, 2**63 - 1), cases=st.integers(1, 40), blocks=st.integers(1, 8), done=st.data())
@settings(max_examples=60, deadline=None)
def test_every_block_has_every_case_once(seed: int, cases: int, blocks: int, done: st.DataObject) -> None:
    campaign = made_up_campaign(1, cases, done=0).model_copy(update={"seed": seed, "blocks": blocks})
    order = list(left_of(campaign))
    names = [case.name for case in campaign.cases]
    for block in range(blocks):
        assert sorted(case.name for number, case in order if number == block) == sorted(names)
    assert [block for block, _ in order] == sorted(block for block, _ in order)
    # What is left after some runs is the same order without these.
    count = done.draw(st.integers(0, len(order)))
    failures = [
        CaseFailure(case=case.name, block=block, problem="x", when="") for block, case in order[:count]
    ]
    assert list(left_of(campaign.model_copy(update={"failures": failures}))) == order[count:]


def test_the_order_follows_from_the_seed_and_changes_from_block_to_block() -> None:
    assert order_of(1, 0, 12) == [8, 11, 4, 7, 5, 0, 1, 9, 2, 10, 6, 3]
    orders = {tuple(order_of(seed, block, 12)) for seed in range(5) for block in range(5)}
    assert len(orders) == 25
    assert order_of(1, 1, 12) == order_of(1, 0, 12)[::-1]
    for seed in range(20):
        came_first = Counter(order_of(seed, block, 2)[0] for block in range(6))
        assert came_first == {0: 3, 1: 3}, "what a run leaves behind for the next one meets both alike"
    first = Counter(order_of(7, block, 3)[0] for block in range(600))
    assert min(first.values()) > 150, "each case comes first in about a third of the blocks"


def test_cases_are_the_grid_on_every_target() -> None:
    plan = plan_campaign("small", file_of(), BOTH, seed=1)
    campaign = plan.campaign
    assert len(campaign.cases) == 12
    assert campaign.cases[0].name == "rate=10 writers=1 target=ssd"
    assert campaign.cases[-1].parameters == {"rate": 20, "writers": 4}
    assert campaign.cases[-1].target == "disk"
    assert campaign.parameters == {"frame_size": "4 KiB", "seconds": 1}
    assert plan.jobs["rate=20 writers=4 target=disk"].paced_s == pytest.approx(1.0)
    assert plan.bytes_at_once() == 20 * 4096
    assert plan.bytes_left() == 3 * 2 * 3 * (10 + 20) * 4096
    assert Campaign.model_validate_json(campaign.model_dump_json()) == campaign


def test_lists_of_cases_and_grids_go_together() -> None:
    text = """
    title: x
    workload: stream
    cases: [{threads: 1, size: 2 GiB}, {threads: 2, size: 1 GiB}]
    vary: {transfer: [32 KiB, 1 MiB]}
    """
    plan = plan_campaign("x", file_of(text), HERE, seed=1, scale=0.1, blocks=2)
    assert [case.name for case in plan.campaign.cases] == [
        "threads=1 size=205 MiB transfer=32 KiB",
        "threads=1 size=205 MiB transfer=1 MiB",
        "threads=2 size=103 MiB transfer=32 KiB",
        "threads=2 size=103 MiB transfer=1 MiB",
    ]
    assert plan.bytes_at_once() == 206 << 20
    assert plan.campaign.departures == ["scaled by 0.1: size of 1 GiB became 103 MiB, 2 GiB became 205 MiB"]
    assert plan.campaign.blocks == 2


@given(size=st.integers(1, 1 << 40), factor=st.floats(1e-6, 1000))
def test_scaled_sizes_are_near_and_possible(size: int, factor: float) -> None:
    scaled = parameters_of("stream", {"size": f"{size} B"}).scaled(factor)
    found = getattr(scaled, "size")  # noqa: B009
    assert found >= 1
    assert found >= round(size * factor)
    assert found - size * factor <= (1 << 20) + 1
    scaled.job()


@given(stripes=st.integers(2, 4096), factor=st.floats(1e-3, 10))
def test_stripes_of_a_scaled_file_are_as_large_as_before(stripes: int, factor: float) -> None:
    stripe = 4 << 20
    whole: dict[str, str | bool | int | float] = {
        "shared": True,
        "transfer": f"{stripe} B",
        "size": f"{stripe * stripes} B",
        "segments": stripes,
    }
    job = parameters_of("stream", whole).scaled(factor)
    segments, size = getattr(job, "segments"), getattr(job, "size")  # noqa: B009
    laid = stream_workload(1, size, stripe, False, False, 0, False, True, segments)
    assert laid.thread_bytes == segments * stripe
    assert stripes * factor <= segments * (1 + 1e-6) <= (stripes * factor + 1) * (1 + 1e-6)


def test_scaled_memory_is_a_size() -> None:
    sort = parameters_of("seismic-sort", {"size": "1 GiB", "memory": "256 MiB"}).scaled(0.1)
    assert sort.shown("memory") == "26 MiB"


def test_scaled_counts_are_whole_and_times_are_not() -> None:
    frames = parameters_of("frames", {"frame_size": "1 MB", "rate": 10, "frames": 100_000}).scaled(0.12345)
    assert frames.shown("frames") == 12345
    assert frames.shown("seconds") == pytest.approx(3.7035)
    assert frames.scaled(1e-9).shown("frames") == 1


@pytest.mark.parametrize("path", sorted(campaigns_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_campaigns_can_be_planned_and_shown(path: Path) -> None:
    file = read_campaign_file(path)
    assert file.reproduces
    assert file.departures
    for scale in (None, 1.0, 0.01):
        campaign = plan_campaign(path.stem, file, BOTH, seed=1, scale=scale).campaign
        for view in campaign.views:
            parameters = {*campaign.cases[0].parameters, "target", "servers", "system"}
            assert {view.rows, *view.columns} - {""} <= parameters
            grid = grid_of(campaign, view)
            each = {"extremes": 3 * len(view.values), "listing": len(view.values)}.get(view.kind, 1)
            cases = shown_cases(campaign, view)
            assert len(grid.cells) == each * len(cases), "no two cases fall into one cell"
            assert cases or view.rows == "servers"


def test_a_new_workload_needs_a_line_and_no_change_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(StreamParameters):
        items: int = 10

    monkeypatch.setitem(WORKLOADS, "other", Other)
    plan = plan_campaign("x", file_of("{title: x, workload: other, vary: {items: [1, 2]}}"), HERE, seed=1)
    assert [case.name for case in plan.campaign.cases] == ["items=1", "items=2"]


BAD = {
    "unknown field `colour`": SMALL + "colour: red\n",
    "`title` is missing": "workload: frames",
    'unknown workload "walk"': SMALL.replace("workload: frames", "workload: walk"),
    "exactly one of `frame_size` and `shape`": SMALL.replace("frame_size: 4 KiB, ", ""),
    "`speed` of the workload frames: this parameter is unknown": SMALL.replace("seconds: 1", "speed: 1"),
    "is not a size": SMALL.replace("4 KiB", "huge"),
    "-5": SMALL.replace("rate: [10, 20]", "rate: [10, -5]"),
    "must be a number, true, false, or a short text": SMALL.replace("[10, 20]", "[.nan, .inf]"),
    "not a date": SMALL.replace("[10, 20]", "[2026-01-01]"),
    "vary.rate": SMALL.replace("[10, 20]", "[]"),
    "is defined twice": SMALL.replace("[10, 20]", "[10, 10]"),
    "`writers` is both in `vary` and in `parameters`": SMALL.replace("seconds: 1", "writers: 1"),
    "cases exceed the maximum of 10000": SMALL.replace("[10, 20]", str(list(range(1, 9000)))),
    "exceeds the maximum of 1000": SMALL.replace("blocks: 3", "blocks: 1000000"),
    "unprintable characters": SMALL.replace("title: Small", 'title: "a\\e[2J"'),
    "aliases": SMALL.replace("[10, 20]", "&a [*a]"),
    "is not YAML": SMALL.replace("[10, 20]", "[10, " + "9" * 5000 + "]"),
    "the case rate 0, writers 1": SMALL.replace("[10, 20]", "[0]"),
    "must consist of `field: value`": "[1, 2]",
    "shows `colour`, in which no cases differ": SMALL + "views: [{kind: plot, value: x, rows: colour}]\n",
    "the value `carriedd`, which no run of frames has": SMALL
    + "views: [{kind: plot, value: carriedd, rows: rate}]\n",
    "one of throughput, lost, late, latency p50": SMALL + "views: [{kind: plot, value: x, rows: rate}]\n",
    "the value `rate`": SMALL + "views: [{kind: extremes, values: {a: throughput, b: rate}}]\n",
    "add to its columns: writers": SMALL + "views: [{kind: plot, value: lost, rows: rate}]\n",
    "one cell for several cases: rate=10 writers=1, and rate=20 writers=1": SMALL
    + "views: [{kind: extremes, values: {a: lost}, columns: [writers]}]\n",
    "views": SMALL + "views: [{kind: pie, value: x, rows: rate}]\n",
}


@pytest.mark.parametrize("words", BAD)
def test_hostile_descriptions_are_refused_with_the_thing_named(words: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_campaign("x", file_of(BAD[words]), HERE, seed=1)
    shown = str(refused.value)
    assert words in shown or words in str(refused.value.remedy), shown
    assert refused.value.remedy
    assert len(shown) < 8000


@pytest.mark.parametrize(
    ("workload", "values", "there", "missing"),
    [
        ("frames", {"frame_size": "4096 B", "rate": 10}, "lost", "write"),
        ("frames", {"frame_size": "4096 B", "rate": 0, "frames": 10}, "throughput", "lost"),
        ("stream", {"read": False}, "write", "read"),
        ("metadata", {"file_size": "1 B"}, "file read", "file rename"),
        ("metadata", {"rename": True}, "directory rename", "file read"),
        ("network", {"latency": "8B,1KiB"}, "round trip 1024 B p99", "round trip 1 B p99"),
        ("network", {}, "both: total share of link", "total"),
        ("frames", {"frame_size": "4096 B", "rate": 10}, "needed", "link"),
        ("frames", {"frame_size": "4096 B", "rate": 0, "frames": 10}, "throughput", "needed"),
    ],
)
def test_values_that_a_view_may_show_follow_from_the_parameters(
    workload: str, values: dict[str, Parameter], there: str, missing: str
) -> None:
    view = {"kind": "table", "rows": "target", "columns": []}

    def planned(value: str) -> None:
        file = CampaignFile.model_validate(
            {"title": "x", "workload": workload, "parameters": values, "views": [view | {"value": value}]}
        )
        plan_campaign("x", file, HERE, seed=1)

    planned(there)
    with pytest.raises(UsageError, match=f"the value `{missing}`"):
        planned(missing)


def test_a_view_shows_each_target_and_each_case_that_it_does_not_leave_out() -> None:
    """One of several cases in a cell would stand for all of them."""
    text = SMALL.replace("[1, 2, 4]", "[1]") + "views: [{kind: plot, value: lost, rows: rate%s}]\n"
    plan_campaign("x", file_of(text % ""), HERE, seed=1)
    with pytest.raises(UsageError, match="rate=10 writers=1 target=ssd, and rate=10") as refused:
        plan_campaign("x", file_of(text % ""), BOTH, seed=1)
    assert "add to its columns: target" in refused.value.remedy
    plan_campaign("x", file_of(text % ", columns: [target]"), BOTH, seed=1)
    two = (text % ", columns: [target], leave_out: {writers: 2}").replace("[1]", "[1, 2]")
    plan_campaign("x", file_of(two), BOTH, seed=1)


def test_kinds_of_processor_time_are_values_of_profiled_runs() -> None:
    view = "views: [{kind: plot, value: 'processor time: copying', rows: rate, columns: [writers]}]\n"
    plan_campaign("x", file_of(SMALL + "profile: true\n" + view), HERE, seed=1)
    for text in (SMALL + view, SMALL + "profile: true\n" + view.replace("copying", "napping")):
        with pytest.raises(UsageError, match="the value `processor time: "):
            plan_campaign("x", file_of(text), HERE, seed=1)


def test_values_of_runs_are_those_that_were_foretold() -> None:
    run = made_up_run()
    foretold = parameters_of("frames", {"frame_size": "1 MB", "rate": 10}).values()
    assert set(values_of(run)) <= set(foretold)


@given(text=st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_text_is_more_than_refused(text: str) -> None:
    with suppress(UsageError):
        plan_campaign("x", file_of(text), HERE, seed=1)


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {"title": Json, "workload": st.sampled_from(["frames", "stream"]) | Json},
    optional=dict.fromkeys(("parameters", "cases", "vary", "blocks", "scale", "views"), Json),
)


@given(values=FIELDS)
@settings(max_examples=200, deadline=None)
def test_no_values_are_more_than_refused(values: object) -> None:
    with suppress(UsageError, ValidationError):
        plan_campaign("x", CampaignFile.model_validate(values), HERE, seed=1)


def test_a_resumed_campaign_is_the_same_one() -> None:
    plan = plan_campaign("small", file_of(), HERE, seed=1)
    done = plan.campaign.model_copy(
        update={"failures": [CaseFailure(case=plan.campaign.cases[0].name, block=1, problem="x", when="")]}
    )
    assert resumed(plan, done).campaign == done
    more = plan_campaign("small", file_of(), HERE, seed=1, blocks=7)
    assert resumed(more, done).campaign.blocks == 7
    assert resumed(more, done).campaign.failures == done.failures
    for other, words in (
        (plan_campaign("small", file_of(), HERE, seed=2), "seed"),
        (plan_campaign("small", file_of(), BOTH, seed=1), "--target: .* was measured on here=/tmp, not on"),
        (plan_campaign("small", file_of(), HERE, seed=1, scale=0.5), "scale"),
        (plan_campaign("small", file_of(SMALL.replace("20", "30")), HERE, seed=1), "cases differ"),
        (plan_campaign("small", file_of(SMALL.replace("4 KiB", "8 KiB")), HERE, seed=1), "parameters"),
        (plan_campaign("small", file_of(), HERE, seed=1, blocks=1), "2 blocks already"),
    ):
        with pytest.raises(UsageError, match=words):
            resumed(other, done)


def test_documents_that_contradict_themselves_are_refused() -> None:
    good = made_up_campaign().model_dump(mode="json")
    Campaign.model_validate(good)
    changes: tuple[dict[str, Any], ...] = (
        {"runs": good["runs"] + good["runs"][:1]},
        {"cases": good["cases"] * 2},
        {"cases": []},
        {"blocks": 1},
        {"targets": []},
        {"scale": 0},
        {"failures": [{"case": "nobody", "block": 0, "problem": "x", "when": ""}]},
        {"format": "penstock-campaign 2"},
    )
    for change in changes:
        with pytest.raises(ValidationError):
            Campaign.model_validate(good | change)


def test_views_show_medians_of_sound_runs_and_shares() -> None:
    campaign = made_up_campaign(blocks=3, cases=2)
    bad = CaseRun(case="threads=2", block=2, run=made_up_run(9e9, "invalid"))
    campaign = campaign.model_copy(update={"runs": [*campaign.runs[:-1], bad]})
    one, two = (cell_of(campaign, case, "throughput") for case in campaign.cases)
    assert (one.middle, one.lowest, one.highest) == pytest.approx((1.1e8, 1e8, 1.2e8))
    assert two.middle == pytest.approx(2.1e8)
    assert (two.runs, two.invalid) == (2, 1)
    share = Baseline(parameters={"threads": 1}, times="threads")
    view = View(kind="plot", value="throughput", rows="threads", columns=["target"], share_of=share)
    grid = grid_of(campaign, view)
    assert grid.unit == "share"
    assert grid.cells[(1,), ("disk",)].middle == pytest.approx(1)
    assert grid.cells[(2,), ("disk",)].middle == pytest.approx(2.1 / 2.2)
    nothing = grid_of(campaign, view.model_copy(update={"value": "no such value"}))
    assert nothing.unit == "share"
    assert all(cell.middle is None for cell in nothing.cells.values())


def test_extremes_are_the_most_the_least_and_the_mean_of_sound_runs() -> None:
    campaign = made_up_campaign(blocks=3, cases=2)
    bad = CaseRun(case="threads=1", block=2, run=made_up_run(9e9, "invalid"))
    campaign = campaign.model_copy(
        update={"runs": [run for run in campaign.runs if (run.case, run.block) != ("threads=1", 2)] + [bad]}
    )
    view = View(
        kind="extremes", values={"Carrying": "throughput", "None": "no such value"}, columns=["threads"]
    )
    grid = grid_of(campaign, view)
    found = sorted(
        values_of(run.run)["throughput"].value for run in campaign.runs[:-1] if run.case == "threads=1"
    )
    assert len(found) == 2
    for statistic, expected in (("max", found[1]), ("min", found[0]), ("mean", sum(found) / 2)):
        assert grid.cells[("Carrying",), (statistic, 1)].middle == pytest.approx(expected)
        assert grid.cells[("None",), (statistic, 1)].middle is None
    assert grid.cells[("Carrying",), ("max", 1)].invalid == 1
    page = campaign_page(campaign.model_copy(update={"views": [view]}), "x.json")
    (section,) = (each for each in page.sections if each.title == "Tables and plots")
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert table.columns == [
        "value",
        *(f"{of}, threads {n}" for of in ("max", "min", "mean") for n in (1, 2)),
    ]
    assert [row[0].text for row in table.rows] == ["Carrying", "None"]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "extremes", "columns": ["target"]},
        {"kind": "extremes", "values": {"a": "b"}, "value": "write"},
        {"kind": "table", "rows": "target"},
        {"kind": "plot", "value": "write", "rows": "target", "values": {"a": "b"}},
        {"kind": "listing", "values": {"a": "b"}, "columns": ["target"], "rows": "target"},
        {"kind": "extremes", "values": {"a": "b"}, "lines": [{"title": "x", "value": "y"}]},
        {"kind": "table", "value": "write", "rows": "target", "aggregate": "max"},
    ],
)
def test_a_view_has_what_its_kind_needs(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="values"):
        View.model_validate(fields)


def test_the_page_of_a_campaign_draws_its_plots_and_says_whose_they_are() -> None:
    view = View(kind="plot", title="How it scales", value="throughput", rows="threads", columns=["target"])
    campaign = made_up_campaign(blocks=3, cases=2).model_copy(
        update={"views": [view], "reproduces": "Somebody 2012", "departures": ["smaller"]}
    )
    whose, views, *_ = campaign_page(campaign, "x.json").sections
    assert whose.blocks == [
        Facts({"reproduces": "Somebody 2012"}),
        Lines("Differences from the reproduced measurement", ["smaller"]),
    ]
    drawn, table = views.blocks
    assert isinstance(drawn, Picture)
    assert "throughput" in drawn.svg, "the axis says what it shows"
    assert isinstance(table, Table)
    assert table.rows[0][1].text.startswith("110 MB/s (100 MB/s to 120 MB/s)")
    nothing = campaign_page(campaign.model_copy(update={"runs": []}), "x.json")
    assert nothing.sections[1].blocks == [Lines("How it scales", ["no run has the metric throughput"])]


@pytest.mark.parametrize(
    ("workload", "values", "words"),
    [
        ("frames", {"rate": 1, "format": "cbf", "frame_size": "1 MB"}, "follows from its shape"),
        ("frames", {"rate": 1, "format": "tiff", "layout": "file_a_writer"}, "requires raw frames"),
        ("frames", {"rate": 1, "frame_size": "1 MB", "seconds": 2, "ranks": 3}, "fewer than 3 ranks"),
        ("stream", {"mpi_io": "ompio"}, "--backend mpiio"),
        ("stream", {"collective": True}, "--collective"),
        ("stream", {"hints": "cb_nodes=2"}, "--backend mpiio"),
        ("stream", {"backend": "mpiio", "hints": "cb_nodes=2 no"}, 'hint "no"'),
        ("stream", {"deflate": 1}, "--backend hdf5"),
        ("hdf5", {"deflate": 1, "shared": True, "ranks": 2}, "--collective"),
        ("hdf5", {"chunk": "3 MiB"}, "not a multiple of --chunk"),
        ("hdf5", {"backend": "posix"}, "this parameter is unknown"),
        ("stream", {"backend": "mpiio", "threads": 2}, "more --ranks"),
        ("metadata", {"shift": 1}, "--threads 1"),
        ("metadata", {"shift": 2, "ranks": 2}, "--ranks 2"),
        ("metadata", {"depth": 20, "branch": 10}, "exceed the maximum"),
    ],
)
def test_parameters_that_do_not_go_together_are_named(
    workload: str, values: dict[str, Parameter], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parameters_of(workload, values).job()
    assert words in f"{caught.value.message}; {caught.value.remedy}"


def access_of(workload: str, values: dict[str, Parameter], monkeypatch: pytest.MonkeyPatch) -> Access:
    """What the job of these parameters hands to its run."""
    found: list[Access] = []

    def look(load: StreamWorkload, access: Access) -> None:
        found.append(access)
        check_access(load, access)

    monkeypatch.setattr("penstock.bench.run.workloads.check_access", look)
    parameters_of(workload, values).job()
    return found[0]


def test_hints_and_hdf5_reach_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    mpiio: dict[str, Parameter] = {"backend": "mpiio", "ranks": 2, "hints": "cb_nodes=2 a=b"}
    library = access_of("stream", mpiio, monkeypatch).library
    assert isinstance(library, MpiioAccess)
    assert library.hints == {"cb_nodes": "2", "a": "b"}
    library = access_of("stream", {**mpiio, "hints": "none"}, monkeypatch).library
    assert isinstance(library, MpiioAccess)
    assert library.hints == {}
    hdf5 = access_of("hdf5", {"deflate": 2, "chunk": "1 MiB"}, monkeypatch)
    assert hdf5.library == Hdf5Access(chunk_bytes=1 << 20, deflate=2)
    assert hdf5 == access_of("stream", {"backend": "hdf5", "deflate": 2, "chunk": "1 MiB"}, monkeypatch)
    assert parameters_of("hdf5", {}).values() == ["write", "read", "processor time"]


def test_image_files_metadata_and_ranks_are_workloads_of_campaigns(tmp_path: Path) -> None:
    image: dict[str, Parameter] = {"format": "tiff", "rows": 10, "columns": 20}
    frames = parameters_of("frames", {"rate": 10, "seconds": 1, **image}).job()
    assert frames.files == 10
    assert frames.bytes >= 10 * 10 * 20 * 4
    numpy.save(tmp_path / "mine.npy", numpy.ones((3, 10, 20), "uint16"))
    mine: dict[str, Parameter] = {"content": "file", "content_file": str(tmp_path / "mine.npy")}
    own = parameters_of("frames", {"rate": 10, "seconds": 1, "format": "hdf5", **mine}).job()
    assert own.bytes >= 10 * 10 * 20 * 2
    with pytest.raises(UsageError, match="--rows 10 excludes --content-file"):
        parameters_of("frames", {"rate": 10, "seconds": 1, "format": "hdf5", "rows": 10, **mine}).job()
    shared: dict[str, Parameter] = {"backend": "mpiio", "shared": True, "ranks": 2}
    stream = parameters_of("stream", {**shared, "size": "9 MiB", "block": "8 MiB"}).job()
    assert (stream.bytes, stream.files) == (32 << 20, 1)
    items: dict[str, Parameter] = {"items": 10, "threads": 2, "file_size": "1 KiB"}
    assert parameters_of("metadata", items).job().files >= 2 * 10
    assert parameters_of("metadata", items | {"ranks": 3}).job().files >= 3 * 2 * 10


@pytest.mark.parametrize("name", sorted(path.stem for path in campaigns_folder().glob("*.yaml")))
def test_a_process_inside_of_a_laboratory_makes_the_same_runs(name: str) -> None:
    file = read_campaign_file(campaigns_folder() / f"{name}.yaml")
    if file.workload == "network":
        return
    plan = plan_campaign(name, file, HERE, seed=1)
    assert set(plan.parameters) == set(plan.jobs)
    for parameters in plan.parameters.values():
        again = WORKLOADS[file.workload].model_validate_json(parameters.model_dump_json())
        assert again == parameters
