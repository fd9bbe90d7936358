"""Texts of the tools of parallel file systems, and what an NFS server says of itself, for data sheets."""

import re

_FLAG = re.compile(r"^ *(-[A-Za-z]|--[a-z][\w-]*) +(\S.*?)(?:  +\S.*)?$", re.MULTILINE)
_BUILD = re.compile(r'GPFS build: "([^"]*)"')
_TARGET = re.compile(r"^ *[0-9]+ .*[0-9]+ *$", re.MULTILINE)
_IMPLEMENTATION = re.compile(r"impl_id:\s*name='(.*?)',\s*domain='(.*?)'(?:,|$)")
_PNFS = re.compile(r"\bpnfs=(not configured|[A-Z0-9_]+)")
# Domains of nii_domain (RFC 8881, 3.3.21) in lower case.
_SERVERS = {"dcache.org": "dCache", "netapp.com": "NetApp ONTAP (WAFL)"}


def parse_mmlsfs_flags(text: str) -> dict[str, str]:
    """`mmlsfs DEVICE`: the value of each flag, {"-r": "2"}; the first one if a flag has several."""
    found: dict[str, str] = {}
    for flag, value in _FLAG.findall(text):
        found.setdefault(flag, value)
    return found


def parse_mmdiag_version(text: str) -> str | None:
    """`mmdiag --version`: "5.1.9.2"."""
    match = _BUILD.search(text)
    return match[1].strip() if match is not None and match[1].strip() else None


def parse_beegfs_fields(text: str) -> dict[str, str]:
    """`beegfs-ctl --getentryinfo` and `beegfs entry info --retro`: {"Chunksize": "1M", "Type": "RAID0"}."""
    rows = (line.strip().removeprefix("+ ").partition(":") for line in text.splitlines())
    return {name: value.strip() for name, separator, value in rows if separator and value.strip()}


def parse_beegfs_targets(text: str) -> int | None:
    """`beegfs-ctl --listtargets`: the number of targets, each with its node; None without any."""
    return len(_TARGET.findall(text)) or None


def parse_nfs_implementation(line: str) -> tuple[str, str] | None:
    """The line `impl_id` of a mount in /proc/self/mountstats: name and domain; None: the server gave none."""
    match = _IMPLEMENTATION.search(line.strip())
    return (match[1], match[2]) if match is not None and (match[1] or match[2]) else None


def parse_nfs_layout(line: str) -> str | None:
    """The line `nfsv4` of a mount in /proc/self/mountstats: the layout of pNFS, or "not configured"."""
    match = _PNFS.search(line)
    return match[1] if match is not None else None


def parse_pvfs2_strip(text: str) -> int | None:
    """The attribute user.pvfs2.dist_params of OrangeFS, `strip_size:65536`: bytes; None if it has none."""
    match = re.search(r"\bstrip_size:([0-9]{1,18})\b", text)
    return int(match[1]) if match is not None and int(match[1]) else None


def nfs_server(implementation: tuple[str, str]) -> str:
    """Returns the server's software, from the name and domain that it gives: "dCache: Chimera NFSv4.1"."""
    name, domain = implementation
    known = _SERVERS.get(domain.lower())
    if known is None and name.lower().startswith("netapp"):
        known = _SERVERS["netapp.com"]
    return ": ".join(part for part in (known or domain, name) if part)


def is_known_server(implementation: tuple[str, str]) -> bool:
    return nfs_server(implementation).startswith(tuple(_SERVERS.values()))
