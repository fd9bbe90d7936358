"""Ports for the programs that a test starts."""

import fcntl
import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_COUNTED = Path(f"/tmp/penstock-test-ports-{os.getuid()}")  # of all runs, each of which has its own TMPDIR
_MANY = 16000


def free_ports(count: int) -> int:
    """The first of `count` neighbours that nobody uses now, and no other test gets for long.

    The kernel takes none of them for a connection, or for a server that asks for any port."""
    usable = _not_given_by_the_kernel()
    with _next_port() as counted:
        for _ in usable:
            first = counted.take(count, usable)
            if all(_is_free(port) for port in range(first, first + count)):
                return first
    raise AssertionError(f"no {count} neighbours are free in {usable}")


def _not_given_by_the_kernel() -> range:
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    below = range(max(lowest - _MANY, 1024), lowest)
    return max(below, range(highest + 1, 65536), key=len) or range(lowest, highest)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class _Counter:
    def __init__(self, text: str) -> None:
        self.next = int(text) if text else random.randrange(1 << 16)

    def take(self, count: int, usable: range) -> int:
        fits = self.next in usable and self.next + count <= usable.stop
        first = self.next if fits else usable.start
        self.next = first + count
        return first


@contextmanager
def _next_port() -> Iterator[_Counter]:
    """What all tests of this user count, whichever process runs them."""
    with _COUNTED.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        counter = _Counter(file.read())
        yield counter
        file.truncate(0)
        file.write(str(counter.next))
