"""Jobs of a buffer on storage with one limit, or with one wrong byte: LIMIT in the environment says which."""

import os
import time
from pathlib import Path
from typing import Any

from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.direct import aligned
from penstock.bench.science.uvbuffer import work
from penstock.bench.science.uvbuffer.buffer import CHANNELS_A_FILE, PASSES, Buffer, file_name
from penstock.bench.science.uvbuffer.operations import Operations

_FILES, _INTERVAL_S, _FILE_BYTES = 4, 0.2, 16 << 10
# Little to do a second: a machine with other work must not be the limit.
SHORT = {
    "channels": _FILES * CHANNELS_A_FILE,
    "file_size": _FILE_BYTES,
    "interval": _INTERVAL_S,
    "block": 1,
    "lifetime": 0.6,
    "seconds": 2.4,
    "writers": 1,
    "readers": 1,
}


def target_of(kind: str) -> float:
    """Operations or bytes a second that are due."""
    of_reads = PASSES if kind in ("opens", "read bandwidth") else 1
    return _FILES / _INTERVAL_S * of_reads * (_FILE_BYTES if "bandwidth" in kind else 1)


class Limited(Operations):
    """Each process has its part of the limit: so many operations, or bytes, a second."""

    def __init__(self, folder: Path, kind: str, per_s: float) -> None:
        super().__init__(folder)
        self._kind, self._per_s = kind, per_s
        self._free_at = 0.0

    def _take(self, kind: str, amount: int = 1) -> None:
        if kind != self._kind:
            return
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + amount / self._per_s
        time.sleep(self._free_at - now)

    def create(self, name: str) -> int:
        self._take("creates")
        return super().create(name)

    def write(self, descriptor: int, data: memoryview) -> None:
        self._take("write bandwidth", len(data))
        super().write(descriptor, data)

    def open(self, name: str, size: int) -> int | None:
        found = super().open(name, size)
        if found is not None:
            self._take("opens")
        return found

    def read(self, descriptor: int, buffer: memoryview) -> int:
        self._take("read bandwidth", len(buffer))
        return super().read(descriptor, buffer)

    def delete(self, name: str) -> bool:
        was_there = super().delete(name)
        if was_there:
            self._take("deletes")
        return was_there


class Wrong(Operations):
    """The file `number` is stored with the content of another, or with one wrong byte.

    No file is deleted before that one was read: on a busy machine a reader may come after its life.
    """

    def __init__(self, folder: Path, what: str, number: int) -> None:
        super().__init__(folder)
        self._what, self._name = what, file_name(number)
        self._was_read = folder.parent / "was-read"  # beside what the run removes
        self._current = ""
        self._before = b""

    def create(self, name: str) -> int:
        self._current = name
        return super().create(name)

    def write(self, descriptor: int, data: memoryview) -> None:
        stored = bytearray(data)
        if self._current == self._name and self._what == "byte":
            stored[len(stored) // 2] ^= 1
        if self._current == self._name and self._what == "header":
            stored[17] ^= 1
        if self._current == self._name and self._what == "stale":
            stored[:] = self._before
        self._before = bytes(data)
        page = aligned(len(stored))
        page[:] = bytes(stored)
        super().write(descriptor, memoryview(page))

    def open(self, name: str, size: int) -> int | None:
        found = super().open(name, size)
        if found is not None and name == self._name:
            self._was_read.touch()  # a file that is open may be deleted
        return found

    def delete(self, name: str) -> bool:
        return self._was_read.exists() and super().delete(name)


def _operations(job: Job, parameters: dict[str, Any], role: str) -> Operations:
    kind, _, value = os.environ["LIMIT"].partition(":")
    folder, buffer = Path(job.storage.place), Buffer(**parameters["buffer"])
    if kind in ("byte", "header", "stale"):
        return Wrong(folder, kind, int(value))
    workers = {"write": buffer.writers, "read": buffer.readers, "delete": 1}[role]
    return Limited(folder, kind, float(value or 1) / workers)


def write(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    return work.write(job, parameters, _operations(job, parameters, "write"))


def read(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    return work.read(job, parameters, _operations(job, parameters, "read"))


def delete(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    return work.delete(job, parameters, _operations(job, parameters, "delete"))
