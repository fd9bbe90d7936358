"""Processes that are found by the namespace in which they are."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.lab.processes import Processes
from penstock.model.errors import PenstockError, UsageError

_ENDS_WITHIN_S = 20.0


class OfNetwork(Processes):
    """A node's processes are those in its network namespace, which nothing leaves."""

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace

    def make(self) -> None:
        pass

    def joining(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def limit_processors(self, count: float) -> None:
        raise UsageError(f"a limit of {count:g} processors requires root")

    def limit_memory(self, size_bytes: int) -> None:
        raise UsageError(f"a limit of {size_bytes} bytes of memory requires root")

    def limit_device(self, device: str, bytes_per_s: int) -> None:
        raise UsageError(
            f"a limit of device {device} to {bytes_per_s} B/s requires root", "slow the link instead"
        )

    def freeze(self, frozen: bool) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP if frozen else signal.SIGCONT)

    def processes(self) -> list[int]:
        return in_namespace("net", self._namespace.stat().st_ino)

    def usage(self) -> None:
        return None

    def kill(self) -> None:
        until_none(lambda: killed(self.processes()))


def in_namespace(kind: str, number: int) -> list[int]:
    """Processes of this user. One that has ended is in no namespace."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if (process / "ns" / kind).stat().st_ino == number:
                    found.append(int(process.name))
    return found


def killed(processes: list[int]) -> list[int]:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return processes


def until_none(left: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while found := left():
        if time.monotonic() > deadline:
            raise PenstockError(f"processes {', '.join(map(str, found))} of the laboratory do not end")
        time.sleep(0.01)
