"""The file system of a folder: how it is mounted, laid out and filled, and what its tools say of it."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.files.sheet.system import Facts, System
from penstock.files.storage import Mount, find_mount, storage_facts
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import parse_quota
from penstock.model.storage import NETWORK_KINDS, StorageFacts

_MEMORY_KINDS = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Target:
    """The folder that is described. The mount is None where the kernel names none."""

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
    facts.know("block", target.facts.block_bytes, "statvfs", "B")
    if target.facts.stripe_bytes:
        facts.know("stripe", target.facts.stripe_bytes, target.facts.found_by, "B")
        if target.facts.stripe_count:
            facts.know("stripes in a row", target.facts.stripe_count, target.facts.found_by)
    else:
        facts.unknown("stripe", target.facts.found_by, "not reported")
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
        facts.know("free inodes", room.f_favail, "statvfs")
    else:
        facts.unknown("inodes", "statvfs", "this file system makes them as it needs them")


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
    """What the tool says of somebody without limits is nothing, or a line that ends with "none"."""
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
    """Of the file system's own software; the others come with the kernel."""
    kind = target.facts.kind
    asked: dict[str, Callable[[], Seen]] = {
        "lustre": lambda: ask("lctl", "get_param", "-n", "version"),
        "gpfs": lambda: ask("mmdiag", "--version"),
        "beegfs": lambda: system.read("/sys/module/beegfs/version"),
        "zfs": lambda: system.read("/sys/module/zfs/version"),
        "fuse.ceph-fuse": lambda: ask("ceph", "--version"),
        "fuse.glusterfs": lambda: ask("glusterfs", "--version"),
    }
    if kind in asked:
        facts.add("version", asked[kind](), _first_line)
    elif kind.startswith("fuse"):
        facts.unknown(
            "version", "/proc/self/mountinfo", "a file system in user space reports none to the kernel"
        )
    else:
        release = system.text("/proc/sys/kernel/osrelease")
        facts.know("version", f"that of the kernel, {release}", "/proc/sys/kernel/osrelease")


def _first_line(text: str) -> str | None:
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip(" =")), None)


def device_numbers(system: System, target: Target) -> tuple[list[str], str]:
    """The block devices (major:minor) that the file system itself names; or none, and why."""
    mount = target.mount
    if mount is None:
        return [], "the kernel reports no mount for this folder"
    if mount.kind == "btrfs":
        return _btrfs_devices(system, mount)
    if not mount.device.startswith("0:"):
        return [mount.device], ""
    reasons = dict.fromkeys(NETWORK_KINDS, f"the devices of {mount.kind} are its servers'")
    reasons |= dict.fromkeys(_MEMORY_KINDS, f"{mount.kind} is in memory")
    reasons["zfs"] = "zfs reports no devices to the kernel: see `zpool status`"
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
