"""What on a machine stands in a recorder's way, by its data sheet alone."""

from collections.abc import Iterator

from penstock.bench.doctor.pool import Pool
from penstock.files.sheet.hints import hints_of
from penstock.model.plan.checkup import Finding, ok, problem, unknown
from penstock.model.plan.datasheet import DataSheet, Fact, FactGroup
from penstock.model.plans import MIB
from penstock.model.units import human_bytes, human_size

_RECEIVE_BYTES = MIB  # what the recorder asks for (native/stream/tcp/tcp.hpp)
_WINDOW_BYTES = 4 * MIB
_FAST_MB_S = 10_000
_RING, _QUEUES = 4096, 4
_PROCESSORS = 4
_FILES = 1024
_MEMORY_KINDS = ("tmpfs", "ramfs")


def machine_findings(
    sheet: DataSheet, *, with_processors: bool = True, pool: Pool | None = None
) -> list[Finding]:
    """In the order in which they are shown. Without `with_processors` a detector says how many it needs."""
    return [
        *_hints(sheet),
        *_folder(sheet),
        *_memory(sheet, pool or Pool()),
        *(_processors(sheet) if with_processors else ()),
        _shown("governor", _fact(sheet.group("processors"), "governor")),
        *_network(sheet),
        *(each for group in _fast_links(sheet) for each in _link(group)),
        *_limits(sheet),
        *_time(sheet),
    ]


def _hints(sheet: DataSheet) -> Iterator[Finding]:
    """What the data sheet points out, too."""
    check = "settings of storage and kernel"
    hints = hints_of(sheet)
    for hint in hints:
        yield problem(check, hint.what, hint.why, hint.remedy)
    if not hints:
        yield ok(check, "none that limits throughput")


def _fact(group: FactGroup | None, name: str) -> Fact:
    found = None if group is None else next((fact for fact in group.facts if fact.name == name), None)
    return found or Fact(name=name, value=None, source="", unknown="not reported")


def _folder(sheet: DataSheet) -> Iterator[Finding]:
    group = sheet.group("file system")
    kind, free = _fact(group, "type"), _fact(group, "free")
    if kind.value in _MEMORY_KINDS:
        yield problem(
            "file system",
            f"{sheet.path} is on {kind.value}, which is memory",
            "files are lost when the machine restarts, and take memory from the recorder",
            "choose a folder on a disk, such as `penstock doctor /data`",
        )
    else:
        yield ok("file system", f"{kind.value}")
    if isinstance(free.value, int):
        yield ok("free space", human_bytes(free.value))
    else:
        yield unknown("free space", free.unknown)


def available_memory(sheet: DataSheet) -> int | None:
    """The machine's memory or the limit of its cgroup, in bytes; None if neither is known."""
    total, limit = _fact(sheet.group("processors"), "memory"), _fact(sheet.group("limits"), "memory limit")
    known = [fact.value for fact in (total, limit) if isinstance(fact.value, int)]
    return min(known, default=None)


