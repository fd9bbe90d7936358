"""What a check found."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

Level = Literal["error", "warning", "info"]


class Finding(BaseModel):
    """One thing that is not as it should be, and what to do about it."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)

    level: Level
    what: str
    where: str = ""
    expected: str = ""
    actual: str = ""
    remedy: str = ""

    @field_validator("where", "expected", "actual", "remedy", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> str:
        return "" if value is None else value if isinstance(value, str) else str(value)


def is_clean(findings: Iterable[Finding]) -> bool:
    """Whether there is no error among them; warnings are no damage."""
    return all(finding.level != "error" for finding in findings)
