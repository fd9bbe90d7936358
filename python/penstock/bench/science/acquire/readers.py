"""Jobs that read files of the recorder while it records another one, or the one that grows."""

import contextlib
import time
import zlib
from collections.abc import Iterator
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  filters of the recorder's files

from penstock.bench.science.jobs.job import Job

_DATA, _STATE, _RECEIVED = "/entry/data/data", "/entry/penstock/frame_state", 1
# Pages of a file that is read again would come from memory, and cost the storage nothing.
_FORGETS_EVERY = 8
_LOOKS_EVERY_S = 0.1


def older(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Reads all frames of a complete file again and again, and makes a checksum of each."""
    name = str(parameters["name"])
    checksums: dict[int, int] = {}
    different = 0
    with job.storage.open(name) as raw, h5py.File(raw, "r", rdcc_nbytes=0) as file:
        data = file[_DATA]
        at = job.number * len(data) // max(1, int(parameters["jobs"]))
        job.begin()
        while not job.stopping:
            with job.spending("reading and decompression"):
                frame = data[at]
            with job.spending("computing"):
                checksum = zlib.crc32(frame)
            different += checksums.setdefault(at, checksum) != checksum
            at = (at + 1) % len(data)
            job.done(1)
            if at % _FORGETS_EVERY == 0:
                job.storage.forget(name)
    return {
        "different": different,
        "checksums": {str(number): checksum for number, checksum in checksums.items()},
    }


def growing(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Follows the file that is recorded, from its first frame on (docs: read a file while it is recorded)."""
    path = job.storage.local_path(str(parameters["name"]))
    assert path is not None
    checksums: dict[str, int] = {}
    job.begin()
    with contextlib.ExitStack() as stack:
        file = _opened(job, path, stack)
        if file is None:
            return {"different": 0, "checksums": {}}
        data, state = file[_DATA], file[_STATE]
        seen = 0
        while not job.stopping:
            data.refresh()
            state.refresh()
            came = list(_received(state, seen, min(len(state), len(data))))
            for number in came:
                begun = time.monotonic_ns()
                with job.spending("reading and decompression"):
                    frame = data[number]
                job.storage.counts.add(frame.nbytes, frame.nbytes, time.monotonic_ns() - begun)
                with job.spending("computing"):
                    checksums[str(number)] = zlib.crc32(frame)
                job.done(1)
                seen = number + 1
                if job.stopping:
                    break
            if not came:
                time.sleep(_LOOKS_EVERY_S)
    return {"different": 0, "checksums": checksums}


def _received(state: Any, first: int, end: int) -> Iterator[int]:
    for number, value in enumerate(state[first:end], first):
        if value != _RECEIVED:
            return
        yield number


def _opened(job: Job, path: str, stack: contextlib.ExitStack) -> Any:
    """The file, once it has a frame; None if that never comes."""
    while not job.stopping:
        with contextlib.suppress(OSError, KeyError):
            file = h5py.File(path, "r", swmr=True)
            if len(file[_STATE]) > 0:
                return stack.enter_context(file)
            file.close()  # the recorder may make it anew with the first frame
        time.sleep(_LOOKS_EVERY_S)
    return None
