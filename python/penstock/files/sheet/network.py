"""Network interfaces, and the NUMA nodes of interfaces and drives."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from penstock.files.sheet.devices import drives, numa_node, parse_node
from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen, ask
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import (
    Rings,
    format_cpu_list,
    parse_cpu_list,
    parse_number,
    parse_rings,
)

_INTERRUPTS_MAX = 1024
_NET = "/sys/class/net"


def network_group(system: System) -> FactGroup:
    """Returns the kernel's limits for all connections."""
    facts = Facts("network", "Network settings")
    for name in ("net.core.rmem_max", "net.core.wmem_max"):
        facts.add(name, system.read(f"/proc/sys/{name.replace('.', '/')}"), parse_number, "B")
    for name in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
        facts.add(f"{name}, maximum", system.read(f"/proc/sys/{name.replace('.', '/')}"), _last_number, "B")
    facts.add(
        "net.core.netdev_max_backlog", system.read("/proc/sys/net/core/netdev_max_backlog"), parse_number
    )
    return facts.group()


def _last_number(text: str) -> int | None:
    """Returns the last number of "4096 131072 6291456", which is the maximum."""
    words = text.split()
    return parse_number(words[-1]) if words else None


def interface_groups(system: System) -> list[FactGroup]:
    """Returns the interfaces that are hardware, bonds or bridges; detectors use no other virtual ones."""
    return [
        _interface(system, name)
        for name in system.names(_NET)
        if any(system.is_there(f"{_NET}/{name}/{mark}") for mark in ("device", "bonding", "bridge"))
    ]


def _interface(system: System, name: str) -> FactGroup:
    folder = f"{_NET}/{name}"
    facts = Facts(f"interface {name}", f"Network interface {name}")
    facts.add("state", system.read(f"{folder}/operstate"))
    speed = system.read(f"{folder}/speed").unless("-1", "the interface reports none")
    facts.add("speed", speed, _positive, "Mb/s")
    facts.add("MTU", system.read(f"{folder}/mtu"), parse_number, "B")
    if system.is_there(f"{folder}/bonding"):
        facts.add("bond mode", system.read(f"{folder}/bonding/mode"))
        facts.add("bond members", system.read(f"{folder}/bonding/slaves"))
    queues = system.names(f"{folder}/queues")
    for kind, prefix in (("receive", "rx-"), ("transmit", "tx-")):
        facts.know(f"{kind} queues", sum(queue.startswith(prefix) for queue in queues), f"{folder}/queues")
    if system.is_there(f"{folder}/device"):
        driver = system.real(f"{folder}/device/driver")
        if system.is_there(f"{folder}/device/driver"):
            facts.know("driver", PurePosixPath(driver).name, f"{folder}/device/driver")
        else:
            facts.unknown("driver", f"{folder}/device/driver", "the device reports none")
        facts.add("NUMA node", numa_node(system, f"{folder}/device"), parse_node)
        facts.add("interrupts", _interrupts(system, folder), str)
        rings = ask("ethtool", "-g", name)
        facts.add("receive ring", rings, _of_rings(lambda found: found.now))
        facts.add("maximum receive ring", rings, _of_rings(lambda found: found.most))
    return facts.group()


def _of_rings(of: Callable[[Rings], int]) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        rings = parse_rings(text)
        return None if rings is None else of(rings)

    return parse


def _positive(text: str) -> int | None:
    """Returns None unless the speed is positive."""
    number = parse_number(text)
    return number if number is not None and number > 0 else None


def _interrupts(system: System, folder: str) -> Seen:
    """Returns the number of the interface's interrupts and the processors that may handle them."""
    place = f"{folder}/device/msi_irqs"
    if not system.is_there(place):
        # Of virtio the interrupts are those of the bus's device above.
        place = f"{PurePosixPath(system.real(f'{folder}/device')).parent}/msi_irqs"
    numbers = [name for name in system.names(place) if re.fullmatch(r"[0-9]{1,9}", name)][:_INTERRUPTS_MAX]
    processors: set[int] = set()
    for number in numbers:
        processors |= set(parse_cpu_list(system.text(f"/proc/irq/{number}/smp_affinity_list")) or ())
    source = f"{place}, /proc/irq/*/smp_affinity_list"
    if not processors:
        return Seen(None, source, "the device lists no interrupts")
    return Seen(f"{len(numbers)}, on processors {format_cpu_list(processors)}", source)


def placement_group(system: System) -> FactGroup:
    """Returns the NUMA nodes of all interfaces and drives."""
    facts = Facts("placement", "NUMA nodes of interfaces and drives")
    for name in system.names(_NET):
        hardware = f"{_NET}/{name}/device"
        if system.is_there(hardware):
            facts.add(f"interface {name}", numa_node(system, hardware), parse_node)
    for name, folder in drives(system):
        facts.add(f"drive {name}", numa_node(system, f"{folder}/device"), parse_node)
    return facts.group()
