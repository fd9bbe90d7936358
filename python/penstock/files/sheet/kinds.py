"""Properties of particular file systems: xfs, ext4, btrfs, ZFS, NFS and the parallel ones."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from penstock.files.sheet.file_system import MOOSEFS, Target
from penstock.files.sheet.nfs import nfs_facts
from penstock.files.sheet.parallel import beegfs_facts, gpfs_facts, lustre_facts, orangefs_facts
from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import (
    parse_fields,
    parse_number,
    parse_properties,
    parse_xfs_info,
)
from penstock.model.problems import reason_of

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


def detail_group(system: System, target: Target) -> FactGroup | None:
    """Returns the properties that only file systems of this type have; None for other types."""
    makers: dict[str, Callable[[System, Target, Facts], None]] = {
        "xfs": _xfs,
        "ext4": _ext4,
        "btrfs": _btrfs,
        "zfs": _zfs,
        "nfs": nfs_facts,
        "nfs4": nfs_facts,
        "lustre": lustre_facts,
        "gpfs": gpfs_facts,
        "beegfs": beegfs_facts,
        "fhgfs": beegfs_facts,
        "pvfs2": orangefs_facts,
        "ceph": _ceph,
        "fuse.ceph-fuse": _ceph,
        "fuse.glusterfs": _gluster,
        "moosefs": _moosefs,
        "overlay": _overlay,
    }
    kind = target.facts.kind
    if target.mount is not None and kind.startswith("fuse") and target.mount.source.startswith(MOOSEFS):
        kind = "moosefs"
    if kind not in makers or target.mount is None:
        return None
    facts = Facts("details", f"Details of {kind}")
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
    facts.add(
        "effective options", system.read(f"/proc/fs/ext4/{name}/options"), lambda t: ",".join(t.split())
    )
    folder = f"/sys/fs/ext4/{name}"
    for title, file in (("errors", "errors_count"), ("reserved clusters", "reserved_clusters")):
        facts.add(title, system.read(f"{folder}/{file}"), parse_number)
    lifetime = system.read(f"{folder}/lifetime_write_kbytes")
    facts.add("total written", lifetime, _kib, "B")


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


def _ceph(_system: System, target: Target, facts: Facts) -> None:
    """Reads the attributes of the directory in which CephFS reports."""
    for title, name in (("layout", "ceph.dir.layout"), ("quota, bytes", "ceph.quota.max_bytes")):
        source = f"attribute {name}"
        try:
            said = os.getxattr(target.folder, name).decode("utf-8", "replace")
        except OSError as error:
            facts.unknown(title, source, reason_of(error))
        else:
            facts.add(title, Seen(said, source))


def _gluster(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    host, _, path = target.mount.source.rpartition(":")
    # A client has no daemon of its own to ask.
    remote = [f"--remote-host={host}"] if host else []
    seen = ask("gluster", "--mode=script", *remote, "volume", "info", path.strip("/").split("/")[0])
    for name in ("Type", "Status", "Number of Bricks", "Transport-type"):
        facts.add(name.lower(), seen, _field(name))


def _moosefs(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    facts.know("system", "MooseFS", "/proc/self/mountinfo")
    facts.know("master", target.mount.source.removeprefix(MOOSEFS), "/proc/self/mountinfo")
    facts.add("copies (goal)", ask("mfsgetgoal", str(target.folder)), _last_word)


def _last_word(text: str) -> str | None:
    """`mfsgetgoal PATH`: "PATH: 2"."""
    return text.rpartition(":")[2].strip() or None


def _field(name: str) -> Callable[[str], str | None]:
    return lambda text: parse_fields(text).get(name)


def _overlay(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    for name in ("upperdir", "lowerdir", "workdir"):
        if name in target.mount.options:
            facts.know(name, target.mount.options[name], "/proc/self/mountinfo")
    facts.know(
        "write destination", target.mount.options.get("upperdir", "none: it is read-only"), "mount options"
    )
