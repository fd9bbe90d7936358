"""Options of `penstock lab up` and `penstock lab run`: which laboratory to bring up."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from penstock.cli.common import bandwidth_option, size_option
from penstock.cli.lab.names import SystemName
from penstock.lab.ground import GROUND
from penstock.lab.place import DISKS, place_of
from penstock.lab.request import CLIENTS_MAX, SERVERS_MAX, LabRequest
from penstock.lab.systems.all import system_named
from penstock.model import panels
from penstock.model.errors import UsageError
from penstock.model.problems import words_of

Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the laboratory. [default: the system's]",
        rich_help_panel=panels.LABORATORY,
    ),
]
Servers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=SERVERS_MAX,
        help="Number of servers; of a local file system, of its disks. [default: depends on the system]",
        rich_help_panel=panels.LABORATORY,
    ),
]
Clients = Annotated[
    int,
    typer.Option(
        min=1,
        max=CLIENTS_MAX,
        help="Number of clients, each with its own network address and mount point.",
        rich_help_panel=panels.LABORATORY,
    ),
]
DiskChoice = Annotated[
    str | None,
    typer.Option(
        "--disks",
        metavar="KIND",
        help="Disk of each server: loop:SIZE (a sparse file), ram:SIZE, or dir:FOLDER,... (new folders"
        " in these). [default: loop; without root dir:/var/tmp]",
        rich_help_panel=panels.LABORATORY,
    ),
]
Link = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Limit of each server's network link, in each direction, such as 1Gb/s. [default: no limit]",
        rich_help_panel=panels.LABORATORY,
    ),
]
DiskRate = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Limit of each server's disk, in each direction, such as 100MB/s; with --disks loop."
        " [default: no limit]",
        rich_help_panel=panels.LABORATORY,
    ),
]
ServerCpus = Annotated[
    float | None,
    typer.Option(
        help="Processors that each server may use, 0.01 to 8192, such as 0.5. [default: no limit]",
        rich_help_panel=panels.LABORATORY,
    ),
]
ServerMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory that each server may use. [default: no limit]",
        rich_help_panel=panels.LABORATORY,
    ),
]
SystemOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Option of the system; `penstock lab doctor SYSTEM` lists them. May be repeated.",
        rich_help_panel=panels.LABORATORY,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help=f"New folder for disks of kind loop. It is removed with the laboratory. [default: {DISKS}/NAME]",
        rich_help_panel=panels.LABORATORY,
    ),
]


@dataclass(frozen=True)
class LabOptions:
    system: SystemName
    name: Name = None
    servers: Servers = None
    clients: Clients = 1
    disks: DiskChoice = None
    disk_rate: DiskRate = None
    link: Link = None
    server_cpus: ServerCpus = None
    server_memory: ServerMemory = None
    option: SystemOption = None
    folder: Folder = None

    def request(self) -> LabRequest:
        """Raises UsageError with the option and value of each problem."""
        place = place_of(self.name or self.system)
        memory = self.server_memory
        values = {
            "name": place.name,
            "system": self.system,
            "servers": self.servers or system_named(self.system).SERVERS,
            "clients": self.clients,
            "disks": self.disks or GROUND.DISKS,
            "link_bytes_per_s": None if self.link is None else bandwidth_option(self.link, "--link"),
            "disk_bytes_per_s": None
            if self.disk_rate is None
            else bandwidth_option(self.disk_rate, "--disk-rate"),
            "server_cpus": self.server_cpus,
            "server_memory_bytes": None if memory is None else size_option(memory, "--server-memory"),
            "options": dict(_pair(each) for each in self.option or []),
            "folder": (self.folder or DISKS / place.name).absolute(),
        }
        try:
            return LabRequest.model_validate(values)
        except ValidationError as error:
            names = {
                "disk_bytes_per_s": "--disk-rate",
                "link_bytes_per_s": "--link",
                "server_memory_bytes": "--server-memory",
            }
            problems = []
            for each in error.errors():
                field = str(each["loc"][0])
                problems.append(f"{names.get(field, '--' + field.replace('_', '-'))}: {words_of(each)}")
            raise UsageError("\n".join(problems), "see --help") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--option {text}: no NAME=VALUE", "for example --option goal=3")
    return name, value
