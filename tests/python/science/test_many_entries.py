"""A list of a server's directory that comes in many answers has a limit, too."""

import contextlib
import http.server
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_ports

from penstock.bench.science.storage import bounded
from penstock.bench.science.storage.open import storage_for
from penstock.model.errors import PenstockError

_REMEDY = "name a directory with fewer entries, such as a new one"
_CONFIGURATION = """\
xrd.port {port}
xrd.network nodnr
all.export /many
oss.localroot {folder}
all.adminpath {folder}/state
all.pidpath {folder}/state
"""


@pytest.fixture
def xrootd() -> Iterator[tuple[Path, str]]:
    """The directory of a server, and its URL. It refuses to run as root, and must reach it."""
    pytest.importorskip("XRootD")
    if shutil.which("xrootd") is None:
        pytest.skip("xrootd is not installed")
    port = free_ports(1)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for each in (folder, folder / "many", folder / "state"):
            each.mkdir(exist_ok=True)
            each.chmod(0o777)
        configuration = folder / "xrootd.cfg"
        configuration.write_text(_CONFIGURATION.format(port=port, folder=folder))
        user = "nobody" if os.geteuid() == 0 else None
        command = ["xrootd", "-c", str(configuration), "-l", str(folder / "state" / "log"), "-n", "many"]
        with subprocess.Popen(command, user=user, cwd=folder / "state") as server:
            try:
                _wait_for(port)
                yield folder / "many", f"root://127.0.0.1:{port}//many"
            finally:
                server.terminate()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError


def test_a_list_of_an_xrootd_server(xrootd: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = xrootd
    names = [f"file-{number:04}" for number in range(1000)]  # of more than one answer
    for each in names:
        (folder / each).write_bytes(b"data")
    (folder / "directory").mkdir()
    storage = storage_for(url)
    monkeypatch.setattr(bounded, "ENTRIES_MAX", 1001)
    assert (storage.names(), storage.folders()) == (names, ["directory"])
    monkeypatch.setattr(bounded, "ENTRIES_MAX", 100)
    with pytest.raises(PenstockError) as refused:
        storage.names()
    assert refused.value.message == f"{url}: the server lists more than 100 entries in this directory"
    assert refused.value.remedy == _REMEDY
    assert storage.size(names[0]) == 4
    assert storage_for(f"{url}/missing").names() == []


class _Pages(http.server.BaseHTTPRequestHandler):
    """A store whose lists have twenty pages."""

    def do_GET(self) -> None:
        page = int(self.path.partition("continuation-token=")[2].partition("&")[0] or 0)
        keys = (f"<Contents><Key>many/{page}-{each}</Key><Size>1</Size></Contents>" for each in range(10))
        more = f"<IsTruncated>{'true' if page < 19 else 'false'}</IsTruncated>"
        token = f"<NextContinuationToken>{page + 1}</NextContinuationToken>"
        content = f"<ListBucketResult>{more}{token}{''.join(keys)}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_a_list_of_an_s3_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        storage = storage_for(f"s3://{address}/bucket/many")
        assert len(storage.names()) == 200
        monkeypatch.setattr(bounded, "ENTRIES_MAX", 100)
        with pytest.raises(PenstockError) as refused:
            storage.names()
        server.shutdown()
    assert refused.value.message == (
        f"http://{address}/bucket/many: the server lists more than 100 entries in this directory"
    )
    assert refused.value.remedy == _REMEDY
