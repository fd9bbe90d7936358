"""Disks of servers: sparse files on loop devices, memory, or given folders."""

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from penstock.lab.commands import run
from penstock.model.errors import UsageError
from penstock.model.problems import reason_of
from penstock.model.text import counted
from penstock.model.units import human_size, parse_size, size_within

_FORM = re.compile(r"(?P<kind>loop|ram|dir)(:(?P<what>.+))?")
_SPECIAL = re.compile(r"[^\w./@:+~-]")
_DEFAULT_BYTES = {"loop": 8 << 30, "ram": 2 << 30}
_BYTES_MIN = 320 << 20  # what xfs requires at least, and room for data
_FILE_SYSTEMS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
}
FileSystem = Literal["ext4", "xfs"]


@dataclass(frozen=True)
class Disks:
    """What each server stores on."""

    kind: Literal["loop", "ram", "dir"]
    size_bytes: int = 0
    folders: tuple[Path, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Disks":
        """Raises UsageError. Forms: loop, loop:8GiB, ram, ram:2GiB, dir:/data/a,/data/b"""
        form = _FORM.fullmatch(text)
        if form is None or (form["kind"] == "dir" and not form["what"]):
            raise UsageError(
                f"--disks {text}: unknown form", "use loop:8GiB, ram:2GiB or dir:/data/a,/data/b"
            )
        if form["kind"] == "dir":
            folders = tuple(Path(each) for each in form["what"].split(","))
            for each in folders:
                if not each.is_absolute() or not each.is_dir():
                    raise UsageError(f"--disks {text}: {each} is not a folder with an absolute path")
                if _SPECIAL.search(str(each.resolve())):
                    raise UsageError(
                        f"--disks {text}: {each.resolve()} contains a space or a special character, which"
                        " configurations of servers do not allow",
                        "use a folder of another name, or --disks loop",
                    )
            return cls("dir", folders=folders)
        kind: Literal["loop", "ram"] = "loop" if form["kind"] == "loop" else "ram"
        try:
            size = parse_size(form["what"]) if form["what"] else _DEFAULT_BYTES[kind]
        except ValueError as error:
            raise UsageError(f"--disks {text}: {error}") from error
        if size < _BYTES_MIN:
            raise UsageError(f"--disks {text}: a disk has at least {human_size(_BYTES_MIN)}")
        return cls(kind, size)

    @property
    def option(self) -> str:
        return f"--disks {self.kind}:{human_size(self.size_bytes).replace(' ', '')}"


def require_memory(disks: Disks, servers: int) -> None:
    """Raises UsageError if disks could take all memory: the kernel would kill programs of others, too."""
    available = free_memory_bytes()
    if disks.kind == "ram" and disks.size_bytes * servers > available:
        raise UsageError(
            f"{disks.option}: {counted(servers, 'disk')} of that size exceed the available memory"
            f" ({human_size(available)})",
            "use smaller or fewer disks, or --disks loop",
        )


def growth_warning(disks: Disks, servers: int, folder: Path) -> str:
    """Returns that sparse files could fill the file system they will be on; empty: they could not."""
    if disks.kind != "loop":
        return ""
    there = next(above for above in (folder, *folder.parents) if above.exists())
    free = free_bytes(there)
    if disks.size_bytes * servers <= free:
        return ""
    return (
        f"warning: {disks.option}: {counted(servers, 'disk')} could grow beyond the {human_size(free)} that"
        f" are free in {there}; write less, or use smaller disks"
    )


def growth_problem(images: Sequence[Path], in_memory: Sequence[Path]) -> str:
    """Returns why disks cannot be filled: this machine would be full before. Empty: they can."""
    missing = sum(each.stat().st_size - each.stat().st_blocks * 512 for each in images)
    free = free_bytes(images[0].parent) if images else 0
    if missing > free:
        return f"disks may grow by {human_size(missing)}, and {human_size(free)} are free"
    memory = sum(os.statvfs(each).f_bfree * os.statvfs(each).f_frsize for each in in_memory)
    if memory > free_memory_bytes():
        return f"disks may take {human_size(memory)} more memory, of {human_size(free_memory_bytes())}"
    return ""


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def free_memory_bytes() -> int:
    return int(psutil.virtual_memory().available)


def make_image(file: Path, size_bytes: int) -> None:
    """Creates a sparse file, which takes the space of what is written to it.

    Raises UsageError if the file system does not allow a file of this size.
    """
    with file.open("xb") as image:
        try:
            image.truncate(size_bytes)
        except OSError as error:
            raise UsageError(
                f"--disks loop:{human_size(size_bytes).replace(' ', '')}: the file system of {file.parent}"
                f" does not allow a file of that size: {reason_of(error)}",
                f"use at most {size_within(_largest_size(image.fileno(), size_bytes))}",
            ) from error


def _largest_size(file: int, too_large: int) -> int:
    """Returns the size in whole MiB that a file can have, by trying."""
    possible, impossible = 0, too_large >> 20
    while impossible - possible > 1:
        middle = (possible + impossible) // 2
        try:
            os.ftruncate(file, middle << 20)
            possible = middle
        except OSError:
            impossible = middle
    return possible << 20


def attach(image: Path) -> Path:
    """Returns the loop device. The kernel's own cache of it stays out of the way."""
    found = run(["losetup", "--find", "--show", "--direct-io=on", image])
    return Path(found.strip())


def mount_new(device: Path, at: Path, kind: FileSystem) -> None:
    """Makes a file system and mounts it."""
    run([*_FILE_SYSTEMS[kind], device])
    at.mkdir(exist_ok=True)
    run(["mount", "-t", kind, device, at])


def mount_memory(at: Path, size_bytes: int) -> None:
    at.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0755", "penstock-lab", at])


def numbers_of(disk: Path) -> str | None:
    """Returns the numbers of a block device, or of the one below a mount point, as 7:3; None for memory."""
    found = disk.stat()
    device = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    return f"{os.major(device)}:{os.minor(device)}" if os.major(device) != 0 else None
