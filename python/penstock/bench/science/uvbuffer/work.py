"""The processes of the buffer: they write, read and delete what is due, however late they are."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.direct import aligned
from penstock.bench.science.uvbuffer.buffer import Buffer, Due, file_name
from penstock.bench.science.uvbuffer.operations import Operations
from penstock.bench.science.uvbuffer.tally import CREATE, DELETE, EARLY, LIST, OPEN, OWN, READ, WRITE, Tally
from penstock.bench.science.uvbuffer.visibilities import Content, problem_of, written_ns
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of

_NEVER_S = 1e9
_Parameters = dict[str, Any]
_Work = Callable[[Job, _Parameters, Operations | None], dict[str, Any]]


def _named(work: _Work) -> _Work:
    """Errors of the storage name it."""

    @functools.wraps(work)
    def worked(job: Job, parameters: _Parameters, operations: Operations | None = None) -> dict[str, Any]:
        try:
            return work(job, parameters, operations)
        except OSError as error:
            where = error.filename or job.storage.place
            raise PenstockError(f"{where}: {reason_of(error)}", "check the storage") from error

    return worked


@_named
def write(job: Job, parameters: dict[str, Any], operations: Operations | None = None) -> dict[str, Any]:
    buffer = Buffer(**parameters["buffer"])
    files = operations or Operations(Path(job.storage.place))
    content = Content(buffer.file_bytes, buffer.files, parameters["seed"])
    tally = _begun(job, buffer)
    for due in buffer.writes(parameters["number"]):
        if not tally.wait(due):
            break
        with tally.taking(OWN):
            data = content.fill(due.number)
        with tally.taking(CREATE):
            descriptor = files.create(file_name(due.number))
        with tally.taking(WRITE), job.storage.counts.timed(len(data)):
            files.write(descriptor, data)
            files.close(descriptor)
        tally.done(due)
    return tally.result("write") | _facts(files)


@_named
def read(job: Job, parameters: dict[str, Any], operations: Operations | None = None) -> dict[str, Any]:
    reader = _Reader(job, Buffer(**parameters["buffer"]), operations or Operations(Path(job.storage.place)))
    return reader.run(parameters["number"])


class _Reader:
    def __init__(self, job: Job, buffer: Buffer, files: Operations) -> None:
        self._job, self._buffer, self._files = job, buffer, files
        self._memory = memoryview(aligned(buffer.file_bytes))
        self._tally = _begun(job, buffer)
        self._signals_ms: list[float] = []

    def run(self, number: int) -> dict[str, Any]:
        for last, block in self._buffer.blocks():
            self._await_signal(last)
            for due in self._buffer.reads(number, block):
                if not self._tally.wait(due):
                    return self._result()
                self._read(due)
        return self._result()

    def _result(self) -> dict[str, Any]:
        return self._tally.result("read") | _facts(self._files) | {"signals_ms": self._signals_ms}

    def _await_signal(self, last: Due) -> None:
        """A block is read when its last file is closed; how long that takes to be seen is measured."""
        self._tally.sleep_until(last.at_s)
        name, size = file_name(last.number), self._buffer.file_bytes
        descriptor = self._files.open(name, size)
        is_early = descriptor is None
        if descriptor is None:
            descriptor = self._tally.wait_for(lambda: self._files.open(name, size), _NEVER_S)
        if descriptor is None:
            return
        seen_ns = time.monotonic_ns()
        self._files.read(descriptor, self._memory)
        self._files.close(descriptor)
        if is_early:
            self._signals_ms.append((seen_ns - written_ns(self._memory)) * 1e-6)

    def _read(self, due: Due) -> None:
        name, size = file_name(due.number), self._buffer.file_bytes

        def opened() -> int | None:
            begun = time.monotonic()
            descriptor = self._files.open(name, size)
            # One of a file that is not there says little about the others.
            self._tally.took(OPEN if descriptor is not None else EARLY, time.monotonic() - begun)
            return descriptor

        gone_s = self._buffer.written_s(due.number) + self._buffer.life_s
        descriptor = self._tally.wait_for(opened, gone_s)
        if descriptor is None:
            if not self._tally.stopping:
                self._tally.count("gone")
            return
        with self._tally.taking(READ), self._job.storage.counts.timed(size):
            got = self._files.read(descriptor, self._memory)
            self._files.close(descriptor)
        with self._tally.taking(OWN):
            problem = (
                problem_of(self._memory, due.number, self._buffer.files)
                if got == size
                else f"{name}: {got} of {size} bytes"
            )
        if problem:
            self._tally.wrong(problem)
        self._tally.done(due)


@_named
def delete(job: Job, parameters: dict[str, Any], operations: Operations | None = None) -> dict[str, Any]:
    """Removes each file at the end of its life; lists the directory once a snapshot."""
    buffer = Buffer(**parameters["buffer"])
    files = operations or Operations(Path(job.storage.place))
    tally = _begun(job, buffer)
    most = 0
    for due in buffer.deletes():
        if due.number % buffer.files == 0:
            tally.sleep_until(due.at_s)
            with tally.taking(LIST):
                most = max(most, files.count())
        if not tally.wait(due):
            break

        def deleted(name: str = file_name(due.number)) -> bool | None:
            begun = time.monotonic()
            was_there = files.delete(name)
            tally.took(DELETE if was_there else EARLY, time.monotonic() - begun)
            return was_there or None

        if tally.wait_for(deleted, _NEVER_S):
            tally.done(due)
    return tally.result("delete") | _facts(files) | {"files": most}


def _begun(job: Job, buffer: Buffer) -> Tally:
    job.begin()
    job.done(0)
    return Tally(job, buffer)


def _facts(files: Operations) -> dict[str, Any]:
    return {"direct": files.is_direct, "locks": files.has_locks}
