"""What else went on on this machine while a run was made, by the kernel's own counters."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from penstock.bench.data.folder import others_at_work
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.judge.waits import WaitSampler
from penstock.files.storage import find_mount
from penstock.model.bench.load import LoadDocument, PosixBackend
from penstock.model.bench.runs import Check, Conditions, Meanwhile
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.units import human_bytes

ALONE, REACHED = "storage used exclusively", "moved by the device"
# Less of what the run moved, and something in between kept it.
_REACHED_SHARE = 0.9
# Mount options with which bytes go around the counter, or to another device.
_UNCOUNTED = ("dax", "rtdev")
# Of what the run moves itself.
_OTHERS_SHARE = 0.2
# Beside its bytes a file that is synced has a folder, an inode and a journal.
_NOTED_BYTES_EACH = 64 << 10
# What an idle machine writes: logs, and whatever is due.
_IDLE_BYTES_PER_S = 1 << 20
_SECTOR_BYTES = 512
_PLAIN_KINDS = ("ext2", "ext3", "ext4", "xfs")
_PLAIN_DISK = re.compile(r"(sd|vd|xvd|hd)[a-z]+|(nvme[0-9]+n|mmcblk)[0-9]+")
_BLOCKS = Path("/sys/dev/block")
_DEVICES_IN_A_CHAIN_MAX = 8


class Watch:
    """Looks when it is made, before the run in `folder`, and when `seen` is called, after it.

    As a context manager around the run, it stops sampling also if that fails. `sampled`: waits of the
    storage's threads are wanted.
    """

    def __init__(self, folder: Path, blocks: Path = _BLOCKS, *, sampled: bool = True) -> None:
        self._folder = folder
        mount = find_mount(folder)
        self._device = blocks / mount.device if mount is not None else None
        self._plain = mount is not None and mount.kind in _PLAIN_KINDS and _is_plain(blocks / mount.device)
        self._others = others_at_work(folder)
        self._before = _moved_bytes(self._device) if self._device else None
        self._below = _below(self._device, blocks) if self._device is not None else None
        self._below_before = _moved_bytes(self._below) if self._below else None
        self._waits = WaitSampler(folder) if sampled else None
        if self._waits is not None:
            self._waits.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waits is not None:
            self._waits.stop()

    def seen(self) -> Meanwhile:
        if self._waits is not None:
            self._waits.stop()
        before, after = self._before, _moved_bytes(self._device) if self._device else None
        is_known = self._device is not None and before is not None and after is not None
        read, written = (after[0] - before[0], after[1] - before[1]) if before and after else (0, 0)
        return Meanwhile(
            device=self._device.resolve().name if self._device is not None and is_known else "",
            plain=self._plain and is_known,
            device_read_bytes=read,
            device_written_bytes=written,
            **self._seen_below(),
            storage_waits=self._waits.found if self._waits is not None else None,
            other_runs=list(dict.fromkeys([*self._others, *others_at_work(self._folder)])),
        )

    def _seen_below(self) -> dict[str, Any]:
        before, after = self._below_before, _moved_bytes(self._below) if self._below else None
        if self._below is None or before is None or after is None:
            return {}
        return {"below": self._below.resolve().name, "below_moved_bytes": sum(after) - sum(before)}


class WatchOfServer:
    """Of a server nothing is seen from here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def seen(self) -> Meanwhile:
        return Meanwhile(device="", device_read_bytes=0, device_written_bytes=0, other_runs=[])


def watch_of(place: Place) -> Watch | WatchOfServer:
    return WatchOfServer() if isinstance(place, StorageUrl) else Watch(place)


def _below(device: Path, blocks: Path) -> Path | None:
    """The device that has the file of a loop device, at the end of the chain; None of another device.

    Members of RAID and volumes move other bytes than the device on top; they are not followed.
    """
    found = None
    for _ in range(_DEVICES_IN_A_CHAIN_MAX):
        try:
            file = Path((device / "loop" / "backing_file").read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError):
            return found
        mount = find_mount(file)
        if mount is None or not (blocks / mount.device).exists():
            return None  # memory, or a network
        device = found = blocks / mount.device
    return None


def _is_plain(device: Path) -> bool:
    """A disk, or a partition of one; nothing that lies on other devices."""
    with contextlib.suppress(OSError):
        device = device.resolve(strict=True)
        disk = device.parent if (device / "partition").exists() else device
        return _PLAIN_DISK.fullmatch(disk.name) is not None
    return False


