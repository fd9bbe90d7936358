"""Functions of jobs for the tests of the team."""

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.bench.science.data.store import checksum_of, store_bytes
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.storage import read_ranges
from penstock.model.errors import PenstockError


def steady(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Counts `hz` units per second from `late_s` after the start on, `units` at most.

    Makes the file `touches` after its first unit, and waits at the end until the file `waits_for` exists.
    """
    job.begin()
    time.sleep(parameters.get("late_s", 0.0))
    begun, done = time.monotonic(), 0
    while not job.stopping and done < parameters.get("units", 10**9):
        done += 1
        time.sleep(max(0.0, begun + done / parameters["hz"] - time.monotonic()))
        job.done(1)
        if done == 1 and "touches" in parameters:
            Path(parameters["touches"]).touch()
    while "waits_for" in parameters and not job.stopping and not Path(parameters["waits_for"]).exists():
        time.sleep(0.01)
    return {"done": done}


def slow_to_start(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    time.sleep(5)
    job.begin()
    return {}


def dies(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    job.begin()
    job.done(1)
    os._exit(7)


def fails(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    job.begin()
    job.done(3)
    raise PenstockError("the file is gone", "bring it back")


def knows_why_it_does_not_start(_job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    raise PenstockError("no profiles", "make them")


def never_ready(_job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("no library")


def talks(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """Prints, as libraries do."""
    print("hello from a library")
    job.begin()
    os.write(1, b"and from its C part\n")
    job.done(1)
    return {"said": True}


def floods(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Prints bytes that are no text, and a line without an end."""
    job.begin()
    os.write(2, b"\xff\xfe is not UTF-8\n")
    for _ in range(parameters["mib"]):
        os.write(2, b"x" * (1 << 20))
    job.done(1)
    return {}


def leaves_a_child(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """Which keeps the job's output open."""
    job.begin()
    child = subprocess.Popen(["sleep", "3000"])
    job.done(1)
    return {"child": child.pid}


def closes_its_output(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """As the kernel does for a process whose end the storage holds up."""
    job.begin()
    job.done(1)
    os.closerange(3, 30)
    time.sleep(300)
    return {}


def pauses(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Does nothing for `pause_s`, and returns what it has when it is stopped."""
    job.begin()
    job.done(1)
    time.sleep(parameters["pause_s"])
    job.done(1)
    return {"has": "half"}


def is_silent(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """Does nothing until it is stopped, and returns what it has."""
    job.begin()
    job.done(1)
    while not job.stopping:
        time.sleep(0.05)
    job.done(1)
    return {"has": "half"}


def copies(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Moves bytes for `seconds`, and reports no unit meanwhile."""
    job.begin()
    end = time.monotonic() + parameters["seconds"]
    while time.monotonic() < end and not job.stopping:
        job.storage.counts.moved(1)
        time.sleep(0.05)
    return {"stopped": job.stopping}


def makes_one_file(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Of those that it is to make, as if it had been stopped."""
    return makes_files(job, parameters | {"numbers": parameters["numbers"][:1]})


def writes(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Writes and reads a file, and says what it cost."""
    job.storage.make()
    job.begin()
    name = f"file-{job.number}"
    with job.spending("writing"), job.storage.create(name) as file:
        file.write(bytes(parameters["bytes"]))
    with job.spending("reading"), job.storage.open(name) as file:
        got = len(file.read())
    job.done(1)
    return {"got": got, "size": job.storage.size(name), "names": job.storage.names()}


def makes_files(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Files of `size` bytes; dies before number `dies_at`."""
    job.begin()
    made = []
    for number in parameters["numbers"]:
        if number == parameters.get("dies_at"):
            os._exit(9)
        content = bytes([number]) * parameters["size"]
        made.append(store_bytes(job.storage, f"thing-{number:09d}.bin", content, {"byte": number}))
        job.done(1)
    return {"files": [each.model_dump() for each in made]}


def uses_files(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """All that a storage can do, in a directory that does not exist."""
    storage, content = job.storage, os.urandom(300_000)
    job.begin()
    found: dict[str, Any] = {"before": storage.names()}
    storage.make()
    storage.make()
    for name, data in (("a.bin", content), ("empty.bin", b""), ("large.bin", content * 40)):
        with storage.create(name) as file:
            for at in range(0, len(data), 100_000):
                file.write(data[at : at + 100_000])
    found |= {"names": storage.names(), "sizes": [storage.size(name) for name in storage.names()]}
    found["written"] = storage.counts.received_bytes
    storage.counts.clear()
    ranges = [(0, 10), (100_000, 250_000), (299_990, 300_000)]
    with storage.open("a.bin") as file:
        parts = read_ranges(file, ranges)
        file.seek(123)
        found["seen"] = file.read(7) == content[123:130] and file.read() == content[130:]
    found["parts"] = parts == [content[start:stop] for start, stop in ranges]
    found["received"] = storage.counts.received_bytes - 299_877
    found["checksum"] = checksum_of(storage, "large.bin") == hashlib.sha256(content * 40).hexdigest()
    found["missing"] = _problem(lambda: storage.open("no.bin").read(1))
    found["beyond"] = _problem(lambda: read_ranges(storage.open("a.bin"), [(299_000, 300_001)]))
    found["not empty"] = _problem(storage.remove_folder)
    for name in (*storage.names(), "a.bin"):
        storage.remove(name)
    found["left"] = storage.names()
    storage.remove_folder()
    return found


def _problem(call: Callable[[], Any]) -> str:
    try:
        call()
    except PenstockError as error:
        return f"{error.message} -> {error.remedy}"
    return ""


def where(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """The control groups that it is in."""
    job.begin()
    job.done(1)
    return {"groups": Path("/proc/self/cgroup").read_text(encoding="ascii")}
