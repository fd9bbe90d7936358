"""Servers with TLS are checked against the authorities of the environment, and get its credentials."""

import dataclasses
import http.server
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from laboratories import Run, free_name, requires, up
from servers_with_tls import PASSWORD, TOKEN, USER, Identity, dav_with_tls, relay_with_tls
from test_job_storage import use

from penstock.bench.science.storage.open import require_storage, storage_for
from penstock.lab.control import state_of
from penstock.lab.place import Place as Laboratory
from penstock.lab.storage import storage_of
from penstock.model.errors import PenstockError, UsageError
from penstock.model.storage_url import StorageUrl, place_of

_AUTHORITIES = ("X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SECRETS = ("AWS_CA_BUNDLE", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY", "NETRC")


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.make(tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def dav(identity: Identity) -> Iterator[str]:
    pytest.importorskip("fsspec")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with dav_with_tls(folder, identity) as url:
            yield url


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*_AUTHORITIES, *_SECRETS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


@pytest.mark.parametrize("variable", _AUTHORITIES[:3])
def test_files_of_a_web_server_with_tls(
    dav: str, identity: Identity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    # What libraries would prefer does not count.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "other"))
    is_file = variable.endswith("FILE")
    trusted = identity.certificate if is_file else identity.as_folder(tmp_path / "authorities")
    monkeypatch.setenv(variable, str(trusted))
    use(place_of(f"{dav}/free/{variable}"))


def test_a_server_of_an_unknown_authority_is_refused(dav: str) -> None:
    storage = storage_for(f"{dav}/free")
    for ask in (storage.names, lambda: storage.size("a"), lambda: storage.create("a").close()):
        with pytest.raises(PenstockError, match="certificate of the server is not accepted") as refused:
            ask()
        assert "SSL_CERT_FILE" in refused.value.remedy


def test_a_server_of_another_name_is_refused(
    dav: str, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(identity.certificate))
    storage = storage_for(f"{dav.replace('127.0.0.1', 'localhost')}/free")
    with pytest.raises(PenstockError, match="not accepted: Hostname mismatch") as refused:
        storage.names()
    assert refused.value.remedy == "use the host name that is in the certificate"


@pytest.mark.parametrize("kind", ["token", "token file", "password", "certificate"])
def test_a_server_gets_the_credentials_of_the_environment(
    dav: str, identity: Identity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(identity.certificate))
    folder, file = kind.partition(" ")[0], tmp_path / "secret"
    url = f"{dav}/{folder}"
    with pytest.raises(PenstockError, match=r"the server answered 40[13]"):
        storage_for(url).names()
    if kind == "token":
        monkeypatch.setenv("BEARER_TOKEN", TOKEN)
    elif kind == "token file":
        file.write_text(f"{TOKEN}\n")
        monkeypatch.setenv("BEARER_TOKEN_FILE", str(file))
    elif kind == "password":
        file.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
        file.chmod(0o600)
        monkeypatch.setenv("NETRC", str(file))
    else:
        monkeypatch.setenv("X509_USER_PROXY", str(identity.as_proxy(file)))
    use(place_of(f"{url}/{kind.replace(' ', '-')}"))


class _Noting(http.server.BaseHTTPRequestHandler):
    headers_seen: ClassVar[list[str]] = []

    def do_PROPFIND(self) -> None:
        self.headers_seen.extend(self.headers)
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_a_server_without_tls_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", TOKEN)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Noting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert storage_for(f"http://127.0.0.1:{server.server_port}/data").names() == []
        server.shutdown()
    assert "Depth" in _Noting.headers_seen
    assert "Authorization" not in _Noting.headers_seen


@pytest.mark.parametrize("url", ["https://h/d", "s3s://h/bucket"])
@pytest.mark.parametrize("variable", _AUTHORITIES[:3])
def test_authorities_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, url: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "/not/there")
    with pytest.raises(UsageError, match=f"{variable}: /not/there does not exist"):
        require_storage(place_of(url))


@requires("s3")
def test_files_of_an_object_store_with_tls(
    run: Run, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with free_name() as name:
        up(run, "s3", name)
        target = storage_of(state_of(Laboratory(name)))
        assert isinstance(target, StorageUrl)
        plain = urlsplit(str(target))
        assert plain.hostname is not None
        assert plain.port is not None
        with relay_with_tls(identity, plain.hostname, plain.port, target.inside) as port:
            secure = dataclasses.replace(target, text=f"s3s://127.0.0.1:{port}{plain.path}/new")
            with pytest.raises(AssertionError, match="certificate of the server is not accepted"):
                use(secure)
            monkeypatch.setenv("SSL_CERT_FILE", str(identity.certificate))
            use(secure)
