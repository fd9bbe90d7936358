"""`http://` and `https://`: WebDAV. Reads by fsspec, all else by requests of its methods (RFC 4918)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import requests
from aiohttp import ClientTimeout
from fsspec.implementations.http import HTTPFileSystem

from penstock.bench.science.storage.bounded import all_that_comes, bound_session, of_part
from penstock.bench.science.storage.endpoint import CONNECT_TIMEOUT_S
from penstock.bench.science.storage.remote import TIMEOUT_S, RemoteStorage
from penstock.bench.science.storage.server_errors import ServerAnsweredError
from penstock.bench.science.storage.storage import Range
from penstock.bench.science.storage.trust import authorities, trusting_context
from penstock.model.storage_url import StorageUrl

_ASKED = (
    '<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/></prop></propfind>'
)
_PATIENCE = ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=TIMEOUT_S)
_NOT_FOUND, _NOT_ALLOWED = 404, 405


def _bearer() -> str:
    if token := os.environ.get("BEARER_TOKEN"):
        return token
    file = os.environ.get("BEARER_TOKEN_FILE")
    return Path(file).read_text(encoding="utf-8").strip() if file else ""


class _Parts(HTTPFileSystem):  # type: ignore[misc]
    """Reads of parts that end where the part does: some servers send all of a file instead."""

    async def _cat_file(self, url: str, start: int, end: int, **more: Any) -> bytes:
        options: dict[str, Any] = self.kwargs | more
        headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{end - 1}"}
        session = await self.set_session()
        async with session.get(self.encode_url(url), headers=headers, **options) as answer:
            self._raise_not_found_for_status(answer, url)
            return await all_that_comes(answer.content.iter_any(), of_part(end - start))


class DavStorage(RemoteStorage):
    """Secrets are sent to servers with TLS only."""

    def __init__(self, url: StorageUrl) -> None:
        super().__init__(str(url).rstrip("/"))
        is_secure = url.scheme == "https"
        token, proxy = (_bearer(), os.environ.get("X509_USER_PROXY", "")) if is_secure else ("", "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session = requests.Session()
        self._session.headers.update(headers)
        self._session.cert = proxy or None
        bound_session(self._session, TIMEOUT_S)
        options: dict[str, Any] = {"headers": headers} if headers else {}
        if is_secure:
            context = trusting_context()
            if proxy:
                context.load_cert_chain(proxy)
            options["ssl"] = context
        self._system = _Parts(
            client_kwargs={"trust_env": True, "timeout": _PATIENCE},
            skip_instance_cache=True,
            use_listings_cache=False,
            **options,
        )

    def _ask(self, method: str, name: str, allowed: Sequence[int] = (), **more: Any) -> requests.Response:
        # As an argument it goes before REQUESTS_CA_BUNDLE.
        trusted = str(authorities() or "") or True
        answer = self._session.request(method, f"{self.place}/{name}", verify=trusted, **more)
        if answer.status_code not in allowed and not answer.ok:
            said = f"{method}: the server answered {answer.status_code} {answer.reason}"
            raise ServerAnsweredError(answer.status_code, said)
        return answer

    def _entries(self) -> dict[str, int | None]:
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        answer = self._ask("PROPFIND", "", (_NOT_FOUND,), headers=headers, data=_ASKED)
        if answer.status_code == _NOT_FOUND:
            return {}
        found: dict[str, int | None] = {}
        own = unquote(urlsplit(self.place).path).rstrip("/")
        for each in ElementTree.fromstring(answer.content).iter("{DAV:}response"):
            path = unquote(urlsplit(each.findtext("{DAV:}href", "")).path).rstrip("/")
            if path == own:
                continue
            is_folder = each.find(".//{DAV:}collection") is not None
            length = each.findtext(".//{DAV:}getcontentlength", "0")
            found[path.rpartition("/")[2]] = None if is_folder else int(length or 0)
        return found

    def _size(self, name: str) -> int:
        answer = self._ask("HEAD", name, headers={"Accept-Encoding": "identity"})
        return int(answer.headers.get("Content-Length", 0))  # some leave it out where it is 0

    def _fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        url = f"{self.place}/{name}"
        if len(ranges) == 1:
            return [self._system.cat_file(url, start=ranges[0][0], end=ranges[0][1])]
        starts, ends = zip(*ranges, strict=True)
        return list(self._system.cat_ranges([url] * len(ranges), list(starts), list(ends), on_error="raise"))

    def _store(self, name: str, source: IO[bytes], size: int) -> None:
        # An empty file object would be sent in chunks, which not every server takes.
        self._ask("PUT", name, data=source if size else b"", headers={"Content-Length": str(size)})

    def _delete(self, name: str) -> None:
        self._ask("DELETE", name, (_NOT_FOUND,))

    def _make(self) -> None:
        self._ask("MKCOL", "", (_NOT_ALLOWED,))  # there already (9.3.1)

    def _remove_folder(self) -> None:
        if self._entries():
            raise OSError("it is not empty")
        self._ask("DELETE", "")
