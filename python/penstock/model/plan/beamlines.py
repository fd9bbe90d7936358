"""Beamlines of a facility, as a YAML file describes them for `penstock plan --beamlines`."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from penstock.model.plan.ages import Age
from penstock.model.plans import Plan
from penstock.model.units import parse_share
from penstock.model.yaml_file import read_yaml

PAGE = "docs/how-to/plan/plan-a-storage.md"
HOURS_MAX, DAYS_MAX = 24.0, 7.0


class Schedule(Plan):
    """When frames are taken. Without any field: always."""

    duty: float | None = Field(None, gt=0, le=1, allow_inf_nan=False, description="share of the time")
    hours_per_day: float | None = Field(None, gt=0, le=HOURS_MAX, allow_inf_nan=False)
    days_per_week: float | None = Field(None, gt=0, le=DAYS_MAX, allow_inf_nan=False)

    @field_validator("duty", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return parse_share(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.duty is not None and (self.hours_per_day is not None or self.days_per_week is not None):
            raise ValueError("duty excludes hours_per_day and days_per_week; leave out one of them")
        return self

    @property
    def is_stated(self) -> bool:
        return (self.duty, self.hours_per_day, self.days_per_week) != (None, None, None)

    @property
    def days(self) -> float:
        """Days per week on which frames are taken."""
        return DAYS_MAX if self.days_per_week is None else self.days_per_week

    @property
    def share(self) -> float:
        """The duty cycle: the share of a week with frames."""
        if self.duty is not None:
            return self.duty
        hours = HOURS_MAX if self.hours_per_day is None else self.hours_per_day
        return hours / HOURS_MAX * self.days / DAYS_MAX


class Beamline(Schedule):
    """Detectors that share a schedule and a retention."""

    name: str = Field(pattern=r"^\S(.{0,78}\S)?$")
    detectors: list[str] = Field(
        min_length=1, max_length=100, description="as arguments of `penstock plan`: 2xeiger2-16m@100,ratio=8"
    )
    retention: Age | None = Field(None, description="days, or 90d, 2w, 6mo, 2y; left out: that of the plan")


class Facility(Plan):
    """A file of beamlines."""

    name: str = Field("", max_length=200)
    beamlines: list[Beamline] = Field(min_length=1, max_length=200)

    @field_validator("beamlines")
    @classmethod
    def _distinct(cls, beamlines: list[Beamline]) -> list[Beamline]:
        names = [each.name for each in beamlines]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f'two beamlines are called "{double}"')
        return beamlines


def read_facility(path: Path) -> Facility:
    """Raises UsageError with file, line, field and remedy."""
    return read_yaml(path, Facility, PAGE)
