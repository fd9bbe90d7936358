"""A proxy of the environment, which would be measured with the server behind it, is named."""

import http.server
import threading
from collections.abc import Iterator

import pytest
from conftest import Run

from penstock.model.proxies import proxy_of
from penstock.model.storage_url import StorageUrl


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the URLs that it was asked for. It answers with an error."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            asked.append(self.rfile.readline().decode().split(" ")[1])
            self.wfile.write(b"HTTP/1.0 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_the_proxy_that_requests_go_through_is_named(
    run: Run, proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = proxy
    monkeypatch.setenv("http_proxy", f"http://user:secret@{address}")
    frames = ("--rate", "10", "--frames", "2", "--frame-size", "4KiB", "--yes")
    done = run("bench", "frames", "http://server.invalid/data", *frames)
    assert done.returncode == 1
    assert f"note: the environment sends requests through the proxy {address};" in done.stderr
    assert "secret" not in done.stderr
    assert asked
    assert all(each.startswith("http://server.invalid/data/") for each in asked)


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("http://server/data", {}, ""),
        ("http://server/data", {"http_proxy": "proxy:3128"}, "proxy:3128"),
        ("s3://server:9000/bucket", {"http_proxy": "http://proxy:3128/"}, "proxy:3128"),
        ("s3s://server/bucket", {"http_proxy": "proxy:3128"}, ""),
        ("https://server/data", {"all_proxy": "socks5://proxy:1080"}, "proxy:1080"),
        ("http://server.lab:80/data", {"http_proxy": "proxy:3128", "no_proxy": ".lab"}, ""),
        ("root://server//data", {"http_proxy": "proxy:3128", "all_proxy": "proxy:3128"}, ""),
    ],
)
def test_the_proxy_of_a_url(
    url: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(StorageUrl.parse(url)) == expected
