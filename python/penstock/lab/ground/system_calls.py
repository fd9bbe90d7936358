"""Calls of namespaces that Python 3.11 does not have. Source: unshare(2), mount(2)."""

import ctypes
import os

from penstock.model.errors import PenstockError

NEW_MOUNTS, NEW_USER, NEW_PID, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 0x4000, 1 << 19
_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(namespaces: int) -> None:
    """Raises PenstockError."""
    _require(_LIBC.unshare(namespaces), "namespaces cannot be made")


def keep_mounts_inside() -> None:
    """The host's unmounts still reach this namespace, so that it keeps no device of the host in use."""
    _require(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "mounts cannot be kept inside")


def mount_processes() -> None:
    """On /proc, of this PID namespace."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _require(_LIBC.mount(b"proc", b"/proc", b"proc", flags, None), "/proc cannot be mounted")


def _require(code: int, what: str) -> None:
    if code != 0:
        raise PenstockError(f"{what}: {os.strerror(ctypes.get_errno())}")
