"""RAID of the kernel (md) over the servers' disks, with a file system on it.

Facts from the manual page mdadm(8). Disks are new files, so all zeros, which is consistent at each level:
no first synchronization is required. A disk that comes back is added as an empty one, and rebuilt.
"""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from penstock.lab.commands import run
from penstock.lab.disks import FileSystem, mount_new
from penstock.lab.node import Node
from penstock.lab.packages import has_module
from penstock.lab.place import Place
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError

_DISKS_MIN = {"raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 2}
_BLOCKS = Path("/sys/block")


class MdOptions(SystemOptions):
    raid: Literal["raid0", "raid1", "raid5", "raid6", "raid10"] = "raid5"
    file_system: FileSystem = Field("xfs", description="on the array: xfs or ext4")


class Md(System[MdOptions]):
    NAME = "md"
    TITLE = "md RAID"
    NEEDS_ROOT = "the kernel makes it of loop devices"
    PROGRAMS = (
        Program("mdadm", "mdadm"),
        Program("mkfs.xfs", "xfsprogs"),
        Program("mkfs.ext4", "e2fsprogs"),
    )
    INSTEAD = "boot a kernel with CONFIG_MD and CONFIG_BLK_DEV_MD, or use btrfs or zfs with --option raid=..."
    SERVERS = 4
    SERVERS_MIN = 2
    DISK = "device"
    OPTIONS: ClassVar[type[SystemOptions]] = MdOptions

    @classmethod
    def kernel_lacks(cls) -> str:
        return "" if Path("/proc/mdstat").exists() or has_module("md-mod") else "md"

    @classmethod
    def has_daemons(cls) -> bool:
        return False

    @classmethod
    def can_fail(cls) -> bool:
        return True

    def failures_max(self) -> int:
        return {"raid0": 0, "raid1": len(self.site.servers) - 1, "raid6": 2}.get(self.options.raid, 1)

    def start(self) -> None:
        """Each server is a disk of the array."""
        raid, devices = self.options.raid, [server.device for server in self.site.servers if server.device]
        if len(devices) < _DISKS_MIN[raid]:
            raise UsageError(f"raid: {raid} requires at least {_DISKS_MIN[raid]} disks", "raise --servers")
        if not Path("/proc/mdstat").exists():
            run(["modprobe", "md-mod"])
        how = [
            f"--level={raid}",
            f"--raid-devices={len(devices)}",
            "--assume-clean",
            "--bitmap=none",
            "--run",
        ]
        run(["mdadm", "--create", f"/dev/md/{Place(self.site.folder.name).pool}", *how, *devices])
        mount_new(self._array(), self._mount, self.options.file_system)

    def mount(self, client: Node) -> None:
        run(["mount", "--bind", self._mount, client.mount])

    def fail_server(self, server: Node) -> None:
        run(["mdadm", self._array(), "--fail", _device(server)])

    def start_server(self, server: Node) -> None:
        run(["mdadm", self._array(), "--remove", _device(server)])
        run(["mdadm", "--zero-superblock", _device(server)])
        run(["mdadm", self._array(), "--add", _device(server)])

    def has_healed(self) -> bool:
        if not self.is_redundant():
            return True
        state = _BLOCKS / self._array().name / "md"
        return [(state / each).read_text().strip() for each in ("degraded", "sync_action")] == ["0", "idle"]

    def _array(self) -> Path:
        """Returns the array that holds a disk; one that was taken out is held by none."""
        for server in self.site.servers:
            for holder in (_BLOCKS / _device(server).name / "holders").glob("md*"):
                return Path("/dev", holder.name)
        raise UsageError(f"laboratory {self.site.folder.name} has no array", "see /proc/mdstat")

    @property
    def _mount(self) -> Path:
        return self.site.meta.folder / "array"


def _device(server: Node) -> Path:
    assert server.device is not None
    return server.device
