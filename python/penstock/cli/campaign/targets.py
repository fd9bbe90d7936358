"""The targets of `penstock campaign`: what their texts say."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from penstock.bench.run.jobs import LOCAL
from penstock.model.bench.campaigns import SERVERS_MAX, Target
from penstock.model.bench.network import parse_address
from penstock.model.errors import UsageError

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}"
_NAMED = re.compile(rf"(?P<name>{_NAME})=(?P<path>.+)", re.DOTALL)
_DETAIL = re.compile(r",(?P<key>servers|local)=(?P<value>[^,=/]*)\Z")
_FORM = "--target NAME=PATH,servers=N,local=NAME"


def targets_of(texts: Sequence[str], of_network: bool = False) -> list[Target]:
    """ "ssd=/data" is called ssd, and "/data" is called as it is; "fs=/data,servers=3" has three servers.

    Where one name stands several times with other numbers of servers, these are a system, and targets are
    called "fs-3". A UsageError names the text that is wrong.
    """
    if not texts:
        what = "the address of the other end, or local" if of_network else "a folder on the storage"
        raise UsageError("a campaign needs a --target", f"name {what}")
    found = [_target(text, of_network) for text in texts]
    counts = Counter(target.name for target in found)
    targets = [_of_a_system(target) if counts[target.name] > 1 else target for target in found]
    for name, count in Counter(target.name for target in targets).items():
        if count > 1:
            raise UsageError(
                f'two targets are called "{name}"',
                "give them names, or other numbers of servers: --target NAME=PATH,servers=N",
            )
    for target in targets:
        _require_disk(target, {each.name for each in targets})
    return targets


def _target(text: str, of_network: bool) -> Target:
    rest, details = text, dict[str, str]()
    while not of_network and (match := _DETAIL.search(rest)):
        if match["key"] in details:
            raise UsageError(f"--target {text!r} says `{match['key']}` twice", _FORM)
        details[match["key"]] = match["value"]
        rest = rest[: match.start()]
    named = _NAMED.fullmatch(rest)
    name, path = (named["name"], named["path"]) if named else (rest, rest)
    if not path.isprintable() or not path:
        raise UsageError(f"--target {text!r} is no folder", "name a folder: --target NAME=PATH")
    if of_network and path != LOCAL:
        parse_address(path)
    return Target(
        name=name,
        path=path if of_network else str(Path(path).absolute()),
        servers=_servers(text, details["servers"]) if "servers" in details else None,
        local=details.get("local", ""),
    )


def _servers(text: str, count: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", count) or not 1 <= int(count) <= SERVERS_MAX:
        raise UsageError(f"--target {text!r}: servers is {count!r}", f"a whole number, 1 to {SERVERS_MAX}")
    return int(count)


def _of_a_system(target: Target) -> Target:
    if target.servers is None:
        return target
    return target.model_copy(update={"name": f"{target.name}-{target.servers}", "system": target.name})


def _require_disk(target: Target, names: set[str]) -> None:
    if not target.local:
        return
    if target.local not in names or target.local == target.name:
        raise UsageError(
            f'the local disk "{target.local}" of {target.name} is no other target',
            f"name it, too: --target {target.local}=PATH",
        )
    if target.servers is None:
        raise UsageError(f"{target.name} has a local disk and no number of servers", _FORM)
