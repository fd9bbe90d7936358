"""What detectors need before anything is bought: bandwidth, cores, links, servers, capacity, blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.model.catalogue import LEVELS, Detector, Level, Ratios
from penstock.model.plan.ages import AGE_DAYS_MAX, human_age
from penstock.model.plan.blocks import (
    Block,
    BlockFigures,
    MeasuredBandwidth,
    Need,
    Redundancy,
    figures_of,
    whole,
)
from penstock.model.plan.outlook import Volumes, YearNeed, tier_needs, volumes, years
from penstock.model.plan.tiers import Tier, TierNeed
from penstock.model.plan.volume import Source, kept_bytes
from penstock.model.plans import Encoding
from penstock.model.text import counted
from penstock.model.units import BANDWIDTH_MAX, Bandwidth, human_bytes, human_hz

_SAME_SIZE = 0.1  # so far apart, frames count as of one size


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class CodecMeasurement(_Part):
    """What a thread of the recorder made of frames."""

    encoding: Encoding
    images: str = Field(description="frames used: simulated or recorded ones")
    ratio: float = Field(description="compression ratio")
    bytes_per_s: float = Field(description="uncompressed bytes per second that one thread compresses")
    frames: int
    raw_bytes: int
    processor: str
    simulated: bool
    others_share: float = Field(description="share of the processors that other programs used")


class Compression(_Part):
    """How frames become smaller. A speed of None is not known."""

    encoding: Encoding = "none"
    ratio: float = Field(1.0, gt=0, le=1e6, allow_inf_nan=False)
    ratio_from: str = "nothing compresses"
    speed_bytes_per_s: float | None = Field(None, description="uncompressed bytes per second of one core")
    speed_from: str = ""
    speed_doubt: str = Field("", description="reason for which the measured speed may be too low")
    simulated: bool = Field(False, description="the ratio is that of simulated frames")
    catalogue: Ratios | None = Field(None, description="ratios of the catalogue, if `ratio` is one of them")
    is_ratio_unknown: bool = Field(False, description="nothing states the ratio: it is assumed to be 1")


Place = Literal["recorder", "detector"]


class Wanted(_Part):
    """Detectors of one kind, with how their frames compress."""

    detector: Detector
    count: int = Field(ge=1)
    rate_hz: float = Field(gt=0)
    beamline: str = ""
    duty: float | None = Field(None, gt=0, le=1, description="null: that of the assumptions")
    days_per_week: float | None = Field(None, gt=0, le=7, description="null: that of the assumptions")
    retention_days: float | None = Field(None, ge=0, description="null: that of the assumptions")
    compression: Compression = Compression()


class Assumptions(_Part):
    """What the figures rest on besides the detectors."""

    duty: float = Field(
        1.0, gt=0, le=1, allow_inf_nan=False, description="duty cycle: share of the time with frames"
    )
    days_per_week: float = Field(
        7.0, gt=0, le=7, allow_inf_nan=False, description="days with frames per week"
    )
    headroom: float = Field(
        0.2,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="headroom of bandwidth, cores and links above the peak, as a share",
    )
    fill: float = Field(
        0.9, gt=0, le=1, allow_inf_nan=False, description="maximum fill level, as a share of the capacity"
    )
    retention_days: float = Field(
        30.0, ge=0, le=AGE_DAYS_MAX, allow_inf_nan=False, description="retention in days"
    )
    growth: float = Field(
        0.0, ge=0, le=10, allow_inf_nan=False, description="growth of all rates from year to year, as a share"
    )
    years: int = Field(5, ge=1, le=30, description="years of operation to plan for")
    tiers: list[Tier] = Field([], description="tiers of storage, from young to old data")
    write_bytes_per_s: float = Field(
        0.0,
        ge=0,
        le=BANDWIDTH_MAX,
        allow_inf_nan=False,
        description="additional write bandwidth in bytes per second",
    )
    read_factor: float = Field(
        0.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="concurrent read bandwidth as a multiple of the write bandwidth",
    )
    capacity_bytes: int = Field(0, ge=0, lt=2**63, description="additional capacity in bytes")
    compresses: Place | None = Field(
        None, description="where frames are compressed; null: as the catalogue states, else in the recorder"
    )
    link_speeds: list[Bandwidth] = Field([1.25e9, 3.125e9, 12.5e9], min_length=1, max_length=16)
    link_efficiency: float = Field(0.9, gt=0, le=1, allow_inf_nan=False)
    server_cores: int = Field(32, ge=1, le=10**6, description="cores of a recorder's server for compression")
    server_bandwidth: Bandwidth = Field(
        12.5e9, description="network bandwidth of a recorder's server in each direction"
    )
    redundancy: Redundancy | None = Field(None, description="redundancy; null: from the blocks")

    @model_validator(mode="after")
    def _distinct_speeds(self) -> Self:
        if len(set(self.link_speeds)) < len(self.link_speeds):
            raise ValueError("link_speeds has a speed twice")
        return self


class DetectorNeed(_Part):
    """Of all detectors of one kind together, at their peak."""

    detector: str
    beamline: str = ""
    count: int
    rate_hz: float
    frame_bytes: int
    raw_bytes_per_s: float
    stored_bytes_per_s: float
    duty: float = Field(1.0, description="duty cycle: share of the time with frames")
    days_per_week: float = Field(7.0, description="days with frames per week")
    retention_days: float = Field(30.0, description="how long its data is kept")
    compression: Compression
    compresses: Place = "recorder"
    cores: float | None = Field(description="cores that compress, without headroom; null: unknown")

    @property
    def sent_bytes_per_s(self) -> float:
        """What it sends over the network."""
        return self.stored_bytes_per_s if self.compresses == "detector" else self.raw_bytes_per_s


class LinkNeed(_Part):
    """Ports of one speed, with headroom."""

    bytes_per_s: float = Field(description="speed of a port")
    in_ports: int = Field(description="from the detectors to the recorders")
    out_ports: int = Field(description="from the recorders to the storage")


class ServerNeed(_Part):
    """Recorders' servers."""

    servers: int
    for_cores: int | None = Field(description="null: the compression speed is unknown")
    for_network: int


