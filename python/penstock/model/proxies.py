"""The proxy that the environment puts between a client and a server of the web."""

from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from penstock.model.storage_url import StorageUrl

_BY = {"http": "http", "s3": "http", "hdfs": "http", "webhdfs": "http", "https": "https", "s3s": "https"}


def proxy_of(url: StorageUrl) -> str:
    """Returns "HOST:PORT" of the proxy that HTTP clients use for this URL; empty: none."""
    proxies = getproxies_environment()
    proxy = proxies.get(_BY[url.scheme], proxies.get("all", "")) if url.scheme in _BY else ""
    host = urlsplit(url.text).netloc.rpartition("@")[2]
    if not proxy or proxy_bypass_environment(host, proxies):
        return ""
    return urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]
