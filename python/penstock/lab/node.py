"""One server or client of a laboratory: a network namespace, its processes and a folder."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.lab.commands import SYSTEM_PATH, run
from penstock.lab.network import Network
from penstock.lab.processes import Processes
from penstock.model.errors import PenstockError

# Mounts of other laboratories are left: a copy here would keep their devices in use.
_COVER = """
while read -r _ _ _ _ at _; do
    case "$at" in "$PENSTOCK_OWN"/*) ;; "$PENSTOCK_LABS"/*) umount -l "$at" ;; esac
done < /proc/self/mountinfo
while [ "$1" != -- ]; do mount --rbind "$1" "$2" || exit 125; shift 2; done
shift
exec "$@"
"""
_LOG_TAIL = 2000


@dataclass
class Node:
    name: str
    """`server-1`, `meta`, `client-1`"""
    number: int
    """last byte of its address; its port in the switch"""
    address: str
    folder: Path
    group: Processes
    network: Network
    daemons: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    has_failed: bool = False
    is_slow: bool = False
    is_stalled: bool = False
    is_healing: bool = False
    """started again, perhaps without the data that came while it was away"""
    device: Path | None = None
    """of its disk, where it has one"""

    @property
    def disk(self) -> Path:
        """Where a server stores."""
        return self.folder / "disk"

    @property
    def mount(self) -> Path:
        """Where a client mounts."""
        return self.folder / "mount"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def run(
        self,
        *command: str | Path,
        timeout_s: float = 60.0,
        check: bool = True,
        covers: Mapping[Path, Path] | None = None,
    ) -> str:
        """A command with this node's network, to its end. It is not in the control group."""
        return run(self._inside(command, covers), timeout_s=timeout_s, check=check)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        covers: Mapping[Path, Path] | None = None,
    ) -> None:
        """A daemon in the foreground, in the node's control group from its first instruction.

        `covers`: what it sees instead of files and folders of this machine, which must exist.
        """
        inner = self._inside(command, covers)
        with self.log(name).open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                self.group.joining(inner),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_PLAIN_ENVIRONMENT, **(environment or {})},
                cwd=self.folder,
                start_new_session=True,
            )

    def empty_run(self) -> dict[Path, Path]:
        """Covers /run with a directory of the node, in which laboratories stay visible; for `covers`."""
        own, root = self.folder / "run", self._root
        laboratories = own / root.relative_to("/run")
        laboratories.mkdir(parents=True, exist_ok=True)
        return {root: laboratories, own: Path("/run")}

    @property
    def _root(self) -> Path:
        """Where all laboratories are."""
        return self.folder.parents[1]

    def _inside(self, command: Sequence[str | Path], covers: Mapping[Path, Path] | None) -> list[str]:
        inner = [*self.network.inside(self.name), *map(str, command)]
        if not covers:
            return inner
        pairs = [str(path) for cover, covered in covers.items() for path in (cover, covered)]
        return [
            "env",
            f"PENSTOCK_OWN={self.folder.parent}",
            f"PENSTOCK_LABS={self._root}",
            "unshare",
            "--mount",
            "--propagation",
            "slave",
            "sh",
            "-c",
            _COVER,
            "sh",
            *pairs,
            "--",
            *inner,
        ]

    @property
    def state(self) -> str:
        """`up`, `failed`, `stalled` or `slow`: what is worst."""
        if self.has_failed or self.ended():
            return "failed"
        if self.is_stalled:
            return "stalled"
        return "slow" if self.is_slow else "up"

    def ended(self) -> list[str]:
        """Names of daemons that have ended."""
        return [name for name, daemon in self.daemons.items() if daemon.poll() is not None]

    def require_alive(self) -> None:
        """Raises PenstockError with the last words of a daemon that has ended."""
        for name, daemon in self.daemons.items():
            if (code := daemon.poll()) is not None:
                raise PenstockError(
                    f"{name} on {self.name} ended with exit code {code}: {self.last_words(name)}",
                    f"its log is {self.log(name)}",
                )

    def last_words(self, name: str) -> str:
        try:
            text = self.log(name).read_bytes()[-_LOG_TAIL:].decode(errors="replace")
        except OSError:
            return "without a word"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-3:]) or "without a word"

    def kill(self) -> None:
        self.group.kill()
        for daemon in self.daemons.values():
            daemon.wait()
        self.daemons.clear()


_PLAIN_ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
