"""Tables and plots of campaigns: lines beside curves, listings, what is left out, servers of targets."""

import csv
import io
from typing import Any

import pytest
from campaign_documents import made_up_campaign, made_up_run, with_targets
from pydantic import ValidationError
from rich.console import Console

from penstock.bench.campaign.campaigns import plan_campaign
from penstock.bench.campaign.views import grid_of
from penstock.bench.statistics.values import derived_of, values_of
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import Baseline, Campaign, Target, View
from penstock.model.bench.runs import Check, NetworkFigures, Run, StreamFigures, TransferFigures
from penstock.model.errors import UsageError
from penstock.report.campaigns import campaign_view
from penstock.report.pages.comma_separated import csv_of
from penstock.report.pages.documents import page_of
from penstock.report.pages.markdown import markdown_of
from penstock.report.pages.page import Lines, Picture, Table

LINES: list[dict[str, Any]] = [
    {"title": "datarate", "value": "needed"},
    {"title": "bandwidth", "value": "throughput", "of": {"threads": 4}, "columns": ["target"]},
    {"title": "waits", "value": "latency p50"},
]
PLOT = View.model_validate(
    {
        "kind": "plot",
        "value": "throughput",
        "rows": "threads",
        "columns": ["target"],
        "lines": LINES,
        "leave_out": {"threads": 4},
    }
)


def campaign_with(view: View, cases: int = 4) -> Campaign:
    """Of 100 MB/s times the threads a tenth more in the second block; each was asked for 10 MB/s."""
    return made_up_campaign(blocks=2, cases=cases).model_copy(update={"views": [view]})


def shown(campaign: Campaign) -> tuple[list[str], list[list[str]]]:
    """Titles and texts of the first table on the campaign's page."""
    (section,) = (each for each in page_of(campaign, "x.json").sections if each.title == "Tables and plots")
    table = next(block for block in section.blocks if isinstance(block, Table))
    return table.columns, [[cell.text for cell in row] for row in table.rows]


def drawn(campaign: Campaign) -> Picture:
    (section,) = (each for each in page_of(campaign, "x.json").sections if each.title == "Tables and plots")
    return next(block for block in section.blocks if isinstance(block, Picture))


def test_lines_say_what_was_asked_and_what_can_be_reached() -> None:
    needed, reached, waits = grid_of(campaign_with(PLOT), PLOT).lines
    assert needed.points == {(threads,): pytest.approx(1e7) for threads in (1, 2, 3)}
    assert reached.points == {(threads,): pytest.approx(4.2e8) for threads in (1, 2, 3)}
    assert (needed.unit, reached.unit, waits.unit) == ("B/s", "B/s", "ms")
    assert reached.column == ("disk",)


@pytest.mark.slow
def test_lines_are_in_every_form_of_a_report() -> None:
    campaign = campaign_with(PLOT)
    titles, rows = shown(campaign)
    assert titles == ["threads", "target disk", "datarate", "bandwidth, target disk", "waits"]
    assert [row[0] for row in rows] == ["1", "2", "3"], "the case that a line is of is no point of the plot"
    assert rows[1][2:] == ["10 MB/s", "420 MB/s", "2 ms"]
    picture = drawn(campaign)
    assert "the lines datarate, bandwidth, target disk;" in picture.description
    assert "datarate" in picture.svg
    assert "waits" not in picture.svg, "a plot has one unit"
    assert "| 10 MB/s | 420 MB/s |" in markdown_of([page_of(campaign, "x.json")])
    lines = list(csv.DictReader(io.StringIO(csv_of({"x.json": campaign}))))
    asked = [line for line in lines if line["metric"] == "needed"]
    assert len(asked) == len(campaign.runs)
    assert {(line["value"], line["unit"], line["better"]) for line in asked} == {("10000000.0", "B/s", "")}
    plain = csv_of({"x.json": campaign.model_copy(update={"views": []})})
    assert "needed" not in plain, "only where a view shows it"
    told = Console(width=200, record=True, file=io.StringIO())
    told.print(campaign_view(campaign))
    assert "bandwidth, target disk" in told.export_text()


