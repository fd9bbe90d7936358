"""What a check of a promise is, and what it finds."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel

Outcome = Literal["kept", "broken", "refused", "no answer", "not applicable"]
MIB = 1 << 20


class Finding(BaseModel):
    promise: str
    outcome: Outcome
    detail: str
    """what was measured, or what is wrong"""
    seconds: float = 0.0


class Faults(Protocol):
    """Of the laboratory below the folders. Each returns when it is done."""

    def kill_client(self, number: int) -> None: ...
    def kill_server(self, number: int) -> None: ...
    def start_server(self, number: int) -> None: ...
    def wait_until_healed(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """One folder, as two clients have it; on a file system of the kernel both have one mount."""

    first: Path
    second: Path
    servers: int
    redundant: bool
    has_daemons: bool
    """whether servers and clients are processes that may be killed"""
    unfillable: str
    """why its disks cannot be filled: this machine would be full before; empty: they can"""
    faults: Faults


class BrokenError(Exception):
    """The promise is not kept."""


class RefusedError(Exception):
    """The file system says that it does not do this."""


class NotApplicableError(Exception):
    """The laboratory has no way to try it."""


Check = Callable[[Place], str]
"""Returns what was measured. Raises one of the errors above; an OSError breaks the promise."""


def require(true: bool, otherwise: str) -> None:
    if not true:
        raise BrokenError(otherwise)


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    handle = os.open(path, flags, 0o644)
    try:
        yield handle
    finally:
        os.close(handle)


def write_at(handle: int, data: bytes, offset: int) -> None:
    """All of it."""
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


def put(path: Path, data: bytes, sync: bool = False) -> None:
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as handle:
        write_at(handle, data, 0)
        if sync:
            os.fsync(handle)


def bytes_of(seed: int, length: int) -> bytes:
    """Always the same ones for a seed."""
    return random.Random(seed).randbytes(length)
