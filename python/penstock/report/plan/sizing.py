"""A sizing for people: tables on the terminal, or Markdown."""

import math
from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.model.plan.ages import human_age
from penstock.model.plan.blocks import BlockFigures, MeasuredBandwidth
from penstock.model.plan.sizing import Compression, DetectorNeed, Sizing
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_hz, human_number, human_percent, human_rate
from penstock.report.plan.outlook import at_most, blocks_text, media_text, outlook_sections, volume_section
from penstock.report.sections import Section, sections_markdown, sections_view


def sizing_view(sizing: Sizing) -> RenderableType:
    title = [Text(title_text(sizing))] if sizing.facility else []
    answer = Text(answer_text(sizing), style="bold")
    return Group(*title, answer, Text(), sections_view(sizing_sections(sizing)))


def sizing_markdown(sizing: Sizing) -> str:
    return sections_markdown(title_text(sizing), sizing_sections(sizing), answer_text(sizing))


def title_text(sizing: Sizing) -> str:
    return f"Capacity plan: {sizing.facility}" if sizing.facility else "Capacity plan"


def answer_text(sizing: Sizing) -> str:
    """Returns "Needs 1.24 GB/s write, 2.98 PB, 1 recorder server (30 days at 100 % duty)".

    With tiers, their blocks follow; a block of --block is then the alternative without tiers.
    """
    need, tiers = sizing.need, sizing.tiers
    parts = [f"{human_rate(need.write_bytes_per_s)} write", human_bytes(capacity_bytes(sizing))]
    if sizing.detectors:
        least = "at least " if sizing.servers.for_cores is None else ""
        parts.append(f"{least}{counted(sizing.servers.servers, 'recorder server')}")
    blocks = [f"{blocks_text(each)}{_unreached_text(each)}" for each in sizing.blocks]
    of_tiers = [
        f"; tier {tier.name}: {blocks_text(tier.block)}{_unreached_text(tier.block)}"
        for tier in tiers
        if tier.block is not None
    ]
    parts += [] if tiers else blocks
    without_tiers = f"; without tiers: {', '.join(blocks)}" if tiers and blocks else ""
    return f"Needs {', '.join(parts)}{''.join(of_tiers)}{without_tiers}{_schedule_text(sizing)}"


def capacity_bytes(sizing: Sizing) -> float:
    """Returns what to buy: with tiers, the sum of their capacities."""
    tiers = sizing.tiers
    return sum(tier.need.capacity_bytes for tier in tiers) if tiers else sizing.need.capacity_bytes


def _unreached_text(block: BlockFigures) -> str:
    return ", whose limit was not measured" if block.is_upper_bound else ""


def _schedule_text(sizing: Sizing) -> str:
    """Returns " (30 days at 100 % duty)", without what differs between detectors."""
    assumed = sizing.assumptions
    ages = {human_age(each.retention_days) for each in sizing.detectors} or {
        human_age(assumed.retention_days)
    }
    duties = {human_percent(each.duty) for each in sizing.detectors} or {human_percent(assumed.duty)}
    parts = [*(ages if len(ages) == 1 else []), *(f"at {duty} duty" for duty in duties if len(duties) == 1)]
    more = human_percent(assumed.growth)
    grows = f", at the rates of the first year; {more} more each year" if assumed.growth else ""
    return (f" ({' '.join(parts)})" if parts else "") + grows


def sizing_sections(sizing: Sizing) -> Iterator[Section]:
    if sizing.notes:
        yield Section("Warnings", ("",), lines=sizing.notes)
    if sizing.detectors:
        header = ("detector", "", "rate", "frame", "raw", "ratio", "stored", "cores")
        rows = [_detector_row(each) for each in sizing.detectors]
        lines = dict.fromkeys(line for each in sizing.detectors for line in _codec_lines(each))
        yield Section("Detectors at peak rate", header, rows, list(lines))
    yield Section("Needed", ("", "peak", "average"), _need_rows(sizing))
    yield volume_section(sizing)
    yield Section(
        "Links, with headroom",
        ("port", "from the detectors", "to the storage"),
        [
            (f"{link.bytes_per_s * 8e-9:g} Gb/s", str(link.in_ports), str(link.out_ports))
            for link in sizing.links
        ],
    )
    yield from outlook_sections(sizing)
    for block in sizing.blocks:
        yield from _block_sections(block)
    for tier in sizing.tiers:
        if tier.block is not None:
            yield from _block_sections(tier.block, f"Tier {tier.name}: ")
    yield Section("Assumptions", ("", ""), list(_assumption_rows(sizing)))


