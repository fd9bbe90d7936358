"""What detectors need before anything is bought: bandwidth, cores, links, servers, capacity, blocks."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from penstock.model.catalogue import Detector
from penstock.model.errors import UsageError
from penstock.model.plan.blocks import (
    Block,
    BlockFigures,
    MeasuredBandwidth,
    Need,
    Redundancy,
    figures_of,
    whole,
)
from penstock.model.plans import Encoding
from penstock.model.problems import words_of
from penstock.model.units import BANDWIDTH_MAX, Bandwidth, human_bytes, parse_share

DAY_S = 86400.0
_ORDER = re.compile(r"(?:(?P<count>[0-9]{1,6})x)?(?P<name>[^@]+)(?:@(?P<rate>[^@]+))?")
_COUNT_MAX = 10**5
_SAME_SIZE = 0.1  # so far apart, frames count as of one size
_RATE_MAX = 1e7


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


def _share(value: object) -> object:
    return parse_share(value) if isinstance(value, str) else value


class Order(_Part):
    """A number of detectors of one name: "2xeiger2-16m@100,ratio=8,duty=0.3"."""

    name: str
    count: int = Field(1, ge=1, le=_COUNT_MAX)
    rate_hz: float | None = Field(None, gt=0, le=_RATE_MAX, allow_inf_nan=False)
    ratio: float | None = Field(None, ge=1, le=1e6, allow_inf_nan=False)
    duty: Annotated[float | None, BeforeValidator(_share)] = Field(None, gt=0, le=1, allow_inf_nan=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        detector, *settings = (part.strip() for part in text.split(","))
        match = _ORDER.fullmatch(detector)
        form = "write NAME, COUNTxNAME or COUNTxNAME@HZ, such as 2xeiger2-16m@100,ratio=8,duty=0.3"
        if (miswritten := _MISWRITTEN.fullmatch(detector)) is not None:
            count, name, rate = _count_and_name(miswritten)
            raise UsageError(
                f'"{text}" does not name a detector', f"write {count}x{name}{rate} for {count} detectors"
            )
        if match is None:
            raise UsageError(f'"{text}" does not name a detector', form)
        own = dict(setting.partition("=")[::2] for setting in settings)
        if unknown := own.keys() - {"ratio", "duty"}:
            raise UsageError(
                f'"{text}": unknown setting "{min(unknown)}"', f"ratio and duty are known; {form}"
            )
        try:
            return cls.model_validate(
                {
                    "name": match["name"],
                    "count": match["count"] or 1,
                    "rate_hz": match["rate"],
                    **own,
                }
            )
        except ValidationError as error:
            raise _wrong_part(text, own, error) from error


_MISWRITTEN = re.compile(
    r"(?P<before>[0-9]{1,6})\s*[*×X]\s*(?P<name>[^@]+?)(?P<rate>@[^@]+)?"
    r"|(?P<name_first>[^@]+?)\s*[*×xX]\s*(?P<after>[0-9]{1,6})(?P<rate_first>@[^@]+)?"
)
_HZ = re.compile(r"(?P<number>[0-9.]+)\s*[kK]?[hH][zZ]")


def _count_and_name(miswritten: re.Match[str]) -> tuple[str, str, str]:
    found = miswritten.groupdict(default="")
    return (
        found["before"] or found["after"],
        found["name"] or found["name_first"],
        found["rate"] or found["rate_first"],
    )


def _wrong_part(text: str, settings: dict[str, str], error: ValidationError) -> UsageError:
    """Returns the error about one part of a detector's argument."""
    first = error.errors()[0]
    part = str(first["loc"][0])
    given = settings.get(part, str(first["input"]))
    if part == "rate_hz" and (unit := _HZ.fullmatch(given)) is not None:
        hint = f"such as {text.replace(given, unit['number'])}"
        if "k" in given.lower():
            hint = "such as 1000 for 1 kHz"
        return UsageError(
            f'rate "{given}" in {text} has a unit', f"write the number in Hz without a unit, {hint}"
        )
    name, remedy = {
        "count": ("count", f"give a count from 1 to {_COUNT_MAX}"),
        "rate_hz": ("rate", f"give a rate in Hz, greater than 0 and at most {_RATE_MAX:.0f}"),
        "ratio": ("ratio", "give a ratio from 1 to 1000000"),
        "duty": ("duty", "give a duty cycle greater than 0 and at most 1"),
    }[part]
    return UsageError(f'{name} "{given}" in {text}: {words_of(first)}', remedy)


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
    simulated: bool = Field(False, description="measured with simulated frames")


class Wanted(_Part):
    """Detectors of one kind, with how their frames compress."""

    detector: Detector
    count: int = Field(ge=1)
    rate_hz: float = Field(gt=0)
    duty: float | None = Field(None, gt=0, le=1, description="null: that of the assumptions")
    compression: Compression = Compression()


