"""What the catalogue of runs knows of a document: where it lies, and enough to find it again."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from penstock.model.bench.campaigns import Parameter
from penstock.model.bench.runs import Validity
from penstock.model.text import one_short_line

Kind = Literal["run", "verdict", "rehearsal", "campaign"]
ListedValidity = Literal["valid", "warned", "invalid", "incomplete"]
"""what a list may be of"""
State = Literal["there", "changed", "missing"]
RECORDER = "recorder"
"""parameter of a rehearsal: its recorder's settings in short"""


def _shown(value: object) -> object:
    return one_short_line(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_shown)]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class EntryTarget(_Part):
    path: Text
    file_system: Text


class EntryValue(_Part):
    value: float
    unit: str
    at_least: bool = Field(False, description="a lower bound: the storage's limit was not found")


class Entry(_Part):
    """One document."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int
    modified_ns: int = Field(
        description="of the file, when it was added: a change is seen without reading it"
    )
    kind: Kind
    name: Text = Field("", description="name of the detector or of the campaign")
    started: Text = Field("", description="start of the first run, ISO 8601, UTC")
    host: Text = ""
    workload: Text = ""
    targets: list[EntryTarget] = []
    parameters: dict[Text, Annotated[Parameter, BeforeValidator(_shown)]] = {}
    validity: Validity | None = Field(
        None, description="validity of the worst run, or of a rehearsal; null: no run"
    )
    answer: Text = Field("", description="answer of a verdict or a rehearsal")
    runs: int = Field(0, description="number of runs; of a rehearsal of its steps")
    failures: int = 0
    complete: bool = True
    values: dict[Text, EntryValue] = {}


class Listed(_Part):
    """An entry as the catalogue has it, and what has become of its file."""

    id: int
    entered: Text
    state: State
    entry: Entry
