"""Mounts below a folder, as the kernel's table has them: found, freed from processes, and removed."""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(rb"\\([0-7]{3})")
_CONNECTIONS = Path("/sys/fs/fuse/connections")
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_MNT_FORCE, _MNT_DETACH = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    at: Path
    number: str
    """minor number of its device, which is the number of its connection for FUSE"""
    kind: str

    @property
    def is_fuse(self) -> bool:
        return self.kind.startswith("fuse") and self.kind != "fusectl"


def mounts_below(*folders: Path) -> list[Mount]:
    """The newest first, so that what lies on another one comes before it. Folders are without links."""
    found = [each for each in _table() if any(each.at.is_relative_to(folder) for folder in folders)]
    return found[::-1]


def connections_below(*folders: Path) -> list[Mount]:
    """FUSE file systems that are mounted below folders only: one of a user may be bound into them."""
    inside = mounts_below(*folders)
    elsewhere = {each.number for each in _table() if each.is_fuse and each not in inside}
    return [each for each in inside if each.is_fuse and each.number not in elsewhere]


def _table() -> Iterator[Mount]:
    """Source: proc(5), mountinfo. Names of mount points are any bytes."""
    for line in Path("/proc/self/mountinfo").read_bytes().split(b"\n"):
        fields = line.split(b" ")
        if b"-" not in fields:
            continue
        name = _OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), fields[4])
        kind = fields[fields.index(b"-") + 1].decode(errors="replace")
        yield Mount(Path(os.fsdecode(name)), fields[2].partition(b":")[2].decode(), kind)


def abort(mount: Mount) -> None:
    """Aborts a FUSE connection: processes that wait for it get an error, and can be killed."""
    try:
        (_CONNECTIONS / mount.number / "abort").write_text("1")
    except OSError:
        _LIBC.umount2(os.fsencode(mount.at), _MNT_FORCE)


def make_private(mount: Mount) -> None:
    """Stops unmounts from reaching the place that a user bound it from."""
    _LIBC.mount(b"none", os.fsencode(mount.at), None, _MS_REC | _MS_PRIVATE, None)


def detach(mount: Mount) -> None:
    """Unmounts lazily, because a shell may be in it. Raises OSError."""
    if _LIBC.umount2(os.fsencode(mount.at), _MNT_DETACH) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(mount.at))


def remove_tree(folder: Path, last: str = "") -> None:
    """Removes what is in a folder, then the file `last` in it, then the folder. Crosses no file system."""
    device = folder.lstat().st_dev
    _empty(folder, device, keep=last)
    if last:
        (folder / last).unlink(missing_ok=True)
    folder.rmdir()


def _empty(folder: Path, device: int, keep: str = "") -> None:
    with os.scandir(folder) as entries:
        inside = list(entries)
    for each in inside:
        if each.name == keep:
            continue
        with contextlib.suppress(FileNotFoundError):
            if not each.is_dir(follow_symlinks=False):
                Path(each.path).unlink()
                continue
            if each.stat(follow_symlinks=False).st_dev != device:
                raise OSError(f"{each.path} is another file system")
            _empty(Path(each.path), device)
            Path(each.path).rmdir()
