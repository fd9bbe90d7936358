"""How much of this machine's processors programs use that are not part of the rehearsal."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# In the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Source: proc(5).
_BUSY, _ALL = (0, 1, 2, 5, 6), range(8)


@dataclass(frozen=True)
class Processors:
    """In ticks of the kernel, since the machine started."""

    all: int
    busy: int
    own: int
    """of this process, and of those that it started"""

    def others_share(self, now: "Processors") -> float | None:
        """Returns the share that other programs used from this moment until `now`; None: no time passed."""
        passed = now.all - self.all
        if passed <= 0:
            return None
        return min(1.0, max(0, now.busy - self.busy - max(0, now.own - self.own)) / passed)


def processors(proc: Path = _PROC, own: int | None = None) -> Processors | None:
    """Returns the use so far; None if the kernel does not report it. `own`: the process, this one if None."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = (proc / "stat").read_text(encoding="ascii").partition("\n")[0].split()[1:]
        ticks = [int(each) for each in fields]
        return Processors(
            all=sum(ticks[n] for n in _ALL),
            busy=sum(ticks[n] for n in _BUSY),
            own=_own_ticks(proc, os.getpid() if own is None else own),
        )
    return None


def _own_ticks(proc: Path, root: int) -> int:
    """Of a process and its descendants, with those that have ended."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (process / "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            number = int(process.name)
            children.setdefault(int(fields[1]), []).append(number)
            ticks[number] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        number = waiting.pop()
        total += ticks.get(number, 0)
        waiting += children.get(number, [])
    return total
