"""Writes docs/reference/promises.md: what each storage system of the laboratory promises, as measured.

    sudo .venv/bin/python benchmarks/promises.py xfs moosefs gluster ceph

Brings each system up with two clients, runs all checks (`penstock lab conform`), and takes it down. With
`--from FOLDER`, the checks have been run before: FOLDER/SYSTEM.json is the output of `conform --json`. With
`--add`, systems that the page has and that are not named keep their results.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PENSTOCK = CHECKOUT / ".venv" / "bin" / "penstock"
PAGE = CHECKOUT / "docs" / "reference" / "promises.md"
_HEAD = """\
# Promises of file systems, as measured

Results of `penstock lab conform`
([how to run it](../how-to/qualify/bring-up-a-storage-system.md#check-what-it-promises)) with two clients,
default options and the packages of Debian 12, on one machine ({machine}, {date}). *kept*: the file system did
what POSIX requires; *broken*: it did something else; *refused*: it says that it cannot; *no answer*: an
operation was still waiting after 400 s.
`benchmarks/promises.py` writes this page.

"""
_SYSTEMS = {
    "xfs": "XFS",
    "ext4": "ext4",
    "btrfs": "Btrfs, 3 disks, RAID 0",
    "zfs": "ZFS, zfs-fuse, 3 disks, raidz",
    "moosefs": "MooseFS, 3 servers, 2 copies",
    "gluster": "GlusterFS, 3 servers",
    "ceph": "CephFS, 3 servers",
    "openafs": "OpenAFS, afsd.fuse",
    "gfarm": "Gfarm, 3 servers",
}
_NO_MOUNT = """
S3, WebDAV, XRootD, HDFS and NFS (nfs-ganesha, if the kernel has no NFS client) have no mount point here:
their clients speak a protocol that promises less than POSIX, and the checks do not apply. What
`penstock bench` refuses by each protocol is [here](../how-to/qualify/measure-by-protocol.md).
"""
_FINDING = re.compile(r"- \*\*(?P<promise>[^*]+)\*\*: (?P<outcome>[a-z ]+)\. (?P<detail>.*)")


def findings(system: str, disks: str) -> list[dict[str, str]]:
    name = f"promises-{system}"
    up = [str(PENSTOCK), "lab", "up", system, "--name", name, "--clients", "2", "--disks", disks]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    try:
        conform = [str(PENSTOCK), "lab", "conform", name, "--json"]
        done = subprocess.run(conform, check=False, stdout=subprocess.PIPE, text=True)
        found: list[dict[str, str]] = json.loads(done.stdout)
        return found
    finally:
        subprocess.run([str(PENSTOCK), "lab", "down", name], check=True, stdout=subprocess.DEVNULL)


def on_page() -> dict[str, list[dict[str, str]]]:
    """The results that the page has."""
    found: dict[str, list[dict[str, str]]] = {}
    systems = {title: system for system, title in _SYSTEMS.items()}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = section.splitlines()
        matches = (_FINDING.fullmatch(line) for line in lines)
        found[systems[title]] = [match.groupdict() for match in matches if match]
    return found


def page(found: dict[str, list[dict[str, str]]], note: str) -> str:
    machine = f"{platform.system()} {platform.release().partition('-')[0]}"
    text = _HEAD.format(machine=machine, date=time.strftime("%B %Y"))
    promises = [each["promise"] for each in next(iter(found.values()))]
    text += f"| Promise | {' | '.join(_SYSTEMS[system] for system in found)} |\n"
    text += f"| --- |{' --- |' * len(found)}\n"
    for promise in promises:
        outcomes = [
            next((each["outcome"] for each in each_found if each["promise"] == promise), "")
            for each_found in found.values()
        ]
        text += f"| {promise} | {' | '.join(outcomes)} |\n"
    text += _NO_MOUNT + (f"\n{note}\n" if note else "")
    for system, each_found in found.items():
        text += f"\n## {_SYSTEMS[system]}\n\n"
        for each in each_found:
            text += f"- **{each['promise']}**: {each['outcome']}. {each['detail']}\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", nargs="+", choices=sorted(_SYSTEMS))
    parser.add_argument("--from", dest="folder", type=Path, help="folder of results")
    parser.add_argument("--add", action="store_true", help="keep the other systems of the page")
    parser.add_argument("--note", default="", help="a sentence about the conditions")
    parser.add_argument("--disks", default="loop:3GiB")
    given = parser.parse_args()
    found = on_page() if given.add else {}
    for system in given.systems:
        if given.folder is not None:
            found[system] = json.loads((given.folder / f"{system}.json").read_text(encoding="utf-8"))
        else:
            found[system] = findings(system, given.disks)
    found = {system: found[system] for system in _SYSTEMS if system in found}
    PAGE.write_text(page(found, given.note), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
