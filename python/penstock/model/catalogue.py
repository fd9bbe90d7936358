"""Detectors: the catalogue of real ones, and custom ones."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.model.errors import UsageError
from penstock.model.plans import ElementType, Encoding
from penstock.model.yaml_file import read_yaml

CUSTOM = "custom"
PAGE = "detectors/README.md"
_NOT_SIMULATED = {"rate_hz", "compression", "sends", "source"}
# Of a custom detector: files need a geometry, and readers expect one.
_CUSTOM_SENSOR = {"pixel_size_m": (75e-6, 75e-6), "sensor_material": "Si", "sensor_thickness_m": 450e-6}
COUNTING_TYPES = ("uint8", "uint16", "uint32", "int16", "int32")


class Gap(BaseModel):
    """A rectangle of pixels without a sensor."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    row: int = Field(ge=0)
    column: int = Field(ge=0)
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)


Level = Literal["low", "typical", "high"]
LEVELS: tuple[Level, ...] = ("low", "typical", "high")


class Ratios(BaseModel):
    """Compression ratios of a detector's frames, as the catalogue states them."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    encoding: Encoding = "bslz4"
    low: float = Field(ge=1, le=1e6, description="of frames with many counts: plan with it to be safe")
    typical: float = Field(ge=1, le=1e6)
    high: float = Field(ge=1, le=1e6, description="of nearly empty frames")
    basis: Literal["measured", "published", "simulated"]
    source: str = Field(min_length=1, description="which frames, and who measured them")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError(
                f"low {self.low:g}, typical {self.typical:g}, high {self.high:g} are not in order"
            )
        return self

    def at(self, level: Level) -> float:
        return {"low": self.low, "typical": self.typical, "high": self.high}[level]


class Modules(BaseModel):
    """The grid of modules that defines the gaps."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    rows: int = Field(ge=1, le=1 << 20)
    columns: int = Field(ge=1, le=1 << 20)
    module_rows: int = Field(ge=1, le=1 << 20)
    module_columns: int = Field(ge=1, le=1 << 20)
    gap_rows: int = Field(ge=0, le=1 << 20)
    gap_columns: int = Field(ge=0, le=1 << 20)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the image that the modules and the gaps between them make."""
        return (
            self.rows * (self.module_rows + self.gap_rows) - self.gap_rows,
            self.columns * (self.module_columns + self.gap_columns) - self.gap_columns,
        )

    def gaps(self) -> list[Gap]:
        """The stripes between the modules, over the whole image."""
        rows, columns = self.shape
        across, down = self.module_rows + self.gap_rows, self.module_columns + self.gap_columns
        found = [
            Gap(row=n * across - self.gap_rows, column=0, rows=self.gap_rows, columns=columns)
            for n in range(1, self.rows if self.gap_rows else 1)
        ]
        return found + [
            Gap(row=0, column=n * down - self.gap_columns, rows=rows, columns=self.gap_columns)
            for n in range(1, self.columns if self.gap_columns else 1)
        ]


class Detector(BaseModel):
    """One detector, as detectors/README.md describes it. A field that is left out is unknown."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    name: str = Field(min_length=1)
    description: str = ""
    vendor: str = ""
    rows: int = Field(ge=1, le=1 << 20)
    columns: int = Field(ge=1, le=1 << 20)
    type: ElementType
    bit_depth: int | None = Field(None, ge=1, le=64, description="of the counter or converter")
    rate_hz: float = Field(0.0, ge=0, le=1e7, description="maximum frame rate in Hz; 0 if unknown")
    typical_rate_hz: float | None = Field(None, gt=0, le=1e7, description="usual frame rate in Hz")
    pixel_size_m: tuple[float, float] | None = Field(None, description="[y, x]")
    sensor_material: str | None = None
    sensor_thickness_m: float | None = Field(None, gt=0, le=1)
    gaps: list[Gap] = Field([], description="left out: those between the modules")
    modules: Modules | None = None
    gap_value: int | None = None
    saturation_value: int | None = None
    elements: int | None = Field(None, ge=1, description="parts with a separate data stream")
    compression: Ratios | None = None
    sends: Encoding = Field("none", description="codec in which its server sends frames; none: raw frames")
    source: str = Field("", description="origin of the values")
    approximate: bool = False
    approximate_because: str = ""
    serial_number: str | None = None
    incident_energy_ev: float | None = None
    detector_distance_m: float | None = None
    omega_increment_degrees: float | None = None
    beam_center: tuple[float, float] | None = None
    simulation: dict[str, Any] | None = Field(None, description="appearance of simulated frames")

    @model_validator(mode="after")
    def _gaps_inside(self) -> Self:
        if self.modules is not None:
            if self.modules.shape != (self.rows, self.columns):
                rows, columns = self.modules.shape
                raise ValueError(
                    f"modules: the grid has {rows} x {columns} pixels, but rows and columns are"
                    f" {self.rows} x {self.columns}"
                )
            self.gaps = self.gaps or self.modules.gaps()
        for number, gap in enumerate(self.gaps):
            if gap.row + gap.rows > self.rows or gap.column + gap.columns > self.columns:
                raise ValueError(f"gaps[{number}] extends beyond the {self.rows} x {self.columns} pixels")
        return self

    @property
    def frame_bytes(self) -> int:
        bits = int("".join(filter(str.isdigit, self.type)))
        return self.rows * self.columns * bits // 8

    @property
    def bytes_per_s(self) -> float:
        return self.frame_bytes * self.rate_hz

    @property
    def sent_ratio(self) -> float | None:
        """Typical compression ratio of the frames that its server sends; None: raw frames, or unknown."""
        return self.compression.typical if self.sends != "none" and self.compression is not None else None

    @property
    def megapixels(self) -> float:
        return self.rows * self.columns / 1e6

    def for_plan(self) -> dict[str, Any]:
        """The fields that the simulator reads."""
        values = self.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_SIMULATED)
        if self.description and self.description != self.name:
            values["description"] = self.full_name
        return values

    @property
    def full_name(self) -> str:
        """ "PILATUS 6M, hybrid photon counter of 60 modules": files carry it as the description."""
        return ", ".join(text for text in (self.name, self.description) if text)


