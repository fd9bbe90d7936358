"""What is done where a data set is: functions of jobs, as only these reach every storage.

A directory on a server has the mark that `BenchFolder` writes into those of a file system, so that what
removes it knows its files.
"""

import os
import platform
from typing import Any

from pydantic import ValidationError

from penstock.bench.data.folder import DATA_NAME, MANIFEST, Manifest, is_running
from penstock.bench.science.data.manifest import CONTENTS, Contents
from penstock.bench.science.data.store import checksum_of, now, read_all, seconds_since, store_bytes
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.storage.storage import Storage
from penstock.model.errors import PenstockError

TASKS = __name__
_QUIET_S = 600.0
_CONTENTS_BYTES_MAX, _MARK_BYTES_MAX = 256 << 20, 1 << 20


def look(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """The contents of the data set, if it is complete; its files are compared with them.

    With `checksums`, all of it is read.
    """
    job.begin()
    names = job.storage.names()
    if CONTENTS not in names:
        return {"contents": None, "is_there": bool(names)}
    contents = contents_at(job.storage)
    require_same(job.storage, contents, parameters["checksums"])
    return {"contents": contents.model_dump(mode="json"), "is_there": True}


def contents_at(storage: Storage) -> Contents:
    try:
        return Contents.model_validate_json(read_all(storage, CONTENTS, _CONTENTS_BYTES_MAX))
    except ValidationError as error:
        raise PenstockError(f"{storage.place}/{CONTENTS} is damaged", _REMOVE) from error


def require_same(storage: Storage, contents: Contents, checksums: bool) -> None:
    """Raises PenstockError that names the first file that is not as it was made."""
    for each in contents.files:
        size = storage.size(each.name)
        if size != each.bytes:
            raise PenstockError(
                f"{storage.place}/{each.name} has {size} bytes; {each.bytes} were written", _REMOVE
            )
        if checksums and checksum_of(storage, each.name) != each.sha256:
            raise PenstockError(f"{storage.place}/{each.name} is not what was written: its checksum", _REMOVE)


_REMOVE = "check the storage; `penstock bench clean` removes the data set"


def mark(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Creates the directory on a server, and lists in it what will be made."""
    job.begin()
    job.storage.make()
    marker = Manifest(
        made=now(),
        name=parameters["name"],
        inode=0,
        host=platform.node(),
        pid=os.getppid(),
        bytes=parameters["bytes"],
        sets=parameters["sets"],
    )
    store_bytes(job.storage, MANIFEST, marker.model_dump_json().encode(), {})
    return {}


def complete(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    job.begin()
    contents = Contents.model_validate(parameters["contents"])
    require_same(job.storage, contents, checksums=False)
    store_bytes(job.storage, CONTENTS, contents.model_dump_json().encode(), {})
    return {}


def find(job: Job, _parameters: dict[str, Any]) -> dict[str, Any]:
    """Names of the directories of data sets on a server."""
    job.begin()
    return {"names": [name for name in job.storage.folders() if name.startswith(DATA_NAME)]}


def measure(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Number of files, and their bytes. Raises PenstockError if the directory is not that of a data set."""
    job.begin()
    _marker(job.storage, parameters["name"])
    names = job.storage.names()
    return {"files": len(names), "bytes": sum(job.storage.size(name) for name in names)}


def remove(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Removes what the mark lists, and the directory if nothing else is in it."""
    job.begin()
    marker = _marker(job.storage, parameters["name"])
    names = job.storage.names()
    if CONTENTS not in names:
        _require_abandoned(job.storage, marker)
    listed = [name for name in names if any(files.has(name) for files in marker.sets)]
    foreign = sorted({*names, *job.storage.folders()} - {*listed, MANIFEST})
    for name in sorted(listed, key=lambda name: name != CONTENTS):  # from then on it is not complete
        job.storage.remove(name)
        job.done(1)
    if foreign:
        raise PenstockError(
            f"{job.storage.place} is not empty: {foreign[0]} was not made by Penstock",
            "move it away, then run `penstock bench clean` again",
        )
    job.storage.remove(MANIFEST)
    job.storage.remove_folder()
    return {}


def _marker(storage: Storage, name: str) -> Manifest:
    problem = f"{storage.place} is not the directory of a data set"
    if MANIFEST not in storage.names():
        raise PenstockError(f"{problem}: it has no {MANIFEST}", "remove it yourself if it is yours")
    try:
        marker = Manifest.model_validate_json(read_all(storage, MANIFEST, _MARK_BYTES_MAX))
    except ValidationError as error:
        raise PenstockError(
            f"{problem}: its {MANIFEST} cannot be read", "remove it yourself if it is yours"
        ) from error
    if marker.name != name:
        raise PenstockError(
            f"{problem}: its {MANIFEST} is that of {marker.name}", "remove it yourself if it is yours"
        )
    return marker


def _require_abandoned(storage: Storage, marker: Manifest) -> None:
    """Raises PenstockError if another command may be making the data set."""
    if marker.host == platform.node():
        is_at_work = marker.pid != os.getppid() and is_running(marker.pid)
    else:
        is_at_work = seconds_since(marker.made) < _QUIET_S
    if is_at_work:
        raise PenstockError(
            f"process {marker.pid} on {marker.host} may be making the data set {storage.place}",
            f"wait until it ends; from another machine, {round(_QUIET_S / 60)} minutes after it began",
        )
