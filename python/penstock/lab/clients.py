"""Which client of a laboratory each process of a run uses.

Rank r uses the client with number r modulo their count. Each client has its own mount, so that a folder of a
laboratory has a path through each of them; the path through the first client stands for all. Files are made,
counted and removed under the same names through any of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.lab.mounts import mounts_below
from penstock.lab.place import root_of
from penstock.model.errors import UsageError
from penstock.model.storage_url import Place, StorageUrl
from penstock.programs.ranks import Ranks

_FIRST = "client-1"
_NAME_AT = 1  # in a path below the folder of laboratories


def folders_of_clients(folder: Path) -> list[Path]:
    """Returns `folder` through each client, the first one's first; alone if it is not of a laboratory.

    It stands for all clients where it is reached through the first one's mount. Mounts of one file system of
    this kernel, which have one cache, count as one client. Asks the kernel's table of mounts alone, so that
    it does not wait for the storage.
    """
    path = folder.absolute()
    root = root_of(path)
    if root is None:
        return [path]
    words = path.relative_to(root).parts
    if words[_NAME_AT : _NAME_AT + 2] != (_FIRST, "mount"):
        return [path]
    return [at.joinpath(*words[_NAME_AT + 2 :]) for at in _mounts_of_clients(root / words[0])] or [path]


def through_client(folder: Place, number: int) -> Place:
    """Returns `folder` as process `number` of several reaches it: they take the clients in turn."""
    if isinstance(folder, StorageUrl):
        return folder
    found = folders_of_clients(folder)
    return found[number % len(found)]


def _mounts_of_clients(laboratory: Path) -> list[Path]:
    found: dict[tuple[str, str], Path] = {}
    mounted = {each.at: (each.kind, each.number) for each in reversed(mounts_below(laboratory))}
    number = 1
    while (at := laboratory / f"client-{number}" / "mount") in mounted:
        found.setdefault(mounted[at], at)
        number += 1
    return list(found.values())


def folders_of_ranks(folder: Place, team: Ranks | None) -> list[str]:
    """Returns `folder` through each client that a rank uses; empty where all ranks use `folder` itself."""
    if team is None or team.count < 2 or isinstance(folder, StorageUrl):
        return []
    found = folders_of_clients(folder)[: team.count]
    return [str(each) for each in found] if len(found) > 1 else []


def require_other_readers(folders: Sequence[str], team: Ranks | None) -> None:
    """Raises UsageError if a rank would have to read through the client that wrote.

    With two clients and an odd number of ranks, one client has more ranks than the other could read for.
    """
    if team is not None and len(folders) == 2 and team.count % 2:
        raise UsageError(
            f"--ranks {team.count} with 2 clients: one rank would read through the client that wrote",
            "use an even number of --ranks, or --no-read",
        )


def client_text(folder: str) -> str:
    """Returns the name of the client that a folder is reached through; of any other folder its path."""
    path = Path(folder)
    root = root_of(path)
    words = path.relative_to(root).parts if root is not None else ()
    return words[_NAME_AT] if len(words) > _NAME_AT else folder


def ranks_text(folders: Sequence[str], ranks: int) -> str:
    """Returns "client-1: ranks 0, 2; client-2: rank 1"; "" without folders."""
    return text_of_ranks({rank: folders[rank % len(folders)] for rank in range(ranks)} if folders else {})


def text_of_ranks(folders: Mapping[int, str]) -> str:
    """The same of the folder of each rank."""
    by_client: dict[str, list[int]] = {}
    for rank, folder in sorted(folders.items()):
        by_client.setdefault(client_text(folder), []).append(rank)
    return "; ".join(
        f"{client}: {'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
        for client, ranks in by_client.items()
    )
