"""The page of a campaign: the values of each case, block by block, their median, and how sure that is."""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from matplotlib.figure import Figure

from penstock.bench.campaign.views import Cell as ViewCell
from penstock.bench.campaign.views import cell_of
from penstock.bench.statistics.intervals import Interval, median_interval
from penstock.bench.statistics.values import Value, too_short_of, values_of
from penstock.model.bench.campaigns import Campaign
from penstock.model.text import counted
from penstock.model.units import human_percent
from penstock.report.campaigns import cell_text
from penstock.report.metadata import TOO_SHORT
from penstock.report.pages.axes import value_axis
from penstock.report.pages.campaign_views import views_section
from penstock.report.pages.page import Banner, Block, Cell, Facts, Lines, Page, Picture, Section, Table
from penstock.report.pages.parts import checks_block, conditions_block, pattern_block
from penstock.report.pages.svg import COLOURS, picture
from penstock.report.printable import printable
from penstock.report.values import value_text
from penstock.report.verdicts import storage_line

_PLOTTED_CASES_MAX = 60

_FAILURES_SHOWN = 10


@dataclass
class _Points:
    """Of one value of one case. Those of invalid runs are shown, and count for nothing."""

    sound: list[float] = field(default_factory=list)
    void: list[float] = field(default_factory=list)

    def interval(self, seed: int) -> Interval | None:
        return median_interval(self.sound, seed) if self.sound else None


_Table = dict[str, dict[str, _Points]]


def campaign_page(campaign: Campaign, source: str) -> Page:
    points, kinds = _points_of(campaign)
    runs = [each.run for each in campaign.runs]
    sections = [section for section in (_source_section(campaign), views_section(campaign)) if section]
    sections.append(Section("Metrics", [*_cases_block(campaign), _values_table(campaign, points, kinds)]))
    plots: list[Block] = [_plot(campaign, name, points[name], kind) for name, kind in kinds.items()]
    sections.append(Section("Plots", plots))
    sections += _checks_sections(campaign)
    if runs:
        conditions = conditions_block([run.conditions for run in runs])
        pattern = pattern_block(runs[0])
        targets = "; ".join(dict.fromkeys(run.target for run in runs))
        sections.append(
            Section("Conditions", [replace(pattern, rows=pattern.rows | {"target": targets}), conditions])
        )
    return Page(
        title=campaign.title or campaign.name,
        answer="",
        answer_state="",
        subtitle=f"{campaign.name}: {counted(len(campaign.cases), 'case')} in"
        f" {counted(campaign.blocks, 'block')}, seed {campaign.seed}; {_storages(campaign)}",
        source=source,
        banners=_banners(campaign),
        sections=sections,
    )


def _storages(campaign: Campaign) -> str:
    """Every target, and what it lies on; of those without a run that is not known."""
    cases = {case.name: case.target for case in campaign.cases}
    found = {cases[each.case]: storage_line(each.run.conditions) for each in reversed(campaign.runs)}
    if not found:
        return "no run"
    if len(campaign.targets) < 2:
        return next(iter(found.values()))
    names = [target.name for target in campaign.targets]
    return "; ".join(f"{name}: {found.get(name, 'no run')}" for name in names)


def _source_section(campaign: Campaign) -> Section | None:
    """Reproduced measurement, and where it differs from that."""
    if not campaign.reproduces:
        return None
    lines = (
        [Lines("Differences from the reproduced measurement", campaign.departures)]
        if campaign.departures
        else []
    )
    return Section("Reproduced measurement", [Facts({"reproduces": campaign.reproduces}), *lines])


def _cases_block(campaign: Campaign) -> list[Block]:
    """Returns what makes the cases differ, if it is known."""
    reported = {
        case.name: ", ".join(f"{name} {value}" for name, value in case.parameters.items())
        for case in campaign.cases
        if case.parameters
    }
    return [Facts(reported)] if reported else []


def _banners(campaign: Campaign) -> list[Banner]:
    banners = []
    planned = campaign.blocks * len(campaign.cases)
    if not campaign.complete:
        banners.append(Banner("warning", f"Incomplete: {len(campaign.runs)} of {planned} runs completed."))
    for failure in campaign.failures[:_FAILURES_SHOWN]:
        text = f"{failure.case}, block {failure.block + 1} failed: {failure.problem}"
        banners.append(Banner("void", text))
    if len(campaign.failures) > _FAILURES_SHOWN:
        banners.append(Banner("void", f"{counted(len(campaign.failures), 'run')} failed in total."))
    void = sum(each.run.validity == "invalid" for each in campaign.runs)
    if void:
        text = f"{void} of {len(campaign.runs)} runs are invalid. They are marked and excluded from medians."
        banners.append(Banner("void", text))
    return banners


def _points_of(campaign: Campaign) -> tuple[_Table, dict[str, Value]]:
    """By the name of the value and then of the case; and a value of each name, for its unit."""
    points: _Table = defaultdict(lambda: defaultdict(_Points))
    kinds: dict[str, Value] = {}
    for each in campaign.runs:
        for name, value in values_of(each.run).items():
            kinds.setdefault(name, value)
            place = points[name][each.case]
            (place.void if each.run.validity == "invalid" else place.sound).append(value.value)
    return points, kinds