class BeamlineNeed(_Part):
    """All detectors of one beamline together."""

    name: str
    raw_bytes_per_s: float = Field(description="at the peak")
    stored_bytes_per_s: float = Field(description="at the peak")
    average_stored_bytes_per_s: float
    volumes: Volumes = Field(description="of stored data")
    capacity_bytes: float = Field(description="with the fill level")
    cores: int | None = Field(None, description="cores that compress, with headroom; null: unknown")
    links: list[LinkNeed] = Field([], description="with headroom; beamlines share no port")
    servers: ServerNeed | None = Field(
        None, description="beamlines share no server; null: of an older version"
    )


class Scenario(_Part):
    """The plan with the low, typical or high ratios of the catalogue. Stated and measured ratios stay."""

    level: Level
    stored_bytes_per_s: float = Field(description="at the peak")
    volumes: Volumes = Field(description="of stored data")
    capacity_bytes: float


class Sizing(_Part):
    """What `penstock plan` finds. Bandwidths are bytes a second, and of data where nothing else is said."""

    format: Literal["penstock-sizing 1"] = "penstock-sizing 1"
    facility: str = Field("", description="name in the file of beamlines; empty: none")
    made: str = Field("", description="ISO 8601, UTC")
    version: str = Field("", description="of Penstock")
    command: str = Field("", description="that makes the plan again")
    detectors: list[DetectorNeed]
    assumptions: Assumptions
    raw_bytes_per_s: float = Field(description="at the peak")
    stored_bytes_per_s: float = Field(description="at the peak")
    average_raw_bytes_per_s: float
    average_stored_bytes_per_s: float
    cores: int | None = Field(description="cores that compress, with headroom; null: unknown")
    links: list[LinkNeed]
    servers: ServerNeed
    need: Need = Field(
        description="requirements of the storage: bandwidth with headroom, capacity with retention and fill"
        " level"
    )
    raw_capacity_bytes: float = Field(description="blocks, with the redundancy of the assumptions if given")
    blocks: list[BlockFigures]
    raw_volumes: Volumes = Field(description="from the detectors, before compression")
    volumes: Volumes = Field(description="stored")
    tiers: list[TierNeed]
    years: list[YearNeed]
    beamlines: list[BeamlineNeed]
    scenarios: list[Scenario] = Field(description="empty if no ratio is from the catalogue")
    notes: list[str] = Field(description="warnings about the plan")


