"""`root://`, by fsspec-xrootd and the client library of XRootD."""

import threading
from collections.abc import Sequence
from typing import IO, Any

from fsspec_xrootd import XRootDFileSystem
from XRootD.client.file import File
from XRootD.client.filesystem import FileSystem
from XRootD.client.flags import DirListFlags, HostTypes, OpenFlags, StatInfoFlags

from penstock.bench.science.storage.bounded import too_many
from penstock.bench.science.storage.remote import TIMEOUT_S, RemoteStorage
from penstock.bench.science.storage.storage import Range
from penstock.model.storage_url import StorageUrl

_PIECE = 4 << 20
_FILE: Any = File
_SERVER: Any = FileSystem
"""which have no types"""
_PATIENCE_S = TIMEOUT_S + 10
"""for a list: the library ends what takes longer than TIMEOUT_S"""
_MORE_COMES = 1
"""code of a status: suContinue of the client library"""
_IS_THERE = ("file exists", "[3018]")
_NOT_THERE = ("no such file", "unable to open directory", "not found", "[3011]")
"""words of servers; redirectors have others, but the same numbers"""


class _Listing:
    """A directory's entries, as they arrive: the library itself would keep all of them, of any number."""

    def __init__(self, place: str) -> None:
        self.sizes: dict[str, int | None] = {}
        self.without_size: list[str] = []
        """of servers that report names alone"""
        self._place, self._ended = place, threading.Event()
        self._problem: Exception | None = None

    def __call__(self, status: Any, part: Any, _hosts: Any) -> None:
        if self._ended.is_set():
            return
        for each in part or ():
            if each.statinfo is None:
                self.without_size.append(each.name)
            else:
                is_folder = each.statinfo.flags & StatInfoFlags.IS_DIR
                self.sizes[each.name] = None if is_folder else each.statinfo.size
        if status.ok:
            self._problem = too_many(len(self.sizes) + len(self.without_size), self._place)
        else:
            self._problem = OSError(status.message.strip())
        if self._problem is not None or status.code != _MORE_COMES:
            self._ended.set()

    def wait(self) -> None:
        """Raises OSError with what the server answered, PenstockError for too many entries."""
        if not self._ended.wait(_PATIENCE_S):
            raise TimeoutError
        if self._problem is not None:
            raise self._problem


class XrootdStorage(RemoteStorage):
    def __init__(self, url: StorageUrl) -> None:
        super().__init__(str(url))
        host, _, path = url.text.partition("://")[2].partition("//")
        self._folder = f"/{path.rstrip('/')}"
        self._client = _SERVER(f"root://{host}")
        self._system = XRootDFileSystem(
            hostid=host, timeout=TIMEOUT_S, skip_instance_cache=True, use_listings_cache=False
        )

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _entries(self) -> dict[str, int | None]:
        self._system.invalidate_cache()
        try:
            if self._system.info(self._folder)["type"] != "directory":
                return {}
            return self._listed()
        except OSError as error:
            if any(word in str(error).lower() for word in _NOT_THERE):
                return {}
            raise

    def _listed(self) -> dict[str, int | None]:
        """Raises OSError if no server has this directory."""
        found: dict[str, int | None] = {}
        for server in self._servers():
            found.update(self._listed_by(server))
        return found

    def _servers(self) -> list[Any]:
        """Servers that have this directory; a redirector itself lists and removes none of theirs."""
        status, told = self._client.protocol(TIMEOUT_S)
        if not status.ok or not told.hostinfo & HostTypes.IS_MANAGER:
            return [self._client]
        status, places = self._client.deeplocate(f"*{self._folder}", OpenFlags.NONE, TIMEOUT_S)
        return [_SERVER(f"root://{each.address}") for each in places] if status.ok else [self._client]

    def _listed_by(self, server: Any) -> dict[str, int | None]:
        found = _Listing(self.place)
        flags = DirListFlags.STAT | DirListFlags.CHUNKED
        status = server.dirlist(self._folder, flags, TIMEOUT_S, callback=found)
        if not status.ok:
            raise OSError(status.message.strip())
        found.wait()
        for name in found.without_size:
            info = self._system.info(self._path(name))
            found.sizes[name] = None if info["type"] == "directory" else info["size"]
        return found.sizes

    def _size(self, name: str) -> int:
        return int(self._system.info(self._path(name))["size"])

    def _fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        path = self._path(name)
        if len(ranges) == 1:
            return [bytes(self._system.cat_file(path, start=ranges[0][0], end=ranges[0][1]))]
        starts, ends = zip(*ranges, strict=True)
        found: list[Any] = self._system.cat_ranges([path] * len(ranges), list(starts), list(ends))
        for each in found:  # it returns errors among the data
            if isinstance(each, Exception):
                raise each
        return found

    def _store(self, name: str, source: IO[bytes], size: int) -> None:  # noqa: ARG002
        file: Any = _FILE()
        _succeed(
            file.open(
                f"{self.place.rstrip('/')}/{name}", OpenFlags.NEW | OpenFlags.MAKEPATH, timeout=TIMEOUT_S
            )
        )
        at = 0
        try:
            while piece := source.read(_PIECE):
                _succeed(file.write(piece, at, timeout=TIMEOUT_S))
                at += len(piece)
            _succeed(file.sync(timeout=TIMEOUT_S))
        finally:
            _succeed(file.close(timeout=TIMEOUT_S))

    def _delete(self, name: str) -> None:
        self._system.invalidate_cache()
        try:
            self._system.rm_file(self._path(name))
        except OSError as error:
            if not any(word in str(error).lower() for word in _NOT_THERE):
                raise

    def _make(self) -> None:
        try:
            self._system.mkdir(self._folder, create_parents=True)
        except OSError as error:
            if not any(word in str(error).lower() for word in _IS_THERE):
                raise

    def _remove_folder(self) -> None:
        for server in self._servers():
            _succeed(server.rmdir(self._folder, TIMEOUT_S))


def _succeed(answer: tuple[Any, Any]) -> None:
    status, _ = answer
    if not status.ok:
        raise OSError(status.message.strip())
