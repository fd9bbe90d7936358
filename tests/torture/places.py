"""File systems that the tests of faults make for themselves: full ones, and one whose device fails."""

import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

MIB = 1 << 20
FREE_WITHIN_S = 60.0
PROJECT = "77"
ZRAM_BYTES = 6 * MIB  # compressed; three to four times as much of frames that count single photons


@dataclass
class Place:
    """A folder that holds about 24 MiB until space() is called."""

    folder: Path
    space: Callable[[], object]
    mount_again: Callable[[], object] = lambda: None


def command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{words[0]} does not work here: {done.stderr.strip()}")


def once_free(action: Callable[[], object]) -> None:
    """Tries again while the kernel says EBUSY: what a process held is free a moment after its end."""
    give_up = time.monotonic() + FREE_WITHIN_S
    while True:
        try:
            action()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.05)


def umount(at: Path) -> None:
    done = subprocess.run(["umount", str(at)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(errno.EBUSY if "busy" in done.stderr else errno.EIO, done.stderr.strip())


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mounts on a shared bind mount, so that an unmount reaches the mount namespaces of other tests.

    A copy left in one of them keeps the device in use (mount_namespaces(7)).
    """
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    command("mount", "--bind", str(folder), str(folder))
    try:
        command("mount", "--make-shared", str(folder))
        command("mount", *options, str(folder))
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def tmpfs(at: Path) -> Iterator[Place]:
    with mounted(at, "-t", "tmpfs", "-o", "size=24m", "tmpfs"):
        yield Place(at, lambda: command("mount", "-o", "remount,size=200m", str(at)))


def image(at: Path, *features: str) -> Path:
    file = at.parent / "image"
    with file.open("wb") as made:
        made.truncate(256 * MIB)
    command("mkfs.ext4", "-q", "-F", *features, str(file))
    return file


@contextlib.contextmanager
def full_ext4(at: Path) -> Iterator[Place]:
    with mounted(at, "-o", "loop", str(image(at))):
        filler = at / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(at).free - 24 * MIB)
        yield Place(at, filler.unlink)


@contextlib.contextmanager
def ext4_with_quota(at: Path) -> Iterator[Place]:
    features = ("-O", "quota,project", "-E", "quotatype=prjquota")
    with mounted(at, "-o", "loop,prjquota", str(image(at, *features))):
        folder = at / "project"
        folder.mkdir()
        command("chattr", "-p", PROJECT, "+P", str(folder))

        def limit(mib: int) -> None:
            command("setquota", "-P", PROJECT, "0", str(mib * 1024), "0", "0", str(at))

        limit(24)
        yield Place(folder, lambda: limit(200))


@contextlib.contextmanager
def zram() -> Iterator[tuple[str, Path]]:
    """A new block device in memory, of 256 MiB, and its settings."""
    control = Path("/sys/class/zram-control")
    if os.geteuid() != 0 or not (control / "hot_add").exists():
        pytest.skip("no zram devices to be had")
    number = (control / "hot_add").read_text().strip()
    settings = Path(f"/sys/block/zram{number}")
    try:
        (settings / "disksize").write_text(str(256 * MIB))
        yield f"/dev/zram{number}", settings
    finally:
        once_free(lambda: (settings / "reset").write_text("1"))
        once_free(lambda: (control / "hot_remove").write_text(number))


def repair(device: str) -> None:
    """ext4 knows nothing of its metadata that was lost. Exit codes up to 2: e2fsck repaired everything."""
    done = subprocess.run(["e2fsck", "-fy", device], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if "is in use" in said:
        raise OSError(errno.EBUSY, said.strip())
    assert done.returncode <= 2, said


@contextlib.contextmanager
def failing_device(at: Path, *features: str) -> Iterator[Place]:
    """ext4 on a device that answers writes with an I/O error (EIO) when its memory is used up."""
    with zram() as (device, settings):
        command("mkfs.ext4", "-q", "-F", *features, device)
        (settings / "mem_limit").write_text(str(ZRAM_BYTES))

        def mount_again() -> None:
            once_free(lambda: umount(at))
            once_free(lambda: repair(device))
            command("mount", device, str(at))

        with mounted(at, "-o", "errors=continue", device):
            yield Place(at, lambda: (settings / "mem_limit").write_text("0"), mount_again)
        subprocess.run(["umount", str(at)], check=False, capture_output=True)
