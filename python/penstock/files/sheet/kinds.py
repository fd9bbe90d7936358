"""What only file systems of one kind have: xfs, ext4, btrfs, ZFS, NFS and the parallel ones."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from penstock.files.sheet.file_system import Target, one_line
from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import (
    parse_fields,
    parse_mountstats,
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
        "ceph": _ceph,
        "fuse.ceph-fuse": _ceph,
        "fuse.glusterfs": _gluster,
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
        "manager, replicas, blocks", ask("mmlsfs", target.mount.source, "-B", "-m", "-r", "-j"), one_line
    )
    facts.add("page pool", ask("mmlsconfig", "pagepool"), one_line)


def _beegfs(_system: System, target: Target, facts: Facts) -> None:
    facts.add("pattern", ask("beegfs-ctl", "--getentryinfo", str(target.folder)), one_line)
    facts.add("storage targets", ask("beegfs-ctl", "--listtargets", "--nodetype=storage"), one_line)


def _ceph(_system: System, target: Target, facts: Facts) -> None:
    """CephFS answers in attributes of the folder."""
    for title, name in (("layout", "ceph.dir.layout"), ("quota, bytes", "ceph.quota.max_bytes")):
        source = f"the attribute {name}"
        try:
            said = os.getxattr(target.folder, name).decode("utf-8", "replace")
        except OSError as error:
            facts.unknown(title, source, reason_of(error))
        else:
            facts.add(title, Seen(said, source))


def _gluster(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    volume = target.mount.source.rpartition(":")[2].strip("/").split("/")[0]
    seen = ask("gluster", "volume", "info", volume)
    for name in ("Type", "Status", "Number of Bricks", "Transport-type"):
        facts.add(name.lower(), seen, _field(name))


def _field(name: str) -> Callable[[str], str | None]:
    return lambda text: parse_fields(text).get(name)


def _overlay(_system: System, target: Target, facts: Facts) -> None:
    assert target.mount is not None
    for name in ("upperdir", "lowerdir", "workdir"):
        if name in target.mount.options:
            facts.know(name, target.mount.options[name], "/proc/self/mountinfo")
    facts.know(
        "write destination", target.mount.options.get("upperdir", "nowhere: it is read-only"), "its upperdir"
    )