def test_a_line_without_a_sound_run_is_left_out() -> None:
    campaign = campaign_with(PLOT)
    bad = Check(name="long enough", outcome="failed", expected="e", actual="a", bias="better")
    invalid = made_up_run(1e8, "invalid").model_copy(update={"checks": [bad]})
    void = [
        each.model_copy(update={"run": invalid}) if each.case == "threads=4" else each
        for each in campaign.runs
    ]
    campaign = campaign.model_copy(update={"runs": void})
    assert grid_of(campaign, PLOT).lines[1].points == {}
    _, rows = shown(campaign)
    assert rows[0][3] == "2 invalid: long enough"
    assert "bandwidth" not in drawn(campaign).svg


@pytest.mark.usefixtures("without_plots")
def test_rates_of_a_table_have_one_unit() -> None:
    """1.1 GB/s among hundreds of MB/s is 1100 MB/s, in cells, lines and ranges."""
    _, rows = shown(campaign_with(PLOT.model_copy(update={"leave_out": {}}), cases=12))
    texts = [text for row in rows for text in (row[1], row[3])]
    assert "1100 MB/s (1100 MB/s to 1210 MB/s)" not in texts  # the median of two blocks lies between
    assert all("GB/s" not in text and "MB/s" in text for text in texts), texts


