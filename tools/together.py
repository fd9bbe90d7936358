"""Puts units of the native code together into larger ones, for tools that take as long for what is
included as for the source itself.

Most of what a tool sees of a source is the standard library and a few other headers; sources that
are looked at as one share them. Two sources whose local names might be the same are kept apart: a
name is taken from the text, so that some pairs are kept apart in vain. What does not compile
together all the same is for the caller to take apart again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from native_sources import Unit

# The text of a unit's sources; one larger than this is a long end where several run side by side.
TOGETHER_BYTES = 200_000
# Where a line begins a definition, the layout (clang-format) has it in the first column.
_DEFINITION = re.compile(
    r"^(?!namespace|template|public|private|extern|#)[A-Za-z][^;={(]*?(\w+)\s*[;={(\[]", re.MULTILINE
)
_MEMBER = re.compile(r"^[^(={;]*::~?\w+\s*\(")
# Makes no difference to what is found in a source.
_IRRELEVANT = ("-W", "-fPIC", "-fPIE", "-ffp-contract=")
# These can be added to another source's; the headers of an MPI cannot.
_ADDED = re.compile(r"^-[ID]")
_OWN_HEADERS = re.compile("openmpi|mpich", re.IGNORECASE)


@dataclass
class Group:
    """Units that can be one."""

    units: list[Unit] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    size: int = 0

    def takes(self, names: set[str], size: int) -> bool:
        return not (self.names & names) and self.size + size <= TOGETHER_BYTES

    def add(self, unit: Unit, names: set[str], size: int) -> None:
        self.units.append(unit)
        self.names |= names
        self.size += size


def together(units: list[Unit], folder: Path) -> list[tuple[Unit, list[Unit]]]:
    """Each larger unit, written into the folder, with those that it is made of; one that stays alone
    is its own."""
    groups: dict[tuple[str, ...], list[Group]] = {}
    for unit in sorted(units, key=lambda unit: (-_size(unit), str(unit.file))):
        fitting = groups.setdefault(_kind(unit), [])
        names, size = local_names(unit), _size(unit)
        group = next((group for group in fitting if group.takes(names, size)), None)
        if group is None:
            group = Group()
            fitting.append(group)
        group.add(unit, names, size)
    return [(as_one(group.units, folder), group.units) for kind in groups.values() for group in kind]


def local_names(unit: Unit) -> set[str]:
    """What the sources define outside of classes, as far as their text tells."""
    return {name for source in unit.sources for name in _names(source.read_text(encoding="utf-8"))}


def _names(text: str) -> Iterator[str]:
    for match in _DEFINITION.finditer(text):
        line = text[match.start() : text.find("\n", match.start())]
        if not _MEMBER.match(line):
            yield match.group(1)


def _size(unit: Unit) -> int:
    return sum(source.stat().st_size for source in unit.sources)


def _kind(unit: Unit) -> tuple[str, ...]:
    """What must be the same for two units to be one: whatever cannot be added up."""
    if any(_OWN_HEADERS.search(argument) for argument in unit.arguments) or unit.file.suffix == ".c":
        return (str(unit.file),)
    return tuple(
        argument for argument in _without_folders(unit.arguments) if not argument.startswith(_IRRELEVANT)
    )


def _without_folders(arguments: list[str]) -> Iterator[str]:
    previous = ""
    for argument in arguments:
        if previous != "-isystem" and argument != "-isystem" and not _ADDED.match(argument):
            yield argument
        previous = argument


def as_one(units: list[Unit], folder: Path) -> Unit:
    """The units as a larger one, written into the folder; one that is alone is its own."""
    if len(units) == 1:
        return units[0]
    sources = [source for unit in units for source in unit.sources]
    text = "".join(f'#include "{source}"\n' for source in sources)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    file.write_text(text, encoding="utf-8")
    return Unit(file, sources, _added_up(units))


def _added_up(units: list[Unit]) -> list[str]:
    """The first one's arguments, and the definitions and folders that only others have."""
    added = list(units[0].arguments)
    for unit in units[1:]:
        previous = ""
        for argument in unit.arguments:
            if argument not in added:
                if previous == "-isystem":
                    added += ["-isystem", argument]
                elif _ADDED.match(argument):
                    added.append(argument)
            previous = argument
    return added
