"""The data sheet of a directory's storage and of this machine."""

import platform
import time
from pathlib import Path

from penstock.files.sheet.devices import BlockDevice, device_group, stack
from penstock.files.sheet.file_system import (
    Target,
    device_numbers,
    file_system_group,
    target_of,
)
from penstock.files.sheet.hints import hints_of
from penstock.files.sheet.kinds import detail_group
from penstock.files.sheet.machine import kernel_group, limits_group, processor_group
from penstock.files.sheet.network import interface_groups, network_group, placement_group
from penstock.files.sheet.system import Facts, System
from penstock.model.plan.datasheet import DataSheet, FactGroup


def data_sheet(folder: Path) -> DataSheet:
    """Returns the data sheet of the storage of `folder`, which exists, and of this machine."""
    return sheet_of(target_of(folder.absolute()), System())


def sheet_of(target: Target, system: System) -> DataSheet:
    groups = [file_system_group(system, target)]
    details = detail_group(system, target)
    groups += [details] if details else []
    groups += _devices(system, target)
    groups += [kernel_group(system), processor_group(system), limits_group(system)]
    groups += [network_group(system), *interface_groups(system), placement_group(system)]
    sheet = DataSheet(
        path=str(target.folder),
        host=platform.node(),
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        groups=[group for group in groups if group.facts],
        hints=[],
    )
    return sheet.model_copy(update={"hints": hints_of(sheet)})


def drives_below(folder: Path) -> list[BlockDevice]:
    """Returns the drives of this machine that `folder` is stored on."""
    system = System()
    numbers, _ = device_numbers(system, target_of(folder.absolute()))
    return [device for device in stack(system, numbers) if not device.below]


def _devices(system: System, target: Target) -> list[FactGroup]:
    numbers, why = device_numbers(system, target)
    found = stack(system, numbers)
    if found:
        return [device_group(system, device) for device in found]
    facts = Facts("devices", "Block devices")
    facts.unknown("devices", "/sys/dev/block", why or f"{', '.join(numbers)} does not exist")
    return [facts.group()]
