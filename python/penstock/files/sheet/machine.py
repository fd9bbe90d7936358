"""The machine in front of the storage: kernel, processors, memory, limits, clock."""

import ctypes
import platform
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import (
    mitigations_word,
    parse_cgroup,
    parse_chosen,
    parse_cpu_max,
    parse_cpuinfo,
    parse_limit,
    parse_meminfo,
    parse_number,
)

_SETTINGS = (
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_bytes",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
    "vm/vfs_cache_pressure",
    "vm/swappiness",
    "vm/zone_reclaim_mode",
    "kernel/numa_balancing",
)
_NO_LIMIT = 1 << 62  # version 1 of cgroups writes the largest multiple of a page


def kernel_group(system: System) -> FactGroup:
    facts = Facts("kernel", "Kernel")
    facts.add("release", system.read("/proc/sys/kernel/osrelease"))
    facts.add("distribution", system.read("/etc/os-release"), _pretty_name)
    for name in _SETTINGS:
        facts.add(name.replace("/", "."), system.read(f"/proc/sys/{name}"), parse_number)
    pages = "/sys/kernel/mm/transparent_hugepage/enabled"
    facts.add("transparent huge pages", system.read(pages), parse_chosen)
    facts.add("io_uring", system.read("/proc/sys/kernel/io_uring_disabled"), _io_uring)
    _mitigations(system, facts)
    clock = "/sys/devices/system/clocksource/clocksource0"
    facts.add("clock source", system.read(f"{clock}/current_clocksource"))
    facts.add("available clock sources", system.read(f"{clock}/available_clocksource"))
    facts.add("time synchronized", _synchronized(system), lambda text: text == "yes")
    return facts.group()


_TIMEX_BYTES, _TIME_ERROR = 256, 5


def _synchronized(system: System) -> Seen:
    """Whether the kernel's clock follows a time service, as adjtimex(2) reports; of this machine alone."""
    if system.root != system.root.parent:
        return Seen(None, "adjtimex", "available for the local machine only")
    # All zero: nothing is set, and the kernel writes less than that.
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state < 0:
        return Seen(None, "adjtimex", "the kernel does not report it")
    return Seen("no" if state == _TIME_ERROR else "yes", "adjtimex")


def _pretty_name(text: str) -> str | None:
    return next(
        (
            line.partition("=")[2].strip("\"'")
            for line in text.splitlines()
            if line.startswith("PRETTY_NAME=")
        ),
        None,
    )


def _io_uring(text: str) -> str | None:
    return {"0": "allowed", "1": "restricted to privileged users and a group", "2": "off"}.get(text.strip())


def _mitigations(system: System, facts: Facts) -> None:
    folder = "/sys/devices/system/cpu/vulnerabilities"
    states = [system.text(f"{folder}/{name}") for name in system.names(folder)]
    if states:
        line = system.text("/proc/cmdline")
        facts.know("mitigations", mitigations_word(states, line), f"{folder}, /proc/cmdline")
    else:
        facts.unknown("mitigations", folder, "this kernel reports none")


def processor_name(system: System | None = None) -> str:
    """Returns the model of the processor for display."""
    found = parse_cpuinfo((system or System()).text("/proc/cpuinfo")).model
    return found or f"{platform.machine()} processor"


def processor_group(system: System) -> FactGroup:
    facts = Facts("processors", "Processors and memory")
    seen = system.read("/proc/cpuinfo")
    facts.add("model", seen, lambda text: parse_cpuinfo(text).model)
    for name in ("sockets", "cores", "threads"):
        facts.add(name, seen, _count_of(name))
    _governors(system, facts)
    memory = system.read("/proc/meminfo")
    for name, field in (("memory", "MemTotal"), ("swap", "SwapTotal"), ("huge page size", "Hugepagesize")):
        facts.add(name, memory, _memory_of(field), "B")
    nodes = [name for name in system.names("/sys/devices/system/node") if name[4:].isdigit()]
    for name in nodes:
        folder, node = f"/sys/devices/system/node/{name}", f"NUMA node {name.removeprefix('node')}"
        facts.add(f"{node}: processors", system.read(f"{folder}/cpulist"))
        facts.add(f"{node}: memory", system.read(f"{folder}/meminfo"), _memory_of("MemTotal"), "B")
    if not nodes:
        facts.unknown("NUMA nodes", "/sys/devices/system/node", "this kernel reports none")
    return facts.group()


def _count_of(name: str) -> Callable[[str], int | None]:
    return lambda text: getattr(parse_cpuinfo(text), name) or None


def _memory_of(field: str) -> Callable[[str], int | None]:
    return lambda text: parse_meminfo(text).get(field)


def _governors(system: System, facts: Facts) -> None:
    folder = "/sys/devices/system/cpu"
    files = [
        f"{folder}/{name}/cpufreq/scaling_governor"
        for name in system.names(folder)
        if name.startswith("cpu") and name[3:].isdigit()
    ]
    found = {system.text(file) for file in files} - {""}
    source = f"{folder}/cpu*/cpufreq/scaling_governor"
    if found:
        facts.know("governor", ", ".join(sorted(found)), source)
        facts.add("frequency driver", system.read(f"{folder}/cpu0/cpufreq/scaling_driver"))
    else:
        facts.unknown("governor", source, "frequency scaling is not available")


