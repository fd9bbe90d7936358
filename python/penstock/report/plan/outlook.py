"""Volumes, tiers, growth and alternatives of a capacity plan, as tables."""

from collections.abc import Iterator

from penstock.model.plan.ages import human_age
from penstock.model.plan.blocks import BlockFigures, is_bound_of_year
from penstock.model.plan.outlook import Volumes, YearNeed
from penstock.model.plan.sizing import ServerNeed, Sizing
from penstock.model.plan.tiers import TierNeed
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_percent, human_rate
from penstock.report.sections import Section


def volume_section(sizing: Sizing) -> Section:
    """Bytes per day with acquisition, week and year."""
    rows = [("stored", *_volume_cells(sizing.volumes))]
    if sizing.detectors:
        rows.insert(0, ("detectors deliver, uncompressed", *_volume_cells(sizing.raw_volumes)))
    return Section("Volume", ("", "day with acquisition", "week", "year"), rows)


def outlook_sections(sizing: Sizing) -> Iterator[Section]:
    """Yields only the tables that have something to show."""
    if sizing.beamlines:
        header = ("beamline", "peak, stored", "day with acquisition", "week", "year", "capacity")
        yield Section("Beamlines", header, _beamline_rows(sizing), [_ALL_AT_ONCE])
        yield _recorders_section(sizing)
    if sizing.scenarios:
        header = ("compression", "peak, stored", "day with acquisition", "week", "year", "capacity")
        rows = [
            (
                each.level,
                human_rate(each.stored_bytes_per_s),
                *_volume_cells(each.volumes),
                human_bytes(each.capacity_bytes),
            )
            for each in sizing.scenarios
        ]
        yield Section("Compression: low, typical and high ratios of the catalogue", header, rows)
    if sizing.tiers:
        header = ("tier", "age of the data", "capacity", "writes", "reads", "blocks")
        yield Section("Tiers", header, [_tier_row(each) for each in sizing.tiers], [_TIER_LINE])
    yield Section(_years_title(sizing), *_years_table(sizing))


_ALL_AT_ONCE = "the plan assumes that all beamlines take frames at their peak rate at the same time"
_NOT_SHARED = "beamlines share no server and no port; the totals of the plan are the sums"
_TIER_LINE = (
    "data is on one tier at a time; the first one takes the peak with headroom, the others the average with"
    " headroom, and each reads what moves on; each has the capacity for its own busiest days, so together"
    " they may exceed the capacity of the plan"
)


def _volume_cells(volumes: Volumes) -> tuple[str, str, str]:
    return (
        human_bytes(volumes.per_day_bytes),
        human_bytes(volumes.per_week_bytes),
        human_bytes(volumes.per_year_bytes),
    )


def _beamline_rows(sizing: Sizing) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            human_rate(each.stored_bytes_per_s),
            *_volume_cells(each.volumes),
            human_bytes(each.capacity_bytes),
        )
        for each in sizing.beamlines
    ]


def _recorders_section(sizing: Sizing) -> Section:
    speeds = [f"{link.bytes_per_s * 8e-9:g} Gb/s in, out" for link in sizing.links]
    header = ("beamline", "cores", "recorder servers", *speeds)
    return Section("Beamlines: recorders, with headroom", header, _recorder_rows(sizing), [_NOT_SHARED])


def _recorder_rows(sizing: Sizing) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            "unknown" if each.cores is None else str(each.cores or "none"),
            "" if each.servers is None else _servers_text(each.servers),
            *(f"{link.in_ports}, {link.out_ports}" for link in each.links),
        )
        for each in sizing.beamlines
    ]


def _servers_text(need: ServerNeed) -> str:
    return f"at least {need.servers}" if need.for_cores is None else str(need.servers)


def ages_text(tier: TierNeed) -> str:
    """Returns "up to 2 weeks", "2 weeks to 6 months" or "from 6 months"."""
    if tier.until_days is None:
        return f"from {human_age(tier.from_days)}" if tier.from_days else "all"
    if not tier.from_days:
        return f"up to {human_age(tier.until_days)}"
    return f"{human_age(tier.from_days)} to {human_age(tier.until_days)}"


def _tier_row(tier: TierNeed) -> tuple[str, ...]:
    need, block = tier.need, tier.block
    return (
        tier.name,
        ages_text(tier),
        human_bytes(need.capacity_bytes),
        human_rate(need.write_bytes_per_s),
        human_rate(need.read_bytes_per_s),
        "" if block is None else blocks_text(block),
    )


def media_text(block: BlockFigures | None, number: int) -> str:
    """Returns ", 3189 cartridges"; empty if the drives hold the data."""
    return "" if block is None or not block.medium else f", {counted(number, block.medium)}"


def at_most(block: BlockFigures | None) -> str:
    """Returns "at most " where fewer blocks may do; otherwise an empty text."""
    return "at most " if block is not None and block.is_upper_bound else ""


def blocks_text(block: BlockFigures) -> str:
    """Returns "at most 61 x our server", or "2 x LTO-9, 3189 cartridges"."""
    return f"{at_most(block)}{block.blocks} x {block.name}{media_text(block, block.media)}"


def _year_blocks(year: YearNeed, tier: int, block: BlockFigures, grown: float) -> str:
    most = "at most " if is_bound_of_year(block, year.tier_bytes[tier], grown) else ""
    return f"{most}{year.tier_blocks[tier]}{media_text(block, year.tier_media[tier])}"


def _years_title(sizing: Sizing) -> str:
    growth = sizing.assumptions.growth
    return f"Years, with {human_percent(growth)} growth per year" if growth else "Years, without growth"


def _years_table(sizing: Sizing) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    growth = sizing.assumptions.growth
    tiers = [f"capacity, {tier.name}" for tier in sizing.tiers]
    with_blocks = [(n, tier.block) for n, tier in enumerate(sizing.tiers) if tier.block is not None]
    blocks = [f"blocks, {sizing.tiers[n].name}" for n, _ in with_blocks]
    header = ("year", "written", "kept at its end", "capacity", "added", *tiers, *blocks)
    rows = [
        (
            str(each.year),
            human_bytes(each.written_bytes),
            human_bytes(each.kept_bytes),
            human_bytes(each.capacity_bytes),
            human_bytes(each.added_bytes),
            *(human_bytes(on_tier) for on_tier in each.tier_bytes),
            *(_year_blocks(each, n, block, (1 + growth) ** (each.year - 1)) for n, block in with_blocks),
        )
        for each in sizing.years
    ]
    lines = [
        "storage starts empty; what is kept is for the busiest days, and capacity includes the maximum fill"
        " level"
    ]
    if growth:
        lines.append("all other tables are for the rates of the first year")
    return header, rows, lines