def size(
    wanted: Sequence[Wanted],
    assumptions: Assumptions,
    blocks: Sequence[Block] = (),
    measured: MeasuredBandwidth | None = None,
    tier_blocks: Mapping[str, Block] | None = None,
) -> Sizing:
    """`measured`: of the one block in `blocks`, or of the only one that tiers name if `blocks` is empty.

    `tier_blocks`: the building blocks that tiers name.
    """
    detectors = [_detector_need(each, assumptions) for each in wanted]
    raw = sum(each.raw_bytes_per_s for each in detectors)
    frames = sum(each.stored_bytes_per_s for each in detectors)
    stored, with_headroom = frames + assumptions.write_bytes_per_s, 1 + assumptions.headroom
    sources = _sources(detectors, assumptions)
    need = Need(
        write_bytes_per_s=stored * with_headroom,
        read_bytes_per_s=stored * assumptions.read_factor * with_headroom,
        capacity_bytes=_capacity(sources, assumptions),
    )

    def figures(block: Block, need: Need) -> BlockFigures:
        return figures_of(block, need, assumptions.redundancy, measured if block in of_measured else None)

    of_tiers = tier_blocks or {}
    of_measured = blocks or list(of_tiers.values())
    tiers = _tiers(assumptions, sources, need, lambda name, need: figures(of_tiers[name], need))
    beamlines = _beamlines(detectors, assumptions)
    together = _network(detectors, assumptions, need.write_bytes_per_s)
    redundancy = assumptions.redundancy
    found_blocks = [figures(block, need) for block in blocks]
    all_blocks = [*found_blocks, *(tier.block for tier in tiers if tier.block is not None)]
    return Sizing(
        detectors=detectors,
        assumptions=assumptions,
        raw_bytes_per_s=raw,
        stored_bytes_per_s=stored,
        average_raw_bytes_per_s=sum(each.raw_bytes_per_s * each.duty for each in detectors),
        average_stored_bytes_per_s=sum(each.bytes_per_s for each in sources),
        cores=together.cores,
        links=_links_of_all(together.links, beamlines),
        servers=_servers_of_all(together.servers, beamlines),
        need=need,
        raw_capacity_bytes=(redundancy.factor if redundancy else 1.0)
        * (sum(each.need.capacity_bytes for each in tiers) if tiers else need.capacity_bytes),
        blocks=found_blocks,
        raw_volumes=volumes([(each.raw_bytes_per_s * each.duty, each.days_per_week) for each in detectors]),
        volumes=_volumes(detectors, assumptions),
        tiers=tiers,
        years=years(
            sources,
            assumptions.years,
            assumptions.growth,
            assumptions.fill,
            assumptions.capacity_bytes,
            assumptions.tiers,
            tiers,
        ),
        beamlines=beamlines,
        scenarios=_scenarios(detectors, assumptions),
        notes=[
            *_unfound_limits(all_blocks),
            *_failure_domains(all_blocks),
            *_too_fast(wanted),
            *_notes(detectors, assumptions, blocks),
            *_empty_tiers(assumptions, sources),
            *_other_frames(detectors, measured),
        ],
    )


def _sources(detectors: Sequence[DetectorNeed], assumptions: Assumptions) -> list[Source]:
    """What writes to the storage: detectors, and the additional bandwidth."""
    found = [
        Source(each.stored_bytes_per_s * each.duty, each.retention_days, each.duty, each.days_per_week)
        for each in detectors
    ]
    if assumptions.write_bytes_per_s:
        other = assumptions.write_bytes_per_s * assumptions.duty
        found.append(Source(other, assumptions.retention_days, assumptions.duty, assumptions.days_per_week))
    return found