def _moved_bytes(device: Path) -> tuple[int, int] | None:
    """None of what is not a block device, as that of a network, and of one that does not count."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = (device / "stat").read_text(encoding="ascii").split()
        read, written = int(fields[2]) * _SECTOR_BYTES, int(fields[6]) * _SECTOR_BYTES
        return (read, written) if read + written > 0 and _counts(device) else None
    return None


def _counts(device: Path) -> bool:
    """Counting can be switched off."""
    disk = device.resolve()
    disk = disk.parent if (disk / "partition").exists() else disk
    with contextlib.suppress(OSError):
        return (disk / "queue" / "iostats").read_text(encoding="ascii").strip() != "0"
    return True


def check_alone(meanwhile: Meanwhile, document: LoadDocument, mount_options: str) -> Iterator[Check]:
    """Nobody else on this machine used the storage; nothing where that cannot be told."""
    own, noted = own_and_noted_bytes(document)
    # A journal of all data has each byte twice, and a library may read what it writes around.
    own = None if "data=journal" in mount_options.split(",") else own
    yield from check_used_alone(meanwhile, own, noted, document.active_seconds)


def check_used_alone(meanwhile: Meanwhile, own: int | None, noted: int, seconds: float) -> Iterator[Check]:
    """`own`: bytes that the run moved itself in `seconds`, None if they are unknown; `noted`: about them."""
    expected = (
        f"other programs transfer at most {100 * _OTHERS_SHARE:.0f} % of the run's traffic on the same device"
    )
    advice = "wait until no one else uses this storage"
    if meanwhile.other_runs:
        actual = f"another run used the target: {meanwhile.other_runs[0]}"
        yield make_check(ALONE, "warning", expected, actual, "worse", advice)
        return
    if not meanwhile.device or own is None:
        return
    moved, device = max(
        (meanwhile.device_read_bytes + meanwhile.device_written_bytes, meanwhile.device),
        (meanwhile.below_moved_bytes, meanwhile.below),
    )
    others = max(0, moved - own - noted - round(_IDLE_BYTES_PER_S * seconds))
    yield make_check(
        ALONE,
        "warning" if others > _OTHERS_SHARE * own else "ok",
        expected,
        f"{human_bytes(others)} of others on {device}, {human_bytes(own)} of the run",
        "worse",
        advice,
    )


def check_reached(meanwhile: Meanwhile, document: LoadDocument, conditions: Conditions) -> Iterator[Check]:
    """The device moved what the run did; nothing where that cannot be told.

    Whatever forces bytes to storage may be intercepted (eatmydata, SuppressSync of systemd-nspawn), and what
    takes direct I/O may have a cache: the device's own counter is neither's. Of file systems alone that lie
    on one device and store bytes as they are. What is written is counted alone, too: somebody may read.
    """
    own, _ = own_and_noted_bytes(document)
    yield from check_moved(meanwhile, own, _written_bytes(document), conditions)


def check_moved(
    meanwhile: Meanwhile, own: int | None, written: int, conditions: Conditions
) -> Iterator[Check]:
    """`own`: bytes that the run moved itself, of which it wrote `written`; None: unknown."""
    options = (each.partition("=")[0] for each in conditions.mount_options.split(","))
    is_counted = conditions.file_system in _PLAIN_KINDS and not set(_UNCOUNTED) & set(options)
    if not meanwhile.device or not own or not is_counted:
        return
    moved, what = meanwhile.device_read_bytes + meanwhile.device_written_bytes, ""
    if meanwhile.device_written_bytes < _REACHED_SHARE * written:
        moved, own, what = meanwhile.device_written_bytes, written, "written "
    yield make_check(
        REACHED,
        "ok" if moved >= _REACHED_SHARE * own else "warning",
        f"at least {100 * _REACHED_SHARE:.0f} % of what the run wrote and read",
        f"{human_bytes(moved)} {what}by {meanwhile.device}, {human_bytes(own)} by the run",
        "better",
        "find out what kept the data back: a cache in between, or a suppressed sync",
    )


def _written_bytes(document: LoadDocument) -> int:
    """By the run."""
    if document.frames is not None:
        return document.frames.written * document.frames.stored_bytes_each
    return sum(phase.bytes for phase in document.phases or [] if phase.phase == "write")


def own_and_noted_bytes(document: LoadDocument) -> tuple[int | None, int]:
    """What the run moved, and what its file system notes about that; None where that is not known."""
    backend = document.plan.backend
    if not isinstance(backend, PosixBackend):
        return None, 0
    if document.frames is not None:
        written = document.frames.written
        return written * document.frames.stored_bytes_each, written * _NOTED_BYTES_EACH
    if document.phases:
        synced = sum(phase.operations for phase in document.phases if phase.phase == "write")
        noted = synced if backend.sync == "each" else 0
        return sum(phase.bytes for phase in document.phases), noted * _NOTED_BYTES_EACH
    return None, 0