def _values_table(campaign: Campaign, points: _Table, kinds: dict[str, Value]) -> Table:
    columns = ["case", "metric", "median", "interval", "runs", "each block", "better is"]
    rows = []
    short = {name for each in campaign.runs for name in too_short_of(each.run)} - set(kinds)
    for case in campaign.cases:
        for name in sorted(short):
            rows.append([Cell(case.name), Cell(name), Cell(""), Cell(TOO_SHORT, "bad"), *[Cell("")] * 3])
        for name, kind in kinds.items():
            found = points[name].get(case.name)
            if found is not None and found.sound:
                rows.append(_value_row(case.name, name, kind, found, campaign.seed))
            elif (cell := cell_of(campaign, case, name)).invalid or cell.too_short or cell.failed:
                rows.append(_empty_row(case.name, name, kind, found or _Points(), cell))
    caption = "Medians of blocks that are not invalid, with their confidence intervals"
    return Table(caption, columns, rows)


def _empty_row(case: str, name: str, kind: Value, found: _Points, cell: ViewCell) -> list[Cell]:
    """Of a case that no run counts of: why, and what invalid ones had."""
    void = ", ".join(value_text(value, kind.unit) for value in found.void[:20])
    why = f"all runs are invalid: {', '.join(cell.why_invalid)}" if found.void else cell_text(cell)
    count = f"0, {len(found.void)} invalid" if found.void else "0"
    texts = [Cell(void, "void", is_narrow=True), Cell(why, "bad"), Cell(count), Cell("")]
    return [Cell(case), Cell(name), *texts, Cell(kind.better)]


def _value_row(case: str, name: str, kind: Value, found: _Points, seed: int) -> list[Cell]:
    interval = median_interval(found.sound, seed)
    ends = [value_text(each, kind.unit, interval.middle) for each in (interval.low, interval.high)]
    between = f"{ends[0]} to {ends[1]} ({human_percent(interval.confidence)})"
    return [
        Cell(case),
        Cell(name),
        Cell(value_text(interval.middle, kind.unit), is_narrow=True),
        Cell(between if len(found.sound) > 1 else "none (single run)", is_narrow=True),
        Cell(f"{len(found.sound)}" + (f", {len(found.void)} invalid" if found.void else "")),
        Cell(", ".join(value_text(value, kind.unit, interval.middle) for value in found.sound[:20])),
        Cell(kind.better),
    ]


def _plot(campaign: Campaign, name: str, cases: dict[str, _Points], kind: Value) -> Picture:
    shown = [case.name for case in campaign.cases if case.name in cases][:_PLOTTED_CASES_MAX]
    axis = value_axis(kind.unit, [each for case in shown for each in (*cases[case].sound, *cases[case].void)])
    intervals = {case: cases[case].interval(campaign.seed) for case in shown}
    known = {case: found.middle for case, found in intervals.items() if found is not None}
    reported = [f"{case[:60]}: {value_text(middle, kind.unit)}" for case, middle in known.items()]
    medians = "; ".join(reported[:20]) or "no valid run"
    more = f" The first {counted(len(shown), 'case')}." if len(shown) < len(cases) else ""
    description = f"Medians of {name}: {medians}. {kind.better.capitalize()} is better.{axis.note}{more}"

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, case in enumerate(shown):
            for values, colour, marker in (
                (cases[case].sound, "first", "o"),
                (cases[case].void, "void", "x"),
            ):
                offsets = [place + 0.02 * (n - (len(values) - 1) / 2) for n in range(len(values))]
                scaled = [value * axis.scale for value in values]
                axes.scatter(scaled, offsets, s=18, marker=marker, color=COLOURS[colour], alpha=0.7, zorder=2)
            interval = intervals[case]
            if interval is not None:
                low, middle, high = (v * axis.scale for v in (interval.low, interval.middle, interval.high))
                axes.plot([low, high], [place + 0.22] * 2, color=COLOURS["text"], linewidth=2)
                axes.plot([middle], [place + 0.22], marker="|", markersize=11, color=COLOURS["text"])
        axes.set_yticks(range(len(shown)), [printable(case, 60) for case in shown])
        axes.set(xlabel=f"{name}, {axis.unit}", ylim=(len(shown) - 0.4, -0.6))
        axis.apply(axes, "x")
        axes.annotate(
            "dots: blocks; crosses: invalid; bar: median with its interval",
            (1.0, 1.02),
            xycoords="axes fraction",
            ha="right",
            fontsize=8,
        )

    return picture(name, description, draw, 1.4 + 0.45 * len(shown))


def _checks_sections(campaign: Campaign) -> list[Section]:
    """What was not as it should be."""
    sections = []
    for each in campaign.runs:
        checks = [check for check in each.run.checks if check.outcome != "ok"]
        if checks:
            void = each.run.validity == "invalid"
            sections.append(
                Section(f"Checks: {each.case}, block {each.block + 1}", [checks_block(checks)], void)
            )
    return sections
