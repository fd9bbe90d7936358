"""Tables under headings, for the terminal and as Markdown: the same rows in both."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


@dataclass(frozen=True)
class Section:
    """Rows have as many cells as `header`; lines stand below them."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()


def sections_view(sections: Iterable[Section]) -> RenderableType:
    parts: list[RenderableType] = []
    for section in sections:
        parts += [Text(section.title, style="bold"), *_body(section), Text()]
    return Group(*parts[:-1])


def _body(section: Section) -> list[RenderableType]:
    lines: list[RenderableType] = [Text(f"- {line}") for line in section.lines]
    if not section.rows:
        return lines
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(section.header))
    for number, title in enumerate(section.header):
        table.add_column(title, overflow="fold", no_wrap=number == 0)
    for row in section.rows:
        table.add_row(*(escape(cell) for cell in row))
    return [table, *lines]


def sections_markdown(title: str, sections: Iterable[Section], answer: str = "") -> str:
    lines = [f"# {_plain(title)}", *(["", _plain(answer)] if answer else [])]
    for section in sections:
        lines += ["", f"## {_plain(section.title)}"]
        if section.rows:
            lines += ["", _row(section.header), _row(["---"] * len(section.header), plain=False)]
            lines += [_row(row) for row in section.rows]
        if section.lines:
            lines += ["", *(f"- {_plain(line)}" for line in section.lines)]
    return "\n".join(lines)


def _row(cells: Sequence[str], plain: bool = True) -> str:
    return "| " + " | ".join(_plain(cell) if plain else cell for cell in cells) + " |"


def _plain(text: str) -> str:
    """What a machine said is text, whatever it looks like: no markup, no line of its own."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
