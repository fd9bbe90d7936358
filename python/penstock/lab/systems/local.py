"""File systems of the kernel on loop devices or memory: what the others are compared with."""

from pathlib import Path
from typing import ClassVar, Literal

from penstock.lab.commands import run
from penstock.lab.node import Node
from penstock.lab.system import Program, System, SystemOptions


class _OnOneDisk(System[SystemOptions]):
    """Its one server's disk is the file system."""

    NEEDS_ROOT = "the kernel mounts it from a loop device"

    @classmethod
    def has_daemons(cls) -> bool:
        return False

    def start(self) -> None:
        """Nothing: the laboratory has made the file system of the disk."""

    def mount(self, client: Node) -> None:
        run(["mount", "--bind", self.site.servers[0].disk, client.mount])


class Ext4(_OnOneDisk):
    NAME = "ext4"
    TITLE = "ext4"
    PROGRAMS = (Program("mkfs.ext4", "e2fsprogs"),)
    FILE_SYSTEM = "ext4"
    DISK = "ext4"


class Xfs(_OnOneDisk):
    NAME = "xfs"
    TITLE = "XFS"
    PROGRAMS = (Program("mkfs.xfs", "xfsprogs"),)
    FILE_SYSTEM = "xfs"


class BtrfsOptions(SystemOptions):
    raid: Literal["single", "raid0", "raid1", "raid5", "raid6", "raid10"] = "raid0"
    """of the data; the metadata are mirrored"""


class Btrfs(System[BtrfsOptions]):
    NAME = "btrfs"
    TITLE = "Btrfs"
    NEEDS_ROOT = "the kernel mounts it from loop devices"
    PROGRAMS = (Program("mkfs.btrfs", "btrfs-progs"),)
    FILE_SYSTEM = "btrfs"
    SERVERS = 3
    DISK = "device"
    OPTIONS: ClassVar[type[SystemOptions]] = BtrfsOptions

    @classmethod
    def has_daemons(cls) -> bool:
        return False

    def start(self) -> None:
        """Each server is a disk of it."""
        profile = self.options.raid
        run(["mkfs.btrfs", "-q", "-f", "-d", profile, "-m", "raid1", *self._devices()])

    def mount(self, client: Node) -> None:
        members = ",".join(f"device={each}" for each in self._devices())
        run(["mount", "-t", "btrfs", "-o", members, self._devices()[0], client.mount])

    def _devices(self) -> list[Path]:
        return [server.device for server in self.site.servers if server.device is not None]