def _detector_row(need: DetectorNeed) -> tuple[str, ...]:
    compression = need.compression
    cores = "unknown" if need.cores is None else human_number(need.cores) if need.cores else "none"
    return (
        f"{need.beamline}: {need.detector}" if need.beamline else need.detector,
        f"x {need.count}",
        human_hz(need.rate_hz, 6),
        human_bytes(need.frame_bytes),
        human_rate(need.raw_bytes_per_s),
        human_number(compression.ratio),
        human_rate(need.stored_bytes_per_s),
        cores,
    )


def _codec_lines(need: DetectorNeed) -> Iterator[str]:
    compression = need.compression
    if compression.encoding == "none":
        return
    yield f"ratio {human_number(compression.ratio)}: {compression.ratio_from}"
    if compression.speed_bytes_per_s is not None:
        yield f"a core compresses {human_rate(compression.speed_bytes_per_s)}: {compression.speed_from}"


def _need_rows(sizing: Sizing) -> list[tuple[str, str, str]]:
    need, servers = sizing.need, sizing.servers
    cores = cores_text(sizing)
    rows = [
        (
            "detectors deliver, uncompressed",
            human_rate(sizing.raw_bytes_per_s),
            human_rate(sizing.average_raw_bytes_per_s),
        ),
        ("stored", human_rate(sizing.stored_bytes_per_s), human_rate(sizing.average_stored_bytes_per_s)),
        ("storage writes, with headroom", human_rate(need.write_bytes_per_s), ""),
        ("storage reads, with headroom", human_rate(need.read_bytes_per_s), ""),
        ("capacity", human_bytes(need.capacity_bytes), ""),
    ]
    together = human_bytes(capacity_bytes(sizing))
    if together != rows[-1][1]:
        rows[-1:] = [
            ("capacity of the tiers together", together, ""),
            ("capacity without tiers", human_bytes(need.capacity_bytes), ""),
        ]
    if sizing.raw_capacity_bytes > capacity_bytes(sizing):
        rows.append(("raw capacity of drives", human_bytes(sizing.raw_capacity_bytes), ""))
    if sizing.detectors:
        parts = f"{servers.servers} (cores: {servers.for_cores or 'none'}, network: {servers.for_network})"
        if servers.for_cores is None:
            parts = (
                f"at least {servers.servers} (network: {servers.for_network}; cores: unknown, give"
                " --codec-speed or --measure)"
            )
        rows += [
            ("cores for compression, with headroom", cores, ""),
            ("recorder servers, with headroom", parts, ""),
        ]
    return [row for row in rows if not row[1].startswith("0 B")]


def cores_text(sizing: Sizing) -> str:
    """Returns the number of cores that compress, "unknown", or who compresses instead."""
    if sizing.cores is None:
        return "unknown"
    by_detectors = any(each.compresses == "detector" for each in sizing.detectors)
    if not sizing.cores:
        return "none: the detectors compress" if by_detectors else "none: nothing is compressed"
    return str(sizing.cores)


