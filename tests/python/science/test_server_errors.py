"""An error of a server is in words, with what to do about it, for each kind of client."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from ports import free_ports

from penstock.bench.data.remote_folder import make_folder
from penstock.bench.run.run import Telling
from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.analysis.run import run_analysis
from penstock.bench.science.data.clean import find_stored
from penstock.bench.science.storage.endpoint import address_of, require_server
from penstock.bench.science.storage.open import storage_for
from penstock.model.errors import PenstockError, UsageError
from penstock.model.storage_url import StorageUrl

pytest.importorskip("fsspec")
_TOKEN = "a-token"


class _Answering(http.server.BaseHTTPRequestHandler):
    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "op=CREATE" in self.path and "delegation" not in self.path:  # a name node, to its data node
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}{self.path}&delegation={_TOKEN}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.body:
            self.send_response(self.status)
            self.send_header("Content-Length", str(len(self.body)))
            self.end_headers()
            self.wfile.write(self.body)
        else:
            self.send_error(self.status)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def answering(status: int, body: bytes = b"") -> Iterator[str]:
    handler = type("Handler", (_Answering,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("XRD_CONNECTIONRETRY", "1")
    monkeypatch.setenv("XRD_CONNECTIONWINDOW", "1")


def of_size(url: str) -> tuple[str, str]:
    with pytest.raises(PenstockError) as found:
        storage_for(url).size("file")
    message = found.value.message.removeprefix(f"{url}/file: ")
    assert message != found.value.message
    return message, found.value.remedy


_CLIENTS = {"http": "BEARER_TOKEN", "s3": "AWS_ACCESS_KEY_ID", "webhdfs": "HADOOP_USER_NAME"}


@pytest.mark.parametrize("scheme", list(_CLIENTS))
@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, ""), (403, ""), (404, "check the path"), (501, "log of the server"), (507, "free space")],
)
def test_an_answer_names_its_status_and_a_remedy(scheme: str, status: int, remedy: str) -> None:
    with answering(status) as host:
        said, found = of_size(f"{scheme}://{host}/data")
    assert str(status) in said
    assert (remedy or _CLIENTS[scheme]) in found


def _unused(scheme: str) -> str:
    return f"{scheme}://127.0.0.1:{free_ports(1)}/{'/' * (scheme == 'root')}data"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "webhdfs", "s3"])
def test_a_port_where_nothing_listens_is_named(scheme: str) -> None:
    """XRootD's client tries for a time, and says what it likes; commands do not get that far, as below."""
    said, remedy = of_size(_unused(scheme))
    assert "connection refused: no program listens there" in said
    assert remedy == "check host and port of the URL, and whether the server runs"


def _analyse(target: StorageUrl) -> None:
    run_analysis(AnalysisParameters(), make_folder(target), Telling(lambda _: None, lambda _: None))


@pytest.mark.parametrize("scheme", ["http", "webhdfs", "s3", "root"])
@pytest.mark.parametrize("command", [_analyse, find_stored])
def test_a_command_ends_before_a_library_retries(scheme: str, command: Callable[[StorageUrl], Any]) -> None:
    target = StorageUrl.parse(_unused(scheme))
    with pytest.raises(PenstockError) as found:
        command(target)
    # A job, which the library keeps waiting, would name the directory of the data set.
    assert found.value.message == f"{target}: connection refused: no program listens there"
    assert found.value.remedy == "check host and port of the URL, and whether the server runs"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("root://user@store//data", ("store", 1094)),
        ("nfs://store/export", None),
        ("http://[::1]/data", ("::1", 80)),
        ("https://store:8443/data", ("store", 8443)),
        ("s3://store:9000/bucket", ("store", 9000)),
        ("s3://bucket/prefix", ("of-all.org", 443)),
        ("s3s://store/bucket", ("store", 443)),
        ("hdfs://store:8020/data", ("store", 9870)),
        ("webhdfs://store:14000/data", ("store", 14000)),
    ],
)
def test_the_address_is_where_the_client_connects(
    url: str, address: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://of-all.org")
    assert address_of(StorageUrl.parse(url)) == address


def test_a_server_behind_a_proxy_is_the_business_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    require_server(StorageUrl.parse(_unused("http")))


def test_an_unknown_host_is_named() -> None:
    said, remedy = of_size("http://no-host.invalid/data")
    assert (said, remedy) == ("the name of the host is unknown", "check the host of the URL")


def test_a_port_without_tls_is_named() -> None:
    with answering(200) as host:
        said, remedy = of_size(f"https://{host}/data")
    assert (said, remedy) == (
        "no TLS with the server: wrong version number",
        "check that this port of the server has TLS",
    )


def test_a_token_of_a_name_node_is_in_no_error() -> None:
    with answering(403) as host, pytest.raises(PenstockError) as found:
        storage_for(f"webhdfs://{host}/data").create("file").close()
    assert "403" in found.value.message
    assert _TOKEN not in found.value.message


def test_the_reason_of_a_data_node_is_told() -> None:
    reason = (
        b'{"RemoteException": {"exception": "IOException", "message": "only 0 of 1 copies\\nat org.apache"}}'
    )
    with answering(403, reason) as host, pytest.raises(PenstockError) as found:
        storage_for(f"webhdfs://{host}/data").create("file").close()
    assert "the server answered 403: only 0 of 1 copies" in found.value.message
    assert _TOKEN not in found.value.message


def test_a_port_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:99999")
    with pytest.raises(UsageError) as found:
        address_of(StorageUrl.parse("s3://bucket/data"))
    assert "http://store:99999" in found.value.message
    assert "AWS_ENDPOINT_URL" in found.value.remedy


def test_a_scheme_without_files_is_refused_before_anything_is_connected() -> None:
    with pytest.raises(UsageError) as found:
        find_stored(StorageUrl.parse("nfs://127.0.0.1:1/export"))
    assert "mount" in found.value.remedy
