"""The block devices below a file system, from the one that it lies on down to disks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.files.sheet.system import Facts, System
from penstock.files.tools import Seen
from penstock.model.plan.datasheet import FactGroup
from penstock.model.plan.system_texts import parse_chosen, parse_fields, parse_number, parse_pcie

_SECTOR_BYTES = 512
_DEVICES_MAX = 256
_KIB = 1024
_DM_KINDS = {"LVM": "LVM volume", "CRYPT": "dm-crypt", "mpath": "multipath", "part": "partition by dm"}


@dataclass(frozen=True)
class BlockDevice:
    """One level of the stack. `below` are the names of the devices that it is built on."""

    name: str
    number: str
    """major:minor"""
    folder: str
    """in /sys"""
    kind: str
    below: tuple[str, ...]


def stack(system: System, numbers: Iterable[str]) -> list[BlockDevice]:
    """Returns the devices with `numbers` (major:minor) and all below them, each once, upper ones first."""
    found: dict[str, BlockDevice] = {}
    waiting = [system.real(f"/sys/dev/block/{number}") for number in numbers]
    while waiting and len(found) < _DEVICES_MAX:
        folder = waiting.pop(0)
        name = PurePosixPath(folder).name
        if name in found or not system.is_there(f"{folder}/dev"):
            continue
        lower = _below(system, folder)
        below = tuple(PurePosixPath(each).name for each in lower)
        number = system.text(f"{folder}/dev")
        found[name] = BlockDevice(name, number, folder, _kind(system, folder), below)
        waiting += lower
    return list(found.values())


def _below(system: System, folder: str) -> list[str]:
    if system.is_there(f"{folder}/partition"):
        return [str(PurePosixPath(folder).parent)]
    return [system.real(f"{folder}/slaves/{name}") for name in system.names(f"{folder}/slaves")]


def _kind(system: System, folder: str) -> str:
    level = system.text(f"{folder}/md/level") or "array"
    prefix = system.text(f"{folder}/dm/uuid").split("-")[0].rstrip("0123456789")
    marks = {
        "partition": "partition",
        "md": f"md {level}",
        "dm": _DM_KINDS.get(prefix, "device mapper"),
        "loop": "loop device",
        "bcache": "bcache",
    }
    usual = "NVMe drive" if PurePosixPath(folder).name.startswith("nvme") else "disk"
    return next((kind for mark, kind in marks.items() if system.is_there(f"{folder}/{mark}")), usual)


def device_group(system: System, device: BlockDevice) -> FactGroup:
    title = f"Block device {device.name}: {device.kind}"
    if device.below:
        title += f", on {', '.join(device.below)}"
    facts = Facts(f"device {device.name}", title)
    facts.know("kind", device.kind, device.folder)
    facts.know("number", device.number, f"{device.folder}/dev")
    if device.below:
        facts.know("built on", ", ".join(device.below), f"{device.folder}/slaves")
    sectors = system.read(f"{device.folder}/size")
    facts.add("size", sectors, lambda text: _scaled(text, _SECTOR_BYTES), "B")
    if device.kind == "partition":
        return facts.group()
    for add in (_special, _queue, _drive):
        add(system, device, facts)
    return facts.group()


def _scaled(text: str, factor: int) -> int | None:
    number = parse_number(text)
    return None if number is None or number < 0 else number * factor


def _special(system: System, device: BlockDevice, facts: Facts) -> None:
    folder = device.folder
    if device.kind == "loop device":
        facts.add("backing file", system.read(f"{folder}/loop/backing_file"))
    if system.is_there(f"{folder}/dm"):
        facts.add("device mapper name", system.read(f"{folder}/dm/name"))
    if not system.is_there(f"{folder}/md"):
        return
    for name, file in (
        ("md level", "level"),
        ("md state", "array_state"),
        ("md devices", "raid_disks"),
        ("md sync action", "sync_action"),
        ("md sync completed", "sync_completed"),
        ("md missing devices", "degraded"),
        ("md bitmap", "bitmap/location"),
    ):
        if system.is_there(f"{folder}/md/{file}"):
            facts.add(name, system.read(f"{folder}/md/{file}"), _number_or_text)
    facts.add("md chunk", system.read(f"{folder}/md/chunk_size"), lambda text: _scaled(text, 1), "B")
    if system.is_there(f"{folder}/md/stripe_cache_size"):
        facts.add(
            "md stripe cache, pages per device", system.read(f"{folder}/md/stripe_cache_size"), parse_number
        )


def _number_or_text(text: str) -> int | str | None:
    number = parse_number(text)
    return text.strip() if number is None else number


def _queue(system: System, device: BlockDevice, facts: Facts) -> None:
    queue = f"{device.folder}/queue"
    facts.add("scheduler", system.read(f"{queue}/scheduler"), parse_chosen)
    facts.add("queue size, requests", system.read(f"{queue}/nr_requests"), parse_number)
    facts.add("rotational", system.read(f"{queue}/rotational"), _is_one)
    facts.add("write cache", system.read(f"{queue}/write_cache"))
    for name, file in (("maximum request", "max_sectors_kb"), ("read-ahead", "read_ahead_kb")):
        facts.add(name, system.read(f"{queue}/{file}"), lambda text: _scaled(text, _KIB), "B")
    for name, file in (
        ("logical block size", "logical_block_size"),
        ("physical block size", "physical_block_size"),
        ("minimum I/O size", "minimum_io_size"),
        ("optimal I/O size", "optimal_io_size"),
    ):
        size = system.read(f"{queue}/{file}").unless("0", "the device reports none")
        facts.add(name, size, lambda text: _scaled(text, 1), "B")


def _is_one(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text.strip())


def _drive(system: System, device: BlockDevice, facts: Facts) -> None:
    """Adds what only a drive itself has, not a volume."""
    hardware = f"{device.folder}/device"
    if device.below or not system.is_there(hardware):
        return
    if system.is_there(f"{hardware}/model"):
        facts.add("model", system.read(f"{hardware}/model"))
    else:  # a drive of a virtual machine has a vendor's number in the place of a model
        facts.unknown("model", f"{hardware}/model", "the drive reports none, as is usual in virtual machines")
    if system.is_there(f"{hardware}/firmware_rev"):
        facts.add("firmware", system.read(f"{hardware}/firmware_rev"))
    elif system.is_there(f"{hardware}/rev"):
        facts.add("firmware", system.read(f"{hardware}/rev"))
    driver = system.real(f"{hardware}/driver")
    if driver != f"{hardware}/driver" and system.is_there(driver):
        facts.know("driver", PurePosixPath(driver).name, f"{hardware}/driver")
    facts.add("NUMA node", numa_node(system, hardware), parse_node)
    if device.kind == "NVMe drive":
        _nvme(system, hardware, facts)


def numa_node(system: System, hardware: str) -> Seen:
    """Returns the NUMA node that the nearest device above reports: a drive's controller, or its slot."""
    folder = PurePosixPath(system.real(hardware))
    for place in (folder, *folder.parents):
        if len(place.parts) <= 3:
            break
        seen = system.read(f"{place}/numa_node")
        if seen.text is not None:
            return seen.unless("-1", "the system assigns none")
    return Seen(None, f"{hardware}/numa_node", "no device above reports one")