def _capacity(sources: Sequence[Source], assumptions: Assumptions) -> float:
    return (kept_bytes(sources) + assumptions.capacity_bytes) / assumptions.fill


def _volumes(detectors: Sequence[DetectorNeed], assumptions: Assumptions) -> Volumes:
    rates = [(each.stored_bytes_per_s * each.duty, each.days_per_week) for each in detectors]
    other = assumptions.write_bytes_per_s * assumptions.duty
    return volumes([*rates, (other, assumptions.days_per_week)])


def _tiers(
    assumptions: Assumptions,
    sources: Sequence[Source],
    need: Need,
    figures: Callable[[str, Need], BlockFigures],
) -> list[TierNeed]:
    return tier_needs(
        assumptions.tiers,
        sources,
        need,
        assumptions.headroom,
        assumptions.fill,
        assumptions.capacity_bytes,
        figures,
    )


def _beamlines(detectors: Sequence[DetectorNeed], assumptions: Assumptions) -> list[BeamlineNeed]:
    """In the order of the file; nothing for detectors without a beamline."""
    found = []
    for name in dict.fromkeys(each.beamline for each in detectors if each.beamline):
        own = [each for each in detectors if each.beamline == name]
        sources = _sources(own, assumptions.model_copy(update={"write_bytes_per_s": 0.0}))
        stored = sum(each.stored_bytes_per_s for each in own)
        network = _network(own, assumptions, stored * (1 + assumptions.headroom))
        found.append(
            BeamlineNeed(
                name=name,
                raw_bytes_per_s=sum(each.raw_bytes_per_s for each in own),
                stored_bytes_per_s=stored,
                average_stored_bytes_per_s=sum(each.bytes_per_s for each in sources),
                volumes=volumes([(each.stored_bytes_per_s * each.duty, each.days_per_week) for each in own]),
                capacity_bytes=kept_bytes(sources) / assumptions.fill,
                cores=network.cores,
                links=network.links,
                servers=network.servers,
            )
        )
    return found


@dataclass(frozen=True)
class _Network:
    """What detectors need between them and the storage, if they share it."""

    cores: int | None
    links: list[LinkNeed]
    servers: ServerNeed


def _network(detectors: Sequence[DetectorNeed], assumptions: Assumptions, leaving: float) -> _Network:
    """`leaving`: bytes per second to the storage, with headroom."""
    with_headroom = 1 + assumptions.headroom
    cores = _cores(detectors)
    arriving = sum(each.sent_bytes_per_s for each in detectors) * with_headroom
    frames = sum(each.stored_bytes_per_s for each in detectors) * with_headroom
    needed = None if cores is None else cores * with_headroom
    return _Network(
        cores=None if needed is None else whole(needed),
        links=[_links(speed, assumptions, arriving, leaving) for speed in assumptions.link_speeds],
        servers=_servers(assumptions, needed, max(arriving, frames)),
    )


def _links_of_all(shared: Sequence[LinkNeed], beamlines: Sequence[BeamlineNeed]) -> list[LinkNeed]:
    """Beamlines share no port; what is written besides frames may need more than theirs."""
    return [
        LinkNeed(
            bytes_per_s=all_.bytes_per_s,
            in_ports=max(all_.in_ports, sum(each.links[n].in_ports for each in beamlines)),
            out_ports=max(all_.out_ports, sum(each.links[n].out_ports for each in beamlines)),
        )
        for n, all_ in enumerate(shared)
    ]


def _servers_of_all(shared: ServerNeed, beamlines: Sequence[BeamlineNeed]) -> ServerNeed:
    own = [each.servers for each in beamlines if each.servers is not None]
    for_cores = [each.for_cores for each in own if each.for_cores is not None]
    return ServerNeed(
        servers=max(shared.servers, sum(each.servers for each in own)),
        for_cores=None if shared.for_cores is None else max(shared.for_cores, sum(for_cores)),
        for_network=max(shared.for_network, sum(each.for_network for each in own)),
    )


