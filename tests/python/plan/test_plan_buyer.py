"""`penstock plan` as a buyer runs it: beamlines from a file, tiers, and a report to hand in."""

import re
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_plan import invoke, one_line, sizing

from penstock import __version__

FACILITY = """\
name: our facility
beamlines:
  - name: MX
    detectors: [eiger2-16m@100]
    hours_per_day: 8
    days_per_week: 5
    retention: 6mo
  - name: Imaging
    detectors: ["2xpco-edge@50,ratio=1.5", "custom@10,duty=0.5"]
    duty: 5%
"""
SHAPE = ("--rows", "1000", "--columns", "1000", "--type", "uint8")


@pytest.fixture
def facility(tmp_path: Path) -> Path:
    file = tmp_path / "facility.yaml"
    file.write_text(FACILITY, encoding="utf-8")
    return file


def test_beamlines_have_their_own_schedule_and_retention(facility: Path) -> None:
    found = sizing("--beamlines", str(facility), "--retention", "2y", *SHAPE)
    assert [each.beamline for each in found.detectors] == ["MX", "Imaging", "Imaging"]
    assert [each.duty for each in found.detectors] == pytest.approx([8 / 24 * 5 / 7, 0.05, 0.5])
    assert [each.retention_days for each in found.detectors] == pytest.approx([182.625, 730.5, 730.5])
    mx, imaging = found.beamlines
    frame = 4362 * 4148 * 2
    assert mx.volumes.per_day_bytes == pytest.approx(100 * frame / 7 * 8 * 3600)
    assert mx.volumes.per_week_bytes == pytest.approx(5 * mx.volumes.per_day_bytes)
    assert mx.capacity_bytes + imaging.capacity_bytes == pytest.approx(found.need.capacity_bytes)
    assert mx.stored_bytes_per_s + imaging.stored_bytes_per_s == pytest.approx(found.stored_bytes_per_s)


def test_assumptions_name_the_beamline_where_two_have_the_same_detector(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    beamlines = (
        f"  - name: {name}\n    detectors: ['eiger2-16m@100,ratio={ratio}']\n    duty: {duty}\n"
        for name, ratio, duty in (("MX", 8, "10%"), ("SAXS", 4, "50%"))
    )
    file.write_text("beamlines:\n" + "".join(beamlines), encoding="utf-8")
    shown = one_line(invoke("--beamlines", str(file)).stdout)
    assert re.search(r"duty cycle, MX EIGER2 \S+ 16M 10 % of the time", shown), shown
    assert re.search(r"duty cycle, SAXS EIGER2 \S+ 16M 50 % of the time", shown)
    assert re.search(r"compression ratio, SAXS EIGER2 \S+ 16M 4, stated", shown)


def test_assumptions_number_the_same_detector_outside_of_beamlines() -> None:
    shown = one_line(invoke("eiger2-16m,ratio=8,duty=0.1", "eiger2-16m,ratio=4,duty=0.5").stdout)
    assert re.search(r"duty cycle, EIGER2 \S+ 16M \(1\) 10 % of the time", shown), shown
    assert re.search(r"duty cycle, EIGER2 \S+ 16M \(2\) 50 % of the time", shown)


def test_beamlines_share_no_port_and_no_server(facility: Path) -> None:
    """Two of 100 MB/s, which would fit into one port together."""
    small = "beamlines:\n" + "".join(
        f"  - name: {name}\n    detectors: [custom@100]\n    duty: 5%\n" for name in ("A", "B")
    )
    facility.write_text(small, encoding="utf-8")
    arguments = ("--beamlines", str(facility), "--codec-speed", "1GB/s", "--ratio", "2", *SHAPE)
    found = sizing(*arguments)
    assert {(link.in_ports, link.out_ports) for link in found.links} == {(2, 2)}
    assert found.servers.servers == 2
    for each in found.beamlines:
        assert {(link.in_ports, link.out_ports) for link in each.links} == {(1, 1)}
        assert each.servers is not None
        assert (each.servers.servers, each.cores) == (1, 1)
    shown = one_line(invoke(*arguments).stdout)
    assert "A 1 1 1, 1 1, 1 1, 1" in shown


def test_the_plan_names_its_facility_version_and_date(facility: Path) -> None:
    found = sizing("--beamlines", str(facility), *SHAPE)
    assert (found.facility, found.version) == ("our facility", __version__)
    assert datetime.fromisoformat(found.made).tzinfo is not None
    assert found.command.split()[0] == "penstock"
    shown = one_line(invoke("--beamlines", str(facility), *SHAPE).stdout)
    assert shown.startswith("Capacity plan: our facility")
    assert f"UTC with Penstock {__version__}" in shown


def test_shares_may_be_percentages() -> None:
    percent = sizing("pilatus-6m", "--headroom", "50%", "--fill", "80 %", "--duty", "1")
    share = sizing("pilatus-6m", "--headroom", "0.5", "--fill", "0.8", "--duty", "1")
    assert percent.assumptions == share.assumptions
    assert percent.assumptions.headroom == 0.5
    refused = invoke("pilatus-6m", "--fill", "much")
    assert refused.exit_code == 2
    assert "--fill" in one_line(refused.stderr)


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        (
            "detectors: [eiger2-16m@100]",
            "detectors: [eiger2-61m]",
            ["beamline MX", "eiger2-61m", "eiger2-16m"],
        ),
        ("detectors: [eiger2-16m@100]", "detectors: []", ["beamlines[0].detectors", "fewer"]),
        ("hours_per_day: 8", "hours_per_day: 30", ["facility.yaml:5", "30 exceeds the maximum of 24"]),
        ("hours_per_day: 8", "hours: 8", ["unknown field", "hours"]),
        ("duty: 5%", "duty: 5%\n    days_per_week: 2", ["duty excludes hours_per_day and days_per_week"]),
        ("retention: 6mo", "retention: long", ["beamlines[0].retention", "not an age"]),
        ("name: Imaging", "name: MX", ['two beamlines are called "MX"']),
        ("  - name: MX\n    detectors", "  - detectors", ["the required field", "name", "missing"]),
    ],
)
def test_wrong_beamlines_are_named(was: str, becomes: str, words: list[str], facility: Path) -> None:
    assert was in FACILITY
    facility.write_text(FACILITY.replace(was, becomes), encoding="utf-8")
    result = invoke("--beamlines", str(facility), *SHAPE)
    assert result.exit_code == 2, result.output
    for word in [*words, "facility.yaml"]:
        assert word in one_line(result.stderr), result.stderr


