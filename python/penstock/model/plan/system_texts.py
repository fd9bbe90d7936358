"""What /proc, /sys and the tools of file systems say, taken apart. Anything may be in these texts.

A parser gives None, or leaves a value out, where it does not understand; it never guesses.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.model.plan import storage_texts

PROCESSORS_MAX = 1 << 16
_CPU_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
# Transfers a second and lane of PCI Express, by generation.
_PCIE_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def parse_number(text: str) -> int | None:
    """A whole number, as most files of /sys hold one."""
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"-?[0-9]{1,19}", stripped) else None


def parse_chosen(text: str) -> str | None:
    """ "[mq-deadline] none": the one in brackets, or the only one."""
    marked = re.search(r"\[([^\[\]\s]+)\]", text)
    words = text.split()
    return marked[1] if marked else words[0] if len(words) == 1 else None


def parse_cpu_list(text: str) -> tuple[int, ...] | None:
    """ "0-3,8": the numbers, in order. An empty list is one, too."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = _CPU_RANGE.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= PROCESSORS_MAX:
            return None
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def format_cpu_list(numbers: Iterable[int]) -> str:
    """The shortest text that parse_cpu_list reads as these."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def parse_fields(text: str, separator: str = ":") -> dict[str, str]:
    """Lines of `name: value`; of two with one name the first."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, found_separator, value = line.partition(separator)
        if found_separator and name.strip():
            found.setdefault(name.strip(), value.strip())
    return found


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name, of /proc/meminfo or of a NUMA node's ("Node 0 MemTotal: 1 kB")."""
    found: dict[str, int] = {}
    for name, value in parse_fields(text).items():
        match = re.fullmatch(r"([0-9]{1,15}) kB", value)
        if match:
            found[name.split()[-1]] = int(match[1]) * 1024
    return found


def parse_limit(text: str, name: str) -> int | str | None:
    """The soft limit of a line of /proc/self/limits, such as "Max open files"; or "unlimited"."""
    match = re.search(rf"^{re.escape(name)}\s+(unlimited|[0-9]{{1,19}})\s", text, re.MULTILINE)
    if match is None:
        return None
    return match[1] if match[1] == "unlimited" else int(match[1])


@dataclass(frozen=True)
class Rings:
    """Entries of a network card's receive ring, now and at most."""

    now: int
    most: int


def parse_rings(text: str) -> Rings | None:
    """`ethtool -g NAME`: first the maximum of each ring, then what is set."""
    sizes = [int(size) for size in re.findall(r"^RX:\s+([0-9]{1,9})\s*$", text, re.MULTILINE)]
    return Rings(sizes[1], sizes[0]) if len(sizes) == 2 else None


@dataclass(frozen=True)
class Processors:
    """Of /proc/cpuinfo; 0 and "" where it does not say."""

    model: str
    sockets: int
    cores: int
    threads: int
    is_virtual: bool


def parse_cpuinfo(text: str) -> Processors:
    """x86 reports sockets and cores; ARM reports little more than threads."""
    blocks = [parse_fields(block) for block in re.split(r"\n\s*\n", text) if block.strip()]
    processors = [block for block in blocks if "processor" in block]
    places = {(b["physical id"], b["core id"]) for b in processors if {"physical id", "core id"} <= b.keys()}
    names = ("model name", "cpu model", "Model", "cpu")
    model = next((block[name] for name in names for block in blocks if block.get(name)), "")
    flags = processors[0].get("flags", "").split() if processors else []
    return Processors(
        model=" ".join(model.split()),
        sockets=len({socket for socket, _ in places}),
        cores=len(places),
        threads=len(processors),
        is_virtual="hypervisor" in flags,
    )


@dataclass(frozen=True)
class ProcessorTime:
    """Of all processors together since the start, in ticks of the clock."""

    all: int
    idle: int


def parse_processor_time(text: str) -> ProcessorTime | None:
    """The first line of /proc/stat. Guests' time is in the user's already."""
    words = text.partition("\n")[0].split()
    numbers = [parse_number(word) for word in words[1:9]]
    if words[:1] != ["cpu"] or len(numbers) < 5 or None in numbers:
        return None
    known = [number or 0 for number in numbers]
    return ProcessorTime(sum(known), known[3] + known[4])