class Assumptions(_Part):
    """What the figures rest on besides the detectors."""

    duty: float = Field(
        1.0, gt=0, le=1, allow_inf_nan=False, description="duty cycle: share of the time with frames"
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
    retention_days: float = Field(30.0, ge=0, le=36525, allow_inf_nan=False, description="retention in days")
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
    compresses: Literal["recorder", "detector"] = "recorder"
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
    count: int
    rate_hz: float
    frame_bytes: int
    raw_bytes_per_s: float
    stored_bytes_per_s: float
    duty: float = Field(1.0, description="duty cycle: share of the time with frames")
    compression: Compression
    cores: float | None = Field(description="cores that compress, without headroom; null: unknown")


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


class Sizing(_Part):
    """What `penstock plan` finds. Bandwidths are bytes a second, and of data where nothing else is said."""

    format: Literal["penstock-sizing 1"] = "penstock-sizing 1"
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
    notes: list[str] = Field(description="warnings about the plan")


def size(
    wanted: Sequence[Wanted],
    assumptions: Assumptions,
    blocks: Sequence[Block] = (),
    measured: MeasuredBandwidth | None = None,
) -> Sizing:
    detectors = [_detector_need(each, assumptions) for each in wanted]
    raw = sum(each.raw_bytes_per_s for each in detectors)
    frames = sum(each.stored_bytes_per_s for each in detectors)
    stored, with_headroom = frames + assumptions.write_bytes_per_s, 1 + assumptions.headroom
    average = sum(each.stored_bytes_per_s * each.duty for each in detectors)
    average += assumptions.write_bytes_per_s * assumptions.duty
    kept = average * assumptions.retention_days * DAY_S + assumptions.capacity_bytes
    need = Need(
        write_bytes_per_s=stored * with_headroom,
        read_bytes_per_s=stored * assumptions.read_factor * with_headroom,
        capacity_bytes=kept / assumptions.fill,
    )
    cores = _cores(detectors)
    arriving = raw if assumptions.compresses == "recorder" else frames
    network = max(arriving, frames) * with_headroom
    redundancy = assumptions.redundancy
    found_blocks = [figures_of(block, need, redundancy, measured) for block in blocks]
    return Sizing(
        detectors=detectors,
        assumptions=assumptions,
        raw_bytes_per_s=raw,
        stored_bytes_per_s=stored,
        average_raw_bytes_per_s=sum(each.raw_bytes_per_s * each.duty for each in detectors),
        average_stored_bytes_per_s=average,
        cores=None if cores is None else whole(cores * with_headroom),
        links=[
            _links(speed, assumptions, arriving * with_headroom, need.write_bytes_per_s)
            for speed in assumptions.link_speeds
        ],
        servers=_servers(assumptions, None if cores is None else cores * with_headroom, network),
        need=need,
        raw_capacity_bytes=need.capacity_bytes * (redundancy.factor if redundancy else 1.0),
        blocks=found_blocks,
        notes=[
            *_unfound_limits(found_blocks),
            *_notes(detectors, assumptions, blocks),
            *_other_frames(detectors, measured),
        ],
    )


def _detector_need(wanted: Wanted, assumptions: Assumptions) -> DetectorNeed:
    compression = wanted.compression
    raw = wanted.count * wanted.detector.frame_bytes * wanted.rate_hz
    cores: float | None = 0.0
    if compression.encoding != "none" and assumptions.compresses == "recorder":
        speed = compression.speed_bytes_per_s
        cores = None if speed is None else raw / speed
    return DetectorNeed(
        detector=wanted.detector.name,
        count=wanted.count,
        rate_hz=wanted.rate_hz,
        frame_bytes=wanted.detector.frame_bytes,
        raw_bytes_per_s=raw,
        stored_bytes_per_s=raw / compression.ratio,
        duty=assumptions.duty if wanted.duty is None else wanted.duty,
        compression=compression,
        cores=cores,
    )


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
    if any(each.compression.simulated for each in detectors):
        notes.append("the ratio is that of simulated frames: measure real ones with --images")
    if detectors and all(each.compression.encoding == "none" for each in detectors):
        notes.append("no compression is assumed: give --ratio, or measure it with --measure or --images")
    if assumptions.redundancy is None and not blocks and assumptions.retention_days:
        notes.append("the capacity is for data only: --redundancy adds parity or copies")
    return notes


def _unfound_limits(blocks: Sequence[BlockFigures]) -> list[str]:
    """Returns warnings about verdicts that did not answer the question."""
    notes = []
    for block in blocks:
        measured = block.measured
        if measured is None or measured.answer != "cannot tell":
            continue
        notes.append(
            f"{measured.source} did not find the storage's limit (answer: cannot tell); {block.blocks} is an"
            " upper bound, not a recommendation"
            if measured.at_least
            else f"{measured.source} has no clear answer (cannot tell); its bandwidth is uncertain, and so is"
            " the number of blocks"
        )
    return notes


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
