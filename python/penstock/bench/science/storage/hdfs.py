"""`hdfs://` and `webhdfs://`, by fsspec's client of WebHDFS."""

import os
from collections.abc import Sequence
from typing import IO, Any

from fsspec.implementations.webhdfs import WebHDFS

from penstock.bench.science.storage.bounded import all_of, bound_session, of_part
from penstock.bench.science.storage.endpoint import HDFS_HTTP_PORT
from penstock.bench.science.storage.remote import TIMEOUT_S, RemoteStorage
from penstock.bench.science.storage.server_errors import ServerAnsweredError
from penstock.bench.science.storage.storage import Range
from penstock.model.storage_url import StorageUrl

_PART, _PIECE = 8 << 20, 1 << 20


class HdfsStorage(RemoteStorage):
    def __init__(self, url: StorageUrl) -> None:
        super().__init__(str(url))
        host, _, path = url.text.partition("://")[2].partition("/")
        name, _, port = host.rpartition(":") if ":" in host.rpartition("]")[2] else (host, "", "")
        self._folder = f"/{path.rstrip('/')}"
        self._system = WebHDFS(
            host=name,
            port=int(port) if url.scheme == "webhdfs" and port else HDFS_HTTP_PORT,
            user=os.environ.get("HADOOP_USER_NAME") or None,
            skip_instance_cache=True,
        )
        bound_session(self._system.session, TIMEOUT_S)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _entries(self) -> dict[str, int | None]:
        try:
            found: list[dict[str, Any]] = self._system.ls(self._folder, detail=True)
        except FileNotFoundError:
            return {}
        return {
            each["name"].rpartition("/")[2]: None if each["type"] == "directory" else each["size"]
            for each in found
        }

    def _size(self, name: str) -> int:
        return int(self._system.info(self._path(name))["size"])

    def _fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        return [self._part(self._path(name), start, stop) for start, stop in ranges]

    def _part(self, path: str, start: int, stop: int) -> bytes:
        """As the library's file reads it, which takes what a data node says of an error for data."""
        answer = self._system._call("OPEN", path=path, offset=start, length=stop - start, redirect=False)
        if "Location" in answer.headers:
            location = self._system._apply_proxy(answer.headers["Location"])
            answer = self._system.session.get(location, stream=True)
        with answer:
            if not answer.ok:  # its URL may have a token of the name node in it
                said = f"the data node answered {answer.status_code} {answer.reason}"
                raise ServerAnsweredError(answer.status_code, said)
            return all_of(answer.iter_content(_PIECE), of_part(stop - start))

    def _store(self, name: str, source: IO[bytes], size: int) -> None:  # noqa: ARG002
        with self._system.open(self._path(name), "wb", block_size=_PART, replication=None) as file:
            while piece := source.read(_PART):
                file.write(piece)

    def _delete(self, name: str) -> None:
        self._system.rm(self._path(name))

    def _make(self) -> None:
        self._system.mkdir(self._folder)

    def _remove_folder(self) -> None:
        self._system.rm(self._folder, recursive=False)
