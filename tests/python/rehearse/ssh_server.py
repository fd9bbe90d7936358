"""An OpenSSH server of a test's own, and the client configuration with hosts that differ in what they are.

Its keys and configurations are in one folder; nothing of the user's or the machine's ssh is read or changed.
"""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.programs.locate import find_program

CLOCK_LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
"""None: not installed (Debian: faketime); then the host `ahead` is missing"""
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_START_S = 10.0
# As root, sshd wants a directory in /run that only the service of its package makes: this one sees its own.
_OWN_RUN = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec"
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class SshServer:
    """`command` is for PENSTOCK_SSH: with it, ssh knows the hosts of `ssh_hosts`."""

    folder: Path
    port: int
    process: "subprocess.Popen[str]"

    @property
    def command(self) -> str:
        return f"ssh -F {shlex.quote(str(self.folder / 'client'))}"


class _Setup:
    def __init__(self, folder: Path, address: str, port: int) -> None:
        self.folder, self.address, self.port = folder, address, port
        self.authorized: list[str] = []
        self.hosts: list[str] = []
        self.key("host_key")

    def key(self, name: str) -> str:
        """Makes a pair of keys; returns the public one."""
        path = self.folder / name
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True
        )
        return path.with_suffix(".pub").read_text(encoding="utf-8").strip()

    def accept(self, name: str, path: str, *, command: str = "", **environment: str) -> None:
        """Accepts the key of the client's host `name`. `command` runs what the client asks for."""
        options = [f'environment="{key}={value}"' for key, value in ({"PATH": path} | environment).items()]
        if command:
            options.append(f'command="{command}"')
        self.authorized.append(",".join(options) + f" {self.key(name)}")
        self.host(name)

    def host(self, name: str, **settings: str) -> None:
        """Adds a host to the client's configuration: this server, unless `settings` say otherwise."""
        values = {
            "HostName": self.address, "Port": str(self.port), "IdentityFile": str(self.folder / name),
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
        } | settings  # fmt: skip
        self.hosts += [f"Host {name}", *(f"  {key} {value}" for key, value in values.items())]

    def write(self) -> None:
        public = (self.folder / "host_key.pub").read_text(encoding="utf-8")
        files = {
            "known_hosts": [f"[{self.address}]:{self.port} {public}"],
            "authorized_keys": self.authorized,
            "client": [*self.hosts, "Host *", "  IdentitiesOnly yes", "  IdentityAgent none",
                       "  GlobalKnownHostsFile none"],
            "server": [f"ListenAddress {self.address}:{self.port}", f"HostKey {self.folder}/host_key",
                       f"AuthorizedKeysFile {self.folder}/authorized_keys", f"PidFile {self.folder}/pid",
                       "PermitUserEnvironment yes", "StrictModes no", "UsePAM no", "PermitRootLogin yes",
                       "PasswordAuthentication no", "KbdInteractiveAuthentication no"],
        }  # fmt: skip
        for name, lines in files.items():
            (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextlib.contextmanager
def ssh_server(
    folder: Path, port: int, *, address: str = "127.0.0.1", before: tuple[str, ...] = ()
) -> Iterator[SshServer]:
    """A server that runs in the foreground. `before` is in front of its command, for example of a namespace.

    Its hosts: `dcu` has this Penstock; `other-shell` as well, where tcsh is the login shell; `ahead` as well,
    with a clock that is an hour ahead; `bare` has none, `old` another version; `stranger` refuses the key;
    `closed` has no server; `unknown` has a key that nobody has compared; `elsewhere` is behind a jump host
    that refuses the key; `modern` and the client have no cipher in common.

    Skips the test where OpenSSH's server is missing.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), _SBIN])
    server, keygen = shutil.which("sshd", path=path), shutil.which("ssh-keygen")
    if server is None or keygen is None or shutil.which("ssh") is None:
        pytest.skip("OpenSSH's client or server is not installed (Debian: openssh-client, openssh-server)")
    folder.mkdir(mode=0o700)
    setup = _Setup(folder, address, port)
    _fill(setup)
    setup.write()
    command = [server, "-D", "-e", "-f", str(folder / "server")]
    if os.geteuid() == 0:
        shell = ["sh", "-c", f"{_OWN_RUN} {shlex.join(command)}"]
        command = ["unshare", "--mount", "--propagation", "slave", *shell]
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen([*before, *command], stdin=subprocess.DEVNULL, stderr=log, text=True)
    found = SshServer(folder, port, process)
    try:
        _wait(found, address, before)
        yield found
    finally:
        process.terminate()
        process.wait(_START_S)


def _program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def _fill(setup: _Setup) -> None:
    own = f"{Path(sys.executable).parent}:{_PLAIN_PATH}"
    setup.accept("dcu", own)
    setup.accept("other-shell", own, command=r"exec tcsh -c \"$SSH_ORIGINAL_COMMAND\"")
    _ahead(setup, own)
    old = setup.folder / "old-programs"
    _program(old / "penstock", "echo penstock 0.0.1")
    setup.accept("bare", _PLAIN_PATH)
    setup.accept("old", f"{old}:{_PLAIN_PATH}")
    dcu = str(setup.folder / "dcu")
    setup.key("stranger")
    setup.host("stranger")
    setup.host("closed", Port="1", IdentityFile=dcu)
    setup.host("unknown", UserKnownHostsFile="none", IdentityFile=dcu)
    setup.host("elsewhere", ProxyJump="stranger", IdentityFile=dcu)
    setup.host("modern", Ciphers="aes128-cbc", IdentityFile=dcu)


def _ahead(setup: _Setup, own: str) -> None:
    """Moves the time of day, as two clocks differ: libfaketime would move the monotonic clock, too."""
    if CLOCK_LIBRARY is None:
        return
    ahead = setup.folder / "ahead-programs"
    moved = f"LD_PRELOAD={CLOCK_LIBRARY} FAKETIME=+1h DONT_FAKE_MONOTONIC=1"
    for program in ("/bin/date", str(find_program("penstock-detector"))):
        _program(ahead / Path(program).name, f'exec env {moved} {program} "$@"')
    setup.accept("ahead", f"{ahead}:{own}", PENSTOCK_BIN=str(ahead))


def _wait(server: SshServer, address: str, before: tuple[str, ...]) -> None:
    """Waits until the server accepts connections."""
    ask = f"import socket; socket.create_connection(({address!r}, {server.port}), 1).close()"
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and server.process.poll() is None:
        if before:
            done = subprocess.run([*before, sys.executable, "-c", ask], check=False, capture_output=True)
            if done.returncode == 0:
                return
        else:
            with contextlib.suppress(OSError), socket.create_connection((address, server.port), 1):
                return
        time.sleep(0.05)
    raise AssertionError(f"sshd does not listen: {(server.folder / 'log').read_text(encoding='utf-8')}")
