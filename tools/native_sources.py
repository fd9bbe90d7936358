"""What the tools that look at the native code share: the files, and how each is compiled."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASE = ROOT / "build" / "release" / "compile_commands.json"


def headers() -> list[Path]:
    return sorted((ROOT / "native").rglob("*.hpp")) + sorted((ROOT / "native").rglob("*.h"))


def compile_commands() -> dict[Path, list[str]]:
    """Each compiled file's arguments, without the output and the input."""
    commands = {}
    for entry in json.loads(DATABASE.read_text()):
        arguments = shlex.split(entry["command"])
        file = Path(entry["file"])
        kept = []
        skip = False
        for argument in arguments:
            if skip:
                skip = False
            elif argument == "-o":
                skip = True
            elif argument not in ("-c", entry["file"]):
                kept.append(argument)
        commands[file] = kept
    return commands
