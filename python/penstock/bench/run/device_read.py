"""Sequential reading of a raw block device. It is opened for reading alone, and with direct I/O."""

import mmap
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of

_TRANSFER_BYTES = 8 << 20


@dataclass(frozen=True)
class DeviceRead:
    bytes: int
    seconds: float


def read_device(path: Path, number: str, seconds_max: float, bytes_max: int) -> DeviceRead:
    """From its beginning, until the time or the bytes are over, or the device ends.

    `number` (major:minor) is the device that is meant. A PenstockError says why it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PenstockError(
            f"{path} cannot be read: {reason_of(error)}",
            "raw devices require root, or membership in the group disk",
        ) from error
    try:
        status = os.fstat(handle)
        found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not stat.S_ISBLK(status.st_mode) or found != number:
            raise PenstockError(f"{path} is not the block device {number}", "check /dev and /sys/dev/block")
        return _read(handle, seconds_max, bytes_max)
    except OSError as error:
        raise PenstockError(f"{path} cannot be read: {reason_of(error)}", "see the system's log") from error
    finally:
        os.close(handle)


def _read(handle: int, seconds_max: float, bytes_max: int) -> DeviceRead:
    done, start = 0, time.monotonic()
    with mmap.mmap(-1, _TRANSFER_BYTES) as buffer:
        while done < bytes_max and time.monotonic() - start < seconds_max:
            count = os.preadv(handle, [buffer], done)
            done += count
            if count < _TRANSFER_BYTES:
                break
    return DeviceRead(done, time.monotonic() - start)
