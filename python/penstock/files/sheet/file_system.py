"""The file system of a directory: how it is mounted, laid out and filled, and what its tools report."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.files.sheet.system import Facts, System
from penstock.files.storage import Mount, find_mount, storage_facts
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.storage_texts import parse_mmdiag_version
from penstock.model.plan.system_texts import parse_quota
from penstock.model.storage import NETWORK_KINDS, StorageFacts

# Mount sources of MooseFS, whose type is that of any file system in user space.
MOOSEFS = "mfs#"
_MEMORY_KINDS = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Target:
    """The directory that is described. `mount` is None if the kernel reports none."""

    folder: Path
    mount: Mount | None
    facts: StorageFacts


def target_of(folder: Path) -> Target:
    return Target(folder, find_mount(folder), storage_facts(folder))


def file_system_group(system: System, target: Target) -> FactGroup:
    facts = Facts("file system", "File system")
    facts.know("type", target.facts.kind, "/proc/self/mountinfo")
    _version(system, target, facts)
    if target.mount is not None:
        mount, source = target.mount, "/proc/self/mountinfo"
        facts.know("mounted at", mount.point, source)
        facts.know("mount source", mount.source, source)
        options = (f"{name}={value}" if value else name for name, value in mount.options.items())
        facts.know("mount options", ",".join(options), source)
    facts.know("block size", target.facts.block_bytes, "statvfs", "B")
    if target.facts.stripe_bytes:
        facts.know("stripe size", target.facts.stripe_bytes, target.facts.found_by, "B")
        if target.facts.stripe_count:
            facts.know("stripe count", target.facts.stripe_count, target.facts.found_by)
    else:
        facts.unknown("stripe size", target.facts.found_by, "not reported")
    _room(target.folder, facts)
    _quota(target, facts)
    return facts.group()


def _room(folder: Path, facts: Facts) -> None:
    room = os.statvfs(folder)
    facts.know("size", room.f_blocks * room.f_frsize, "statvfs", "B")
    facts.know("free", room.f_bavail * room.f_frsize, "statvfs", "B")
    facts.know("reserved", (room.f_bfree - room.f_bavail) * room.f_frsize, "statvfs", "B")
    if room.f_files:
        facts.know("inodes", room.f_files, "statvfs")
        if 0 <= room.f_favail <= room.f_files:
            facts.know("free inodes", room.f_favail, "statvfs")
        else:  # CephFS answers with the highest number that there is
            facts.unknown("free inodes", "statvfs", "this file system does not count them")
    else:
        facts.unknown("inodes", "statvfs", "this file system allocates them on demand")


_QUOTA_OPTIONS = ("usrquota", "grpquota", "prjquota", "uquota", "gquota", "pquota", "quota", "usrjquota")


def _quota(target: Target, facts: Facts) -> None:
    mount = target.mount
    if mount is not None and mount.kind == "lustre":
        facts.add("quota", ask("lfs", "quota", "-q", "-u", str(os.getuid()), mount.point), one_line)
        return
    on = [name for name in _QUOTA_OPTIONS if mount is not None and name in mount.options]
    if mount is None or mount.kind in _MEMORY_KINDS or (mount.kind in ("ext4", "xfs", "btrfs") and not on):
        facts.know("quota", "off", "/proc/self/mountinfo")
        return
    seen = ask("quota", "-w", "-p", "-f", mount.point)
    facts.add("quota", seen, _quota_text)


def _quota_text(text: str) -> str | None:
    """Returns the quota in words. Without limits the tool prints nothing, or a line that ends with "none"."""
    quota = parse_quota(text)
    if quota is None:
        return "none" if not text.strip() or text.rstrip().endswith("none") else None
    return (
        f"{quota.used_bytes} of {quota.limit_bytes or 'unlimited'} bytes,"
        f" {quota.files} of {quota.files_limit or 'unlimited'} files"
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def _version(system: System, target: Target, facts: Facts) -> None:
    """Adds the version of the file system's software, or of the kernel that it is a part of."""
    kind = target.facts.kind
    asked: dict[str, Callable[[], Seen]] = {
        "lustre": lambda: ask("lctl", "get_param", "-n", "version"),
        "beegfs": lambda: system.read("/sys/module/beegfs/version"),
        "fhgfs": lambda: system.read("/sys/module/fhgfs/version"),
        "zfs": lambda: system.read("/sys/module/zfs/version"),
        "fuse.ceph-fuse": lambda: ask("ceph", "--version"),
        "fuse.glusterfs": lambda: ask("glusterfs", "--version"),
    }
    if kind == "gpfs":
        facts.add("version", ask("mmdiag", "--version"), parse_mmdiag_version)
    elif kind in asked:
        facts.add("version", asked[kind](), _first_line)
    elif kind.startswith("fuse"):
        facts.unknown(
            "version", "/proc/self/mountinfo", "file systems in user space report none to the kernel"
        )
    else:
        release = system.text("/proc/sys/kernel/osrelease")
        facts.know("version", f"part of the kernel, {release}", "/proc/sys/kernel/osrelease")


def _first_line(text: str) -> str | None:
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip(" =")), None)


def device_numbers(system: System, target: Target) -> tuple[list[str], str]:
    """Returns the block devices (major:minor) that the file system reports; or none, and the reason."""
    mount = target.mount
    if mount is None:
        return [], "the kernel reports no mount for this folder"
    if mount.kind == "btrfs":
        return _btrfs_devices(system, mount)
    if not mount.device.startswith("0:"):
        return [mount.device], ""
    if mount.source.startswith(MOOSEFS):
        return [], "the devices of MooseFS are in its servers"
    reasons = dict.fromkeys(NETWORK_KINDS, f"the devices of {mount.kind} are in its servers")
    reasons |= dict.fromkeys(_MEMORY_KINDS, f"{mount.kind} is in memory")
    reasons |= dict.fromkeys(("zfs", "fuse.zfs"), "zfs reports no devices to the kernel: see `zpool status`")
    return [], reasons.get(mount.kind, f"{mount.kind} has no block device")


def _btrfs_devices(system: System, mount: Mount) -> tuple[list[str], str]:
    number = _number_of(mount.source)
    folders = [f"/sys/fs/btrfs/{name}/devices" for name in system.names("/sys/fs/btrfs")]
    for folder in folders:
        names = system.names(folder)
        numbers = [system.text(f"{folder}/{name}/dev") for name in names]
        if number in numbers:
            return numbers, ""
    return ([number], "") if number else ([], f"{mount.source} is not a block device")


def _number_of(path: str) -> str:
    try:
        status = Path(path).stat()
    except OSError:
        return ""
    if not stat.S_ISBLK(status.st_mode):
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