def _scenarios(detectors: Sequence[DetectorNeed], assumptions: Assumptions) -> list[Scenario]:
    if not any(each.compression.catalogue for each in detectors):
        return []
    found = []
    for level in LEVELS:
        own = [_with_level(each, level) for each in detectors]
        stored = sum(each.stored_bytes_per_s for each in own) + assumptions.write_bytes_per_s
        found.append(
            Scenario(
                level=level,
                stored_bytes_per_s=stored,
                volumes=_volumes(own, assumptions),
                capacity_bytes=_capacity(_sources(own, assumptions), assumptions),
            )
        )
    return found


def _with_level(need: DetectorNeed, level: Level) -> DetectorNeed:
    ratios = need.compression.catalogue
    if ratios is None:
        return need
    return need.model_copy(update={"stored_bytes_per_s": need.raw_bytes_per_s / ratios.at(level)})


def _detector_need(wanted: Wanted, assumptions: Assumptions) -> DetectorNeed:
    compression = wanted.compression
    compresses = _place(wanted, assumptions)
    raw = wanted.count * wanted.detector.frame_bytes * wanted.rate_hz
    cores: float | None = 0.0
    if compression.encoding != "none" and compresses == "recorder":
        speed = compression.speed_bytes_per_s
        cores = None if speed is None else raw / speed
    return DetectorNeed(
        detector=wanted.detector.name,
        beamline=wanted.beamline,
        count=wanted.count,
        rate_hz=wanted.rate_hz,
        frame_bytes=wanted.detector.frame_bytes,
        raw_bytes_per_s=raw,
        stored_bytes_per_s=raw / compression.ratio,
        duty=_or(wanted.duty, assumptions.duty),
        days_per_week=_or(wanted.days_per_week, assumptions.days_per_week),
        retention_days=_or(wanted.retention_days, assumptions.retention_days),
        compression=compression,
        compresses=compresses,
        cores=cores,
    )


def _place(wanted: Wanted, assumptions: Assumptions) -> Place:
    """A detector that sends another codec than the one of the plan counts as one that sends raw frames."""
    if assumptions.compresses is not None:
        return assumptions.compresses
    sent = wanted.detector.sends
    return "detector" if sent != "none" and sent == wanted.compression.encoding else "recorder"


def _or(own: float | None, common: float) -> float:
    return common if own is None else own


def _cores(detectors: Sequence[DetectorNeed]) -> float | None:
    known = [each.cores for each in detectors if each.cores is not None]
    return sum(known) if len(known) == len(detectors) else None


def _links(speed: float, assumptions: Assumptions, arriving: float, leaving: float) -> LinkNeed:
    useful = speed * assumptions.link_efficiency
    return LinkNeed(bytes_per_s=speed, in_ports=whole(arriving / useful), out_ports=whole(leaving / useful))


def _servers(assumptions: Assumptions, cores: float | None, network: float) -> ServerNeed:
    for_cores = None if cores is None else whole(cores / assumptions.server_cores)
    for_network = whole(network / (assumptions.server_bandwidth * assumptions.link_efficiency))
    return ServerNeed(servers=max(for_cores or 0, for_network), for_cores=for_cores, for_network=for_network)


def _notes(detectors: Sequence[DetectorNeed], assumptions: Assumptions, blocks: Sequence[Block]) -> list[str]:
    notes = []
    if any(each.cores is None for each in detectors):
        notes.append("the compression speed is unknown: measure it with --measure, or give --codec-speed")
    notes += dict.fromkeys(each.compression.speed_doubt for each in detectors if each.compression.speed_doubt)
    if unknown := _named(each for each in detectors if each.compression.is_ratio_unknown):
        notes.append(
            f"the compression ratio of {unknown} is unknown, and assumed to be 1: give --ratio, or measure it"
            " with --measure or --images"
        )
    if simulated := _named(each for each in detectors if each.compression.simulated):
        notes.append(f"the ratio of {simulated} is that of simulated frames: measure real ones with --images")
    if detectors and all(each.compression.encoding == "none" for each in detectors):
        notes.append("nothing is compressed (--encoding none)")
    if assumptions.redundancy is None and not blocks and assumptions.retention_days:
        notes += _without_parity(assumptions.tiers)
    return notes


