"""Journals of values (docs/reference/values.md): appended to by one process, read by any number."""

import contextlib
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.files.aside import require_file
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of
from penstock.model.values import MESSAGE_BYTES_MAX, Batch, BatchError, parse_batch

MAGIC = b"PNVALUES"
HEADER = struct.Struct("<8sIIq36xI")  # magic, version, bytes of the header, begun (ns since 1970), CRC-32
RECORD = struct.Struct("<4sIqII")  # magic, bytes, received (ns since 1970), CRC-32 of these, CRC-32 of head
RECORD_MAGIC = b"PNVR"
VERSION = 1


class JournalWriter:
    """A new file, never one that was there. What append() wrote survives the process."""

    def __init__(self, folder: Path, *, now_ns: int | None = None) -> None:
        begun = time.time_ns() if now_ns is None else now_ns
        stamp = datetime.fromtimestamp(begun / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
        self.path, self._file = _create(folder, f"values-{stamp}")
        self.end = 0
        self._unsynced = False
        head = HEADER.pack(MAGIC, VERSION, HEADER.size, begun, 0)[:-4]
        try:
            self._put(head + struct.pack("<I", zlib.crc32(head)))
            self.sync()
            _sync_folder(folder)
        except OSError:
            self.close()
            raise

    def append(self, text: bytes) -> None:
        """A batch that was parsed. After an OSError the journal is as before; the next one may succeed."""
        head = RECORD.pack(RECORD_MAGIC, len(text), time.time_ns(), zlib.crc32(text), 0)[:-4]
        self._put(head + struct.pack("<I", zlib.crc32(head)) + text)

    def sync(self) -> None:
        if self._unsynced:
            os.fdatasync(self._file)
            self._unsynced = False

    def close(self) -> None:
        if self._file >= 0:
            try:
                self.sync()
            finally:
                os.close(self._file)
                self._file = -1

    def _put(self, data: bytes) -> None:
        rest, at = memoryview(data), self.end
        try:
            while rest:
                written = os.pwrite(self._file, rest, at)
                rest, at = rest[written:], at + written
        except OSError:
            with contextlib.suppress(OSError):  # what stays there is overwritten, or a torn end
                os.ftruncate(self._file, self.end)
            raise
        self.end = at
        self._unsynced = True


def _create(folder: Path, stem: str) -> tuple[Path, int]:
    for number in range(1, 1000):
        path = folder / (f"{stem}.pnval" if number == 1 else f"{stem}-{number}.pnval")
        try:
            return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            continue
        except OSError as error:
            raise PenstockError(
                f"cannot create {path}: {reason_of(error)}",
                "check the permissions and free space of the folder",
            ) from error
    raise UsageError(f"{folder} already has a thousand journals of this second", "name another folder")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass
class JournalState:
    """What reading found beside the batches."""

    path: Path
    batches: int = 0
    damaged: int = 0  # places with bytes that are not a batch, before the last one
    torn_bytes: int = 0  # at its end: its writer died, or the file is cut off


def read_journal(state: JournalState) -> Iterator[Batch]:
    """The batches in the order in which they came; `state` is filled meanwhile."""
    require_file(state.path)
    with state.path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEADER.size)
        if len(head) == HEADER.size and head[:8] == MAGIC:
            _, version, _, _, crc = HEADER.unpack(head)
            if crc != zlib.crc32(head[:-4]):
                raise PenstockError(f"{state.path}: the checksum of its header is wrong", "use another copy")
            if version != VERSION:
                raise UsageError(f"{state.path} is a journal of version {version}", "use a newer Penstock")
        elif MAGIC.startswith(head[:8]):
            state.torn_bytes = size  # its writer died at once, or it is cut off
            return
        else:
            raise UsageError(f"{state.path} is not a journal of values", "name files of `penstock collect`")
        if size == HEADER.size:
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            yield from _records(data, size, state)


def _records(data: mmap.mmap, size: int, state: JournalState) -> Iterator[Batch]:
    at, bad_since = HEADER.size, -1
    while at < size:
        batch, after = _record_at(data, at, size)
        if batch is not None:
            state.damaged += bad_since >= 0
            bad_since = -1
            state.batches += 1
            yield batch
            at = after
            continue
        bad_since = at if bad_since < 0 else bad_since
        following = data.find(RECORD_MAGIC, at + 1)
        at = size if following < 0 else following
    if bad_since >= 0:
        state.torn_bytes = size - bad_since


def _record_at(data: mmap.mmap, at: int, size: int) -> tuple[Batch | None, int]:
    """The whole batch there and where it ends; None where there is none."""
    head = data[at : at + RECORD.size]
    if len(head) < RECORD.size or head[:4] != RECORD_MAGIC:
        return None, at
    _, length, _, crc, head_crc = RECORD.unpack(head)
    end = at + RECORD.size + length
    if zlib.crc32(head[:-4]) != head_crc or length > MESSAGE_BYTES_MAX or end > size:
        return None, at
    text = data[at + RECORD.size : end]
    if zlib.crc32(text) != crc:
        return None, at
    try:
        return parse_batch(text), end
    except BatchError:
        return None, at
