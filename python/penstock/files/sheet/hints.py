"""Settings on a data sheet that cost speed or may lose data, each with a reason and a remedy."""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.model.laboratories import FOLDER_OF_ROOT
from penstock.model.plan.datasheet import DataSheet, FactGroup, Hint
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_rate, human_size

_LIMIT = re.compile(r"(?P<number>[0-9]+:[0-9]+)(?P<limits>( [a-z]+=[0-9a-z]+)+)")
_LIMITED = {"rbps": "read", "wbps": "write", "riops": "read", "wiops": "write"}
_DIRTY_BYTES = 8 << 30
_FULL_SHARE = 0.9
_FILES_SHARE = 0.95
_SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "refined-jiffies", "pit")
_FAST_LINK_MB_S = 10_000
_JUMBO_BYTES = 4000
_NFS_WRITE_BYTES = 1 << 20
_STRIPE_CACHE_PAGES = 4096
_PLACING = "docs/how-to/operate/pin-threads-and-memory.md"


def hints_of(sheet: DataSheet) -> list[Hint]:
    return [
        *_file_system(sheet),
        *(hint for group in sheet.of_kind("device") for hint in _device(group)),
        *_kernel(sheet),
        *_limits(sheet),
        *_network(sheet),
    ]


def storage_hints(sheet: DataSheet) -> list[Hint]:
    """Returns the hints about the path from a program to the storage."""
    return [
        *_file_system(sheet),
        *(hint for group in sheet.of_kind("device") for hint in _device(group)),
        *_limits(sheet),
    ]


def _number(group: FactGroup | None, name: str) -> float | None:
    value = group.value(name) if group is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(group: FactGroup | None, name: str) -> str:
    value = group.value(name) if group is not None else None
    return value if isinstance(value, str) else ""


def _file_system(sheet: DataSheet) -> Iterator[Hint]:
    group, details = sheet.group("file system"), sheet.group("details")
    if "ro" in _text(group, "mount options").split(","):
        yield Hint(
            what="the file system is mounted read-only",
            why="recording is not possible here",
            remedy="remount it with rw; after errors check the kernel's log first",
        )
    for free, total, share, what in (
        ("free", "size", _FULL_SHARE, "full"),
        ("free inodes", "inodes", _FILES_SHARE, "out of inodes"),
    ):
        whole, left = _number(group, total), _number(group, free)
        if whole and left is not None and left / whole < 1 - share:
            yield Hint(
                what=f"the file system is nearly {what}: {100 * left / whole:.1f} % free",
                why="nearly full file systems search longer for free space and fragment files",
                remedy="free some space, or plan with `penstock plan --fill`",
            )
    wsize = _number(details, "maximum write")
    if wsize is not None and wsize < _NFS_WRITE_BYTES:
        yield Hint(
            what=f"NFS writes at most {human_size(int(wsize))} per call",
            why="each call costs a round trip to the server; most servers accept 1 MiB",
            remedy="mount with wsize=1048576 and rsize=1048576, if the server allows that",
        )
    if _text(details, "soft") or (details is not None and details.value("soft") is True):
        yield Hint(
            what="NFS is mounted soft",
            why="if the server does not answer for a while, writes fail and frames are lost",
            remedy="mount with hard",
        )

    if _text(details, "server software").startswith("dCache") and _text(details, "pNFS") == "not configured":
        yield Hint(
            what="dCache is mounted without pNFS",
            why="all data passes through the door instead of going directly to the pools",
            remedy="modprobe -a nfs_layout_flexfiles nfs_layout_nfsv41_files, mount with vers=4.1 or later,"
            " and let this machine reach the pools",
        )


def _device(group: FactGroup) -> Iterator[Hint]:
    name = group.key.partition(" ")[2]
    action = _text(group, "md sync action")
    if action not in ("", "idle", "frozen"):
        yield Hint(
            what=f"{name} is resyncing ({action})",
            why="a rebuild or a check takes bandwidth from everything else",
            remedy=f"wait until it ends (/proc/mdstat), or limit it with /sys/block/{name}/md/sync_speed_max",
        )
    if missing := _number(group, "md missing devices"):
        yield Hint(
            what=f"{name} is degraded: {counted(int(missing), 'device')} missing",
            why="reads are reconstructed from the other devices, and the next failure may lose data",
            remedy="replace the devices, and measure again when the array is complete",
        )
    cache = _number(group, "md stripe cache, pages per device")
    if cache is not None and cache < _STRIPE_CACHE_PAGES:
        yield Hint(
            what=f"the stripe cache of {name} has {cache:.0f} pages per device",
            why="parity RAID collects full stripes in it; if it is small, writes read old data first",
            remedy=f"echo 8192 > /sys/block/{name}/md/stripe_cache_size (4 KiB a page and device)",
        )
    cached = _text(group, "write cache") != "write through"
    if group.value("rotational") is True and _text(group, "kind") == "disk" and not cached:
        yield Hint(
            what=f"the write cache of {name} is off",
            why="each write then waits for the medium",
            remedy="hdparm -W 1 turns it on; its contents are lost in a power failure",
        )
    link, best = _text(group, "PCIe link"), _text(group, "maximum PCIe link")
    if link and best and link != best:
        yield Hint(
            what=f"{name} is connected with {link} but supports {best}",
            why="the slot, a riser or a cable provides less bandwidth than the drive supports",
            remedy="put it into a slot of matching width and generation",
        )


