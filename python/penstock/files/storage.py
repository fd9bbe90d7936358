"""Finds out how a file system lays files out: its stripes, or else its blocks.

Never fails and never hangs: a tool that does not exist, or does not answer, is the same as none.
"""

import fcntl
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.files.tools import Seen, ask
from penstock.model.plan.storage_texts import parse_pvfs2_strip
from penstock.model.problems import reason_of
from penstock.model.storage import (
    StorageFacts,
    Striping,
    parse_beegfs_entry,
    parse_lfs_getstripe,
    parse_lustre_attribute,
    parse_mmlsfs,
    parse_mount_options,
    parse_xfs_geometry,
)

_XFS_GEOMETRY_BYTES = 112
_XFS_IOC_FSGEOMETRY_V1 = 2 << 30 | _XFS_GEOMETRY_BYTES << 16 | ord("X") << 8 | 100


@dataclass(frozen=True)
class Mount:
    point: str
    kind: str
    source: str
    device: str
    """major:minor"""
    options: dict[str, str]


Finding = tuple[Striping, str] | None


def storage_facts(folder: Path) -> StorageFacts:
    """Of the file system that holds `folder`, which is there."""
    mount = find_mount(folder)
    block = os.statvfs(folder).f_bsize
    if mount is None:
        return StorageFacts("unknown", str(folder), block)
    finders: dict[str, Callable[[Path, Mount], Finding]] = {
        "lustre": _lustre,
        "gpfs": _gpfs,
        "beegfs": _beegfs,
        "fhgfs": _beegfs,
        "pvfs2": _orangefs,
        "xfs": _xfs,
    }
    found = finders.get(mount.kind, _block_device)(folder, mount)
    if found is not None:
        striping, by = found
        return StorageFacts(
            mount.kind, mount.point, block, striping.stripe_bytes, striping.stripe_count, found_by=by
        )
    if mount.kind in ("nfs", "nfs4") and mount.options.get("wsize", "").isdigit():
        return StorageFacts(
            mount.kind, mount.point, block, write_bytes=int(mount.options["wsize"]), found_by="mount options"
        )
    if mount.kind == "gpfs":  # whose f_bsize is the block that it deals out to its disks
        return StorageFacts(mount.kind, mount.point, block, stripe_bytes=block)
    return StorageFacts(mount.kind, mount.point, block)


def find_mount(folder: Path, mountinfo: str | None = None) -> Mount | None:
    """The mount that `folder` is in: the innermost one, and of several at one place the last."""
    path = os.path.realpath(folder)
    best: Mount | None = None
    for line in (mountinfo or Path("/proc/self/mountinfo").read_text(encoding="utf-8")).splitlines():
        left, separator, right = line.partition(" - ")
        fields, behind = left.split(" "), right.split(" ")
        if not separator or len(fields) < 6 or len(behind) < 3:
            continue
        point = _unescape(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            options = parse_mount_options(f"{fields[5]},{behind[2]}")
            best = Mount(point, behind[0], _unescape(behind[1]), fields[2], options)
    return best


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def _parsed(by: str, answer: Seen, parse: Callable[[str], Striping | None]) -> Finding:
    striping = parse(answer.text) if answer.text is not None else None
    return (striping, by) if striping is not None else None


def _lustre(folder: Path, _mount: Mount) -> Finding:
    found = _parsed("lfs getstripe", ask("lfs", "getstripe", "-d", str(folder)), parse_lfs_getstripe)
    if found is not None:
        return found
    try:
        striping = parse_lustre_attribute(os.getxattr(folder, "lustre.lov"))
    except OSError:
        return None
    return (striping, "the attribute lustre.lov") if striping is not None else None


def _gpfs(_folder: Path, mount: Mount) -> Finding:
    return _parsed("mmlsfs", ask("mmlsfs", mount.source, "-B"), parse_mmlsfs)


def beegfs_entry(folder: Path, kind: str) -> Seen:
    """Returns how BeeGFS lays out new files of a directory, by its tool; version 8 has another one."""
    if kind == "fhgfs":  # its name before 2014
        return ask("fhgfs-ctl", "--getentryinfo", str(folder))
    older = ask("beegfs-ctl", "--getentryinfo", str(folder))
    if older.text is not None:
        return older
    newer = ask("beegfs", "entry", "info", str(folder), "--retro")
    return newer if newer.text is not None else older


def _beegfs(folder: Path, mount: Mount) -> Finding:
    seen = beegfs_entry(folder, mount.kind)
    return _parsed(seen.source.split()[0], seen, parse_beegfs_entry)


def pvfs2_attribute(folder: Path, name: str) -> Seen:
    """Returns an attribute by which OrangeFS distributes new files of a directory."""
    attribute = f"user.pvfs2.{name}"
    source = f"attribute {attribute}"
    try:
        return Seen(os.getxattr(folder, attribute).decode("utf-8", "replace").rstrip("\0"), source)
    except OSError as error:
        return Seen(None, source, reason_of(error))


def _orangefs(folder: Path, _mount: Mount) -> Finding:
    strip = parse_pvfs2_strip(pvfs2_attribute(folder, "dist_params").text or "")
    if strip is None:
        return None
    count = pvfs2_attribute(folder, "num_dfiles").text or ""
    found = Striping(strip, int(count) if count.isdecimal() else 0)
    return found, "the attribute user.pvfs2.dist_params"


def _xfs(folder: Path, mount: Mount) -> Finding:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        geometry = fcntl.ioctl(handle, _XFS_IOC_FSGEOMETRY_V1, bytes(_XFS_GEOMETRY_BYTES))
    except OSError:
        return _block_device(folder, mount)
    finally:
        os.close(handle)
    striping = parse_xfs_geometry(geometry)
    return (striping, "the file system's geometry") if striping is not None else None


def _block_device(_folder: Path, mount: Mount) -> Finding:
    """Software RAID and many controllers report chunk and stripe as their preferred write sizes."""
    queue = Path("/sys/dev/block") / mount.device
    for place in (queue / "queue", queue.resolve().parent / "queue"):  # a partition's are the disk's
        try:
            unit = int((place / "minimum_io_size").read_text(encoding="ascii"))
            row = int((place / "optimal_io_size").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if unit > 4096 and row > unit and row % unit == 0:
            return Striping(unit, row // unit), f"{mount.source}'s queue"
        return None
    return None