def others_share(before: ProcessorTime, after: ProcessorTime, own_ticks: float) -> float:
    """The share of the processors that everybody else had between two looks, other virtual machines too."""
    passed = after.all - before.all
    busy = passed - (after.idle - before.idle)
    return min(1.0, max(0.0, (busy - own_ticks) / passed)) if passed > 0 else 0.0


@dataclass(frozen=True)
class NfsMount:
    server: str
    version: str
    options: dict[str, str]
    implementation: tuple[str, str] | None = None
    """name and domain of the server's software, from NFS 4.1 on"""
    layout: str = ""
    """of pNFS; empty: before NFS 4.1"""


def parse_mountstats(text: str, point: str) -> NfsMount | None:
    """The NFS mount at `point` in /proc/self/mountstats; of several at one place the last."""
    found: NfsMount | None = None
    inside = False
    for line in text.splitlines():
        head = re.fullmatch(r"device (.+) mounted on (.+) with fstype (\S+)(?: .*)?", line)
        if head is not None:
            inside = head[3].startswith("nfs") and _plain(head[2]) == point
            if inside:
                found = NfsMount(_plain(head[1]).rpartition(":")[0], head[3], {})
        elif inside and found is not None and line.strip().startswith("opts:"):
            options = dict(part.partition("=")[::2] for part in line.split(":", 1)[1].strip().split(","))
            found = replace(found, version=options.get("vers") or found.version, options=options)
        elif inside and found is not None and line.strip().startswith("impl_id:"):
            found = replace(found, implementation=storage_texts.parse_nfs_implementation(line))
        elif inside and found is not None and line.strip().startswith("nfsv4:"):
            found = replace(found, layout=storage_texts.parse_nfs_layout(line) or "")
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def parse_xfs_info(text: str) -> dict[str, str]:
    """`xfs_info PATH`: "data.sunit", "meta-data.agcount" and so on."""
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        name, separator, rest = line.partition("=")
        if not separator:
            continue
        section = name.strip() or section
        for key, value in re.findall(r"([A-Za-z][\w-]*)=([^\s,]+)", rest):
            found.setdefault(f"{section}.{key}", value)
    return found


def parse_properties(text: str) -> dict[str, str]:
    """`zfs get -Hp` and `zpool get -Hp`: a name, a property, its value and a source, in columns."""
    rows = [line.split("\t") for line in text.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) >= 3 and row[1]}


@dataclass(frozen=True)
class Quota:
    """Of a user on a file system, bytes and files; a limit of 0 is none."""

    used_bytes: int
    limit_bytes: int
    files: int
    files_limit: int


def parse_quota(text: str) -> Quota | None:
    """`quota -w -p`: one line a file system, in KiB; a star marks what is exceeded."""
    for line in text.splitlines():
        numbers = [parse_number(word.rstrip("*")) for word in line.split()[1:]]
        if len(numbers) == 8 and None not in numbers:
            used, _, limit, _, files, _, files_limit, _ = (number or 0 for number in numbers)
            return Quota(used * 1024, limit * 1024, files, files_limit)
    return None


def parse_cgroup(text: str) -> dict[str, str]:
    """/proc/self/cgroup: the path by controller; that of version 2 by ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found.setdefault(controller, parts[2])
    return found


def parse_cpu_max(text: str) -> float | None:
    """cpu.max, "200000 100000": processors; None without a limit."""
    words = text.split()
    numbers = [parse_number(word) for word in words]
    if len(words) != 2 or numbers[0] is None or not numbers[1] or numbers[0] <= 0 or numbers[1] < 0:
        return None
    return numbers[0] / numbers[1]


def parse_pcie(speed: str, width: str) -> str | None:
    """ "16.0 GT/s PCIe" and "4": "generation 4, 4 lanes"."""
    match = re.match(r"([0-9]+(?:\.[0-9]+)?) GT/s", speed.strip())
    lanes = parse_number(width)
    generation = _PCIE_GENERATIONS.get(float(match[1])) if match else None
    return f"generation {generation}, {lanes} lanes" if generation and lanes and lanes > 0 else None


def mitigations_word(vulnerabilities: Iterable[str], command_line: str) -> str:
    """ "off", "none needed", "partly" or "on"."""
    if re.search(r"(^|\s)mitigations=off(\s|$)", command_line):
        return "off"
    states = [text.strip() for text in vulnerabilities]
    if any(state.startswith("Vulnerable") for state in states):
        return "partly"
    return "on" if any(state.startswith("Mitigation") for state in states) else "none needed"
