"""What a check found."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

Level = Literal["error", "warning", "info"]
ANY_FRAME = (0, 2**63 - 1)
"""Of a finding in frames whose numbers in the series are not known."""


class Finding(BaseModel):
    """One thing that is not as it should be, and what to do about it."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)

    level: Level
    what: str
    where: str = ""
    expected: str = ""
    actual: str = ""
    remedy: str = ""
    source_file: str = ""
    """Of a series with several files, if it concerns one of them."""
    frames: tuple[int, int] | None = None
    """The first and the last frame of the series that it may concern; None: no frame, or not known."""
    places: int = 1
    """For how many it stands: the check keeps the first of each kind, and counts the others in one."""

    @field_validator("where", "expected", "actual", "remedy", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> str:
        return "" if value is None else value if isinstance(value, str) else str(value)


NO_CHECKSUMS = "no checksums in this file"
"""Of a file that has no segments; a warning unless its checksums are known to be elsewhere."""
NOT_HDF5 = "not an HDF5 file"
SIGNATURE_IS_CORRUPT = "HDF5's signature is corrupt"
"""Of a file that Penstock recorded, which HDF5 does not open."""
CHANGED = "the file was changed since it was closed"
"""By another program, which opened the finished file for writing, or cut it off."""
MISSING_DATASET = "a dataset of the description is missing from the file"
"""Of one that the recorder made; a warning unless it is one of frames."""
NO_ENTRY = "no NXentry"
NO_ROWS = "times of the recorder are missing"
"""Its `actual` starts with the number of frames, before a colon."""
UNFINISHED = "the series is not finished"
"""Of a file that nobody records any more; without a remedy if the report's `recoverable` says what to do."""
UNFINISHED_RECOVERY = "the recovery is not finished"
"""Of a file whose structures `penstock recover` did not finish to rebuild."""
NOT_COMPARED = "pixels not compared"
"""A warning: the reference of `--against` cannot be made, and the file is not at fault."""
TRUNCATED = "the file is shorter than it says"
MEMBER_IS_GONE = "a file with a part of the frames is not there"
LENGTHS_DISAGREE = "lengths disagree"


def lacks_checksums(findings: Iterable[Finding]) -> bool:
    """Whether nothing proves that the frames are those that were recorded."""
    return any(finding.what == NO_CHECKSUMS and finding.level == "warning" for finding in findings)


def names_completion(findings: Iterable[Finding]) -> bool:
    """Returns whether a finding says how to complete the file."""
    return any(each.what in (UNFINISHED, UNFINISHED_RECOVERY) and each.remedy for each in findings)


def lacks_comparison(findings: Iterable[Finding]) -> bool:
    """Returns whether a comparison was requested that could not be made."""
    return any(finding.what == NOT_COMPARED for finding in findings)


def is_clean(findings: Iterable[Finding]) -> bool:
    """Returns whether they contain no error; warnings are not damage."""
    return all(finding.level != "error" for finding in findings)