def test_own_detector_file_is_planned_by_path_and_as_custom(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nrows: 1000\ncolumns: 1000\ntype: uint8\nrate_hz: 100\n", encoding="utf-8")
    by_path = sizing(f"2x{file}", "--encoding", "none")
    assert by_path.raw_bytes_per_s == pytest.approx(200e6)
    assert by_path.cores == 0, "nothing is compressed"
    assert sizing("2xcustom", "--file", str(file), "--encoding", "none").need == by_path.need
    file.write_text("name: mine\nrows: 1000\ntype: uint8\n", encoding="utf-8")
    result = invoke(f"2x{file}")
    assert result.exit_code == 2
    assert "the required field `columns` is missing" in one_line(result.stderr)


def test_cores_are_unknown_unless_a_speed_is_stated() -> None:
    assert sizing("pilatus-6m").cores is None
    assert sizing("pilatus-6m", "--compression", "high").cores is None
    assert sizing("jungfrau-4m").cores is None, "neither ratio nor speed is known"
    shown = one_line(invoke("pilatus-6m").stdout)
    assert "cores for compression, with headroom unknown" in shown
    recorder = ("--compressed-by", "recorder")
    assert sizing("eiger2-16m", *recorder).cores is None
    assert sizing("eiger2-16m", "--codec-speed", "1GB/s", *recorder).cores == 6


def test_levels_change_the_plan() -> None:
    low, high = (sizing("eiger2-16m", "--compression", level) for level in ("low", "high"))
    assert (low.detectors[0].compression.ratio, high.detectors[0].compression.ratio) == (2.5, 14)
    assert [each.capacity_bytes for each in low.scenarios] == pytest.approx(
        [each.capacity_bytes for each in high.scenarios]
    )
    assert low.need.capacity_bytes == pytest.approx(low.scenarios[0].capacity_bytes)


class Page(HTMLParser):
    """Collects what a reader of the page sees, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.pictures = 0
        self.loads: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.pictures += tag == "svg"
        self.loads += [value or "" for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        if self._in in ("h1", "h2") and data.strip():
            self.headings.append(data.strip())


def test_report_has_tables_and_plots_and_loads_nothing(facility: Path, tmp_path: Path) -> None:
    report = tmp_path / "plan.html"
    tiers = ("--tier", "fast=2w", "--tier", "disk=6mo,block=orion-disk", "--tier", "tape,block=lto-9")
    arguments = ("--beamlines", str(facility), "--retention", "10y", "--growth", "20%", *tiers, *SHAPE)
    assert invoke(*arguments, "--report", str(report)).exit_code == 0
    text = report.read_text(encoding="utf-8")
    page = Page(text)
    assert page.headings[0] == "Capacity plan: our facility"
    for heading in ("Volume", "Beamlines", "Tiers", "Years, with 20 % growth per year", "Assumptions"):
        assert heading in page.headings
    assert page.pictures == 5, "bandwidth, compression, years, and the stages of two blocks"
    assert all(link.startswith("#") for link in page.loads), page.loads
    assert "max(" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert "<script" not in text
    again = invoke(*arguments, "--report", str(report))
    assert again.exit_code == 2
    assert "not overwritten" in one_line(again.stderr)


def test_report_of_additional_data_alone_has_no_detectors(tmp_path: Path) -> None:
    report = tmp_path / "plan.html"
    assert invoke("--write", "1GB/s", "--report", str(report)).exit_code == 0
    page = Page(report.read_text(encoding="utf-8"))
    assert "Detectors at peak rate" not in page.headings
    assert page.pictures == 1
