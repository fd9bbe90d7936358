"""`s3://` and `s3s://`, by s3fs. Keys come from the environment, as the load generator takes them."""

import os
from collections.abc import Sequence
from typing import IO, Any

from penstock.bench.science.storage.endpoint import CONNECT_TIMEOUT_S, s3_endpoint_and_path
from penstock.bench.science.storage.remote import TIMEOUT_S, RemoteStorage
from penstock.bench.science.storage.s3_client import BoundedSession, PartsOfObjects
from penstock.bench.science.storage.storage import Range
from penstock.model.errors import UsageError
from penstock.model.storage_url import StorageUrl

_PART = 8 << 20


class S3Storage(RemoteStorage):
    def __init__(self, url: StorageUrl) -> None:
        super().__init__(str(url))
        endpoint, path = s3_endpoint_and_path(url)
        if not endpoint:
            raise UsageError(
                f"{url} names no host and port", "set AWS_ENDPOINT_URL, or write s3://HOST:PORT/BUCKET"
            )
        self._folder = path.rstrip("/")
        key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        if not key or not secret:
            raise UsageError(f"{url} requires keys", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._system = PartsOfObjects(
            endpoint_url=endpoint,
            key=key,
            secret=secret,
            token=os.environ.get("AWS_SESSION_TOKEN") or None,
            client_kwargs={"region_name": region},
            # Stores other than Amazon's know neither buckets in host names nor its newer checksums.
            config_kwargs={
                "http_session_cls": BoundedSession,
                "s3": {"addressing_style": "path"},
                "connect_timeout": CONNECT_TIMEOUT_S,
                "read_timeout": TIMEOUT_S,
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _entries(self) -> dict[str, int | None]:
        self._system.invalidate_cache()
        try:
            found: list[dict[str, Any]] = self._system.ls(self._folder, detail=True, refresh=True)
        except FileNotFoundError:
            return {}
        return {
            each["name"].rpartition("/")[2]: None if each["type"] == "directory" else each["size"]
            for each in found
            if each["name"].rstrip("/") != self._folder
        }

    def _size(self, name: str) -> int:
        return int(self._system.info(self._path(name), refresh=True)["size"])

    def _fetch(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        path = self._path(name)
        if len(ranges) == 1:
            return [self._system.cat_file(path, start=ranges[0][0], end=ranges[0][1])]
        starts, ends = zip(*ranges, strict=True)
        return list(self._system.cat_ranges([path] * len(ranges), list(starts), list(ends), on_error="raise"))

    def _store(self, name: str, source: IO[bytes], size: int) -> None:
        if size <= _PART:
            self._system.pipe_file(self._path(name), source.read())
            return
        with self._system.open(self._path(name), "wb", block_size=_PART) as file:
            while piece := source.read(_PART):
                file.write(piece)

    def _delete(self, name: str) -> None:
        self._system.rm_file(self._path(name))

    def _make(self) -> None:
        """Keys need no directory."""

    def _remove_folder(self) -> None:
        """There is none."""
