"""Root: control groups hold the processes, and namespaces are files that every program of root can enter."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.lab import cgroups
from penstock.lab.cgroups import Group
from penstock.lab.ground.base import Ground
from penstock.lab.network import Network
from penstock.lab.place import Place
from penstock.lab.processes import Processes
from penstock.lab.request import LabRequest
from penstock.lab.system import System
from penstock.model.errors import PenstockError


class AsRoot(Ground):
    DISKS = "loop"

    def require(self) -> None:
        if (problem := cgroups.problem()) is not None:
            raise PenstockError(problem, "mount cgroup2 on /sys/fs/cgroup, or run outside of the container")

    def require_possible(self, request: LabRequest) -> None:
        pass

    def need_of(self, kind: type[System[Any]]) -> str:  # noqa: ARG002
        return ""

    def separate(self) -> None:
        pass

    def settle(self, place: Place) -> None:
        own = Group(place.name, "supervisor")
        own.make()
        own.join()

    def unsettle(self) -> None:
        cgroups.leave()

    def make(self, place: Place) -> None:
        Group(place.name).make()

    def processes(self, place: Place, node: str) -> Processes:
        return Group(place.name, node)

    def kill(self, place: Place) -> None:
        Group(place.name).kill()

    def remove(self, place: Place) -> None:
        Group(place.name).remove()

    def on_client(self, place: Place, node: str) -> list[str]:
        return Group(place.name, node).joining(Network(place.namespaces).inside(node))

    def at_client(self, place: Place, node: str) -> list[str]:
        return self.on_client(place, node)

    def at_mounts(self, place: Place) -> list[str]:  # noqa: ARG002
        return []

    def hand_over(self, folder: Path, user: str) -> None:
        shutil.chown(folder, user, user)

    def as_user(self, user: str) -> Sequence[str]:  # noqa: ARG002
        return ()

    def user(self, instead: str) -> str:  # noqa: ARG002
        return "root"
