"""Detectors: the catalogue of real ones, and custom ones."""

import math
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.model.errors import UsageError
from penstock.model.plans import ElementType
from penstock.model.yaml_file import read_yaml

CUSTOM = "custom"
COUNTING_TYPES = ("uint8", "uint16", "uint32", "int16", "int32")


class Gap(BaseModel):
    """A rectangle of pixels without a sensor."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    row: int = Field(ge=0)
    column: int = Field(ge=0)
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)


class Detector(BaseModel):
    """One detector, as detectors/README.md describes it. Further fields are kept for the simulator."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    name: str
    description: str = ""
    rows: int = Field(ge=1, le=1 << 20)
    columns: int = Field(ge=1, le=1 << 20)
    type: ElementType
    rate_hz: float = Field(0.0, ge=0, description="maximum frame rate in Hz; 0 if unknown")
    pixel_size_m: tuple[float, float] = Field((75e-6, 75e-6), description="[y, x]")
    sensor_material: str = "Si"
    sensor_thickness_m: float = Field(450e-6, gt=0)
    gaps: list[Gap] = []
    gap_value: int | None = None
    saturation_value: int | None = None

    @model_validator(mode="after")
    def _gaps_inside(self) -> Self:
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
    def megapixels(self) -> float:
        return self.rows * self.columns / 1e6

    def for_plan(self) -> dict[str, Any]:
        """The fields that the simulator reads."""
        values = self.model_dump(mode="json", exclude_none=True, exclude={"rate_hz"})
        if self.description and self.description != self.name:
            values["description"] = self.full_name
        return values

    @property
    def full_name(self) -> str:
        """ "PILATUS 6M, hybrid photon counter of 60 modules": files carry it as the description."""
        return ", ".join(text for text in (self.name, self.description) if text)


def read_catalogue(folder: Path) -> dict[str, Detector]:
    """Returns all detectors in `folder` by file name, sorted by the size of a frame."""
    found = {path.stem: read_yaml(path, Detector) for path in sorted(folder.glob("*.yaml"))}
    return dict(sorted(found.items(), key=lambda item: (item[1].frame_bytes, item[0])))


def key_of(name: str) -> str:
    """Returns the name without case and separators: "PILATUS 6M" matches pilatus-6m."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def find_detector(catalogue: dict[str, Detector], name: str) -> Detector:
    """Returns the detector of that name. Raises UsageError with similar names."""
    for key, detector in catalogue.items():
        if key_of(name) in (key_of(key), key_of(detector.name)):
            return detector
    near = get_close_matches(name.lower(), catalogue, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise UsageError(
        f'unknown detector "{name}"',
        f"{hint}`penstock detectors` lists all; `custom` with --rows, --columns and --type defines any other",
    )


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
    return Detector.model_validate({"name": CUSTOM, "description": "custom detector", **shape})


def replayed_custom() -> Detector:
    """A detector that gets its shape and type from replayed images, by replayed_detector()."""
    return Detector(name=CUSTOM, description="custom detector", rows=1, columns=1, type="uint16")


def replayed_detector(base: Detector, rows: int, columns: int, kind: str) -> Detector:
    """`base` with the shape and type of replayed images; its gaps and limits only where they still hold."""
    changes: dict[str, Any] = {"rows": rows, "columns": columns, "type": kind}
    if (rows, columns) != (base.rows, base.columns):
        changes["gaps"] = []
    if kind != base.type:
        changes |= {"gap_value": None, "saturation_value": None}
    return Detector.model_validate(base.model_dump() | changes)


def frames_for(seconds: float, rate_hz: float) -> int:
    """How many frames a detector takes in a time, at least one."""
    return max(1, math.ceil(seconds * rate_hz))