def limits_group(system: System) -> FactGroup:
    facts = Facts("limits", "Virtualization and limits")
    _virtual(system, facts)
    _container(system, facts)
    paths = parse_cgroup(system.text("/proc/self/cgroup"))
    limits = _Limits(system, paths)
    facts.add("memory limit", limits.memory(), _bytes_or_none, "B")
    facts.add("processor limit", limits.processors(), lambda text: float(text) if text != "none" else text)
    facts.add("I/O limit", limits.io(), _one_line)
    process = system.read("/proc/self/limits")
    facts.add("open files", process, lambda text: parse_limit(text, "Max open files"))
    facts.add("locked memory", process, lambda text: parse_limit(text, "Max locked memory"), "B")
    return facts.group()


def _virtual(system: System, facts: Facts) -> None:
    # The tool reports this machine only, and answers "none" with an exit code of 1.
    if system.root == system.root.parent:
        seen = ask("systemd-detect-virt", "--vm")
        if seen.text is not None:
            facts.add("virtual machine", seen)
            return
    vendor = " ".join(
        system.text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")
    ).strip()
    cpuinfo = system.read("/proc/cpuinfo")
    if parse_cpuinfo(cpuinfo.text or "").is_virtual:
        facts.know("virtual machine", vendor or "yes", "/proc/cpuinfo, /sys/class/dmi/id")
    elif vendor:
        facts.know("virtual machine", f"not detected ({vendor})", "/proc/cpuinfo, /sys/class/dmi/id")
    else:
        facts.unknown("virtual machine", "/proc/cpuinfo, /sys/class/dmi/id", "neither source reports it")


def _container(system: System, facts: Facts) -> None:
    marks = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
    sign = next((mark for mark in marks if system.is_there(mark)), None)
    facts.know("container", f"yes ({sign})" if sign else "not detected", ", ".join(marks))


class _Limits:
    """Finds the strictest limit between this process's cgroup and the root, in both versions of cgroups."""

    def __init__(self, system: System, paths: dict[str, str]) -> None:
        self._system, self._paths = system, paths

    def memory(self) -> Seen:
        values = [
            (number, source)
            for text, source in (
                *self._on_the_way("", "", "memory.max"),
                *self._on_the_way("memory", "memory", "memory.limit_in_bytes"),
            )
            if (number := parse_number(text)) is not None and 0 <= number < _NO_LIMIT
        ]
        return self._strictest(values, "memory.max, memory.limit_in_bytes")

    def processors(self) -> Seen:
        values = [
            (value, source)
            for text, source in self._on_the_way("", "", "cpu.max")
            if (value := parse_cpu_max(text)) is not None
        ]
        for text, source in self._on_the_way("cpu", "cpu", "cpu.cfs_quota_us"):
            period = self._system.text(source.replace("cpu.cfs_quota_us", "cpu.cfs_period_us"))
            if (value := parse_cpu_max(f"{text} {period}")) is not None:
                values.append((value, source))
        return self._strictest(values, "cpu.max, cpu.cfs_quota_us")

    def io(self) -> Seen:
        texts = [
            *self._on_the_way("", "", "io.max"),
            *self._throttles("write_bps_device", "wbps"),
            *self._throttles("read_bps_device", "rbps"),
        ]
        found = [(text, source) for text, source in texts if text]
        if not found:
            return Seen("none", "io.max, blkio.throttle.* of the process's cgroups")
        return Seen("; ".join(text for text, _ in found), ", ".join(source for _, source in found))

    def _throttles(self, file: str, key: str) -> list[tuple[str, str]]:
        """Returns limits of the first version of cgroups in the form of `io.max`."""
        return [
            (re.sub(r"(?m)^([0-9]+:[0-9]+) ([0-9]+)$", rf"\1 {key}=\2", text), source)
            for text, source in self._on_the_way("blkio", "blkio", f"blkio.throttle.{file}")
        ]

    @staticmethod
    def _strictest(values: "list[tuple[int, str]] | list[tuple[float, str]]", files: str) -> Seen:
        if not values:
            return Seen("none", f"{files} of the process's cgroups")
        value, source = min(values)
        return Seen(str(value), source)

    def _on_the_way(self, controller: str, folder: str, file: str) -> list[tuple[str, str]]:
        """Returns the texts of `file` in this process's cgroup and those above, with their sources."""
        if controller not in self._paths:
            return []
        path = PurePosixPath("/" + self._paths[controller].lstrip("/"))
        if ".." in path.parts:
            path = PurePosixPath("/")
        bases = [f"/sys/fs/cgroup/{folder}".rstrip("/")] + ([] if folder else ["/sys/fs/cgroup/unified"])
        found = []
        for base in bases:
            for place in (path, *path.parents):
                source = f"{base}{place}".rstrip("/") + f"/{file}"
                seen = self._system.read(source)
                if seen.text is not None:
                    found.append((seen.text.strip(), source))
        return found


def _bytes_or_none(text: str) -> int | str | None:
    return "none" if text == "none" else parse_number(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