def _memory(sheet: DataSheet, pool: Pool) -> Iterator[Finding]:
    there = available_memory(sheet)
    if there is None:
        yield unknown("memory", _fact(sheet.group("processors"), "memory").unknown)
    elif there < 2 * pool.bytes:
        yield problem(
            "memory",
            f"{human_bytes(there)} of memory for {pool.words}",
            "HDF5, the page cache and other programs need memory in addition to the pool",
            pool.remedy(max(64 * MIB, there // 4 // MIB * MIB)),
        )
    else:
        yield ok("memory", f"{human_bytes(there)} for {pool.words}")
    pages = _fact(sheet.group("kernel"), "transparent huge pages")
    if pages.value == "never":
        yield problem(
            "huge pages",
            "transparent huge pages are off",
            "the pool then consists of 4 KiB pages, whose faults take processor time",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    else:
        yield _shown("huge pages", pages)


def available_processors(sheet: DataSheet) -> float | None:
    """The machine's processors or the limit of its cgroup; None if neither is known."""
    there, limit = (
        _fact(sheet.group("processors"), "threads"),
        _fact(sheet.group("limits"), "processor limit"),
    )
    known = [float(fact.value) for fact in (there, limit) if isinstance(fact.value, int | float)]
    return min(known, default=None)


def _processors(sheet: DataSheet) -> Iterator[Finding]:
    there = available_processors(sheet)
    if there is None:
        yield unknown("processors", _fact(sheet.group("processors"), "threads").unknown)
    elif there < _PROCESSORS:
        yield problem(
            "processors",
            f"{there:g} processors are available",
            "reception, two compression threads and writing run at the same time",
            f"record on a machine with {_PROCESSORS} or more; `penstock doctor --detector NAME` computes how"
            " many yours needs",
        )
    else:
        yield ok("processors", f"{there:g}")


def _network(sheet: DataSheet) -> Iterator[Finding]:
    group = sheet.group("network")
    yield _at_least(
        "socket buffers",
        _fact(group, "net.core.rmem_max"),
        _RECEIVE_BYTES,
        "the recorder asks for 1 MiB per TCP connection; with less, a sender waits for acknowledgements",
        "sysctl -w net.core.rmem_max=16777216",
    )
    yield _at_least(
        "TCP window",
        _fact(group, "net.ipv4.tcp_rmem, maximum"),
        _WINDOW_BYTES,
        "a ZeroMQ stream is limited to this window per round trip",
        'sysctl -w net.ipv4.tcp_rmem="4096 131072 16777216"',
    )
    up = [each for each in sheet.of_kind("interface") if each.value("state") == "up"]
    names = ", ".join(_link_text(each) for each in up)
    yield ok("network interfaces", names) if up else unknown("network interfaces", "none is up")


def _link_text(group: FactGroup) -> str:
    """ "eth0 (100 Gb/s, MTU 9000)"."""
    speed, name = group.number("speed"), group.key.partition(" ")[2]
    shown = "unknown speed" if speed is None else f"{speed / 1000:g} Gb/s"
    return f"{name} ({shown}, MTU {group.value('MTU')})"


def _at_least(check: str, fact: Fact, least: int, why: str, remedy: str) -> Finding:
    if not isinstance(fact.value, int):
        return unknown(check, f"{fact.name}: {fact.unknown}")
    found = f"{fact.name} is {human_size(fact.value)}"
    return ok(check, found) if fact.value >= least else problem(check, found, why, remedy)


def _fast_links(sheet: DataSheet) -> list[FactGroup]:
    return [
        group
        for group in sheet.of_kind("interface")
        if group.value("state") == "up" and (group.number("speed") or 0) >= _FAST_MB_S
    ]


def _link(group: FactGroup) -> Iterator[Finding]:
    name = group.key.partition(" ")[2]
    queues = group.number("receive queues")
    if queues is not None and queues < _QUEUES and group.value("driver") is not None:
        yield problem(
            f"queues of {name}",
            f"{name} has {queues:g} receive queues",
            "each queue uses one processor, which handles about 10 to 25 Gb/s",
            f"ethtool -L {name} combined {_QUEUES}",
        )
    ring, most = _fact(group, "receive ring"), _fact(group, "maximum receive ring")
    if not isinstance(ring.value, int) or not isinstance(most.value, int):
        yield unknown(f"ring of {name}", ring.unknown or most.unknown)
    elif ring.value < min(most.value, _RING):
        yield problem(
            f"ring of {name}",
            f"the receive ring of {name} has {ring.value} of {most.value} entries",
            "bursts that exceed it are dropped by the card and sent again",
            f"ethtool -G {name} rx {most.value}",
        )
    else:
        yield ok(f"ring of {name}", f"{ring.value} entries")


def _limits(sheet: DataSheet) -> Iterator[Finding]:
    limits = sheet.group("limits")
    files = _fact(limits, "open files")
    if files.value == "unlimited" or (isinstance(files.value, int) and files.value >= _FILES):
        yield ok("open files", f"{files.value}")
    elif files.value is None:
        yield unknown("open files", files.unknown)
    else:
        yield problem(
            "open files",
            f"a process may open {files.value} files",
            "connections, files and plug-ins of a recorder may need more",
            f"ulimit -n {4 * _FILES}",
        )
    yield _shown("locked memory", _fact(limits, "locked memory"))
    # The recorder uses neither; measurements with several requests in flight do.
    yield _shown("io_uring (for `bench` only)", _fact(sheet.group("kernel"), "io_uring"))


def _shown(check: str, fact: Fact) -> Finding:
    if fact.value is None:
        return unknown(check, fact.unknown)
    return ok(
        check, human_size(fact.value) if fact.unit == "B" and isinstance(fact.value, int) else str(fact.value)
    )


def _time(sheet: DataSheet) -> Iterator[Finding]:
    kernel = sheet.group("kernel")
    yield _shown("clock source", _fact(kernel, "clock source"))
    synchronized = _fact(kernel, "time synchronized")
    if synchronized.value is False:
        yield problem(
            "time",
            "the kernel's clock is not synchronized",
            "times in files differ from those of the beamline, and values are matched to frames by time",
            "timedatectl set-ntp true; with chrony, add `rtcsync` to its configuration",
        )
    elif synchronized.value is None:
        yield unknown("time", synchronized.unknown)
    else:
        yield ok("time", "synchronized")
