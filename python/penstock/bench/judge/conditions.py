"""What the figures of a run depend on, found out where it runs."""

import contextlib
import os
import platform
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock import __version__
from penstock.bench.data.folder import NAME
from penstock.bench.judge.rank_checks import make_check
from penstock.files.storage import Mount, find_mount, storage_facts
from penstock.model.bench.runs import Check, Conditions
from penstock.model.storage_url import Place, StorageUrl
from penstock.programs.locate import checkout

_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
_KEPT_IN_MEMORY = (*_MEMORY_FILE_SYSTEMS, "devtmpfs", "hugetlbfs", "rootfs")
# The ARC, the page pool, a daemon's, and that of the machine a virtual one runs on. fuse.sshfs is fuse, too.
_CACHED_BY_ITSELF = ("zfs", "gpfs", "fuse", "fuseblk", "9p", "virtiofs")
# Of these GPFS keeps its promise.
_DIRECT_IN_CACHE = ("zfs", "fuse", "fuseblk", "9p", "virtiofs")
# A null block device keeps what it gets in memory, or nowhere.
_MEMORY_DEVICE = re.compile(r"(z?ram|nullb)[0-9]+")
# A file in an overlay over a loop device, and so on.
_LAYERS_MAX = 8
# As the kernel tells a file that has lost its name.
_DELETED = " (deleted)"


def conditions_of(target: Place) -> Conditions:
    """Of `target`, a folder, and this machine."""
    if isinstance(target, StorageUrl):
        folder = target.parent if target.name.startswith(NAME) else target
        of_server = {"file_system": target.scheme, "mount_source": str(folder)}
        return conditions_of_machine().model_copy(update=of_server)
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
        "own_cache": own_cache(mount) if mount else "",
        "memory": memory_below(mount) if mount else "",
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

    That open(2) takes O_DIRECT says nothing: ext4 with data=journal and ZFS take it and use their caches, a
    loop device hands it to a file that is cached, and what a daemon or a virtual machine's host makes of it
    nobody sees from here.
    """
    if mount.options.get("data") == "journal":
        return f"{mount.kind} with data=journal accepts direct I/O but caches it"
    if mount.kind.partition(".")[0] in _DIRECT_IN_CACHE:
        return f"{mount.kind} accepts direct I/O but may cache it"
    return _cached_loop(mount, blocks)


def own_cache(mount: Mount, blocks: Path = Path("/sys/dev/block")) -> str:
    """Why files may be in memory of this machine, or the one below it, though the kernel says they are not.

    Empty where nothing is known. What a server has in its memory nobody sees from here.
    """
    if mount.kind.partition(".")[0] in _CACHED_BY_ITSELF:
        return f"{mount.kind} has its own cache"
    return _cached_loop(mount, blocks)


def _cached_loop(mount: Mount, blocks: Path) -> str:
    for device in _devices_of(mount, blocks):
        with contextlib.suppress(OSError):
            if (device / "loop" / "dio").read_text().strip() == "0":
                return f"{device.name} is a loop device whose file is cached"
    return ""


def memory_below(mount: Mount, blocks: Path = Path("/sys/dev/block"), depth: int = 0) -> str:
    """Why what is stored there is in the memory of this machine; empty where nothing says so.

    A memory file system; a device of memory; one that a file of such a file system stands for; and layers
    over it.
    """
    if mount.kind in _KEPT_IN_MEMORY:
        return f"{mount.kind} keeps files in memory"
    for device in _devices_of(mount, blocks):
        if _MEMORY_DEVICE.fullmatch(device.name):
            return f"{device.name} is memory"
        with contextlib.suppress(OSError):
            behind = Path((device / "loop" / "backing_file").read_text(encoding="utf-8").rstrip("\n"))
            if found := _behind(behind, blocks, depth):
                return f"{device.name} is a file: {found}"
    upper = mount.options.get("upperdir", "") if mount.kind == "overlay" else ""
    return _behind(Path(upper), blocks, depth) if upper else ""


def _behind(path: Path, blocks: Path, depth: int) -> str:
    """Of a path that may be of another container, and not be seen from here."""
    if path.name.endswith(_DELETED):  # a loop device keeps its file; where it lay is there still
        path = path.parent
    if depth >= _LAYERS_MAX or not path.is_absolute() or not path.exists():
        return ""
    mount = find_mount(path)
    return memory_below(mount, blocks, depth + 1) if mount is not None else ""


def check_kept(conditions: Conditions) -> Check:
    """What is in memory is gone with the machine, and as fast as no storage is."""
    return make_check(
        "storage, not memory",
        "warning" if conditions.memory else "ok",
        "written data survives a loss of power",
        conditions.memory or f"no sign that {conditions.file_system} is in memory",
        "better",
        "name a directory on the storage to measure",
    )


def _devices_of(mount: Mount, blocks: Path) -> Iterator[Path]:
    """Those of a mount; of a file system that has a number of its own (btrfs), what it was mounted from."""
    if (blocks / mount.device).exists():
        yield from _devices(blocks / mount.device)
        return
    if not mount.source.startswith("/dev/"):
        return
    with contextlib.suppress(OSError):
        status = Path(mount.source).stat()
        if stat.S_ISBLK(status.st_mode):
            yield from _devices(blocks / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")


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
        found = subprocess.run(
            command, cwd=root, capture_output=True, encoding="utf-8", errors="replace", timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": found.stdout.strip()}
