"""Building blocks of a storage: what one carries and holds, and how many a need takes.

A block is drives and the stages that every byte passes on its way to them: controllers, servers, network.
Stages stand in a row, so the slowest one is the block's bandwidth.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from penstock.model.errors import UsageError
from penstock.model.plans import Plan
from penstock.model.units import WrittenBandwidth, WrittenSize
from penstock.model.yaml_file import read_yaml

PAGE = "blocks/README.md"
DRIVES = "drives"
MEASURED = "the measured block"
_REDUNDANCY = re.compile(r"([1-9][0-9]{0,2})\+([0-9]{1,3})")
# A sum of parts that is the need to within the last digits is enough.
_ROUNDING = 1e-9
_COUNT_MAX = 10**6


class Redundancy(BaseModel):
    """Parity or copies per data: 8+2 is RAID 6 over ten drives, 1+1 is two copies."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    data: int = Field(1, ge=1, le=999)
    parity: int = Field(0, ge=0, le=999)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of "8+2" or "none". A ValueError says what is allowed."""
        match = _REDUNDANCY.fullmatch(text.strip())
        if match is None and text.strip() != "none":
            raise ValueError(f'"{text}" is not a redundancy; write DATA+PARITY, such as 8+2, or none')
        return cls() if match is None else cls(data=int(match[1]), parity=int(match[2]))

    @property
    def factor(self) -> float:
        """Bytes that are stored for each byte of data."""
        return (self.data + self.parity) / self.data

    def __str__(self) -> str:
        return f"{self.data}+{self.parity}" if self.parity else "none"


def _redundancy(value: Any) -> Any:
    return Redundancy.parse(value) if isinstance(value, str) else value


Basis = Literal["measured", "nominal", "made up"]
"""Of a number: from a measurement; from a data sheet or a design; or an example."""


class Stage(Plan):
    """A stage that every byte passes: a number of equal parts in parallel."""

    name: str = Field(pattern=r"^\S(.{0,78}\S)?$")
    count: int = Field(1, ge=1, le=_COUNT_MAX)
    bandwidth: WrittenBandwidth = Field(description="of one, in the direction of a write")
    read_bandwidth: WrittenBandwidth | None = Field(
        None, description="of one; as `bandwidth` where it is left out"
    )
    efficiency: float = Field(
        1.0, gt=0, le=1, allow_inf_nan=False, description="share of the bandwidth that is to be had"
    )
    carries: Literal["data", "stored"] = Field(
        "data", description="whether parity and copies pass it too when data is written"
    )
    duplex: Literal["half", "full"] = Field(
        "half", description="full: reading and writing do not share the bandwidth, as in a network"
    )
    basis: Basis | None = Field(None, description="of its numbers")
    meaning: str = Field("", description="what its numbers are, and where they are from")


class Drives(Plan):
    """The drives of a block; parity and copies are written to them, too."""

    count: int = Field(ge=1, le=_COUNT_MAX)
    spares: int = Field(0, ge=0, le=_COUNT_MAX, description="of them, that hold nothing until one fails")
    bandwidth: WrittenBandwidth = Field(description="of one, writing")
    read_bandwidth: WrittenBandwidth | None = Field(
        None, description="of one; as `bandwidth` where it is left out"
    )
    capacity: WrittenSize = Field(gt=0, lt=2**60, description="of one; with `medium`, of a medium")
    medium: str = Field(
        "",
        max_length=40,
        description="removable medium, such as cartridge: as many as the capacity takes, whatever the number"
        " of drives",
    )
    basis: Basis | None = Field(None, description="of its numbers")
    meaning: str = Field("", description="what its numbers are, and where they are from")

    @model_validator(mode="after")
    def _some_work(self) -> Self:
        if self.spares >= self.count:
            raise ValueError(f"spares is {self.spares} of {self.count} drives; none would be left to work")
        return self


class Block(Plan):
    """A building block, as a YAML file of blocks/ describes it."""

    name: str = Field(pattern=r"^\S(.{0,198}\S)?$")
    description: str = ""
    source: str = Field("", description="where the numbers are from")
    url: str = Field("", description="address of the source")
    drives: Drives
    redundancy: Annotated[Redundancy, BeforeValidator(_redundancy)] = Field(
        Redundancy(), description="of the drives: 8+2, 1+1 for two copies, or none"
    )
    redundancy_across: Literal["drives", "blocks"] = Field(
        "drives", description="blocks: data and parity are on different blocks, such as the nodes of Ceph"
    )
    stages: list[Stage] = Field(default_factory=list, max_length=32, description="in front of the drives")
    price: float | None = Field(None, ge=0, le=1e12, allow_inf_nan=False, description="of one block")
    currency: str = Field("", max_length=12)

    @field_validator("stages")
    @classmethod
    def _distinct(cls, stages: list[Stage]) -> list[Stage]:
        names = [DRIVES, *(stage.name for stage in stages)]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f'two stages are called "{double}"; the drives are called {DRIVES}')
        return stages


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Need(_Part):
    """What storage has to carry at once, and to hold: data, without parity and copies."""

    write_bytes_per_s: float = Field(ge=0)
    read_bytes_per_s: float = Field(ge=0)
    capacity_bytes: float = Field(ge=0)


Decides = Literal["throughput", "capacity", "redundancy", "both", "nothing"]
"""on the number of blocks"""


class MeasuredBandwidth(_Part):
    """What was measured of a block, in the place of what is computed."""

    write_bytes_per_s: float = Field(gt=0)
    read_bytes_per_s: float | None = Field(description="null: not measured, and taken as writing")
    at_least: bool = Field(False, description="nothing that was tried was too much: it writes that, or more")
    source: str
    validity: Literal["valid", "warned"]
    answer: Literal["yes", "likely yes", "cannot tell", "likely no", "no"] | None = Field(
        None, description="of a verdict; of several, cannot tell if one of them is; null: not a verdict"
    )
    frame_bytes: list[int] = Field(
        [], description="of the frames that it was measured with, where it was with frames"
    )


class StageFigures(_Part):
    """Data that passes a stage of one block."""

    name: str
    count: int
    write_bytes_per_s: float
    read_bytes_per_s: float
    duplex: Literal["half", "full"]
    basis: Basis | None = Field(description="of its numbers; null: not stated")
    meaning: str = Field(description="what its numbers are, and where they are from")
    blocks: float = Field(description="that the need would take if there were no other stage")


class BlockFigures(_Part):
    """One block, and how many the need takes."""

    name: str
    source: str
    url: str
    redundancy: str
    write_bytes_per_s: float = Field(description="of data")
    read_bytes_per_s: float
    write_bottleneck: str
    read_bottleneck: str
    drives_bytes_per_s: float = Field(description="sum of all drives, writing, before redundancy")
    efficiency: float = Field(description="data written for the sum of all drives")
    raw_capacity_bytes: int = Field(description="of all drives, spares among them")
    drives: int = Field(description="number of drives, spares among them")
    spares: int = Field(description="number of drives that hold no data until one fails")
    drive_bytes: int = Field(description="capacity of a drive, or of a medium")
    capacity_bytes: float = Field(description="of data; with `medium`, on one medium")
    medium: str = Field("", description="removable medium that holds the data; empty: the drives do")
    media: int = Field(0, description="number of media that the capacity takes, for all blocks")
    parts_on_blocks: int = Field(0, description="parts of the redundancy that are on different blocks")
    stages: list[StageFigures]
    measured: MeasuredBandwidth | None = Field(description="in the place of the stages' bandwidth")
    for_throughput: float
    for_capacity: float = Field(description="with `medium`, the number of media")
    blocks: int
    decides: Decides
    throughput_bottleneck: str = Field(description="the stage that decides how many the throughput takes")
    price: float | None = Field(description="of all blocks")
    currency: str

    @property
    def is_upper_bound(self) -> bool:
        """Whether fewer blocks may do: the throughput decides, and its limit was not measured."""
        return self.decides == "throughput" and self.measured is not None and self.measured.at_least


def figures_of(
    block: Block, need: Need, redundancy: Redundancy | None = None, measured: MeasuredBandwidth | None = None
) -> BlockFigures:
    """`redundancy` and `measured` take the place of the block's own."""
    used = block.redundancy if redundancy is None else redundancy
    stages = [_stage(stage, used, need) for stage in _all_stages(block)]
    write = min(stages, key=lambda stage: stage.write_bytes_per_s)
    read = min(stages, key=lambda stage: stage.read_bytes_per_s)
    deciding = [_measured_stage(measured, need)] if measured is not None else stages
    tightest = max(deciding, key=lambda stage: stage.blocks)
    drives = block.drives
    holding = 1 if drives.medium else drives.count - drives.spares
    capacity = holding * drives.capacity / used.factor
    throughput, capacity_blocks = tightest.blocks, need.capacity_bytes / capacity
    parts = used.data + used.parity if used.parity and block.redundancy_across == "blocks" else 0
    enough = _count(throughput, capacity_blocks, has_media=bool(drives.medium))
    count = _with_redundancy(enough, parts)
    carried = write.write_bytes_per_s if measured is None else measured.write_bytes_per_s
    all_drives = drives.count * drives.bandwidth
    return BlockFigures(
        name=block.name,
        source=block.source,
        url=block.url,
        redundancy=str(used),
        write_bytes_per_s=carried,
        read_bytes_per_s=read.read_bytes_per_s if measured is None else deciding[0].read_bytes_per_s,
        write_bottleneck=write.name,
        read_bottleneck=read.name,
        drives_bytes_per_s=all_drives,
        efficiency=carried / all_drives,
        raw_capacity_bytes=drives.count * drives.capacity,
        drives=drives.count,
        spares=drives.spares,
        drive_bytes=drives.capacity,
        capacity_bytes=capacity,
        medium=drives.medium,
        media=whole(capacity_blocks) if drives.medium else 0,
        parts_on_blocks=parts,
        stages=stages,
        measured=measured,
        for_throughput=throughput,
        for_capacity=capacity_blocks,
        blocks=count,
        decides="redundancy"
        if count > enough
        else _decides(throughput, capacity_blocks, has_media=bool(drives.medium)),
        throughput_bottleneck=tightest.name,
        price=None if block.price is None else block.price * count,
        currency=block.currency,
    )


