"""s3fs, with answers of servers that have a limit, and with the authorities of all clients."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]
from s3fs import S3FileSystem

from penstock.bench.science.storage.bounded import all_that_comes, of_answer, of_part, too_many
from penstock.bench.science.storage.trust import trusting_context

_PIECE = 1 << 20


class BoundedSession(AIOHTTPSession):  # type: ignore[misc]
    """Keeps no more of an answer than a listing has, unless it is an object."""

    def _get_ssl_context(self) -> ssl.SSLContext:
        return trusting_context()

    async def send(self, request: Any) -> Any:
        is_object, request.stream_output = request.stream_output, True
        try:
            answer = await super().send(request)
        finally:
            request.stream_output = is_object
        if not is_object or answer.status_code >= 300:
            # Its property `content` returns this.
            answer._content = await all_that_comes(answer.raw.content.iter_any(), of_answer())
        return answer


class PartsOfObjects(S3FileSystem):  # type: ignore[misc]
    """Reads of parts that end where the part does: some servers send all of an object instead.

    Lists have a limit: each of their pages has one, but not their number.
    """

    async def _iterdir(self, bucket: str, prefix: str = "", **more: Any) -> AsyncIterator[Any]:
        count = 0
        async for each in super()._iterdir(bucket, prefix=prefix, **more):
            count += 1
            if problem := too_many(count, f"{self.endpoint_url}/{bucket}/{prefix}".rstrip("/")):
                raise problem
            yield each

    async def _cat_file(self, path: str, start: int, end: int, **_: Any) -> bytes:
        bucket, key, _version = self.split_path(path)
        answer = await self._call_s3("get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}")
        body = answer["Body"]
        try:
            return await all_that_comes(body.iter_chunks(_PIECE), of_part(end - start))
        finally:
            body.close()
