"""What the figures of a run depend on, found out where it runs."""

import contextlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock import __version__
from penstock.files.storage import Mount, find_mount, storage_facts
from penstock.model.runs import Conditions
from penstock.programs.locate import checkout

_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def conditions_of(target: Path) -> Conditions:
    """Of `target`, a folder, and this machine."""
    facts, mount, room = storage_facts(target), find_mount(target), os.statvfs(target)
    options = mount.options.items() if mount else ()
    storage = {
        "file_system": facts.kind,
        "mount": facts.mount,
        "mount_source": mount.source if mount else "",
        "mount_options": ",".join(f"{name}={value}" if value else name for name, value in options),
        "block_bytes": facts.block_bytes,
        "stripe_bytes": facts.stripe_bytes,
        "free_bytes": room.f_bavail * room.f_frsize,
        "direct_cached": direct_cached(mount) if mount else "",
    }
    return conditions_of_machine().model_copy(update=storage)


def conditions_of_machine() -> Conditions:
    """Where nothing is stored: of this machine alone."""
    return Conditions(
        host=platform.node(),
        kernel=platform.release(),
        processors=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        file_system="",
        mount="",
        mount_source="",
        mount_options="",
        block_bytes=0,
        stripe_bytes=0,
        free_bytes=0,
        versions={"penstock": __version__, "python": platform.python_version(), **_commit()},
        command=shlex.join(["penstock", *sys.argv[1:]]),
    )


def direct_cached(mount: Mount, blocks: Path = Path("/sys/dev/block")) -> str:
    """Why files that were opened for direct I/O are cached on this machine; empty where nothing is known.

    That open(2) takes O_DIRECT says nothing: ext4 with data=journal and ZFS take it and use their caches, and
    a loop device hands it to a file that is cached.
    """
    if mount.options.get("data") == "journal":
        return f"{mount.kind} with data=journal takes direct I/O, and caches it"
    if mount.kind == "zfs":
        return "zfs takes direct I/O, and may cache it"
    for device in _devices(blocks / mount.device):
        with contextlib.suppress(OSError):
            if (device / "loop" / "dio").read_text().strip() == "0":
                return f"{device.name} is a loop device whose file is cached"
    return ""


def _devices(device: Path) -> Iterator[Path]:
    """The block device, and those that it lies on; nothing where it is not one."""
    with contextlib.suppress(OSError):
        device = device.resolve(strict=True)
        if (device / "partition").exists():
            device = device.parent
        yield device
        for below in sorted((device / "slaves").iterdir()):
            yield from _devices(below)


def is_memory(conditions: Conditions) -> bool:
    """Whether the target's files are in memory, and are meant to be."""
    return conditions.file_system in _MEMORY_FILE_SYSTEMS


def _commit() -> dict[str, str]:
    """Of the checkout that this package is part of."""
    root = checkout()
    if root is None:
        return {}
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": found.stdout.strip()}
