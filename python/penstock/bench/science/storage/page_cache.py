"""How much of a file is in this machine's page cache (native/load/backends/page_cache.cpp does the same)."""

import ctypes
import mmap
import os

_WINDOW = 1 << 30
_FAILED = ctypes.c_void_p(-1).value


def cached_share(path: str) -> float | None:
    """From 0 to 1; None if the kernel does not report it, as of files that others own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() and os.geteuid() != 0 and not os.access(path, os.W_OK):
            return None
        cached, size = 0, status.st_size
        for offset in range(0, size, _WINDOW):
            here = _pages_in(descriptor, offset, min(_WINDOW, size - offset))
            if here is None:
                return None
            cached += here
        return min(1.0, cached * mmap.PAGESIZE / size) if size else 0.0
    finally:
        os.close(descriptor)


def _pages_in(descriptor: int, offset: int, size: int) -> int | None:
    """Of one stretch; it is mapped, and none of it read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    window = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if window in (None, _FAILED):
        return None
    address, length = ctypes.c_void_p(window), ctypes.c_size_t(size)
    try:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        if libc.mincore(address, length, pages) != 0:
            return None
        return sum(page & 1 for page in bytes(pages))
    finally:
        libc.munmap(address, length)