@cache
def read_catalogue(folder: Path) -> Mapping[str, Detector]:
    """Returns all detectors in `folder` by file name, sorted by the size of a frame. It is read once."""
    found = {path.stem: read_yaml(path, Detector, PAGE) for path in sorted(folder.glob("*.yaml"))}
    return dict(sorted(found.items(), key=lambda item: (item[1].frame_bytes, item[0])))


def key_of(name: str) -> str:
    """Returns the name without case and separators: "PILATUS 6M" matches pilatus-6m."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def is_file_name(name: str) -> bool:
    """Returns whether `name` is the path of a detector file and not a name of the catalogue."""
    return name.endswith((".yaml", ".yml"))


def read_detector(path: Path) -> Detector:
    """Returns the detector of a user's file. Raises UsageError with file, line, field and remedy."""
    return read_yaml(path, Detector, PAGE)


def find_detector(catalogue: Mapping[str, Detector], name: str) -> Detector:
    """Returns the detector of that name. Raises UsageError with similar names."""
    for key, detector in catalogue.items():
        if key_of(name) in (key_of(key), key_of(detector.name)):
            return detector
    longer = [key for key in catalogue if key_of(name) and key_of(name) in key_of(key)]
    near = longer[:3] or get_close_matches(name.lower(), catalogue, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise UsageError(
        f'unknown detector "{name}"',
        f"{hint}`penstock detectors` lists all; a YAML file as in {PAGE}, or `custom` with --rows, --columns"
        " and --type, defines any other",
    )


def detector_named(folder: Path, name: str) -> Detector:
    """Does what find_detector does, and reads one file alone if it has this name."""
    for path in folder.glob("*.yaml"):
        if key_of(path.stem) == key_of(name):
            return read_detector(path)
    return find_detector(read_catalogue(folder), name)


def custom_detector(rows: int | None, columns: int | None, kind: str | None) -> Detector:
    """A detector of any shape, without gaps."""
    if rows is None or columns is None:
        raise UsageError(
            "the detector `custom` requires --rows and --columns", "for example --rows 512 --columns 1028"
        )
    if not (1 <= rows <= 1 << 20 and 1 <= columns <= 1 << 20):
        raise UsageError(
            f"--rows {rows}, --columns {columns}: each must be from 1 to 1048576",
            "give a smaller or larger number",
        )
    if kind is not None and kind not in COUNTING_TYPES:
        raise UsageError(f'--type "{kind}" is unknown', f"use one of {', '.join(COUNTING_TYPES)}")
    shape = {"rows": rows, "columns": columns, "type": kind or "uint16"}
    named = {"name": CUSTOM, "description": "custom detector"}
    return Detector.model_validate(named | shape | _CUSTOM_SENSOR)


def replayed_custom() -> Detector:
    """A detector that gets its shape and type from replayed images, by replayed_detector()."""
    return custom_detector(1, 1, "uint16")


def replayed_detector(base: Detector, rows: int, columns: int, kind: str) -> Detector:
    """`base` with the shape and type of replayed images; its gaps and limits only where they still hold."""
    changes: dict[str, Any] = {"rows": rows, "columns": columns, "type": kind}
    if (rows, columns) != (base.rows, base.columns):
        changes |= {"gaps": [], "modules": None}
    if kind != base.type:
        changes |= {"gap_value": None, "saturation_value": None}
    return Detector.model_validate(base.model_dump() | changes)


def frames_for(seconds: float, rate_hz: float) -> int:
    """How many frames a detector takes in a time, at least one."""
    return max(1, math.ceil(seconds * rate_hz))