def _block_sections(block: BlockFigures, before: str = "") -> Iterator[Section]:
    header = ("stage", "", "writes", "reads", "blocks needed", "numbers are")
    rows = [
        (
            stage.name,
            f"x {stage.count}",
            human_rate(stage.write_bytes_per_s),
            human_rate(stage.read_bytes_per_s),
            _fraction(stage.blocks),
            stage.basis or "not stated",
        )
        for stage in block.stages
    ]
    share = f"{100 * block.efficiency:.0f} % of {human_rate(block.drives_bytes_per_s)}, the sum of its drives"
    bottleneck = f"; the bottleneck is {block.write_bottleneck}"
    is_bound = block.measured is not None and block.measured.at_least
    least, most = ("at least ", "at most ") if is_bound else ("", "")
    if block.measured is not None:
        share += f"; measured: {block.measured.source}, {_outcome(block.measured)}"
        bottleneck = f"; {block.write_bottleneck} would be the bottleneck as computed"
    blocks = counted(block.blocks, "block")
    lines = [
        f"a block writes {least}{human_rate(block.write_bytes_per_s)} ({share}){bottleneck}",
        f"it reads {least}{human_rate(block.read_bytes_per_s)}{_read_doubt(block)}",
        _holds_text(block),
        f"for the throughput {most}{_fraction(block.for_throughput)} blocks,"
        f" for the capacity {_fraction(block.for_capacity)}{f' {block.medium}s' if block.medium else ''}",
        f"{at_most(block)}{blocks}{media_text(block, block.media)}: {_decision(block)}",
    ]
    if block.price is not None:
        lines.append(f"price of the blocks: {at_most(block)}{block.price:,.0f} {block.currency}".rstrip())
    lines += [f"{stage.name}: {stage.meaning}" for stage in block.stages if stage.meaning]
    if block.source:
        lines.append(f"source: {block.source}{f', {block.url}' if block.url else ''}")
    yield Section(f"{before or 'Block: '}{block.name}", header, rows, lines)


def _holds_text(block: BlockFigures) -> str:
    holds = f"{human_bytes(block.capacity_bytes)} for data"
    if block.medium:
        return f"a {block.medium} holds {holds} (redundancy {block.redundancy})"
    return f"it holds {holds} ({_drives(block)}, redundancy {block.redundancy})"


def _outcome(measured: MeasuredBandwidth) -> str:
    """Returns the answer of a verdict, or the validity of runs."""
    return measured.validity if measured.answer is None else f"answer: {measured.answer}"


def _fraction(blocks: float) -> str:
    """Returns blocks rounded up to hundredths, so that what is needed never seems to be nothing."""
    return human_number(math.ceil(blocks * 100 * (1 - 1e-9)) / 100, 9)


def _drives(block: BlockFigures) -> str:
    """Returns "24 drives of 15.4 TB = 369 TB, of which 2 spares"."""
    spares = f", of which {counted(block.spares, 'spare')}" if block.spares else ""
    return (
        f"{counted(block.drives, 'drive')} of {human_number(block.drive_bytes / 1e12, 4)} TB"
        f" = {human_bytes(block.raw_capacity_bytes)}{spares}"
    )


def _read_doubt(block: BlockFigures) -> str:
    if block.measured is None or block.measured.read_bytes_per_s is not None:
        return ""
    return ", assumed equal to writing: reading was not measured"


def _decision(block: BlockFigures) -> str:
    return {
        "throughput": f"the throughput decides, through {block.throughput_bottleneck}",
        "capacity": "the capacity decides",
        "redundancy": f"redundancy {block.redundancy} requires that many",
        "both": "throughput and capacity require the same number",
        "nothing": "no requirements",
    }[block.decides]


