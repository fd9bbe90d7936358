"""Writes docs/killed-servers.md: a series while a server of each redundant system fails.

    sudo .venv/bin/python benchmarks/killed_servers.py --keep found.jsonl
    .venv/bin/python benchmarks/killed_servers.py --page found.jsonl

For each system and fault a new laboratory is brought up, and `penstock lab degrade` records one series.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
PENSTOCK = str(CHECKOUT / ".venv" / "bin" / "penstock")
PAGE = CHECKOUT / "docs" / "killed-servers.md"
_SYSTEMS = {
    "MooseFS, 2 copies": ["moosefs"],
    "GlusterFS, replicate": ["gluster"],
    "GlusterFS, disperse 2+1": ["gluster", "--option", "kind=disperse"],
    "CephFS": ["ceph"],
    "Gfarm": ["gfarm"],
    "ZFS (zfs-fuse), raidz": ["zfs"],
}
_OF_DISKS = ("zfs",)
"""Systems in which a server is a disk of a pool, without processes that could be stopped."""
_FAULTS = {"fail": [], "stall": ["--stall"]}
_SERIES = (
    "--rate",
    "20",
    "--rows",
    "512",
    "--columns",
    "512",
    "--seconds",
    "40",
    "--at",
    "10",
    "--away",
    "10",
)
_WAIT_S = 900.0
_HEAD = """\
# A server fails in mid-series

`penstock lab degrade NAME 2 {series}` on each redundant
system of the [laboratory](how-to/qualify/bring-up-a-storage-system.md#let-a-server-fail), with 3 servers and
disks of kind `loop`: server 2 of 3 is killed, or its processes are stopped, 10 s after the recorder has
listened, and is started again 10 s later. The recorder syncs each segment before its frames count as written.
A server of ZFS is a disk of its pool: it is taken out, and put in again.

Measured on {date}, {machine}, {processors} processors that servers,
clients, recorder and detector share, load average {load}; one series a line. Times are in seconds. One
command makes this page:
`sudo .venv/bin/python benchmarks/killed_servers.py --keep FILE`.

| System | Fault | missing | wrong | longest dip | service returned | as soon as before | all copies there |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""
_NOTES = """
- **missing, wrong**: frames of 800 that are not in the file, or have other pixels.
- **longest dip**: longest time without a written frame from the fault on. **service returned**: from the
  fault until the end of that time. **as soon as before**: from the fault until frames were written as soon
  after their arrival as before it.
- **all copies there**: from the start of the server until the system reported it.
- `–`: not until the series was closed, or not known.
"""


def measure(title: str, fault: str) -> dict[str, Any]:
    system, *options = _SYSTEMS[title]
    name = f"killed-{secrets.token_hex(3)}"
    found: dict[str, Any] = {"title": title, "fault": fault}
    up = [PENSTOCK, "lab", "up", system, "--name", name, "--servers", "3", "--disks", "loop:2GiB", *options]
    done = subprocess.run(up, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return found | {"problem": _error(done.stderr)}
    try:
        degrade = [PENSTOCK, "lab", "degrade", name, "2", *_SERIES, *_FAULTS[fault], "--json", "--quiet"]
        done = subprocess.run(degrade, capture_output=True, text=True, check=False, timeout=_WAIT_S)
        return found | {"found": json.loads(done.stdout)}
    except subprocess.TimeoutExpired:
        return found | {"problem": f"it did not end within {_WAIT_S:g} s"}
    except ValueError:
        return found | {"problem": _error(done.stderr)}
    finally:
        subprocess.run([PENSTOCK, "lab", "down", name], check=True, stdout=subprocess.DEVNULL)


def _error(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("error:")] or text.splitlines()
    return lines[0].removeprefix("error: ")[:200] if lines else "no message"


def row(found: dict[str, Any]) -> str:
    fault = {"fail": "killed", "stall": "stalled"}[found["fault"]]
    if _SYSTEMS[found["title"]][0] in _OF_DISKS:
        fault = "disk out"
    if "problem" in found:
        return f"| {found['title']} | {fault} | {found['problem']} |" + " |" * 5
    values = found["found"]
    times = (values[name] for name in ("dip_s", "returned_s", "caught_up_s", "healed_s"))
    cells = [str(values["missing"]), str(values["different"])]
    cells += ["–" if each is None else f"{each:.1f}" for each in times]
    return f"| {found['title']} | {fault} | {' | '.join(cells)} |"


def faults_of(title: str) -> list[str]:
    return ["fail"] if _SYSTEMS[title][0] in _OF_DISKS else [*_FAULTS]


def dates(all_found: list[dict[str, Any]]) -> str:
    """Returns the days on which the series were recorded."""
    days = sorted({found["found"]["started"][:10] for found in all_found if "found" in found})
    return " and ".join(f"{datetime.fromisoformat(day):%-d %B %Y}" for day in days)


def page(all_found: list[dict[str, Any]]) -> str:
    loads = [found["load"] for found in all_found]
    text = _HEAD.format(
        series=" ".join(_SERIES),
        date=dates(all_found),
        machine=f"Linux {platform.release().partition('-')[0]}",
        processors=len(os.sched_getaffinity(0)),
        load=f"{min(loads):.1f} to {max(loads):.1f}",
    )
    newest = {(found["title"], found["fault"]): found for found in all_found}
    text += "".join(f"{row(found)}\n" for found in newest.values()) + _NOTES
    problems = [
        f"- {found['title']}, {found['fault']}: {problem}\n"
        for found in all_found
        if (problem := found.get("problem") or found.get("found", {}).get("problem"))
    ]
    return text + ("\n## What did not work\n\n" + "".join(problems) if problems else "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append what was measured, as JSON lines")
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", choices=_SYSTEMS, help="these systems")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page from such a file")
    given = parser.parse_args()
    if given.page is not None:
        lines = given.page.read_text(encoding="utf-8").splitlines()
        PAGE.write_text(page([json.loads(line) for line in lines]), encoding="utf-8")
        return 0
    if os.geteuid() != 0:
        parser.error("laboratories require root")
    all_found = []
    for title in given.only or _SYSTEMS:
        for fault in faults_of(title):
            found = measure(title, fault) | {"load": os.getloadavg()[1]}
            print(json.dumps(found), flush=True)
            all_found.append(found)
            if given.keep is not None:
                with given.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
    if given.only is None:
        PAGE.write_text(page(all_found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
