"""Percentiles of durations."""

from pydantic import BaseModel, ConfigDict


class Percentiles(BaseModel):
    """Milliseconds; each is the upper end of its bucket, at most 0.4 % above the value."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    p50: float
    p90: float
    p99: float
    p999: float
    max: float
