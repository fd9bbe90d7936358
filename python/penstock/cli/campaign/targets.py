"""Parses the targets of `penstock campaign`."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.bench.run.jobs import LOCAL
from penstock.cli.lab.targets import with_mount_points
from penstock.lab.place import is_up, place_of
from penstock.lab.storage import UP
from penstock.lab.targets import each_size
from penstock.model.bench.campaigns import SERVERS_MAX, Target
from penstock.model.bench.network import parse_address
from penstock.model.errors import UsageError
from penstock.model.storage_url import place_of as storage_place

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}"
_NAMED = re.compile(rf"(?P<name>{_NAME})=(?P<path>.+)", re.DOTALL)
_LABORATORY = re.compile(rf"(?P<name>{_NAME}=)?lab:(?P<what>.+)", re.DOTALL)
_DETAIL = re.compile(r",(?P<key>servers|local)=(?P<value>[^,=/]*)\Z")
_FORM = "--target NAME=PATH,servers=N,local=NAME"


def targets_of(texts: Sequence[str], of_network: bool = False) -> list[Target]:
    """Returns targets: "ssd=/data" is named ssd, "/data" by its path; "fs=/data,servers=3" has 3 servers;
    "lab:moosefs,servers=1..3" are three laboratories, which the campaign brings up.

    One name with several numbers of servers is a system, whose targets are named "fs-3"; with several numbers
    of clients "fs-3-clients-2". Raises UsageError.
    """
    if not texts:
        what = "the address of the other end, or local" if of_network else "a folder on the storage"
        raise UsageError("--target is missing", f"name {what}")
    found = [target for text in texts for target in _targets(text, of_network)]
    systems = {name: [each for each in found if each.name == name] for name in (each.name for each in found)}
    targets = [_of_a_system(target, systems[target.name]) for target in found]
    for name, count in Counter(target.name for target in targets).items():
        if count > 1:
            raise UsageError(
                f'two targets have the name "{name}"',
                "give them different names or numbers of servers: --target NAME=PATH,servers=N",
            )
    for target in targets:
        _require_disk(target, {each.name for each in targets})
    return targets


def _targets(text: str, of_network: bool) -> Iterator[Target]:
    laboratory = _LABORATORY.fullmatch(text)
    if laboratory is None or of_network:
        yield _target(text, of_network)
        return
    name, what = laboratory["name"], laboratory["what"]
    system = name.removesuffix("=") if name else what.partition(",")[0]
    # One that is up already is a folder; its own settings stand.
    if is_up(place_of(what.partition(",")[0])):
        (word,) = with_mount_points([f"lab:{what}"], takes_urls=True)
        yield _target(f"{system}={word}", of_network)
        return
    what, local = _without_local(what)
    for each in each_size(what):
        yield Target(
            name=system,
            path=f"lab:{each.text}",
            servers=each.servers,
            clients=each.clients,
            local=local,
            laboratory=each.text,
        )


def _without_local(text: str) -> tuple[str, str]:
    """`local` is the campaign's, not the laboratory's."""
    parts = text.split(",")
    local = [part.removeprefix("local=") for part in parts if part.startswith("local=")]
    return ",".join(part for part in parts if not part.startswith("local=")), (local or [""])[-1]


def _target(text: str, of_network: bool) -> Target:
    rest, details = text, dict[str, str]()
    while not of_network and (match := _DETAIL.search(rest)):
        if match["key"] in details:
            raise UsageError(f"--target {text}: `{match['key']}` is given twice", f"write {_FORM}")
        details[match["key"]] = match["value"]
        rest = rest[: match.start()]
    named = _NAMED.fullmatch(rest)
    name, path = (named["name"], named["path"]) if named else (rest, rest)
    if not path.isprintable() or not path:
        raise UsageError(f"--target {text!r} is not a folder", "name a folder: --target NAME=PATH")
    if of_network and path != LOCAL:
        parse_address(path)
    return Target(
        name=name,
        path=path if of_network else _absolute(path),
        servers=_servers(text, details["servers"]) if "servers" in details else None,
        local=details.get("local", ""),
    )


def _absolute(path: str) -> str:
    if path.startswith(UP):
        return path
    place = storage_place(path)
    return str(place.absolute() if isinstance(place, Path) else place)


def _servers(text: str, count: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", count) or not 1 <= int(count) <= SERVERS_MAX:
        raise UsageError(
            f"--target {text}: servers is {count!r}; it must be a whole number from 1 to {SERVERS_MAX}",
            f"write {_FORM}",
        )
    return int(count)


def _of_a_system(target: Target, system: Sequence[Target]) -> Target:
    """`system`: all targets of the name, which differ in their numbers."""
    if len(system) == 1 or target.servers is None:
        return target
    numbers = {each.clients for each in system}
    clients = f"-clients-{target.clients}" if len(numbers) > 1 else ""
    return target.model_copy(
        update={"name": f"{target.name}-{target.servers}{clients}", "system": target.name}
    )


def _require_disk(target: Target, names: set[str]) -> None:
    if not target.local:
        return
    if target.local not in names or target.local == target.name:
        raise UsageError(
            f'--target {target.name}: local is "{target.local}", which is not another target',
            f"add --target {target.local}=PATH",
        )
    if target.servers is None:
        raise UsageError(f"--target {target.name}: local requires servers", f"write {_FORM}")
