"""Counters of this machine, as the load generator has them in its documents (native/load/machine.cpp)."""

import os
import resource
from pathlib import Path
from typing import Any

_NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = {"MemTotal": "total", "MemAvailable": "available", "Dirty": "dirty", "Writeback": "writeback"}


def machine_counters() -> dict[str, Any]:
    """`own` is of this process and of its children that have ended, together."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "processors": os.sysconf("SC_NPROCESSORS_ONLN"),
        "processor_seconds": _processor_seconds(),
        "own": {
            "user_s": sum(each.ru_utime for each in both),
            "system_s": sum(each.ru_stime for each in both),
            "involuntary_switches": sum(each.ru_nivcsw for each in both),
        },
        "memory_bytes": _memory_bytes(),
    }


def available_memory_bytes() -> int | None:
    """None where the kernel does not report it."""
    return _memory_bytes().get("available")


def _processor_seconds() -> dict[str, float] | None:
    label, *ticks = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    if label != "cpu" or len(ticks) < len(_NAMES):
        return None
    a_second = os.sysconf("SC_CLK_TCK")
    return {name: int(count) / a_second for name, count in zip(_NAMES, ticks, strict=False)}


def _memory_bytes() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {short: int(found[name].split()[0]) * 1024 for name, short in _MEMORY.items() if name in found}
