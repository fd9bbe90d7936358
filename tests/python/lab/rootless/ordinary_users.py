"""A user without root who brings laboratories up in tests. Root runs these tests as the user nobody."""

import contextlib
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.lab.packages import missing
from penstock.lab.systems.all import system_named

_NOBODY = 65534
_USER = _NOBODY if os.geteuid() == 0 else os.geteuid()
_AS_USER = (
    ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
)
_NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
_FUSE = Path("/dev/fuse")


def _problem() -> str:
    """Why no ordinary user can bring a laboratory up here."""
    for words, reason in (
        ([*_NAMESPACES, "true"], "requires user namespaces"),
        ([sys.executable, "-c", "import penstock.cli"], "requires a Penstock that other users can read"),
    ):
        if subprocess.run([*_AS_USER, *words], cwd="/", check=False, capture_output=True).returncode != 0:
            return reason
    return ""


_PROBLEM = _problem()
possible = pytest.mark.skipif(_PROBLEM != "", reason=_PROBLEM or "none")


def requires(system: str) -> pytest.MarkDecorator:
    there = missing(system_named(system)).is_complete
    return pytest.mark.skipif(not there, reason=f"requires the programs of {system}")


@dataclass
class User:
    """A user without root, with a home and a laboratory's name."""

    home: Path
    name: str
    before: Sequence[str] = ()
    """command in front of all others"""

    @property
    def laboratories(self) -> Path:
        session = Path(f"/run/user/{_USER}")
        return (session if session.is_dir() else self.home / "run") / "penstock-lab"

    @property
    def lock(self) -> Path:
        return self.laboratories / f".{self.name}.lock"

    def command(self, *words: str) -> list[str]:
        return [*self.before, *_AS_USER, sys.executable, "-m", "penstock", *words]

    @property
    def environment(self) -> dict[str, str]:
        own = {"HOME": self.home, "XDG_RUNTIME_DIR": self.home / "run", "TMPDIR": self.home}
        catalogue = {"PENSTOCK_CATALOGUE": str(self.home / "catalogue.sqlite")}
        return {**os.environ, **{key: str(value) for key, value in own.items()}, **catalogue}

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words),
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self, system: str, *more: str) -> dict[str, Any]:
        done = self.run("lab", "up", system, "--name", self.name, "--json", *more)
        assert done.returncode == 0, done.stderr
        state: dict[str, Any] = json.loads(done.stdout)
        return state

    def inside(self, *words: str, client: int = 1) -> "subprocess.CompletedProcess[str]":
        return self.run("lab", "exec", self.name, "--client", str(client), "--", *words)

    def network(self) -> str:
        """Of the first client, as the kernel names it: it exists as long as somebody is in it."""
        return self.inside("readlink", "/proc/self/ns/net").stdout.strip()

    def holders(self) -> list[psutil.Process]:
        """Guard and supervisor, which have the lock."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                if any(
                    str(each.readlink()) == str(self.lock)
                    for each in Path(f"/proc/{process.pid}/fd").iterdir()
                ):
                    found.append(process)
        return found

    def watchers(self) -> tuple[int, int]:
        """Process IDs of the guard and of its supervisor."""
        holders = self.holders()
        (supervisor,) = (each for each in holders if each.ppid() in {other.pid for other in holders})
        return supervisor.ppid(), supervisor.pid

    def traces(self, network: str = "") -> list[str]:
        # os.walk stands a directory that vanishes, as it does while the laboratory goes.
        found = [
            str(Path(at, each))
            for at, below, files in os.walk(self.laboratories)
            for each in below + files
            if self.name in str(Path(at, each))
        ]
        found += [str(each) for each in Path("/var/tmp").glob(f"penstock-lab-{_USER}-{self.name}-*")]
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                with contextlib.suppress(OSError):
                    if str(self.laboratories) in (process / "cmdline").read_text(errors="replace"):
                        found.append(f"process {process.name}")
                    elif str((process / "ns/net").readlink()) == network:
                        found.append(f"process {process.name} in the network")
        return found

    def without_traces(self, network: str = "", seconds_max: float = 30.0) -> None:
        deadline = time.monotonic() + seconds_max
        while (left := self.traces(network)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, left


@contextmanager
def new_user() -> Iterator[User]:
    # Paths of sockets have at most 107 bytes, and other users cannot enter root's folder of tests.
    home = Path(tempfile.mkdtemp(prefix="u-"))
    (home / "run").mkdir(mode=0o700)
    for each in (home, home / "run"):
        os.chown(each, _USER, -1)
    found = User(home, f"t{os.getpid()}-{random.randrange(1 << 20)}")
    try:
        yield found
    finally:
        if (found.laboratories / found.name).exists():
            found.run("lab", "down", found.name)
        shutil.rmtree(home)


def open_fuse(user: User) -> None:
    """In the mounts of the user's commands; skips the test where that is not possible."""
    if subprocess.run([*_AS_USER, "test", "-w", _FUSE], check=False).returncode == 0:
        return
    if os.geteuid() != 0 or not _FUSE.exists():
        pytest.skip("requires root, to open /dev/fuse to all")
    device = user.home / "fuse"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(10, 229))
    device.chmod(0o666)
    script = f'mount --make-rprivate / && mount --bind {device} {_FUSE} && exec "$@"'
    user.before = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*user.before, *_AS_USER, "test", "-w", _FUSE], check=False).returncode != 0:
        pytest.skip("requires a file system with device files")
