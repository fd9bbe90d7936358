"""What a report says, whatever it is written as: HTML and Markdown are made of these parts."""

from dataclasses import dataclass, field
from typing import Literal

State = Literal["", "good", "warning", "bad", "void"]
"""`void` is a figure that is not to be used"""


@dataclass(frozen=True)
class Cell:
    text: str
    state: State = ""
    is_narrow: bool = False
    """it stands in one line: a number, or a word"""


@dataclass(frozen=True)
class Table:
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Facts:
    """What, and its value."""

    rows: dict[str, str]
    state: State = ""
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True)
class Tile:
    """One of the few figures that a reader looks for first."""

    label: str
    value: str
    note: str = ""
    state: State = ""


@dataclass(frozen=True)
class Tiles:
    tiles: list[Tile]
    kind: Literal["tiles"] = "tiles"


@dataclass(frozen=True)
class Lines:
    """A list of sentences."""

    title: str
    lines: list[str]
    kind: Literal["lines"] = "lines"


@dataclass(frozen=True)
class Picture:
    """`description` says in words what the picture shows. Without `svg` it could not be drawn."""

    title: str
    description: str
    svg: str
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Banner:
    state: State
    text: str


Block = Table | Facts | Tiles | Lines | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: list[Block]
    is_void: bool = False


@dataclass(frozen=True)
class Page:
    """Of one document."""

    title: str
    answer: str
    answer_state: State
    subtitle: str
    source: str
    """the file that it was made from"""
    banners: list[Banner] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