def _count(throughput: float, for_capacity: float, *, has_media: bool) -> int:
    """Returns the number of blocks. Media are bought in addition, and need one block at least."""
    return max(whole(throughput), min(1, whole(for_capacity)) if has_media else whole(for_capacity))


def _with_redundancy(count: int, parts: int) -> int:
    """Returns `count`, or more if its redundancy has more parts on different blocks."""
    return max(count, parts) if count else 0


def blocks_and_media(block: BlockFigures, capacity_bytes: float, grown: float = 1.0) -> tuple[int, int]:
    """Returns how many of both a capacity takes, at `grown` times the throughput of `block`."""
    number = capacity_bytes / block.capacity_bytes
    count = _count(block.for_throughput * grown, number, has_media=bool(block.medium))
    return _with_redundancy(count, block.parts_on_blocks), whole(number) if block.medium else 0


def is_bound_of_year(block: BlockFigures, capacity_bytes: float, grown: float) -> bool:
    """Returns whether fewer blocks than `blocks_and_media` may do, as `BlockFigures.is_upper_bound` does."""
    if block.measured is None or not block.measured.at_least or block.decides == "redundancy":
        return False
    number = capacity_bytes / block.capacity_bytes
    return _decides(block.for_throughput * grown, number, has_media=bool(block.medium)) == "throughput"