def _kernel(sheet: DataSheet) -> Iterator[Hint]:
    kernel, processors = sheet.group("kernel"), sheet.group("processors")
    memory, ratio = _number(processors, "memory"), _number(kernel, "vm.dirty_ratio")
    if memory and ratio and not _number(kernel, "vm.dirty_bytes") and memory * ratio / 100 > _DIRTY_BYTES:
        yield Hint(
            what=f"up to {human_bytes(memory * ratio / 100)} may be dirty in the page cache"
            f" (vm.dirty_ratio {ratio:.0f} %)",
            why="buffered writes run ahead of the storage, and then stall for a long time",
            remedy="sysctl vm.dirty_bytes=2147483648 vm.dirty_background_bytes=536870912",
        )
    if _text(processors, "governor") == "powersave" and "pstate" not in _text(processors, "frequency driver"):
        yield Hint(
            what="the processors' governor is powersave",
            why="compression and reception are slowest at the lowest frequency",
            remedy="cpupower frequency-set --governor performance",
        )
    if _number(kernel, "kernel.numa_balancing") and processors is not None and _nodes(processors) > 1:
        yield Hint(
            what="automatic NUMA balancing is on",
            why="its page faults disturb a recorder",
            remedy=f"sysctl kernel.numa_balancing=0, and place threads ({_PLACING})",
        )
    if _text(kernel, "clock source") in _SLOW_CLOCKS:
        yield Hint(
            what=f"the clock source is {_text(kernel, 'clock source')}",
            why="reading it takes a system call of a microsecond or more, several times per frame",
            remedy="check the kernel's log for the reason why tsc is not used",
        )


def _nodes(processors: FactGroup) -> int:
    return sum(
        fact.name.startswith("NUMA node") and fact.name.endswith("memory") for fact in processors.facts
    )


def _limits(sheet: DataSheet) -> Iterator[Hint]:
    limits, processors = sheet.group("limits"), sheet.group("processors")
    for name, total in (("memory limit", "memory"), ("processor limit", "threads")):
        limit, there = _number(limits, name), _number(processors, total)
        if limit is not None and there and limit < there:
            shown = human_bytes(limit) if total == "memory" else f"{limit:g} of {there:g}"
            yield Hint(
                what=f"a cgroup limits {total if total == 'memory' else 'the processors'}: {shown}",
                why="the page cache counts towards memory, and a cgroup that has used its time is suspended",
                remedy="record and measure outside the cgroup, or raise the limit",
            )
    if limited := _limited_devices(_text(limits, "I/O limit"), sheet):
        of_laboratory = Path(sheet.path).is_relative_to(FOLDER_OF_ROOT)
        yield Hint(
            what=f"{_LIMITING if of_laboratory else 'a cgroup limits I/O'}: {'; '.join(limited)}",
            why="a benchmark measures the limit instead of the storage",
            remedy="leave that out to measure without a limit"
            if of_laboratory
            else "record and measure outside the cgroup, or raise the limit",
        )


_LIMITING = "--disk-rate of the laboratory, or `penstock lab slow`, limits its disks"


def _limited_devices(text: str, sheet: DataSheet) -> list[str]:
    """Returns "/dev/sda at most 105 MB/s (write)" of devices below the directory; the strictest limits.

    `text` has lines of io.max: `8:0 rbps=max wbps=104857600`.
    """
    names = {_text(group, "number"): group.key.partition(" ")[2] for group in sheet.of_kind("device")}
    limits: dict[str, dict[str, int]] = {}
    for found in _LIMIT.finditer(text):
        if found["number"] not in names:
            continue
        of_device = limits.setdefault(f"/dev/{names[found['number']]}", {})
        for key, _, most in (each.partition("=") for each in found["limits"].split()):
            if key in _LIMITED and most.isdecimal():
                of_device[key] = min(int(most), of_device.get(key, int(most)))
    return [f"{name} at most {_limits_text(each)}" for name, each in limits.items() if each]


def _limits_text(limits: dict[str, int]) -> str:
    """ "200 MB/s (read, write)", or "50 MB/s (read), 100 operations/s (write)"."""
    directions: dict[str, list[str]] = {}
    for key in (key for key in _LIMITED if key in limits):
        most = human_rate(limits[key]) if key.endswith("bps") else f"{limits[key]} operations/s"
        directions.setdefault(most, []).append(_LIMITED[key])
    return ", ".join(f"{most} ({', '.join(which)})" for most, which in directions.items())


def _network(sheet: DataSheet) -> Iterator[Hint]:
    for group in sheet.of_kind("interface"):
        name = group.key.partition(" ")[2]
        speed, mtu = _number(group, "speed"), _number(group, "MTU")
        if speed is not None and mtu is not None and speed >= _FAST_LINK_MB_S and mtu < _JUMBO_BYTES:
            yield Hint(
                what=f"{name} has {speed / 1000:g} Gb/s and an MTU of {mtu:.0f}",
                why="each packet costs about the same processor time, whatever its size",
                remedy=f"ip link set {name} mtu 9000, on all machines and switches of that network",
            )
    placement = sheet.group("placement")
    if placement is None:
        return
    nodes: dict[str, dict[str, set[float]]] = {"interface": {}, "drive": {}}
    for fact in placement.facts:
        kind, _, name = fact.name.partition(" ")
        if isinstance(fact.value, int) and (kind == "interface" or name.startswith("nvme")):
            nodes[kind].setdefault("at", set()).add(fact.value)
    interfaces, drives = nodes["interface"].get("at", set()), nodes["drive"].get("at", set())
    if interfaces and drives and not interfaces & drives:
        yield Hint(
            what=f"interfaces are on NUMA node {_listed(interfaces)}, NVMe drives on {_listed(drives)}",
            why="all data crosses the link between sockets",
            remedy=f"move a card to the other socket's slots, or place threads ({_PLACING})",
        )


def _listed(numbers: set[float]) -> str:
    return ", ".join(f"{number:g}" for number in sorted(numbers))
