"""Names that the shell completes with Tab. Nothing is read but lists of files."""

from typing import Any

import typer

from penstock.model.catalogue import CUSTOM
from penstock.model.errors import PenstockError
from penstock.programs.locate import blocks_folder, campaigns_folder, detectors_folder, layouts_folder


def detectors(incomplete: str) -> list[str]:
    """Returns names of detectors, also behind a count such as `2x`."""
    count, times, _ = incomplete.partition("x")
    before = count + times if times and count.isdecimal() else ""
    return [before + name for name in [*_stems(detectors_folder), CUSTOM]]


def layouts(_incomplete: str) -> list[str]:
    """Returns names of layouts that come with Penstock."""
    return _stems(layouts_folder)


def campaigns(_incomplete: str) -> list[str]:
    """Returns names of campaigns that come with Penstock."""
    return _stems(campaigns_folder)


def blocks(_incomplete: str) -> list[str]:
    """Returns names of building blocks that come with Penstock."""
    return _stems(blocks_folder)


def commands(context: typer.Context, _incomplete: str) -> list[str]:
    """Returns names of commands below those that are there already."""
    there: Any = context.find_root().command
    for name in context.params.get("command") or []:
        there = getattr(there, "commands", {}).get(name)
    return list(getattr(there, "commands", {}))


def _stems(folder: Any) -> list[str]:
    try:
        return sorted(path.stem for path in folder().iterdir() if path.suffix in (".yaml", ".xml"))
    except (PenstockError, OSError):
        return []
