"""The machine: what it is, and whether others used it while a row was measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Shares of all cores' time that others may have had, and that the hypervisor may have kept back.
OTHERS_MAX = 0.05
STEAL_MAX = 0.05
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in a process' flags
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Busy:
    """Shares of all cores' time while a row was measured."""

    others: float
    steal: float

    def remarks(self) -> tuple[str, ...]:
        found = []
        if self.others > OTHERS_MAX:
            found.append(f"void: other processes had {self.others:.0%} of the cores")
        if self.steal > STEAL_MAX:
            found.append(f"void: the hypervisor kept back {self.steal:.0%} of the cores")
        return tuple(found)


def _cpu_ticks() -> tuple[int, int, int]:
    """Busy in processes (kernel threads too), stolen, and all, summed over the cores."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, idle, wait, interrupt, soft_interrupt, steal = (int(word) for word in words)
    busy = user + nice + system
    return busy, steal, busy + idle + wait + interrupt + soft_interrupt + steal


def _kernel_thread_ticks() -> dict[int, int]:
    """What kernel threads did (writing back pages, for one) is not to be blamed on others."""
    ticks = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[6]) & KERNEL_THREAD:
            ticks[int(folder.name)] = int(words[11]) + int(words[12])
    return ticks


_of_servers_s = [0.0]


def count_as_own(seconds: float) -> None:
    """Of servers that a row started, and that are no children of this process."""
    _of_servers_s[0] += seconds


def _own_seconds() -> float:
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + _of_servers_s[0]


class Watch:
    """From its making to busy(): the share of others. Children have to be waited for by then."""

    def __init__(self) -> None:
        self._ticks = _cpu_ticks()
        self._kernel = _kernel_thread_ticks()
        self._own = _own_seconds()

    def busy(self) -> Busy:
        busy, steal, whole = (now - then for now, then in zip(_cpu_ticks(), self._ticks, strict=True))
        kernel = sum(ticks - self._kernel.get(pid, 0) for pid, ticks in _kernel_thread_ticks().items())
        own = (_own_seconds() - self._own) * TICKS_PER_S
        return Busy(
            others=max(0.0, busy - kernel - own) / max(1, whole), steal=max(0.0, steal / max(1, whole))
        )


def settle(seconds: float = 0.2) -> None:
    """Nothing that an earlier subject left dirty burdens the next one."""
    os.sync()
    time.sleep(seconds)


def warm(folder: Path, needed: int) -> None:
    """Fills as many pages of `folder`'s cache as the next subject needs, and frees them.

    Under a hypervisor that takes free pages back, a page that was free for seconds costs several
    times a copy to have again; whoever came after a pause would pay for that. So everyone is
    handed pages that the machine really has.
    """
    settle()
    path = folder / "warm"
    block = memoryview(bytearray(8 << 20))
    with path.open("wb", buffering=0) as file:
        for _ in range(needed // len(block)):
            file.write(block)
    path.unlink()
    os.sync()


def cores() -> list[int]:
    """The two cores that senders and receivers share."""
    return sorted(os.sched_getaffinity(0))[:2]


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (done.stdout or done.stderr).strip().splitlines()[0] if done.stdout or done.stderr else "unknown"


def _matched(path: str, pattern: str) -> str:
    match = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return match[1].strip() if match else "unknown"


def file_system(folder: Path) -> str:
    """Type and mount options of what `folder` lies on."""
    best, found = -1, "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options = line.split()[:4]
        inside = (
            point == "/" or str(folder.resolve()).startswith(point + "/") or str(folder.resolve()) == point
        )
        if inside and len(point) >= best:
            best, found = len(point), f"{kind} ({options})"
    return found


def conditions(checkout: Path, disk: Path, tmpfs: Path) -> dict[str, Any]:
    packages = ("h5py", "hdf5plugin", "bitshuffle", "pyzmq", "numpy", "scipy")
    git = ["git", "-c", "safe.directory=*", "-C", str(checkout)]
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "native", "benchmarks"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _first_line([*git, "rev-parse", "--short=12", "HEAD"])
        + (" with changes" if changed else ""),
        "cpu": _matched("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(_matched("/proc/meminfo", r"^MemTotal:\s*(\d+)")) * 1024,
        "kernel": platform.release(),
        "system": _matched("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "disk": file_system(disk),
        "tmpfs": file_system(tmpfs),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "fio": _first_line(["fio", "--version"]),
        "compiler": _first_line(["g++", "--version"]),
        "packages": {name: importlib.metadata.version(name) for name in packages},
    }
