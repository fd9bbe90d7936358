"""Brings laboratories up in tests, and finds what they leave behind."""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.lab.cgroups import Group, problem
from penstock.lab.control import ask
from penstock.lab.mounts import mounts_below
from penstock.lab.packages import missing
from penstock.lab.place import DISKS, Place, place_of
from penstock.lab.systems.all import system_named

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SMALL = ("--disks", "loop:400MiB")


def requires(system: str) -> pytest.MarkDecorator:
    """Skips a module where the system cannot be brought up."""
    lacking = missing(system_named(system))
    there = _may_be_made() and lacking.is_complete
    reason = f"requires root, namespaces, control groups, loop devices and the programs of {system}"
    if lacking.kernel:
        reason = f"this kernel has no {lacking.kernel}"
    return pytest.mark.skipif(not there, reason=reason)


@cache
def _may_be_made() -> bool:
    """Containers keep some of this from root."""
    if os.geteuid() != 0 or problem() is not None or not Path("/dev/loop-control").exists():
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode == 0


@contextmanager
def free_name() -> Iterator[str]:
    """Takes down the laboratory of that name afterwards, if it is still there."""
    name = f"t{os.getpid()}-{random.randrange(1 << 20)}"
    try:
        yield name
    finally:
        if Place(name).exists():
            subprocess.run([sys.executable, "-m", "penstock", "lab", "down", name], check=False)


def contents_of(folders: Iterable[Path]) -> dict[Path, int]:
    """Returns all that is in folders of this machine, with the times of the last change in nanoseconds."""
    there = [each for folder in folders if folder.exists() for each in [folder, *folder.rglob("*")]]
    return {each: each.lstat().st_mtime_ns for each in there}


def traces(name: str) -> list[str]:
    """Returns all that is left of a laboratory."""
    place = Place(name)
    found = [str(each) for each in (place.folder, place.lock, DISKS / name) if each.exists()]
    found += [str(each.at) for each in mounts_below(place.folder, DISKS / name)]
    if Group(name).exists():
        found.append("control group")
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
    found += [line for line in loops.splitlines() if f"/{name}/" in line]
    for process in psutil.process_iter(["cmdline"]):
        if any(f"/{name}/" in word for word in process.info["cmdline"] or []):
            found.append(f"process {process.pid} {process.info['cmdline']}")
        elif _has_open(process.pid, place):
            found.append(f"process {process.pid} {process.info['cmdline']} with an open file")
    return found


def _has_open(pid: int, place: Place) -> bool:
    """Also files that are removed: a supervisor that outlives its lock."""
    if pid == os.getpid():
        return False
    with contextlib.suppress(OSError):
        links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
        return any(str(each.readlink()).startswith((f"{place.folder}/", str(place.lock))) for each in links)
    return False


def without_traces(name: str, seconds_max: float = 30.0) -> None:
    deadline = time.monotonic() + seconds_max
    while (left := traces(name)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, left


def watchers(name: str) -> tuple[int, int]:
    """Process IDs of the guard and of its supervisor."""
    lock = str(Place(name).lock)
    holders = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if any(str(each.readlink()) == lock for each in Path(f"/proc/{process.pid}/fd").iterdir()):
                holders.append(process)
    (supervisor,) = (each for each in holders if each.ppid() in {other.pid for other in holders})
    return supervisor.ppid(), supervisor.pid


def up(run: Run, kind: str, name: str, *more: str) -> dict[str, Any]:
    done = run("lab", "up", kind, "--name", name, *SMALL, "--json", *more)
    assert done.returncode == 0, done.stderr
    state: dict[str, Any] = json.loads(done.stdout)
    return state


def mounts(name: str) -> list[Path]:
    """Returns the mount point of each client."""
    nodes = ask(place_of(name), "state")["state"]["nodes"]
    return [Path(node["mount"]) for node in nodes if node["mount"]]


def has_healed(name: str) -> bool:
    return bool(ask(place_of(name), "has_healed")["has_healed"])


def wait_until_healed(name: str, seconds_max: float = 60.0) -> None:
    deadline = time.monotonic() + seconds_max
    while not has_healed(name):
        assert time.monotonic() < deadline, f"not healed within {seconds_max:g} s"
        time.sleep(0.2)


class Probe(threading.Thread):
    """Writes and syncs a few bytes, again and again; remembers when each was done."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.done, self.stop = folder, list[float](), threading.Event()

    def run(self) -> None:
        with (self.folder / "probe").open("wb", buffering=0) as file:
            while not self.stop.wait(0.05):
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
                self.done.append(time.monotonic())

    @property
    def longest_s(self) -> float:
        return max(later - before for before, later in pairwise(self.done))
