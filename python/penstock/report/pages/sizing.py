"""The page of a capacity plan."""

from penstock.model.plan.sizing import Sizing
from penstock.model.units import human_bytes, human_rate
from penstock.report.pages.page import Banner, Block, Cell, Lines, Page, Section, State, Table, Tile, Tiles
from penstock.report.pages.sizing_plots import alternatives_plot, ingest_plot, stages_plot, years_plot
from penstock.report.plan.outlook import ages_text
from penstock.report.plan.sizing import answer_text, capacity_bytes, cores_text, sizing_sections, title_text
from penstock.report.sections import Section as TextSection

_PLOTS = {
    "Detectors at peak rate": ingest_plot,
    "Compression: low, typical and high ratios of the catalogue": alternatives_plot,
    "Years": years_plot,
}
_CAPTIONS = {
    "Detectors": "All detectors of a kind together",
    "Needed": "Peak and average",
    "Volume": "Bytes on average, in the first year",
    "Links": "Number of ports",
    "Beamlines": "All detectors of a beamline together",
    "Compression": "The plan with each of the ratios",
    "Tiers": "Capacity with the maximum fill level, bandwidth with headroom",
    "Years": "Bytes in each year, and at its end",
    "Block": "Data that passes each stage of one block",
    "Tier ": "Data that passes each stage of one block",
    "Assumptions": "What the plan rests on, with the options that change it",
}


def sizing_page(sizing: Sizing) -> Page:
    """The same tables as on the terminal, with tiles above them and plots between them."""
    return Page(
        title=title_text(sizing),
        answer=answer_text(sizing),
        answer_state="",
        subtitle=_subtitle(sizing),
        source="penstock plan",
        banners=[Banner("warning", note) for note in sizing.notes],
        sections=[
            Section("", [_tiles(sizing)]),
            *(_section(each, sizing) for each in sizing_sections(sizing) if each.title != "Warnings"),
        ],
    )


def _subtitle(sizing: Sizing) -> str:
    if sizing.beamlines:
        return ", ".join(each.name for each in sizing.beamlines)
    named = [f"{each.count} x {each.detector}" for each in sizing.detectors]
    return ", ".join(named) or "additional data only"


def _tiles(sizing: Sizing) -> Tiles:
    unknown = sizing.cores is None
    cores: State = "warning" if unknown else ""
    servers = sizing.servers
    tiles = [
        Tile("write bandwidth", human_rate(sizing.need.write_bytes_per_s), "at the peak, with headroom"),
        Tile("stored per week", human_bytes(sizing.volumes.per_week_bytes), "on average"),
        Tile("stored per year", human_bytes(sizing.volumes.per_year_bytes), "on average, in the first year"),
        Tile("capacity", human_bytes(capacity_bytes(sizing)), "for the retention, with the fill level"),
    ]
    if sizing.detectors:
        tiles += [
            Tile(
                "cores for compression",
                cores_text(sizing),
                "give --codec-speed, or --measure" if unknown else "at the peak, with headroom",
                cores,
            ),
            Tile(
                "recorder servers",
                f"{servers.servers} or more" if servers.for_cores is None else str(servers.servers),
                "for the network alone" if servers.for_cores is None else "",
                cores,
            ),
        ]
    tiles += [
        Tile(f"tier {tier.name}", human_bytes(tier.need.capacity_bytes), ages_text(tier))
        for tier in sizing.tiers
    ]
    return Tiles(tiles)


def _section(section: TextSection, sizing: Sizing) -> Section:
    blocks: list[Block] = []
    if section.rows:
        rows = [
            [Cell(text, is_narrow=number == 0) for number, text in enumerate(row)] for row in section.rows
        ]
        caption = next(text for title, text in _CAPTIONS.items() if section.title.startswith(title))
        blocks.append(Table(caption, list(section.header), rows))
    for title, plot in _PLOTS.items():
        if section.title.startswith(title) and (picture := plot(sizing)) is not None:
            blocks.append(picture)
    for block in [*sizing.blocks, *(tier.block for tier in sizing.tiers if tier.block is not None)]:
        if section.title.endswith(f": {block.name}"):
            blocks.append(stages_plot(block))
            break
    if section.lines:
        blocks.append(Lines("", list(section.lines)))
    return Section(section.title, blocks)
