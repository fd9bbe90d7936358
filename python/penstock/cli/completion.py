"""Names that the shell completes with Tab. Nothing is read but lists of files."""

import contextlib
from pathlib import Path
from typing import Any

import typer

from penstock.model.errors import PenstockError
from penstock.programs.locate import blocks_folder, campaigns_folder, detectors_folder, layouts_folder


def detectors(incomplete: str) -> list[str]:
    """Returns names of detectors, also behind a count such as `2x`."""
    count, times, _ = incomplete.partition("x")
    from penstock.model.catalogue import CUSTOM

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


def folders(incomplete: str) -> list[str]:
    """Returns directories that begin so."""
    before, slash, name = incomplete.rpartition("/")
    parent = Path(before + slash)
    with contextlib.suppress(OSError):
        return [
            f"{before}{slash}{each.name}/"
            for each in parent.iterdir()
            if each.name.startswith(name) and each.is_dir()
        ]
    return []


def colormaps(_incomplete: str) -> list[str]:
    """Returns names of colour maps that are common for detectors, of the many of matplotlib."""
    return ["gray", "gray_r", "inferno", "magma", "viridis"]


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
