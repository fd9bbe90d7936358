"""Pages as Markdown; pictures are replaced by descriptions."""

import re
from collections.abc import Iterator, Sequence

from penstock.report.pages.page import Block, Cell, Facts, Lines, Page, Picture, Section, State, Table, Tiles
from penstock.report.printable import printable

# A sign starts a list or a line only if a blank or another one follows: not in -1.21 %.
_MARKS = re.compile(r"([\\`*_\[\]|~]|^[#>]|^[+-](?=[\s+-]|$))")


def markdown_of(pages: Sequence[Page]) -> str:
    return "\n".join(line for page in pages for line in _page(page)).rstrip() + "\n"


def _text(text: str, state: State = "") -> str:
    """No mark of Markdown or HTML in it does anything."""
    shown = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    escaped = _MARKS.sub(r"\\\1", shown)
    return f"~~{escaped}~~" if state == "void" and escaped else escaped


def _page(page: Page) -> Iterator[str]:
    yield from (f"# {_text(page.title)}", "")
    if page.answer:
        yield from (f"**{_text(page.answer)}**", "")
    yield from (_text(page.subtitle), "")
    for banner in page.banners:
        yield from (f"> **{_text(banner.text)}**", "")
    for section in page.sections:
        yield from _section(section)
    yield from (f"Source: {_text(page.source)}", "")


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield from (f"## {_text(section.title)}{' (INVALID)' if section.is_void else ''}", "")
    for block in section.blocks:
        yield from _block(block, "void" if section.is_void else "")


def _block(block: Block, state: State) -> Iterator[str]:
    match block:
        case Tiles():
            cells = [[Cell(t.label), Cell(t.value, t.state), Cell(t.note)] for t in block.tiles]
            yield from _table(["", "", ""], cells)
        case Facts():
            yield from _table(["", ""], [[Cell(k), Cell(v, block.state)] for k, v in block.rows.items()])
        case Lines():
            if block.title:
                yield from (f"### {_text(block.title)}", "")
            yield from (f"- {_text(line)}" for line in block.lines)
            yield ""
        case Table():
            yield from (f"{_text(block.caption)}:", "")
            yield from _table(block.columns, block.rows)
        case Picture():
            yield from (f"*{_text(block.title)}.* {_text(block.description, state)}", "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    yield f"| {' | '.join(_text(column) for column in columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in rows:
        yield f"| {' | '.join(_text(cell.text, cell.state) for cell in row)} |"
    yield ""
