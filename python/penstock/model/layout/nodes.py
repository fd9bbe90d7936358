"""A layout once it is read: objects with paths, what each is made of, and the line that says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.model.findings import Finding, Level

# What the recorder makes when it is given no layout.
DEFAULT = "nxmx"
Kind = Literal["group", "frames", "series", "metadata", "constant", "link"]
When = Literal["every", "first", "last"]
_NAME_BYTES_MAX = 255
PATH_BYTES_MAX = 1024
Scalar = bool | int | float | str


@dataclass(frozen=True)
class Constant:
    """`type` is text, bool or one of the element types; `value` is one, or a list (not of truth values)."""

    type: str
    value: Scalar | list[Any]

    def plan(self) -> dict[str, Any]:
        return {"type": self.type, "value": self.value}


@dataclass(frozen=True)
class FrameValue:
    """A value that frames bring: of every frame, of the first or of the last one."""

    name: str
    when: When = "every"
    type: Literal["", "int", "uint", "float", "text"] = ""

    def plan(self) -> dict[str, Any]:
        return {"name": self.name, "when": self.when, "type": self.type}


@dataclass(frozen=True)
class Attribute:
    """One of constant, metadata and series (the path of a dataset in Penstock's own tree)."""

    name: str
    constant: Constant | None = None
    metadata: FrameValue | None = None
    series: str = ""

    def plan(self) -> dict[str, Any]:
        if self.constant is not None:
            return {"name": self.name, "constant": self.constant.plan()}
        if self.metadata is not None:
            return {"name": self.name, "metadata": self.metadata.plan()}
        return {"name": self.name, "series": self.series}


@dataclass(frozen=True)
class Node:
    """An object of a file. `line` is where the layout's file has it, from 1."""

    path: str
    kind: Kind
    line: int = 0
    attributes: tuple[Attribute, ...] = ()
    channel: int | str = 0
    default: bool = False  # of frames: it has those that name none of the layout's destinations
    source: str = ""  # of a group or of series: an object of Penstock's own tree
    metadata: FrameValue | None = None
    constant: Constant | None = None
    target: str = ""

    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = {"kind": self.kind, "path": self.path}
        if self.attributes:
            plan["attributes"] = [attribute.plan() for attribute in self.attributes]
        if self.kind == "frames":
            plan["channel"] = self.channel
            if self.default:
                plan["default"] = True
        elif self.kind == "metadata" and self.metadata is not None:
            plan["metadata"] = self.metadata.plan()
        elif self.kind == "constant" and self.constant is not None:
            plan["constant"] = self.constant.plan()
        elif self.kind == "link":
            plan["target"] = self.target
        elif self.source:
            plan["from"] = self.source
        return plan

    def attribute(self, name: str) -> Scalar | list[Any] | None:
        """The value of a constant attribute."""
        found = next((each for each in self.attributes if each.name == name), None)
        return found.constant.value if found is not None and found.constant is not None else None


@dataclass
class Layout:
    """What a file of a layout says. `findings` are what is wrong with it or does not apply."""

    name: str
    file: str
    description: str = ""
    nodes: list[Node] = field(default_factory=list)
    metadata_group: str | None = None
    destination: str | None = None  # name of the value with which each frame chooses its dataset
    ndattributes: bool = False
    findings: list[Finding] = field(default_factory=list)
    parameters: Mapping[str, str] = field(default_factory=dict)
    omitted: set[str] = field(default_factory=set)  # paths of what was left out with a warning
    lenient: bool = False  # what cannot be is left out with a warning, as by areaDetector

    def add(self, level: Level, line: int, what: str, actual: str, remedy: str) -> None:
        where = f"{self.file}:{line}" if line else self.file
        self.findings.append(Finding(level=level, what=what, where=where, actual=actual, remedy=remedy))

    def takes_name(self, name: str, line: int) -> bool:
        """Returns whether an object can have it; adds a finding if not."""
        if is_possible(name) and len(name.encode()) <= _NAME_BYTES_MAX and name == name.strip():
            return True
        remedy = "letters, digits, _ and - are best; it must not hold / or control characters"
        level, what = self.of_what_cannot_be("the name is invalid")
        self.add(level, line, what, repr(name)[:100], remedy)
        return False

    def of_what_cannot_be(self, what: str) -> tuple[Level, str]:
        """How a finding about an object begins without which the layout can be."""
        return ("warning", f"{what}; it is left out") if self.lenient else ("error", what)

    def destinations(self) -> list[Node]:
        """Returns the datasets among which `destination` chooses, the default one first."""
        datasets = [node for node in self.nodes if node.kind == "frames" and node.channel == 0]
        return sorted(datasets, key=lambda node: (not node.default, node.path))

    @property
    def chooses(self) -> bool:
        """Whether a value of each frame chooses its dataset."""
        return self.destination is not None and len(self.destinations()) > 1

    @property
    def errors(self) -> Sequence[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> Sequence[Finding]:
        return [finding for finding in self.findings if finding.level == "warning"]

    def plan(self) -> dict[str, Any]:
        """As the recorder reads it."""
        plan: dict[str, Any] = {"name": self.name, "ndattributes": self.ndattributes}
        if self.metadata_group is not None:
            plan["metadata_group"] = self.metadata_group
        if self.destination is not None:
            plan["destination"] = self.destination
        plan["nodes"] = [node.plan() for node in self.nodes]
        return plan


def is_possible(name: str, slashes: bool = False) -> bool:
    """Whether HDF5 takes it for the name of one object."""
    surrogates = any(0xD800 <= ord(letter) <= 0xDFFF for letter in name)
    control = any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in name)
    return (
        bool(name)
        and name not in (".", "..")
        and not control
        and not surrogates
        and (slashes or "/" not in name)
    )


def parent_of(path: str) -> str:
    """The group that an object lies in: "/" of those at the top."""
    return path.rpartition("/")[0] or "/"


def join(group: str, name: str) -> str:
    return f"{group.rstrip('/')}/{name}"
