"""What the pvAccess source does: `sources` of kind `pva`, and the plan of the process that does it."""

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.model.plans import GIB, MIB, Plan
from penstock.model.units import Size

# Fields of the start message that the channel does not send; docs/reference/stream-v2.md has them.
_NUMBERS = (
    "beam_center_x", "beam_center_y", "count_time", "frame_time", "incident_energy", "incident_wavelength",
    "pixel_size_x", "pixel_size_y", "sensor_thickness",
)  # fmt: skip
_TEXTS = ("detector_description", "detector_serial_number", "sensor_material")
_SWITCHES = (
    "countrate_correction_enabled",
    "flatfield_enabled",
    "pixel_mask_enabled",
    "virtual_pixel_interpolation_enabled",
)
_OTHERS = ("detector_translation", "goniometer", "saturation_value", "user_data")
START_FIELDS = (*_NUMBERS, *_TEXTS, *_SWITCHES, *_OTHERS)


def check_start(fields: dict[str, Any]) -> None:
    """A ValueError that names the field and the value."""
    for name, value in fields.items():
        if name not in START_FIELDS:
            raise ValueError(f'unknown field "{name}"; use one of {", ".join(START_FIELDS)}')
        if name in ("user_data", "goniometer"):
            if not isinstance(value, dict):
                raise ValueError(f"start.{name} is {value!r}; expected `name: value` lines")
        elif isinstance(value, dict):
            _check_reference(name, value)
        elif not _fits(name, value):
            raise ValueError(f"start.{name} is {value!r}, which has the wrong type")


def _fits(name: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _NUMBERS:
        return number
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _SWITCHES:
        return isinstance(value, bool)
    if name == "detector_translation":
        return isinstance(value, list) and len(value) == 3
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_reference(name: str, value: dict[str, Any]) -> None:
    attribute, scale = value.get("attribute"), value.get("scale", 1.0)
    if set(value) - {"attribute", "scale"} or not isinstance(attribute, str) or not attribute:
        raise ValueError(
            f"start.{name} is {value!r}; write a value, or {{attribute: NAME}}, with a scale if it needs one"
        )
    if not isinstance(scale, int | float) or (name in _TEXTS and "scale" in value):
        raise ValueError(f"start.{name} has the scale {scale!r}; expected a number, and no scale for text")


class PvaSettings(Plan):
    """An NTNDArray channel of EPICS areaDetector, over pvAccess."""

    channel: str = Field(min_length=1, max_length=256, description="channel, for example `13SIM1:Pva1:Image`")
    frames: int = Field(0, ge=0, le=2**31, description="number of frames of a series; 0: open end")
    idle_end_s: float = Field(
        60.0, ge=0, le=86400, description="end a series after this many seconds without a frame; 0: never"
    )
    reconnect_s: float = Field(
        60.0,
        ge=0,
        le=86400,
        description="time in seconds that a series stays open while the channel is disconnected",
    )
    first_unique_id: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="uniqueId of frame 0, for counters that restart with each series; default: that of the"
        " first frame",
    )
    initial: Literal["skip", "keep"] = Field(
        "skip",
        description="policy for the value that the channel already has at each connection while no series"
        " is open, usually an old frame",
    )
    name: str = Field(
        "{channel}-{date}",
        description="template of series names with {channel}, {date} and {attribute}",
    )
    name_attribute: str = Field(
        "",
        description="attribute for {attribute} in `name`; the next series starts when its value changes",
    )
    pipeline: bool = Field(
        False,
        description="use `record[pipeline=true]`: the server sends only as many frames as the source"
        " accepts. Servers with PVXS then hold back the last frames after a stall until the next one",
    )
    queue_frames: int = Field(
        32, ge=2, le=4096, description="queue depth of pvAccess in frames (`queueSize`)"
    )
    reorder_frames: int = Field(
        16, ge=0, le=1024, description="maximum number of frames that wait for a frame with a lower uniqueId"
    )
    gap_frames_max: int = Field(
        100_000, ge=1, le=2**31, description="a jump of uniqueId by more than this starts the next series"
    )
    buffer_bytes: Size = Field(
        GIB, ge=16 * MIB, le=2**42, description="memory for frames that the recorder has not acknowledged"
    )
    start: dict[str, Any] = Field(
        default_factory=dict,
        description="fields of the start message: a value, or `{attribute: NAME, scale: 1e-3}` of the first"
        " frame",
    )

    @field_validator("name")
    @classmethod
    def _template(cls, value: str) -> str:
        rest = re.sub(r"\{(channel|date|attribute)\}", "x", value)
        if not rest or re.search(r"[{}/\0]", rest) or len(value) > 200:
            raise ValueError(f'name is "{value}"; placeholders are {{channel}}, {{date}} and {{attribute}}')
        return value

    @field_validator("start")
    @classmethod
    def _start(cls, value: dict[str, Any]) -> dict[str, Any]:
        check_start(value)
        return value

    @model_validator(mode="after")
    def _one_counter(self) -> Self:
        if self.first_unique_id is not None and self.name_attribute:
            raise ValueError(
                f"first_unique_id is {self.first_unique_id} and name_attribute is {self.name_attribute!r}:"
                " where an attribute begins a series the counter goes on, and its frame 0 has no known"
                " number; leave one of them out"
            )
        return self


class PvaPlan(PvaSettings):
    """What the source's process runs."""

    to: str
    token: str | None = None
    series_limit: int = Field(0, ge=0)
    frame_bytes_max: int = Field(GIB, ge=1)
    reconnect_recorder_s: float = Field(60.0, ge=0)

    def without_token(self) -> "PvaPlan":
        """To be shown."""
        return self.model_copy(update={"token": None if self.token is None else "…"})


class ValuesPlan(Plan):
    """What the process runs that sends values of channels to a collector."""

    channels: list[str] = Field(min_length=1, max_length=10_000)
    to: str  # HOST:PORT
    token: str | None = None
