"""What a data set is: its parameters, its files and the truth about them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.bench.data.folder import DATA_NAME, FileSet

CONTENTS = "contents-000000000.json"
"""written last: with it, a data set is complete"""
CONTENTS_SET = FileSet(prefix="contents-", count=1, suffix="json")


@dataclass(frozen=True)
class DataSpec:
    """What decides the content of a data set, and who makes it.

    `make` is MODULE:NAME of a job's function. Its parameters are `parameters` and `numbers`: those of the
    files that it makes. It returns `{"files": [DataFile as JSON, ...]}`.
    """

    name: str
    parameters: dict[str, Any]
    files: FileSet
    make: str
    bytes: int
    """of all files, about"""

    @property
    def folder(self) -> str:
        return f"{DATA_NAME}{self.name}-{self._hash()}"

    def _hash(self) -> str:
        decides = [self.name, self.parameters, self.files.model_dump(), self.make]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]

    def file(self, number: int) -> str:
        return f"{self.files.prefix}{number:09d}.{self.files.suffix}"


class DataFile(BaseModel):
    """One file, and what is known of its content."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    name: str
    bytes: int = Field(ge=0)
    sha256: str
    truth: dict[str, Any] = {}


class Contents(BaseModel):
    """Of a complete data set."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    format: Literal["penstock-data 1"] = "penstock-data 1"
    name: str
    parameters: dict[str, Any]
    files: list[DataFile]
