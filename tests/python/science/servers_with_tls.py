"""Servers with TLS for tests: Apache httpd with WebDAV, and a relay in front of a server without TLS.

Run as a program, it is the relay: `servers_with_tls.py CERTIFICATE KEY HOST PORT` prints its own port.
"""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import free_ports

MODULES = Path("/usr/lib/apache2/modules")
TOKEN = "a.token-of.a.test"
USER, PASSWORD = "someone", "something"
_OWNER = "www-data"
_CONFIGURATION = """\
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/httpd.pid
ErrorLog {folder}/errors
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authn_file_module {modules}/mod_authn_file.so
LoadModule auth_basic_module {modules}/mod_auth_basic.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule dav_module {modules}/mod_dav.so
LoadModule dav_fs_module {modules}/mod_dav_fs.so
LoadModule ssl_module {modules}/mod_ssl.so
User {owner}
Group {owner}
DavLockDB {folder}/served/locks
DocumentRoot {folder}/served
SSLEngine on
SSLCertificateFile {certificate}
SSLCertificateKeyFile {key}
SSLCACertificateFile {certificate}
SSLVerifyClient optional
<Directory {folder}/served>
    Dav On
    Require all granted
</Directory>
<Directory {folder}/served/token>
    Require expr "%{{HTTP:Authorization}} == 'Bearer {token}'"
</Directory>
<Directory {folder}/served/password>
    AuthType Basic
    AuthName test
    AuthUserFile {folder}/users
    Require user {user}
</Directory>
<Directory {folder}/served/certificate>
    Require expr "%{{SSL_CLIENT_VERIFY}} == 'SUCCESS'"
</Directory>
"""
_FOLDERS = ("free", "token", "password", "certificate")


@dataclass(frozen=True)
class Identity:
    """A certificate for 127.0.0.1, which is its own authority, and its key."""

    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> "Identity":
        made = cls(folder / "certificate.pem", folder / "key.pem")
        how = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1"]
        _openssl(*how, *names, "-keyout", made.key, "-out", made.certificate)
        return made

    def as_folder(self, folder: Path) -> Path:
        """As the grid has its authorities: by a hash of their names."""
        folder.mkdir()
        name = _openssl("x509", "-hash", "-noout", "-in", self.certificate).strip()
        shutil.copy(self.certificate, folder / f"{name}.0")
        return folder

    def as_proxy(self, file: Path) -> Path:
        """Certificate and key in one file."""
        file.write_bytes(self.certificate.read_bytes() + self.key.read_bytes())
        return file


def _openssl(*words: object) -> str:
    command = ["openssl", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def dav_with_tls(folder: Path, identity: Identity) -> Iterator[str]:
    """URL of a server; directories `token`, `password` and `certificate` in it require these."""
    if shutil.which("apache2") is None or not (MODULES / "mod_ssl.so").exists():
        pytest.skip("requires apache2 with mod_ssl")
    for name in ("", *_FOLDERS):
        (folder / "served" / name).mkdir()
    if os.geteuid() == 0:
        for path in [folder / "served", *(folder / "served").iterdir()]:
            shutil.chown(path, _OWNER, _OWNER)
    hashed = _openssl("passwd", "-apr1", PASSWORD).strip()
    (folder / "users").write_text(f"{USER}:{hashed}\n")
    port = free_ports(1)
    (folder / "httpd.conf").write_text(
        _CONFIGURATION.format(
            port=port,
            folder=folder,
            modules=MODULES,
            owner=_OWNER,
            certificate=identity.certificate,
            key=identity.key,
            token=TOKEN,
            user=USER,
        )
    )
    server = subprocess.Popen(["apache2", "-D", "FOREGROUND", "-f", folder / "httpd.conf"])
    try:
        _wait_for(port, server)
        yield f"https://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"apache2 does not answer; it ended with {server.poll()}")


@contextlib.contextmanager
def relay_with_tls(identity: Identity, host: str, port: int, inside: Sequence[str] = ()) -> Iterator[int]:
    """Port on 127.0.0.1 of a relay to a server; `inside`: command that enters another network."""
    files = [str(identity.certificate), str(identity.key)]
    command = [*inside, sys.executable, __file__, *files, host, str(port)]
    relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        yield int(relay.stdout.readline())
    finally:
        relay.communicate("", timeout=30)  # it ends at the end of its input


def _relay(certificate: str, key: str, host: str, port: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=[client], daemon=True).start()

    def serve(client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(client, server_side=True) as outer,
            socket.create_connection((host, int(port))) as inner,
        ):
            threading.Thread(target=_copy, args=[outer, inner], daemon=True).start()
            _copy(inner, outer)

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


def _copy(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            to.sendall(piece)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    _relay(*sys.argv[1:])
