"""Properties of NFS mounts, and the software of their servers: dCache, NetApp's WAFL, SONAS and others."""

from penstock.files.sheet.file_system import Target
from penstock.files.sheet.system import Facts, System
from penstock.files.storage import Mount
from penstock.model.plan.storage_texts import is_known_server, nfs_server
from penstock.model.plan.system_texts import NfsMount, parse_mountstats, parse_number

_SOFTWARE = "server software"
_GENERAL_PARALLEL = "probably IBM SONAS or Storage Scale (GPFS)"
_SNAPSHOTS = "probably NetApp (WAFL), or another server with .snapshot directories"


def nfs_facts(system: System, target: Target, facts: Facts) -> None:
    """Adds what the kernel reports of an NFS mount."""
    assert target.mount is not None
    seen = system.read("/proc/self/mountstats")
    found = parse_mountstats(seen.text or "", target.mount.point)
    if found is None:
        facts.unknown("mount", seen.source, seen.why or f"{target.mount.point} is not listed")
        return
    facts.know("server", found.server, seen.source)
    _software(target, found, facts)
    facts.know("protocol version", found.version, seen.source)
    if found.layout:
        facts.know("pNFS", found.layout, seen.source)
    for name, title in (("rsize", "maximum read"), ("wsize", "maximum write")):
        value = parse_number(found.options.get(name, ""))
        if value is None:
            facts.unknown(title, seen.source, f"{name} is not among the mount options")
        else:
            facts.know(title, value, seen.source, "B")
    for name in ("proto", "nconnect", "hard", "soft", "sec", "local_lock"):
        if name in found.options:
            facts.know(name, found.options[name] or True, seen.source)


def _software(target: Target, found: NfsMount, facts: Facts) -> None:
    """A server names itself from NFS 4.1 on, if at all; otherwise names on it may suggest what it is."""
    assert target.mount is not None
    named = found.implementation
    if named is not None and is_known_server(named):
        facts.know(_SOFTWARE, nfs_server(named), "impl_id of /proc/self/mountstats")
    elif (clue := _clue(target, target.mount)) is not None:
        facts.know(_SOFTWARE, *clue)
    elif named is not None:
        facts.know(_SOFTWARE, nfs_server(named), "impl_id of /proc/self/mountstats")
    else:
        facts.unknown(_SOFTWARE, "impl_id of /proc/self/mountstats", "the server does not name itself")


def _clue(target: Target, mount: Mount) -> tuple[str, str] | None:
    """Returns the software that a name suggests, and the name. A lookup finds names that no list shows."""
    if (target.folder / ".(tags)()").exists():
        return "dCache", "the file .(tags)()"
    export = mount.source.partition(":/")[2]
    if export.startswith("ibm/"):
        return _GENERAL_PARALLEL, f"the exported path /{export}"
    if (target.folder / ".snapshot").is_dir():
        return _SNAPSHOTS, "the directory .snapshot"
    return None
