"""Whether a system's programs are here, and what installs them."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.lab.commands import SYSTEM_PATH, run
from penstock.lab.system import System
from penstock.lab.user import ordinary_user
from penstock.model.errors import ExitCode, PenstockError

_UNITS = Path("/etc/systemd/system")
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "losetup": "mount",
}


@dataclass(frozen=True)
class Missing:
    programs: Sequence[str]
    packages: Sequence[str]
    kernel: str
    """file system or driver that the kernel lacks; empty: none"""
    besides: str = ""
    """what no package has; empty: nothing"""

    @property
    def is_complete(self) -> bool:
        return not self.programs and not self.kernel and not self.besides

    @property
    def command(self) -> str:
        """What installs the packages; empty where that does not help."""
        return f"apt-get install --no-install-recommends {' '.join(self.packages)}" if self.packages else ""


def missing(kind: type[System[Any]]) -> Missing:
    wanted = {program.name: program.package for program in kind.PROGRAMS} | _TOOLS
    programs = [name for name in wanted if shutil.which(name, path=SYSTEM_PATH) is None]
    packages = sorted({wanted[name] for name in programs})
    lacks = kind.FILE_SYSTEM is not None and kind.FILE_SYSTEM not in file_systems()
    if kind.FILE_SYSTEM == "fuse":  # containers often have the one and not the other
        lacks |= not Path("/dev/fuse").exists()
    kernel = kind.FILE_SYSTEM if lacks and kind.FILE_SYSTEM else kind.kernel_lacks()
    return Missing(programs, packages, kernel, kind.lacks())


def file_systems() -> list[str]:
    """Of the kernel now; a module is loaded when one is mounted."""
    listed = Path("/proc/filesystems").read_text(encoding="ascii").split()
    return [*listed, *(name for name in ("btrfs", "xfs", "ext4", "fuse", "nfs", "zfs") if has_module(name))]


def has_module(name: str) -> bool:
    """Returns whether this kernel has it as a file, which is loaded when it is needed."""
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    return modules.exists() and f"/{name}.ko" in modules.read_text(encoding="utf-8", errors="replace")


def require_programs(kind: type[System[Any]]) -> None:
    found = missing(kind)
    if found.kernel:
        raise PenstockError(f"{kind.TITLE}: this kernel has no {found.kernel}", kind.INSTEAD, ExitCode.USAGE)
    if found.programs:
        raise PenstockError(
            f"{kind.TITLE}: {', '.join(found.programs)} not installed",
            f"`penstock lab doctor {kind.NAME} --install`, which runs: {found.command}",
            ExitCode.USAGE,
        )
    if found.besides:
        raise PenstockError(
            f"{kind.TITLE}: {found.besides} not installed",
            f"`penstock lab doctor {kind.NAME} --install`",
            ExitCode.USAGE,
        )


def require_root(packages: Sequence[str]) -> None:
    """Raises PenstockError for a user who cannot install."""
    if ordinary_user() is not None:
        raise PenstockError(
            f"installing {', '.join(packages)} requires root", "run the command with sudo", ExitCode.USAGE
        )


def install(packages: Sequence[str]) -> list[str]:
    """With apt, as root; its output is the user's to see. Removes no package.

    Services of the packages are not started, and those that they enable are disabled again: they would
    listen on all addresses from the next boot on. Returns their names.
    """
    enabled_before = _enabled_units()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_OFFLINE": "1"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-remove", "--no-install-recommends", *packages],
    ):
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            raise PenstockError(f"`{' '.join(command)}` failed", "see its output above")
    new = sorted(_enabled_units() - enabled_before)
    if not new or shutil.which("systemctl", path=SYSTEM_PATH) is None:
        return []
    run(["systemctl", "disable", *new])
    return new


def _enabled_units() -> set[str]:
    return {link.name for link in _UNITS.glob("*.wants/*")}
