"""A file system on a device that the kernel lets write so many bytes a second and no more.

Disks scatter by a tenth from run to run, so that two programs that measure them cannot be told apart
within a few per cent. Here the rate is known beforehand: whoever measures another one is wrong. As
root, where control groups of version 1 limit block devices (`blkio.throttle`); the limit stands in
the root group, so that it holds for the kernel's own writing back of pages too. Source: the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measure.process import BenchmarkError, run

_LIMITS = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_UNMOUNTS_MAX = 30


def may_limit_devices() -> bool:
    return os.geteuid() == 0 and os.access(_LIMITS, os.W_OK) and Path("/dev/loop-control").exists()


def unmount(folder: Path) -> None:
    """Other programs that look at all file systems keep one in use for a moment."""
    for _ in range(_UNMOUNTS_MAX):
        with contextlib.suppress(BenchmarkError):
            run(["umount", str(folder)])
            return
        time.sleep(1)
    run(["umount", str(folder)])


@contextmanager
def limited_device(parent: Path, size_bytes: int, bytes_per_s: int) -> Iterator[Path]:
    """A folder on an ext4 of `size_bytes` in a file below `parent`; nothing of it stays behind."""
    if not may_limit_devices():
        raise BenchmarkError("a device is limited as root, through blkio of control groups version 1")
    image, folder = parent / "limited.img", parent / "limited"
    with ExitStack() as undo:
        with image.open("wb") as file:
            undo.callback(image.unlink)
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)])
        device = run(["losetup", "--find", "--show", "--direct-io=on", str(image)]).stdout.strip()
        undo.callback(run, ["losetup", "--detach", device])
        folder.mkdir()
        undo.callback(folder.rmdir)
        run(["mount", device, str(folder)])
        undo.callback(unmount, folder)
        number = Path(device).stat().st_rdev
        name = f"{os.major(number)}:{os.minor(number)}"
        _LIMITS.write_text(f"{name} {bytes_per_s}\n")
        undo.callback(_LIMITS.write_text, f"{name} 0\n")
        yield folder
