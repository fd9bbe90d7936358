"""When servers of a laboratory fail and come back during a run."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.model.units import Bandwidth

FaultAction = Literal["fail", "stall", "slow", "heal"]
NO_FAULTS = "none"


class Fault(BaseModel):
    """One event of a schedule: a server, a time, and a fault or its end."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    at_s: float = Field(
        ge=0,
        le=86400,
        description="seconds after the first frame was due; in other workloads, after the first progress."
        " --scale multiplies it",
    )
    server: int = Field(ge=1, le=1000, description="number of the server, from 1")
    fault: FaultAction = Field(
        description="fail: kill its processes; stall: stop them; slow: limit its `disk` or `link`; heal: end"
        " the fault"
    )
    disk: Bandwidth | None = Field(None, description="limit of its disk, with slow, such as 20 MB/s")
    link: Bandwidth | None = Field(None, description="limit of its link, with slow")


def _in_order(faults: Sequence[Fault]) -> Sequence[Fault]:
    """Raises ValueError for a schedule that cannot be carried out on any laboratory."""
    away: dict[int, Fault] = {}
    last_s = 0.0
    for each in faults:
        if each.at_s < last_s:
            raise ValueError(f"at_s {each.at_s:g} comes after {last_s:g}; list faults in order of time")
        last_s = each.at_s
        if (each.fault == "slow") != (each.disk is not None or each.link is not None):
            raise ValueError(f"`disk` or `link` belongs to slow, and slow requires one; at_s {each.at_s:g}")
        if (each.fault == "heal") != (each.server in away):
            what = "has no fault" if each.fault == "heal" else "has a fault already; heal it first"
            raise ValueError(f"at_s {each.at_s:g}: server {each.server} {what}")
        if each.fault == "heal":
            del away[each.server]
            continue
        if each.fault == "fail" and any(other.fault == "fail" for other in away.values()):
            raise ValueError(f"at_s {each.at_s:g}: another server has failed already; heal it first")
        away[each.server] = each
    return faults


Schedule = Annotated[list[Fault], Field(min_length=1, max_length=100), AfterValidator(_in_order)]
