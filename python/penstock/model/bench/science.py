"""The workloads of the sciences: what is asked for, and the figures of a run (decision 54)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.percentiles import Percentiles
from penstock.model.plans import Plan

ScienceName = Literal["analysis", "imaging", "uvbuffer", "seismic-sort", "acquire-and-analyse"]
ScienceUnit = Literal["B/s", "1/s", "1/min", "ms", "s", "share", "factor", "count", "B"]
Better = Literal["higher", "lower"]


class ScienceWorkload(Plan):
    """The parameters of `penstock bench NAME`. The workload's own processes carry it out."""

    kind: Literal["science"] = "science"
    name: ScienceName
    jobs: int = Field(ge=1, le=1024, description="number of processes that work at the same time")
    parameters: dict[str, str | bool | int | float] = Field(
        {}, description="parameters of the workload, those with default values included"
    )


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class NamedValue(_Part):
    """One figure, as tables, comparisons and campaigns show it."""

    name: str = Field(min_length=1)
    value: float
    unit: ScienceUnit
    better: Better | None = Field(description="direction in which a storage is better; null: neither")


class JobFigures(_Part):
    """What one process did until all were stopped."""

    job: int = Field(ge=0)
    place: str = Field(description="directory or URL that it used")
    units: int = Field(description="events, frames, files or traces")
    seconds: float = Field(description="time from the common start until its last report")
    asked_bytes: int = Field(description="bytes that the libraries asked for")
    received_bytes: int = Field(description="bytes that came from the storage's client, or went to it")
    calls: int = Field(description="reads and writes at the client interface")
    problem: str | None = Field(None, description="reason for which it ended early; null: it did not")


class ScienceFigures(_Part):
    """What the jobs of a run did together."""

    unit: str = Field(description="what is counted: events, frames, files, traces")
    units: int = Field(description="units that all jobs completed within `seconds`, interpolated")
    seconds: float = Field(
        description="from the last job's first report until the first job's last one: all jobs were at work"
    )
    per_s: float = Field(description="units per second in that time")
    received_bytes_per_s: float = Field(description="from the storage's client, in that time")
    values: list[NamedValue] = Field(description="the most significant one is first")
    spent_s: dict[str, float] = Field({}, description="time of all jobs by what they did, in seconds")
    call_ms: Percentiles | None = Field(None, description="of the reads and writes; null: there were none")
    jobs: list[JobFigures] = []
    findings: list[str] = Field([], description="sentences about the storage, where they are significant")
