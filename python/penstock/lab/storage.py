"""A laboratory as storage: the mount point of its first client, or its URL as that client reaches it."""

from pathlib import Path

from penstock.lab.cgroups import Group, joining_by_rank
from penstock.lab.clients import folders_of_clients
from penstock.lab.control import state_of
from penstock.lab.ground import GROUND
from penstock.lab.mounts import mounts_below
from penstock.lab.place import own_root_of
from penstock.lab.place import place_of as laboratory_place
from penstock.lab.request import LabState
from penstock.model.errors import UsageError
from penstock.model.storage_url import Place, StorageUrl, place_of
from penstock.programs.process import PLAIN_START, Start
from penstock.programs.ranks import Ranks

_FIRST = "client-1"
UP = "lab:"
"""in front of the name of a laboratory that is up"""


def storage_at(path: str) -> Place:
    """Of the target of a campaign: a path, a URL, or `lab:NAME`. Raises UsageError for one that is not up."""
    if not path.startswith(UP):
        return place_of(path)
    return storage_of(state_of(laboratory_place(path.removeprefix(UP))))


def name_of_laboratory(path: str) -> str:
    """Returns the name of the laboratory that a path or `lab:NAME` is of; empty: it is of none."""
    if path.startswith(UP):
        return path.removeprefix(UP).partition("/")[0]
    root = own_root_of(Path(path))
    return Path(path).relative_to(root).parts[0] if root is not None else ""


def start_at(place: Place, team: Ranks | None = None) -> Start:
    """Returns how a program is started that uses `place`, or each rank of it.

    A client of a laboratory has a control group. All programs on its mount point or its URL run in it: they
    have its share of the processors, the limits of disks hold for them, and it counts what they cost. A rank
    runs in that of the client whose mount point it uses. Programs of a user who may not join it run outside.
    """
    if isinstance(place, StorageUrl):
        return Start(place.inside, dict(place.variables))
    folders = folders_of_clients(place)[: team.count if team is not None else 1]
    groups = [group for each in folders if (group := _group_of(each)) is not None]
    if len(groups) < len(folders) or not all(each.can_be_joined() for each in groups):
        return PLAIN_START
    return Start(joining_by_rank(groups))


def _group_of(folder: Path) -> Group | None:
    root = own_root_of(folder)
    words = folder.relative_to(root).parts if root is not None else ()
    return Group(*words[:2]) if len(words) > 1 else None


def is_visible(state: LabState) -> bool:
    """Whether its mount point is one from here; without root, it is one inside of the laboratory alone."""
    return bool(mounts_below(Path(state.mount)))


def inside_of(state: LabState) -> list[str]:
    """Returns the prefix of a program that sees its mount points; empty: all programs do, or it has none."""
    return GROUND.at_mounts(laboratory_place(state.name)) if state.mount and not is_visible(state) else []


def mount_of(state: LabState) -> Path:
    """Returns the mount point of the first client. Raises UsageError if it is not visible from here."""
    if is_visible(state):
        return Path(state.mount)
    if inside_of(state):
        raise UsageError(
            f"laboratory {state.name} was brought up without root: its mount points are visible only inside",
            f"penstock lab exec {state.name} -- COMMAND, where COMMAND is this command",
        )
    raise UsageError(
        f"laboratory {state.name}: nothing is mounted at {state.mount}", f"penstock lab logs {state.name}"
    )


def storage_of(state: LabState) -> Place:
    """Programs for a URL run with the first client's network, in its control group."""
    if state.mount:
        return mount_of(state)
    return StorageUrl(
        state.url,
        tuple(GROUND.on_client(laboratory_place(state.name), _FIRST)),
        tuple(state.environment.items()),
    )