def _without_parity(tiers: Sequence[Tier]) -> list[str]:
    """Returns a warning unless each tier has a block, which has its redundancy."""
    without = [tier.name for tier in tiers if tier.block is None]
    if tiers and not without:
        return []
    where = f" of {counted(len(without), 'tier')} ({', '.join(without)})" if len(without) < len(tiers) else ""
    return [f"the capacity{where} is for data only: --redundancy adds parity or copies"]


def _too_fast(wanted: Sequence[Wanted]) -> list[str]:
    """Returns a warning for each detector whose rate exceeds that of the catalogue, or of its file."""
    return [
        f"{human_hz(each.rate_hz, 6)} exceeds the maximum of the {each.detector.name},"
        f" {human_hz(each.detector.rate_hz, 6)}: check that it has a mode with this rate"
        for each in wanted
        if 0 < each.detector.rate_hz < each.rate_hz
    ]


def _named(detectors: Iterable[DetectorNeed]) -> str:
    return ", ".join(dict.fromkeys(each.detector for each in detectors))


def _empty_tiers(assumptions: Assumptions, sources: Sequence[Source]) -> list[str]:
    """Returns warnings about tiers that no data reaches, because it expires before."""
    longest = max((each.retention_days for each in sources), default=0.0)
    return [
        f"the tier {tier.name} stays empty: data expires after {human_age(longest)} (--retention), before it"
        f" reaches the age of {human_age(before.until_days)}"
        for before, tier in pairwise(assumptions.tiers)
        if before.until_days is not None and before.until_days >= longest
    ]


def _unfound_limits(blocks: Sequence[BlockFigures]) -> list[str]:
    """Returns warnings about measurements that did not find the limit of a block, or have no clear answer."""
    notes = []
    for block in blocks:
        measured = block.measured
        if measured is None:
            continue
        if block.is_upper_bound:
            answer = "" if measured.answer is None else f" (answer: {measured.answer})"
            notes.append(
                f"{measured.source} did not find the storage's limit{answer}; {block.blocks} x {block.name}"
                " is an upper bound, not a recommendation: measure with a larger --search-max and without"
                " --quick"
            )
        elif measured.answer == "cannot tell":
            notes.append(
                f"{measured.source} has no clear answer (cannot tell); its bandwidth is uncertain, and so is"
                " the number of blocks"
            )
    return list(dict.fromkeys(notes))


def _failure_domains(blocks: Sequence[BlockFigures]) -> list[str]:
    """Returns warnings about blocks that are too few to rebuild after one fails."""
    notes = []
    for block in blocks:
        parts = block.parts_on_blocks
        if 0 < block.blocks <= parts:
            notes.append(
                f"{counted(block.blocks, 'block')} of {block.name}: redundancy {block.redundancy} with the"
                f" block (host) as failure domain requires {parts}; to rebuild after one fails it requires"
                f" {parts + 1}"
            )
    return list(dict.fromkeys(notes))


def _other_frames(detectors: Sequence[DetectorNeed], measured: MeasuredBandwidth | None) -> list[str]:
    """A storage carries more of large frames than of small ones: whose were measured has to be said."""
    if measured is None or not measured.frame_bytes:
        return []
    notes = []
    for each in detectors:
        stored = each.frame_bytes / each.compression.ratio
        if not any(abs(size - stored) <= _SAME_SIZE * stored for size in measured.frame_bytes):
            sizes = " and ".join(human_bytes(size) for size in measured.frame_bytes)
            notes.append(
                f"measured with frames of {sizes}; one of {each.detector} takes {human_bytes(stored)} when"
                " stored: storage sustains another rate of those, so measure with that size"
            )
    return notes
