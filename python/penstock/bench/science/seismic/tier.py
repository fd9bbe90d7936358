"""The second storage of a sort, which may be one that is brought up on demand."""

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.data.folder import require_writable
from penstock.lab.control import laboratories, state_of
from penstock.lab.place import place_of
from penstock.lab.storage import mount_of
from penstock.model.errors import UsageError
from penstock.model.storage_url import mounted
from penstock.model.storage_url import place_of as storage_place_of

_LAB = "lab:"


@dataclass(frozen=True)
class Tier:
    """`up_s`: how long it took to bring it up; None where that is unknown."""

    path: Path
    up_s: float | None


def require_tier(text: str) -> None:
    """Raises UsageError if the sort cannot write there."""
    _path_of(text)


def tier_of(text: str) -> Tier:
    path = _path_of(text)
    for state in laboratories():
        if state.mount and path.is_relative_to(state.mount):
            return Tier(path, state.up_s)
    return Tier(path, None)


def _path_of(text: str) -> Path:
    expanded = os.path.expandvars(text)
    if expanded.startswith("$"):
        raise UsageError(f"scratch: the variable {expanded} is not set", f"export {expanded[1:]}=DIRECTORY")
    if expanded.startswith(_LAB):
        name, _, rest = expanded.removeprefix(_LAB).partition("/")
        state = state_of(place_of(name))
        if not state.mount:
            raise UsageError(f"scratch: {state.title} has no mount point here", "use a laboratory that has")
        expanded = f"{mount_of(state)}/{rest}"
    path = mounted(storage_place_of(expanded), "--scratch")
    require_writable(path)
    return path
