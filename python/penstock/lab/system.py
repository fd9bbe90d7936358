"""What a storage system is to the laboratory."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from penstock.lab.network import Network
from penstock.lab.node import Node
from penstock.model.errors import PenstockError

_LOOKS_EVERY_S = 0.05


class SystemOptions(BaseModel):
    """Of one system, as `--option name=value` sets them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Program:
    """What a system needs on this machine."""

    name: str
    """looked for on the path"""
    package: str
    """of Debian"""


@dataclass
class Site:
    """What a laboratory gives to its system: nodes that are there, and folders for its files."""

    folder: Path
    """configurations that belong to no node"""
    network: Network
    servers: list[Node]
    meta: Node
    """for a metadata server or a master; has no disk"""
    clients: list[Node] = field(default_factory=list)

    @property
    def server_nodes(self) -> list[Node]:
        return [self.meta, *self.servers]

    def wait_until(self, there: Callable[[], bool], what: str, seconds_max: float = 60.0) -> None:
        """Raises PenstockError where a daemon ends meanwhile, or the time does."""
        deadline = time.monotonic() + seconds_max
        while not there():
            for node in self.server_nodes:
                node.require_alive()
            if time.monotonic() > deadline:
                raise PenstockError(
                    f"{what} was not there within {seconds_max:g} s", "see `penstock lab logs`"
                )
            time.sleep(_LOOKS_EVERY_S)


Options = TypeVar("Options", bound=SystemOptions)


class System(ABC, Generic[Options]):
    """One storage system. It starts everything on the nodes of its site, so the sweep finds it."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    PROGRAMS: ClassVar[Sequence[Program]] = ()
    FILE_SYSTEM: ClassVar[str | None] = None
    """required in the kernel; None: none"""
    INSTEAD: ClassVar[str] = ""
    """what to do if the kernel lacks it"""
    SERVERS: ClassVar[int] = 1
    """unless the user says how many"""
    SERVERS_MIN: ClassVar[int] = 1
    NEEDS_ROOT: ClassVar[str] = ""
    """why an ordinary user cannot bring it up; empty: one can"""
    DISK: ClassVar[Literal["ext4", "xfs", "device"]] = "xfs"
    """what a server stores on: a file system, or a raw device (`Node.device`)"""
    OPTIONS: ClassVar[type[SystemOptions]] = SystemOptions

    def __init__(self, site: Site, options: Options) -> None:
        self.site, self.options = site, options

    @classmethod
    def is_mounted(cls) -> bool:
        """Returns whether clients mount it; otherwise they use `url`."""
        return True

    @classmethod
    def has_daemons(cls) -> bool:
        """Returns whether its servers have processes, which may fail; otherwise they are disks."""
        return True

    @classmethod
    def can_fail(cls) -> bool:
        """Returns whether a server may fail: its processes are killed, or its disk is taken out."""
        return cls.has_daemons()

    @property
    def title(self) -> str:
        """For users: with what it runs, if there are several ways."""
        return self.TITLE

    def failures_max(self) -> int:
        """Returns how many of these servers may be away at once while it stays in service."""
        return 0

    def is_redundant(self) -> bool:
        return self.failures_max() > 0

    @classmethod
    def kernel_lacks(cls) -> str:
        """Returns what it needs of the kernel besides a file system, and is not there; empty: nothing."""
        return ""

    @classmethod
    def lacks(cls) -> str:
        """What it needs besides packages, and this machine does not have; empty: nothing."""
        return ""

    @classmethod
    def install(cls) -> None:
        """Installs what it `lacks`. Its programs are there. Raises PenstockError."""

    @abstractmethod
    def start(self) -> None:
        """Starts all servers, and returns when clients can come."""

    @abstractmethod
    def mount(self, client: Node) -> None:
        """At the client's mount point, which is there. Nothing for a system without one."""

    def url(self) -> str:
        """For clients of its protocol; empty for a system that is only mounted."""
        return ""

    def environment(self) -> dict[str, str]:
        """Returns variables that clients of its protocol need, such as keys."""
        return {}

    def fail_server(self, server: Node) -> None:
        """Kills it at once, as a power cut does, without its disk's caches."""
        server.kill()

    def start_server(self, server: Node) -> None:
        """Again, with what is on its disk."""
        raise PenstockError(f"{self.TITLE} cannot start {server.name} again")

    def start_meta(self) -> None:
        """Starts what ran on the node `meta` again, after it ended, where that is possible."""

    def has_healed(self) -> bool:
        """Whether all data has all its copies, after a server came back."""
        return True