def _assumption_rows(sizing: Sizing) -> Iterator[tuple[str, str]]:
    """Of recorders only where there are frames to record."""
    assumed = sizing.assumptions
    duties = {each.duty for each in sizing.detectors} or {assumed.duty}
    if len(duties) == 1:
        (duty,) = duties
        yield "duty cycle", f"{human_percent(duty)} of the time (--duty, --hours-per-day, --days-per-week)"
    else:
        for label, each in _labelled(sizing):
            yield f"duty cycle, {label}", f"{human_percent(each.duty)} of the time"
    yield "headroom", f"{human_percent(assumed.headroom)} beyond the peak (--headroom)"
    yield from _once_or_each("retention", _retentions(sizing))
    yield "growth", f"{human_percent(assumed.growth)} per year (--growth)"
    yield "maximum fill level", f"{human_percent(assumed.fill)} (--fill)"
    if assumed.write_bytes_per_s:
        yield "additional writing", f"{human_rate(assumed.write_bytes_per_s)} (--write)"
    if assumed.capacity_bytes:
        yield "other data", f"{human_bytes(assumed.capacity_bytes)} (--capacity)"
    reading = f"{assumed.read_factor:g} times the write bandwidth" if assumed.read_factor else "none"
    yield "concurrent reading", f"{reading} (--read-factor)"
    yield from _compression_rows(sizing)
    yield from _once_or_each("compresses", [(label, _place_text(each)) for label, each in _labelled(sizing)])
    yield "links achieve", f"{human_percent(assumed.link_efficiency)} of their speed (--link-efficiency)"
    if sizing.detectors:
        server = f"{counted(assumed.server_cores, 'core')}, {human_rate(assumed.server_bandwidth)} of network"
        yield "recorder server", f"{server} (--server-cores, --server-bandwidth)"
    if assumed.redundancy is not None:
        yield "redundancy", f"{assumed.redundancy} (--redundancy)"
    if sizing.made:
        yield "made", f"{sizing.made[:16].replace('T', ' ')} UTC with Penstock {sizing.version}"
        yield "command", sizing.command


def _labelled(sizing: Sizing) -> list[tuple[str, DetectorNeed]]:
    """Returns each detector with a label of its own: its name, with the beamline where several have it."""
    names = Counter(each.detector for each in sizing.detectors)
    labels = [
        each.detector if names[each.detector] == 1 else f"{each.beamline} {each.detector}".strip()
        for each in sizing.detectors
    ]
    times, seen = Counter(labels), Counter[str]()
    seen_so_far = []
    for label in labels:
        seen[label] += 1
        seen_so_far.append(f"{label} ({seen[label]})" if times[label] > 1 else label)
    return list(zip(seen_so_far, sizing.detectors, strict=True))


def _retentions(sizing: Sizing) -> list[tuple[str, str]]:
    """Returns the retention of each detector; that of the plan if there is none."""
    option = "(--retention)"
    own = [
        (f"{each.beamline} {each.detector}".strip(), f"{human_age(each.retention_days)} {option}")
        for each in sizing.detectors
    ]
    return list(dict(own).items()) or [("", f"{human_age(sizing.assumptions.retention_days)} {option}")]


def _compression_rows(sizing: Sizing) -> Iterator[tuple[str, str]]:
    """Yields ratio and codec speed once if they are the same for all detectors."""
    ratios = [(label, _ratio_text(each.compression)) for label, each in _labelled(sizing)]
    yield from _once_or_each("compression ratio", ratios)
    compressed = [
        (label, each)
        for label, each in _labelled(sizing)
        if each.compression.encoding != "none" and each.compresses == "recorder"
    ]
    yield from _once_or_each(
        "codec speed", [(label, _speed_text(each.compression)) for label, each in compressed]
    )


def _once_or_each(name: str, texts: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if len({text for _, text in texts}) == 1:
        yield name, texts[0][1]
        return
    for detector, text in texts:
        yield f"{name}, {detector}", text


def _ratio_text(compression: Compression) -> str:
    options = "--ratio, --compression, --measure, --images"
    return f"{compression.ratio:.4g}, {compression.ratio_from} ({options})"


def _place_text(need: DetectorNeed) -> str:
    sent = f", which sends {need.compression.encoding}" if need.compresses == "detector" else ""
    return f"the {need.compresses}{sent} (--compressed-by)"


def _speed_text(compression: Compression) -> str:
    if compression.speed_bytes_per_s is None:
        return "unknown (--codec-speed, --measure)"
    return f"{human_rate(compression.speed_bytes_per_s)} per core, {compression.speed_from} (--codec-speed)"
