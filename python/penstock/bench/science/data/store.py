"""Files of a data set, as jobs make and check them."""

import calendar
import hashlib
import time
from pathlib import Path
from typing import Any

from penstock.bench.science.data.manifest import DataFile
from penstock.bench.science.storage.storage import Storage
from penstock.model.errors import PenstockError

_PIECE = 4 << 20
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def store_bytes(
    storage: Storage, name: str, data: "bytes | bytearray | memoryview[int]", truth: dict[str, Any]
) -> DataFile:
    """Creates a file with this content."""
    view = memoryview(data).cast("B")
    with storage.create(name) as file:
        for at in range(0, len(view), _PIECE):
            file.write(view[at : at + _PIECE])
    return DataFile(name=name, bytes=len(view), sha256=hashlib.sha256(view).hexdigest(), truth=truth)


def store_file(storage: Storage, name: str, path: Path, truth: dict[str, Any]) -> DataFile:
    """Copies a local file, which a library wrote that needs one."""
    checksum, size = hashlib.sha256(), 0
    with path.open("rb") as source, storage.create(name) as file:
        while piece := source.read(_PIECE):
            checksum.update(piece)
            file.write(piece)
            size += len(piece)
    return DataFile(name=name, bytes=size, sha256=checksum.hexdigest(), truth=truth)


def checksum_of(storage: Storage, name: str) -> str:
    """SHA-256 of a stored file."""
    checksum = hashlib.sha256()
    with storage.open(name) as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    return checksum.hexdigest()


def read_all(storage: Storage, name: str, bytes_max: int) -> bytes:
    """The content of a small file. Raises PenstockError if it is larger: then it is something else."""
    size = storage.size(name)
    if size > bytes_max:
        raise PenstockError(
            f"{storage.place}/{name} has {size} bytes, and at most {bytes_max} were written",
            "check what it is; remove the directory yourself if it is yours",
        )
    with storage.open(name) as file:
        pieces = []
        while piece := file.read(_PIECE):
            pieces.append(piece)
    return b"".join(pieces)


def now() -> str:
    return time.strftime(_TIME, time.gmtime())


def seconds_since(moment: str) -> float:
    """Since what `now` returned."""
    return time.time() - calendar.timegm(time.strptime(moment, _TIME))
