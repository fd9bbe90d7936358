"""The file system of a folder: how it is mounted, laid out and filled, and what its tools say of it."""

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.files.sheet.system import Facts, System
from penstock.files.storage import Mount, find_mount, storage_facts
from penstock.files.tools import Seen, ask
from penstock.model.datasheet import FactGroup
from penstock.model.storage import StorageFacts
from penstock.model.system_texts import (
    parse_mountstats,
    parse_number,
    parse_properties,
    parse_quota,
    parse_xfs_info,
)

NETWORK_KINDS = (
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "fhgfs",
    "ceph",
    "fuse.ceph-fuse",
    "fuse.glusterfs",
    "cifs",
    "smb3",
    "afs",
)
_MEMORY_KINDS = ("tmpfs", "ramfs")
_XFS_FACTS = (
    "meta-data.agcount",
    "meta-data.crc",
    "meta-data.reflink",
    "data.sunit",
    "data.swidth",
    "log.blocks",
    "log.sunit",
    "realtime.extsz",
)
_ZFS_PROPERTIES = "recordsize,compression,sync,logbias,primarycache,atime,dedup,checksum,copies"
_POOL_PROPERTIES = "health,ashift,fragmentation,capacity,autotrim"


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
        facts.unknown("stripe", target.facts.found_by, "none is told")
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
        facts.add("quota", ask("lfs", "quota", "-q", "-u", str(os.getuid()), mount.point), _one_line)
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


def _one_line(text: str) -> str:
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
        facts.unknown("version", "/proc/self/mountinfo", "a file system in user space tells the kernel none")
    else:
        release = system.text("/proc/sys/kernel/osrelease")
        facts.know("version", f"that of the kernel, {release}", "/proc/sys/kernel/osrelease")


def _first_line(text: str) -> str | None:
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip(" =")), None)


def detail_group(system: System, target: Target) -> FactGroup | None:
    """What only file systems of this kind have."""
    makers: dict[str, Callable[[System, Target, Facts], None]] = {
        "xfs": _xfs,
        "ext4": _ext4,
        "btrfs": _btrfs,
        "zfs": _zfs,
        "nfs": _nfs,
        "nfs4": _nfs,
        "lustre": _lustre,
        "gpfs": _gpfs,
        "beegfs": _beegfs,
        "overlay": _overlay,
    }
    kind = target.facts.kind
    if kind not in makers or target.mount is None:
        return None
    facts = Facts("details", f"Of {kind}")
    makers[kind](system, target, facts)
    return facts.group()