def parse_node(text: str) -> int | None:
    number = parse_number(text)
    return number if number is not None and number >= 0 else None


def _nvme(system: System, hardware: str, facts: Facts) -> None:
    pci = system.real(f"{hardware}/device")
    for name, kind in (("PCIe link", "current"), ("maximum PCIe link", "max")):
        speed, width = (system.read(f"{pci}/{kind}_link_{what}") for what in ("speed", "width"))
        if speed.text is None or width.text is None:
            facts.unknown(name, speed.source, speed.why or width.why)
            continue
        both = Seen(f"{speed.text}|{width.text}", f"{speed.source}, {width.source}")
        facts.add(name, both, lambda text: parse_pcie(*text.split("|", 1)))


def drives(system: System) -> Iterator[tuple[str, str]]:
    """Yields the name and the directory in /sys of each disk and NVMe drive of the machine."""
    for name in system.names("/sys/block"):
        folder = system.real(f"/sys/block/{name}")
        if system.is_there(f"{folder}/device") and not system.names(f"{folder}/slaves"):
            yield name, folder


def device_node(system: System, device: BlockDevice) -> str:
    """Returns the device's path in /dev; "" if the kernel reports none."""
    name = parse_fields(system.text(f"{device.folder}/uevent"), "=").get("DEVNAME", "")
    return f"/dev/{name}" if name else ""