def phase(name: str, seconds: float) -> StreamFigures:
    return StreamFigures.model_validate(
        {
            "phase": name,
            "bytes": 10**9,
            "bytes_per_s": 1e9 / seconds,
            "first_done_s": seconds,
            "last_done_s": seconds,
            "service_ms": {"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
            "cached_share": None,
            "mismatches": None,
        }
    )


@pytest.mark.usefixtures("without_plots")
def test_cells_without_a_figure_say_why() -> None:
    """Of a phase that was too short in each run that counts, and beside an invalid one."""
    view = View(kind="listing", columns=["threads"], values={"Write": "write", "Read": "read"})
    campaign = campaign_with(view, cases=1)
    streams = {"streams": [phase("write", 2.0), phase("read", 0.5)], "frames": None}
    runs = [each.model_copy(update={"run": each.run.model_copy(update=streams)}) for each in campaign.runs]
    campaign = campaign.model_copy(update={"runs": runs})
    assert shown(campaign)[1] == [["1", "500 MB/s", "too short"]]
    values = next(s for s in page_of(campaign, "x.json").sections if s.title == "Metrics")
    texts = [
        [cell.text for cell in row] for row in next(b for b in values.blocks if isinstance(b, Table)).rows
    ]
    assert ["threads=1", "read", "", "too short", "", "", ""] in texts
    told = Console(width=200, record=True, file=io.StringIO())
    told.print(campaign_view(campaign.model_copy(update={"views": []})))
    assert "too short" in told.export_text()
    bad = Check(name="no steal", outcome="failed", expected="e", actual="a", bias="worse")
    void = [
        each.model_copy(update={"run": each.run.model_copy(update={"validity": "invalid", "checks": [bad]})})
        for each in campaign.runs
    ]
    assert shown(campaign.model_copy(update={"runs": void}))[1] == [
        ["1", "2 invalid: no steal", "2 invalid: no steal"]
    ]
    mixed = [*void[:1], *campaign.runs[1:]]
    assert shown(campaign.model_copy(update={"runs": mixed}))[1] == [
        ["1", "500 MB/s, 1 invalid", "too short; 1 invalid: no steal"]
    ]


@pytest.mark.usefixtures("without_plots")
def test_a_listing_has_a_case_in_each_row_and_several_values() -> None:
    values = {"Most": "throughput", "Waits": "latency p50", "None": "no such value"}
    view = View(kind="listing", columns=["threads", "target"], values=values, aggregate="max")
    titles, rows = shown(campaign_with(view, cases=2))
    assert titles == ["threads", "target", "Most", "Waits", "None"]
    assert rows == [["1", "disk", "110 MB/s", "2 ms", "-"], ["2", "disk", "220 MB/s", "2 ms", "-"]]
    for aggregate, text in (
        ("min", "100 MB/s"),
        ("mean", "105 MB/s (100 MB/s to 110 MB/s)"),
        ("median", "105 MB/s (100 MB/s to 110 MB/s)"),
    ):
        other = view.model_copy(update={"aggregate": aggregate})
        assert shown(campaign_with(other, cases=2))[1][0][2] == text


@pytest.mark.usefixtures("without_plots")
def test_a_listing_without_a_value_says_so() -> None:
    view = View(kind="listing", columns=["threads"], values={"Total": "both: total"})
    sections = page_of(campaign_with(view), "x.json").sections
    assert [Lines("Total", ["no run has the metric both: total"])] in [each.blocks for each in sections]


def way(name: str, bytes_per_s: float, link: float | None) -> TransferFigures:
    return TransferFigures.model_validate(
        {
            "name": name,
            "streams": 1,
            "bytes": 1,
            "seconds": 1,
            "bytes_per_s": bytes_per_s,
            "share_of_link": bytes_per_s / link if link else None,
            "sent_again_share": 0,
            "round_trip_ms": 1,
            "sender_busy_share": 0,
            "receiver_busy_share": 0,
            "sender_s_per_gb": 0,
            "receiver_s_per_gb": 0,
        }
    )


def network_run(link: float | None) -> Run:
    rates = {"up": 12.4e9, "down": 12e9, "both: up": 11.2e9, "both: down": 11e9}
    figures = NetworkFigures(
        interface="x",
        link_bytes_per_s=link,
        round_trips=[],
        transfers=[way(name, rate, link) for name, rate in rates.items()],
    )
    return made_up_run().model_copy(update={"workload": "network", "frames": None, "network": figures})


def test_both_ways_together_are_a_share_of_twice_the_link() -> None:
    found = {name: reading.value for name, reading in derived_of(network_run(12.5e9)).items()}
    assert found == {
        "both: total": pytest.approx(22.2e9),
        "link": 12.5e9,
        "up share of link": pytest.approx(0.992),
        "down share of link": pytest.approx(0.96),
        "both: up share of link": pytest.approx(0.896),
        "both: down share of link": pytest.approx(0.88),
        "both: total share of link": pytest.approx(0.888),
    }
    assert set(derived_of(network_run(None))) == {"both: total"}
    assert not set(found) & set(values_of(network_run(12.5e9))), "no comparison counts them twice"


BY_SERVERS = View(kind="plot", value="throughput", rows="servers", columns=["threads", "system"])
OF_LOCAL = BY_SERVERS.model_copy(update={"share_of": Baseline(local=True)})
DISK = Target(name="disk", path="/disk")
ONE, THREE = (
    Target(name=f"fs-{count}", path=f"/{count}", servers=count, system="fs", local="disk") for count in (1, 3)
)


def test_servers_are_an_axis_and_shares_are_of_the_sum_of_local_disks() -> None:
    rates = {"disk": 100e6, "fs-1": 90e6, "fs-3": 240e6}
    campaign = with_targets([DISK, ONE, THREE], rates, [BY_SERVERS])
    grid = grid_of(campaign, BY_SERVERS)
    assert grid.rows == [(1,), (3,)], "a target without a number of servers has no row"
    assert grid.columns == [(1, "fs"), (2, "fs")]
    assert grid.cells[(3,), (2, "fs")].middle == pytest.approx(480e6)
    # Two threads do twice as much on the disk, too: 200 MB/s is what a server's disk can do.
    shares = grid_of(campaign, OF_LOCAL)
    assert shares.unit == "share"
    assert shares.cells[(1,), (1, "fs")].middle == pytest.approx(90 / 200)
    assert shares.cells[(3,), (2, "fs")].middle == pytest.approx(480 / 600)
    turned = grid_of(campaign.model_copy(update={"cases": campaign.cases[::-1]}), OF_LOCAL)
    assert turned.cells == shares.cells, "it is the highest, whichever case comes last"
    assert "servers" in drawn(campaign).svg


def test_a_share_may_be_of_one_server_of_the_same_system() -> None:
    rates = {"disk": 100e6, "fs-1": 90e6, "fs-3": 240e6}
    of_one = Baseline(parameters={"servers": 1}, times="servers")
    view = BY_SERVERS.model_copy(update={"share_of": of_one})
    grid = grid_of(with_targets([DISK, ONE, THREE], rates, [view]), view)
    assert grid.cells[(1,), (2, "fs")].middle == pytest.approx(1)
    assert grid.cells[(3,), (2, "fs")].middle == pytest.approx(240 / 270)


def test_clients_are_an_axis_beside_servers() -> None:
    targets = [
        Target(
            name=f"fs-{servers}-clients-{clients}", path="/x", servers=servers, clients=clients, system="fs"
        )
        for servers in (1, 2)
        for clients in (1, 2)
    ]
    rates = dict(zip((each.name for each in targets), (50e6, 80e6, 60e6, 110e6), strict=True))
    of_one = Baseline(parameters={"clients": 1}, times="clients")
    view = View(
        kind="plot", value="throughput", rows="clients", columns=["servers", "threads"], share_of=of_one
    )
    grid = grid_of(with_targets([DISK, *targets], rates | {"disk": 100e6}, [view]), view)
    assert grid.rows == [(1,), (2,)], "a target without a number of clients has no row"
    assert grid.cells[(2,), (1, 1)].middle == pytest.approx(80 / 100)
    assert grid.cells[(2,), (2, 2)].middle == pytest.approx(110 / 120), "of one client with as many servers"


@pytest.mark.usefixtures("without_plots")
def test_views_by_clients_say_what_is_missing() -> None:
    by_clients = View(kind="plot", value="throughput", rows="clients", columns=["target"])
    campaign = with_targets([DISK], {"disk": 100e6}, [by_clients])
    assert "give it with --target lab:SYSTEM,clients=N" in markdown_of([page_of(campaign, "x.json")])


@pytest.mark.usefixtures("without_plots")
def test_views_by_servers_say_what_is_missing() -> None:
    views = [BY_SERVERS, OF_LOCAL]
    campaign = with_targets([DISK], {"disk": 100e6}, views)
    (section,) = (each for each in page_of(campaign, "x.json").sections if each.title == "Tables and plots")
    assert [block.lines for block in section.blocks if isinstance(block, Lines)] == [
        ["no target has a number of servers; give it with --target NAME=PATH,servers=N"]
    ] * 2
    alone = with_targets([ONE.model_copy(update={"local": ""})], {"fs-1": 90e6}, views)
    assert "no target names the local disk" in markdown_of([page_of(alone, "x.json")])
    assert shown(alone)[1] == [["1", "90 MB/s", "180 MB/s"]]


def test_servers_stand_in_the_plan_and_not_in_the_workload() -> None:
    file = CampaignFile.model_validate(
        {"title": "x", "workload": "stream", "vary": {"threads": [1, 2]}, "views": []}
    )
    plan = plan_campaign("x", file, [DISK, THREE], seed=1)
    assert plan.campaign.targets == [DISK, THREE]
    assert all(set(case.parameters) == {"threads"} for case in plan.campaign.cases)
    assert Campaign.model_validate_json(plan.campaign.model_dump_json()) == plan.campaign
    by_servers = View(kind="table", value="write", rows="servers", columns=["threads", "system"])
    views = plan_campaign("x", file.model_copy(update={"views": [by_servers]}), [DISK], seed=1).campaign.views
    assert views == [by_servers], "one target without a number is enough"


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ({"leave_out": {"colour": 1}}, "`colour`"),
        ({"lines": [{"title": "x", "value": "write", "of": {"colour": 1}}]}, "`colour`"),
        ({"lines": [{"title": "x", "value": "write", "columns": ["colour"]}]}, "`colour`"),
        ({"lines": [{"title": "x", "value": "needed"}]}, "the value `needed`"),
        ({"share_of": {"parameters": {"threads": 1}, "times": "colour"}}, "`colour`"),
    ],
)
def test_lines_of_nothing_are_refused_before_the_first_run(view: dict[str, Any], words: str) -> None:
    table = {"kind": "table", "value": "write", "rows": "threads"} | view
    file = CampaignFile.model_validate(
        {"title": "x", "workload": "stream", "vary": {"threads": [1, 2]}, "views": [table]}
    )
    with pytest.raises(UsageError, match=words):
        plan_campaign("x", file, [DISK], seed=1)


@pytest.mark.parametrize(
    "share", [{}, {"local": True, "parameters": {"threads": 1}}, {"local": True, "times": "threads"}]
)
def test_a_share_is_of_one_thing(share: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="or else `local: true`"):
        View.model_validate({"kind": "table", "value": "write", "rows": "threads", "share_of": share})


@pytest.mark.parametrize("change", [{"local": "nobody"}, {"servers": None}, {"servers": 0}])
def test_a_local_disk_is_a_target_of_one_with_servers(change: dict[str, Any]) -> None:
    good = with_targets([DISK, ONE], {"disk": 1e6, "fs-1": 1e6}, []).model_dump(mode="json")
    Campaign.model_validate(good)
    good["targets"][1] |= change
    with pytest.raises(ValidationError):
        Campaign.model_validate(good)
