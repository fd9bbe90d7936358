"""What differs between a laboratory of root and one of an ordinary user."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from penstock.lab.place import Place
from penstock.lab.processes import Processes
from penstock.lab.request import LabRequest
from penstock.lab.system import System


class Ground(ABC):
    DISKS: ClassVar[str]
    """unless the user says which"""

    @abstractmethod
    def require(self) -> None:
        """Raises PenstockError where no laboratory can be made here."""

    @abstractmethod
    def require_possible(self, request: LabRequest) -> None:
        """Raises UsageError for what only root can have; knows the request, not the machine."""

    @abstractmethod
    def need_of(self, kind: type[System[Any]]) -> str:
        """Returns why the system cannot be brought up by this user; empty: it can."""

    @abstractmethod
    def separate(self) -> None:
        """Called by the guard, before it starts the supervisor."""

    @abstractmethod
    def settle(self, place: Place) -> None:
        """Called by the supervisor first: what it starts from now on ends with the laboratory."""

    @abstractmethod
    def unsettle(self) -> None:
        """Called by the supervisor before it sweeps itself."""

    @abstractmethod
    def make(self, place: Place) -> None:
        """What holds the processes of all nodes."""

    @abstractmethod
    def processes(self, place: Place, node: str) -> Processes: ...

    @abstractmethod
    def kill(self, place: Place) -> None:
        """Ends all processes of the laboratory but the caller. Returns when none is left."""

    @abstractmethod
    def remove(self, place: Place) -> None:
        """What `make` made."""

    @abstractmethod
    def on_client(self, place: Place, node: str) -> list[str]:
        """Returns the prefix of a program in a client's network, which is a child of its caller."""

    @abstractmethod
    def at_client(self, place: Place, node: str) -> list[str]:
        """Returns the prefix of a command that sees a client's network and the mount points."""

    @abstractmethod
    def at_mounts(self, place: Place) -> list[str]:
        """Returns the prefix of a program of this user that sees the mount points; empty: all programs do.

        Its network is the caller's. Raises PenstockError where it cannot enter the laboratory.
        """

    @abstractmethod
    def hand_over(self, folder: Path, user: str) -> None:
        """Gives a folder to the user of a daemon."""

    @abstractmethod
    def as_user(self, user: str) -> Sequence[str]:
        """Returns the prefix of a daemon that refuses to run as root and cannot become a user itself."""

    @abstractmethod
    def user(self, instead: str) -> str:
        """Returns the user of a daemon that would be root; `instead` is the one of `as_user`."""
