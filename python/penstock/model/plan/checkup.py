"""What `penstock doctor` finds: whether a machine and a folder are ready for a recorder."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Finding(_Part):
    """The outcome of one check."""

    check: str
    outcome: Literal["ok", "warning", "problem", "unknown"]
    found: str = Field(description="what is there; if unknown, the reason")
    why: str = Field("", description="reason for which it is a problem or a warning")
    remedy: str = Field("", description="command, or what to do; empty unless it is a problem or a warning")


class Checkup(_Part):
    format: Literal["penstock-checkup 1"] = "penstock-checkup 1"
    path: str = Field(description="folder for the files")
    host: str
    made: str = Field(description="ISO 8601, UTC")
    detector: str = Field("", description="detector that was given; empty: none")
    ready: bool = Field(description="no check found a problem")
    findings: list[Finding]
    next: list[str] = Field([], description="commands that measure what a checkup cannot")

    @property
    def problems(self) -> list[Finding]:
        return [each for each in self.findings if each.outcome == "problem"]

    @property
    def warnings(self) -> list[Finding]:
        return [each for each in self.findings if each.outcome == "warning"]


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, outcome="ok", found=found)


def unknown(check: str, why: str) -> Finding:
    return Finding(check=check, outcome="unknown", found=why)


def warning(check: str, found: str, why: str, remedy: str) -> Finding:
    return Finding(check=check, outcome="warning", found=found, why=why, remedy=remedy)


def problem(check: str, found: str, why: str, remedy: str) -> Finding:
    return Finding(check=check, outcome="problem", found=found, why=why, remedy=remedy)
