"""What was measured while a server of the storage failed."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FaultKind = Literal["fail", "stall"]


class Degraded(BaseModel):
    """Times are in seconds; those of the fault count from the first frame."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["penstock-degraded 1"] = "penstock-degraded 1"
    version: str = Field(description="version of Penstock")
    started: str = Field(description="UTC, ISO 8601")
    laboratory: str
    system: str
    servers: int
    server: int
    fault: FaultKind
    rate_hz: float
    frame_bytes: int
    frames: int = Field(description="sent")
    missing: int = Field(description="not in the file")
    different: int = Field(description="in the file with other pixels than were sent")
    fault_s: float = Field(description="when the server failed")
    heal_s: float | None = Field(description="when the server was started again; null: the series had ended")
    before_hz: float = Field(description="frames written per second before the fault")
    lowest_hz: float = Field(description="fewest frames written in a second after the fault")
    dip_s: float = Field(description="longest time without a written frame after the fault, from its begin")
    returned_s: float = Field(description="from the fault until frames were written again after that time")
    caught_up_s: float | None = Field(
        description="from the fault until frames were written as soon as before it; null: not in this series"
    )
    healed_s: float | None = Field(
        description="from the start of the server until the system says that it has all copies; null: unknown"
    )
    problem: str | None = None
