"""Network interfaces, and which NUMA node they and the drives are at."""

import re
from pathlib import PurePosixPath

from penstock.files.sheet.devices import drives, numa_node, parse_node
from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import format_cpu_list, parse_cpu_list, parse_number

_INTERRUPTS_MAX = 1024
_NET = "/sys/class/net"


def interface_groups(system: System) -> list[FactGroup]:
    """Of those that are hardware or made of several; a virtual one of another kind carries no detector."""
    return [
        _interface(system, name)
        for name in system.names(_NET)
        if any(system.is_there(f"{_NET}/{name}/{mark}") for mark in ("device", "bonding", "bridge"))
    ]


def _interface(system: System, name: str) -> FactGroup:
    folder = f"{_NET}/{name}"
    facts = Facts(f"interface {name}", f"Network interface {name}")
    facts.add("state", system.read(f"{folder}/operstate"))
    facts.add("speed", system.read(f"{folder}/speed"), _positive, "Mb/s")
    facts.add("MTU", system.read(f"{folder}/mtu"), parse_number, "B")
    if system.is_there(f"{folder}/bonding"):
        facts.add("bond mode", system.read(f"{folder}/bonding/mode"))
        facts.add("bond of", system.read(f"{folder}/bonding/slaves"))
    queues = system.names(f"{folder}/queues")
    for kind, prefix in (("receive", "rx-"), ("send", "tx-")):
        facts.know(f"{kind} queues", sum(queue.startswith(prefix) for queue in queues), f"{folder}/queues")
    if system.is_there(f"{folder}/device"):
        driver = system.real(f"{folder}/device/driver")
        if system.is_there(f"{folder}/device/driver"):
            facts.know("driver", PurePosixPath(driver).name, f"{folder}/device/driver")
        else:
            facts.unknown("driver", f"{folder}/device/driver", "the device reports none")
        facts.add("NUMA node", numa_node(system, f"{folder}/device"), parse_node)
        facts.add("interrupts on processors", _interrupts(system, folder), str)
    return facts.group()


def _positive(text: str) -> int | None:
    """A link that is down, or that has no speed, says -1."""
    number = parse_number(text)
    return number if number is not None and number > 0 else None


def _interrupts(system: System, folder: str) -> Seen:
    """The processors that the interface's interrupts may go to."""
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
    return Seen(f"{len(numbers)} on {format_cpu_list(processors)}", source)


def placement_group(system: System) -> FactGroup:
    """NUMA nodes of interfaces and drives beside each other."""
    facts = Facts("placement", "NUMA nodes of interfaces and drives")
    for name in system.names(_NET):
        hardware = f"{_NET}/{name}/device"
        if system.is_there(hardware):
            facts.add(f"interface {name}", numa_node(system, hardware), parse_node)
    for name, folder in drives(system):
        facts.add(f"drive {name}", numa_node(system, f"{folder}/device"), parse_node)
    return facts.group()
