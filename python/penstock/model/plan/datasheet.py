"""The data sheet of a storage and of the machine in front of it: what `penstock describe` finds."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.bench.runs import Validity

Value = str | int | float | bool
Unit = Literal["", "B", "B/s", "1/s", "s", "Mb/s"]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Fact(_Part):
    """One value, with where it comes from."""

    name: str
    value: Value | None = Field(description="null: not known")
    unit: Unit = ""
    source: str = Field(description="a file or a command")
    unknown: str = Field("", description="why the value is not known")


class FactGroup(_Part):
    key: str = Field(description="unique key in the data sheet, such as `device sda`")
    title: str
    facts: list[Fact]

    def value(self, name: str) -> Value | None:
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def number(self, name: str) -> float | None:
        """The value if it is a number; None if it is unknown, a text, or yes or no."""
        value = self.value(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class Hint(_Part):
    """Something that costs speed or trust, and what to do about it."""

    what: str
    why: str
    remedy: str


class LocalSpeed(_Part):
    """What was measured with --measure."""

    what: str
    value: float | None = Field(description="null: it could not be measured")
    unit: Literal["B/s", "1/s"]
    validity: Validity
    how: str
    doubts: list[str] = Field(description="checks that were not ok")


class DataSheet(_Part):
    format: Literal["penstock-datasheet 1"] = "penstock-datasheet 1"
    path: str
    host: str
    made: str = Field(description="ISO 8601, UTC")
    groups: list[FactGroup]
    hints: list[Hint]
    speeds: list[LocalSpeed] = Field([], description="empty: no measurement")

    def group(self, key: str) -> FactGroup | None:
        return next((group for group in self.groups if group.key == key), None)

    def of_kind(self, kind: str) -> list[FactGroup]:
        """Those whose key begins with a word, as `device`."""
        return [group for group in self.groups if group.key.split(" ")[0] == kind]
