"""ZFS over the servers' disks: of the kernel where it has it, else zfs-fuse, a daemon in user space.

Facts from the manual pages zpool(8), zfs(8) and zfs-fuse(8). A zfs-fuse insists on /run/zfs, /run/lock/zfs
and its list of pools in /etc/zfs or /var/lib/zfs, so that each has its own of them; its mount, which is in
its own namespace then, is grafted into that of this machine. The kernel's pools have names of this machine.
"""

import shutil
import sys
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from penstock.lab.commands import SYSTEM_PATH, run
from penstock.lab.node import Node
from penstock.lab.packages import file_systems
from penstock.lab.place import Place
from penstock.lab.system import Program, System, SystemOptions
from penstock.model.errors import UsageError

# Debian's zfsutils-linux and zfs-fuse exclude each other: both have a `zpool`.
_IN_KERNEL = "zfs" in file_systems() and shutil.which("zfs-fuse", path=SYSTEM_PATH) is None
_PARITY = {"stripe": 0, "raidz": 1, "raidz2": 2, "raidz3": 3}
_DISKS_MIN = {"stripe": 1, "mirror": 2, "raidz": 2, "raidz2": 3, "raidz3": 4}
_DAEMON = "zfs-fuse"


class ZfsOptions(SystemOptions):
    raid: Literal["stripe", "mirror", "raidz", "raidz2", "raidz3"] = Field(
        "raidz", description="of the pool: no redundancy, copies on all disks, or one to three parity blocks"
    )


class Zfs(System[ZfsOptions]):
    NAME = "zfs"
    TITLE = "ZFS"
    NEEDS_ROOT = "it is made of loop devices"
    PROGRAMS = (
        (Program("zpool", "zfsutils-linux"),)
        if _IN_KERNEL
        else (Program("zfs-fuse", "zfs-fuse"), Program("zpool", "zfs-fuse"))
    )
    FILE_SYSTEM = "zfs" if _IN_KERNEL else "fuse"
    SERVERS = 3
    DISK = "device"
    OPTIONS: ClassVar[type[SystemOptions]] = ZfsOptions

    @classmethod
    def has_daemons(cls) -> bool:
        return False

    @classmethod
    def can_fail(cls) -> bool:
        return True

    @property
    def title(self) -> str:
        return "ZFS, of the kernel" if _IN_KERNEL else "ZFS, zfs-fuse"

    def failures_max(self) -> int:
        return len(self.site.servers) - 1 if self.options.raid == "mirror" else _PARITY[self.options.raid]

    def start(self) -> None:
        """Each server is a disk of the pool."""
        raid, disks = self.options.raid, [str(server.device) for server in self.site.servers]
        if len(disks) < _DISKS_MIN[raid]:
            raise UsageError(f"raid: {raid} requires at least {_DISKS_MIN[raid]} disks", "raise --servers")
        if not _IN_KERNEL:
            self._start_daemon()
        at = ["-o", "cachefile=none", "-m", "legacy"] if _IN_KERNEL else ["-m", str(self._mount)]
        self._tool("zpool", "create", "-f", *at, self._pool, *([] if raid == "stripe" else [raid]), *disks)
        self._mount.mkdir(exist_ok=True)
        if _IN_KERNEL:
            run(["mount", "-t", "zfs", self._pool, self._mount])
        else:
            self._graft()

    def mount(self, client: Node) -> None:
        """All clients use the one file system of this kernel or daemon."""
        run(["mount", "--bind", self._mount, client.mount])

    def fail_server(self, server: Node) -> None:
        self._tool("zpool", "offline", self._pool, str(server.device))

    def start_server(self, server: Node) -> None:
        self._tool("zpool", "online", self._pool, str(server.device))

    def start_meta(self) -> None:
        """The daemon, after it was killed: it knows its pools."""
        for at in (self._mount, *(client.mount for client in self.site.clients)):
            run(["umount", "--lazy", at])
        self._start_daemon()
        self._tool("zfs", "mount", self._pool)
        self._graft()
        for client in self.site.clients:
            self.mount(client)

    def has_healed(self) -> bool:
        status = self._tool("zpool", "status", self._pool)
        return "state: ONLINE" in status and "in progress" not in status

    def _start_daemon(self) -> None:
        meta = self.site.meta
        for each in ("run/lock", "etc", "state"):
            (meta.folder / each).mkdir(parents=True, exist_ok=True)
        socket = meta.folder / "run" / "zfs" / "zfs_socket"
        socket.unlink(missing_ok=True)  # of one that was killed
        # Those of the package's /etc/zfs/zfsrc; the kernel checks permissions, and keeps names and sizes.
        settings = ["--fuse-attr-timeout", "3600", "--fuse-entry-timeout", "3600"]
        settings += ["--fuse-mount-options", "default_permissions"]
        command = ["zfs-fuse", "--no-daemon", "--no-kstat-mount", *settings]
        meta.start(_DAEMON, command, covers=self._covers())
        self.site.wait_until(socket.exists, "zfs-fuse")

    def _graft(self) -> None:
        process = str(self.site.meta.daemons[_DAEMON].pid)
        run([sys.executable, "-m", "penstock.lab.graft", process, self._mount, self._mount])

    def _tool(self, *command: str) -> str:
        if _IN_KERNEL:
            return run(command)
        return self.site.meta.run(*command, covers=self._covers())

    def _covers(self) -> dict[Path, Path]:
        meta = self.site.meta
        return {
            **meta.empty_run(),
            meta.folder / "etc": Path("/etc/zfs"),
            meta.folder / "state": Path("/var/lib/zfs"),
        }

    @property
    def _pool(self) -> str:
        return Place(self.site.folder.name).pool

    @property
    def _mount(self) -> Path:
        return self.site.meta.folder / "pool"