def whole(number: float) -> int:
    """Returns the number of units, rounded up except for rounding errors."""
    return math.ceil(number * (1 - _ROUNDING))


def _decides(throughput: float, capacity_blocks: float, *, has_media: bool) -> Decides:
    """Returns what decides on the number of blocks; on that of media the capacity always does."""
    if has_media and throughput:
        return "throughput"
    if whole(throughput) == whole(capacity_blocks):
        return "both" if throughput or capacity_blocks else "nothing"
    return "throughput" if throughput > capacity_blocks else "capacity"


def _all_stages(block: Block) -> Sequence[Stage]:
    drives = block.drives
    # Its values were validated: they are numbers without units.
    working = Stage.model_construct(
        name=DRIVES,
        count=drives.count - drives.spares,
        bandwidth=drives.bandwidth,
        read_bandwidth=drives.read_bandwidth,
        carries="stored",
        basis=drives.basis,
        meaning=drives.meaning,
    )
    return [working, *block.stages]


def _stage(stage: Stage, redundancy: Redundancy, need: Need) -> StageFigures:
    each = stage.count * stage.efficiency
    write = each * stage.bandwidth / (redundancy.factor if stage.carries == "stored" else 1.0)
    read = each * (stage.bandwidth if stage.read_bandwidth is None else stage.read_bandwidth)
    return _figures(stage, write, read, need)


def _measured_stage(measured: MeasuredBandwidth, need: Need) -> StageFigures:
    write = measured.write_bytes_per_s
    read = write if measured.read_bytes_per_s is None else measured.read_bytes_per_s
    stage = Stage.model_construct(name=MEASURED, bandwidth=write, basis="measured", meaning=measured.source)
    return _figures(stage, write, read, need)


def _figures(stage: Stage, write: float, read: float, need: Need) -> StageFigures:
    shares = (need.write_bytes_per_s / write, need.read_bytes_per_s / read)
    return StageFigures(
        name=stage.name,
        count=stage.count,
        write_bytes_per_s=write,
        read_bytes_per_s=read,
        duplex=stage.duplex,
        basis=stage.basis,
        meaning=stage.meaning,
        blocks=max(shares) if stage.duplex == "full" else sum(shares),
    )


def find_block(name: str, folder: Path) -> Block:
    """Of a YAML file, or of the name of one in `folder`. A UsageError names what is wrong in it."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return read_yaml(path, Block, PAGE)
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in known:
        raise UsageError(
            f'unknown block "{name}"', f"use one of {', '.join(known)}, or a YAML file as in {PAGE}"
        )
    return read_yaml(folder / f"{name}.yaml", Block, PAGE)
