"""How files are read, and what a chunk's shape makes of that.

HDF5 reads and expands whole chunks. So a reader's cost follows from the chunks that its region touches: they
are counted here, exactly, for a region at a stated place or as the mean over all places.
"""

import re
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.errors import UsageError

Kind = Literal["frames", "roi", "rows", "pixel"]
PATTERNS = "frames, roi:ROWSxCOLUMNS, rows, rows:N or pixel, each with @ROW,COLUMN (its place) and *WEIGHT"
_PATTERN = re.compile(
    r"(?P<kind>frames|roi|rows|pixel)(?::(?P<rows>[1-9][0-9]{0,9})(?:x(?P<columns>[1-9][0-9]{0,9}))?)?"
    r"(?:@(?P<row>[0-9]{1,10})(?:,(?P<column>[0-9]{1,10}))?)?(?:\*(?P<weight>[0-9]+(?:\.[0-9]+)?))?"
)


class Geometry(BaseModel):
    """What a dataset holds."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    frames: int = Field(ge=1)
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)
    element_bytes: int = Field(ge=1)

    @property
    def frame_bytes(self) -> int:
        return self.rows * self.columns * self.element_bytes


class Chunk(BaseModel):
    """Frames, rows and columns of a chunk."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    frames: int = Field(1, ge=1)
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)

    def raw_bytes(self, geometry: Geometry) -> int:
        return self.frames * self.rows * self.columns * geometry.element_bytes

    def a_frame(self, geometry: Geometry) -> int:
        """Chunks that a frame lies in."""
        return -(-geometry.rows // self.rows) * -(-geometry.columns // self.columns)

    def padding(self, geometry: Geometry) -> float:
        """Pixels that the chunks hold for each pixel of a frame: those at the edges reach beyond it."""
        return self.a_frame(geometry) * self.rows * self.columns / (geometry.rows * geometry.columns)


class Pattern(BaseModel):
    """One way in which the file is read."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    text: str
    kind: Kind
    rows: int = Field(1, ge=1, description="of the region; of `frames` unused")
    columns: int | None = Field(None, ge=1, description="of the region; None is all")
    row: int | None = None
    column: int | None = None
    weight: float = Field(1.0, gt=0)

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise UsageError(f'--read: "{text}" is not a pattern', f"use one of {PATTERNS}")
        kind, rows, columns = match["kind"], match["rows"], match["columns"]
        wrong = {
            "frames": rows is not None or match["row"] is not None,
            "roi": columns is None or (match["row"] is not None and match["column"] is None),
            "rows": columns is not None or match["column"] is not None,
            "pixel": rows is not None or (match["row"] is not None and match["column"] is None),
        }[kind]
        weight = float(match["weight"] or 1)
        if wrong or weight == 0:
            raise UsageError(
                f'--read: "{text}" is not a pattern', f"use one of {PATTERNS}; for example roi:256x256*2"
            )
        return cls(
            text=text.strip(),
            kind=kind,
            rows=int(rows or 1),
            columns=int(columns) if columns else (1 if kind == "pixel" else None),
            row=int(match["row"]) if match["row"] else None,
            column=int(match["column"]) if match["column"] else None,
            weight=weight,
        )

    def region(self, geometry: Geometry) -> tuple[int, int, int]:
        """Frames, rows and columns of one access."""
        if self.kind == "frames":
            return 1, geometry.rows, geometry.columns
        columns = geometry.columns if self.columns is None else self.columns
        if self.rows > geometry.rows or columns > geometry.columns:
            raise UsageError(
                f'--read: "{self.text}" is larger than a frame of {geometry.rows} x {geometry.columns}',
                "name a region within the frame",
            )
        if (self.row or 0) + self.rows > geometry.rows or (self.column or 0) + columns > geometry.columns:
            raise UsageError(
                f'--read: "{self.text}" extends beyond a frame of {geometry.rows} x {geometry.columns}',
                "the position is that of its first row and column",
            )
        return (1 if self.kind == "roi" else geometry.frames), self.rows, columns

    @property
    def meaning(self) -> str:
        return {
            "frames": "frame after frame",
            "roi": f"a region of {self.rows} x {self.columns} pixels, frame after frame",
            "rows": f"{self.rows} row{'s' if self.rows > 1 else ''} of pixels through all frames",
            "pixel": "a pixel through all frames",
        }[self.kind]


class Reading(BaseModel):
    """What one access with a pattern costs; means where the pattern names no place."""

    wanted_bytes: int
    chunks: float
    expanded_bytes: float = Field(description="uncompressed bytes of the chunks that it touches")

    @property
    def amplification(self) -> float:
        """Bytes read for a byte wanted, before compression makes both smaller."""
        return self.expanded_bytes / self.wanted_bytes


def reading(pattern: Pattern, chunk: Chunk, geometry: Geometry) -> Reading:
    frames, rows, columns = pattern.region(geometry)
    chunks = (
        _touched(frames, chunk.frames, geometry.frames, None)
        * _touched(rows, chunk.rows, geometry.rows, pattern.row)
        * _touched(columns, chunk.columns, geometry.columns, pattern.column)
    )
    return Reading(
        wanted_bytes=frames * rows * columns * geometry.element_bytes,
        chunks=chunks,
        expanded_bytes=chunks * chunk.raw_bytes(geometry),
    )


def _touched(extent: int, chunk: int, whole: int, at: int | None) -> float:
    """Chunks along one dimension that a run of `extent` in `whole` touches, at its place or in the mean."""
    if at is not None:
        return (at + extent - 1) // chunk - at // chunk + 1
    places = whole - extent + 1
    last = _sum_of_floors(places + extent - 1, chunk) - _sum_of_floors(extent - 1, chunk)
    return 1 + (last - _sum_of_floors(places, chunk)) / places


def _sum_of_floors(count: int, divisor: int) -> int:
    """Of floor(x / divisor) for x from 0 to count - 1."""
    full, rest = divmod(count, divisor)
    return divisor * (full * (full - 1) // 2) + full * rest