def _xfs(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    seen = ask("xfs_info", target.mount.point)
    if seen.text is None:
        facts.unknown("geometry", seen.source, seen.why)
        return
    found = parse_xfs_info(seen.text)
    for name in _XFS_FACTS:
        if name in found:
            facts.know(name, found[name], seen.source)


def _ext4(system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    name = Path(system.real(f"/sys/dev/block/{target.mount.device}")).name
    facts.add("options in force", system.read(f"/proc/fs/ext4/{name}/options"), lambda t: ",".join(t.split()))
    folder = f"/sys/fs/ext4/{name}"
    for title, file in (("errors", "errors_count"), ("reserved clusters", "reserved_clusters")):
        facts.add(title, system.read(f"{folder}/{file}"), parse_number)
    lifetime = system.read(f"{folder}/lifetime_write_kbytes")
    facts.add("written in its life", lifetime, _kib, "B")


def _kib(text: str) -> int | None:
    number = parse_number(text)
    return None if number is None else number * 1024


def _btrfs(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    seen = ask("btrfs", "filesystem", "df", target.mount.point)
    for kind in ("Data", "Metadata"):
        facts.add(f"{kind.lower()} profile", seen, _profile_of(kind))


def _profile_of(kind: str) -> Callable[[str], str | None]:
    def find(text: str) -> str | None:
        match = re.search(rf"^{kind}, ([\w, ]+):", text, flags=re.MULTILINE)
        return match[1] if match else None

    return find


def _zfs(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    dataset = target.mount.source
    pool = dataset.split("/")[0]
    for seen in (
        ask("zfs", "get", "-Hp", _ZFS_PROPERTIES, dataset),
        ask("zpool", "get", "-Hp", _POOL_PROPERTIES, pool),
    ):
        if seen.text is None:
            facts.unknown(seen.source.split()[0], seen.source, seen.why)
            continue
        for name, value in parse_properties(seen.text).items():
            facts.know(name, value, seen.source)


def _nfs(system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    seen = system.read("/proc/self/mountstats")
    found = parse_mountstats(seen.text or "", target.mount.point)
    if found is None:
        facts.unknown("mount", seen.source, seen.why or f"it does not list {target.mount.point}")
        return
    facts.know("server", found.server, seen.source)
    facts.know("protocol version", found.version, seen.source)
    for name, title in (("rsize", "largest read"), ("wsize", "largest write")):
        value = parse_number(found.options.get(name, ""))
        if value is None:
            facts.unknown(title, seen.source, f"{name} is not among the options")
        else:
            facts.know(title, value, seen.source, "B")
    for name in ("proto", "nconnect", "hard", "soft", "sec", "local_lock"):
        if name in found.options:
            facts.know(name, found.options[name] or True, seen.source)


def _lustre(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    facts.add("targets", ask("lfs", "df", "-h", target.mount.point), _count_lines("OST"))
    for name in ("max_rpcs_in_flight", "max_dirty_mb", "max_pages_per_rpc", "checksums"):
        facts.add(name, ask("lctl", "get_param", "-n", f"osc.*.{name}"), _same_values)


def _count_lines(word: str) -> Callable[[str], str | None]:
    return lambda text: f"{sum(word in line for line in text.splitlines())} {word}" if word in text else None


def _same_values(text: str) -> str:
    """What several clients of targets say, each value once."""
    return ", ".join(dict.fromkeys(text.split()))


def _gpfs(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    facts.add(
        "manager, replicas, blocks", ask("mmlsfs", target.mount.source, "-B", "-m", "-r", "-j"), _one_line
    )
    facts.add("page pool", ask("mmlsconfig", "pagepool"), _one_line)


def _beegfs(_system: System, target: Target, facts: Facts) -> None:
    facts.add("pattern", ask("beegfs-ctl", "--getentryinfo", str(target.folder)), _one_line)
    facts.add("storage targets", ask("beegfs-ctl", "--listtargets", "--nodetype=storage"), _one_line)


def _overlay(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    for name in ("upperdir", "lowerdir", "workdir"):
        if name in target.mount.options:
            facts.know(name, target.mount.options[name], "/proc/self/mountinfo")
    facts.know(
        "writes go to", target.mount.options.get("upperdir", "nowhere: it is read-only"), "its upperdir"
    )


def device_numbers(system: System, target: Target) -> tuple[list[str], str]:
    """The block devices (major:minor) that the file system itself names; or none, and why."""
    mount = target.mount
    if mount is None:
        return [], "the kernel names no mount for this folder"
    if mount.kind == "btrfs":
        return _btrfs_devices(system, mount)
    if not mount.device.startswith("0:"):
        return [mount.device], ""
    reasons = dict.fromkeys(NETWORK_KINDS, f"the devices of {mount.kind} are its servers'")
    reasons |= dict.fromkeys(_MEMORY_KINDS, f"{mount.kind} is in memory")
    reasons["zfs"] = "zfs names no devices to the kernel: see `zpool status`"
    return [], reasons.get(mount.kind, f"{mount.kind} has no block device of its own")


def _btrfs_devices(system: System, mount: Mount) -> tuple[list[str], str]:
    number = _number_of(mount.source)
    folders = [f"/sys/fs/btrfs/{name}/devices" for name in system.names("/sys/fs/btrfs")]
    for folder in folders:
        names = system.names(folder)
        numbers = [system.text(f"{folder}/{name}/dev") for name in names]
        if number in numbers:
            return numbers, ""
    return ([number], "") if number else ([], f"{mount.source} is no block device")


def _number_of(path: str) -> str:
    try:
        status = Path(path).stat()
    except OSError:
        return ""
    if not stat.S_ISBLK(status.st_mode):
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
