"""Laboratories as targets of a campaign: `moosefs,servers=1..4,clients=2,link=1Gb/s,goal=1`."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.lab.control import held
from penstock.lab.ground import GROUND
from penstock.lab.laboratory import require_possible
from penstock.lab.place import DISKS
from penstock.lab.request import CLIENTS_MAX, SERVERS_MAX, LabRequest, LabState
from penstock.lab.systems.all import system_named
from penstock.model.errors import UsageError
from penstock.model.units import parse_bandwidth, parse_size

_RANGE = re.compile(r"(?P<first>[0-9]{1,2})(\.\.(?P<last>[0-9]{1,2}))?")
_OWN = ("servers", "clients", "disks", "disk_rate", "link", "server_cpus", "server_memory")


@dataclass(frozen=True)
class Sized:
    """A laboratory with one number of servers and one of clients; `clients` is None where none was given."""

    text: str
    servers: int
    clients: int | None


def each_size(text: str) -> list[Sized]:
    """Each number of servers with each number of clients of a text. Raises UsageError."""
    system, settings = _parsed(text)
    kind = system_named(system)
    servers = _numbers(text, "servers", settings.pop("servers", str(kind.SERVERS)), SERVERS_MAX)
    given = settings.pop("clients", None)
    clients = [None] if given is None else [*_numbers(text, "clients", given, CLIENTS_MAX)]
    rest = "".join(f",{key}={value}" for key, value in settings.items())
    found = [
        Sized(f"{system},servers={count}{f',clients={number}' if number else ''}{rest}", count, number)
        for count in servers
        for number in clients
    ]
    for each in found:
        require_possible(request_of(each.text, "campaign"))
    return found


def _numbers(text: str, name: str, given: str, most: int) -> range:
    """Of "3" or "1..4"."""
    found = _RANGE.fullmatch(given)
    first = int(found["first"]) if found else 0
    last = int(found["last"]) if found and found["last"] else first
    if not 1 <= first <= last <= most:
        raise UsageError(
            f"lab:{text}: {name} is {given!r}", f"use a number or a range from 1 to {most}, such as 1..4"
        )
    return range(first, last + 1)


def request_of(text: str, name: str) -> LabRequest:
    """Raises UsageError. Settings that no laboratory has are options of the system."""
    system, settings = _parsed(text)
    own = {key: settings.pop(key) for key in _OWN if key in settings}
    try:
        return LabRequest(
            name=name,
            system=system,
            servers=int(own.get("servers", system_named(system).SERVERS)),
            clients=int(own.get("clients", 1)),
            disks=own.get("disks", GROUND.DISKS),
            link_bytes_per_s=parse_bandwidth(own["link"]) if "link" in own else None,
            disk_bytes_per_s=parse_bandwidth(own["disk_rate"]) if "disk_rate" in own else None,
            server_cpus=float(own["server_cpus"]) if "server_cpus" in own else None,
            server_memory_bytes=parse_size(own["server_memory"]) if "server_memory" in own else None,
            options=settings,
            folder=DISKS / name,
        )
    except ValueError as error:
        raise UsageError(
            f"lab:{text}: {error}", f"settings are {', '.join(_OWN)}, and the system's own"
        ) from error


@contextmanager
def held_target(text: str) -> Iterator[LabState]:
    """Up as long as the block is in progress, under a name that no other process uses."""
    with held(request_of(text, f"campaign-{os.getpid()}")) as state:
        yield state


def _parsed(text: str) -> tuple[str, dict[str, str]]:
    system, *settings = text.split(",")
    system_named(system)
    pairs = [each.partition("=") for each in settings]
    for name, equals, value in pairs:
        if not name or not equals or not value:
            raise UsageError(f"lab:{text}: no NAME=VALUE", "for example lab:moosefs,servers=1..4,link=1Gb/s")
    return system, {name: value for name, _, value in pairs}
