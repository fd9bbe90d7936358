"""What the tools that look at the native code share: the files, and how each is compiled.

The preset `tidy` gives the compiler each source alone; nobody builds it.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASE = ROOT / "build" / "tidy" / "compile_commands.json"


@dataclass(frozen=True)
class Unit:
    """What the compiler is given as one file."""

    file: Path
    sources: list[Path]
    """The one, or those that it includes."""
    arguments: list[str]
    """Without the output and the input."""


def headers() -> list[Path]:
    return sorted((ROOT / "native").rglob("*.hpp")) + sorted((ROOT / "native").rglob("*.h"))


def units() -> list[Unit]:
    found = []
    for entry in json.loads(DATABASE.read_text()):
        file = Path(entry["file"])
        arguments = _arguments(shlex.split(entry["command"]), entry["file"])
        found.append(Unit(file, [file], arguments))
    return found


def compile_commands() -> dict[Path, list[str]]:
    """Each source's arguments."""
    return {source: unit.arguments for unit in units() for source in unit.sources}


def _arguments(command: list[str], file: str) -> list[str]:
    kept = []
    skip = False
    for argument in command:
        if skip:
            skip = False
        elif argument == "-o":
            skip = True
        elif argument not in ("-c", file):
            kept.append(argument)
    return kept
