"""Where the server of a URL listens, and whether anything does: libraries retry for up to half a minute."""

import contextlib
import os
import socket
from urllib.parse import urlsplit

from penstock.bench.science.storage.server_errors import explained
from penstock.model.errors import PenstockError, UsageError
from penstock.model.proxies import proxy_of
from penstock.model.storage_url import Place, StorageUrl

CONNECT_TIMEOUT_S = 10
HDFS_HTTP_PORT = 9870
"""of the name node's HTTP interface: `hdfs://` names the port of another one"""
_PORTS = {"root": 1094, "http": 80, "https": 443, "webhdfs": HDFS_HTTP_PORT}


def s3_endpoint_and_path(url: StorageUrl) -> tuple[str, str]:
    """`s3://HOST:PORT/BUCKET/PREFIX`, or `s3://BUCKET/PREFIX` of the endpoint that AWS_ENDPOINT_URL names."""
    rest = url.text.partition("://")[2]
    host, _, path = rest.partition("/")
    if url.scheme == "s3s":
        return f"https://{host}", path
    if ":" in host:
        return f"http://{host}", path
    return os.environ.get("AWS_ENDPOINT_URL", "").rstrip("/"), rest


def address_of(url: StorageUrl) -> tuple[str, int] | None:
    """Host and port that a client connects to; None if the URL names none, or has another scheme."""
    endpoint = s3_endpoint_and_path(url)[0] if url.scheme in ("s3", "s3s") else url.text
    parts = urlsplit(endpoint)
    try:
        port = HDFS_HTTP_PORT if url.scheme == "hdfs" else parts.port or _PORTS.get(parts.scheme)
    except ValueError as error:
        raise UsageError(
            f"{endpoint}: {error}", "check the URL, and AWS_ENDPOINT_URL of an S3 store"
        ) from error
    return (parts.hostname, port) if parts.hostname and port else None


def require_server(place: Place) -> None:
    """Raises PenstockError if no program listens there. What only a proxy or a laboratory reaches passes."""
    if not isinstance(place, StorageUrl) or place.inside or proxy_of(place):
        return
    address = address_of(place)
    if address is None:
        return
    try:
        with contextlib.closing(socket.create_connection(address, CONNECT_TIMEOUT_S)):
            pass
    except OSError as error:
        found = explained(error, place.scheme)
        raise PenstockError(f"{place}: {found.said}", found.remedy) from error
