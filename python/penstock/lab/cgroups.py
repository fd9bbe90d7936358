"""Control groups of a laboratory's nodes: which processes belong to a node, and what they may use.

Processes are held by the tree of version 2, which can kill and freeze a group at once and exists beside
version 1 as well; limits are set in version 2 where it has the controller, else in version 1. Source: the
kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from penstock.lab.controllers import Controllers
from penstock.lab.processes import Processes
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of

_TREE = "penstock-lab"
_LIMITED = ("cpu", "memory", "blkio")  # of version 1
_PERIOD_US = 100_000
_ABSENT = (errno.ENOENT, errno.ENODEV, errno.EACCES, errno.EPERM)
"""of a file that the kernel does not have and that cannot be created, or whose group has ended"""
_ENDS_WITHIN_S = 20.0
_RANK = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"
"""its number, as Open MPI and MPICH have it"""


@cache
def _mounted() -> dict[str, Path]:
    """Mount points by controller of version 1; that of version 2 by an empty name."""
    found: dict[str, Path] = {}
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.setdefault("", Path(place))
        elif kind == "cgroup":
            for controller in set(options.split(",")) & set(_LIMITED):
                found.setdefault(controller, Path(place))
    return found


def root() -> Path:
    """Returns the root group of version 2."""
    return _mounted()[""]


def problem() -> str | None:
    """Why no control group can be made here; None where it can."""
    if "" not in _mounted():
        return "no control groups of version 2 are mounted"
    if not os.access(_mounted()[""], os.W_OK):
        return f"control groups below {_mounted()['']} are not writable"
    return None


class Group(Processes):
    """Of one node; without a node, of the whole laboratory, which has no processes of its own."""

    def __init__(self, laboratory: str, node: str = "") -> None:
        self._below = Path(_TREE, laboratory, node)

    def make(self) -> None:
        two = _mounted()[""]
        Controllers(two / _TREE).make(two / self._below)
        for folder in self._of_version_1():
            folder.mkdir(parents=True, exist_ok=True)

    def joined_by(self) -> list[Path]:
        """Files into which a process writes its number to become part of the group."""
        folders = (_mounted()[""] / self._below, *self._of_version_1())
        return [folder / "cgroup.procs" for folder in folders]

    def can_be_joined(self) -> bool:
        """Whether it exists, and this user may move processes into it."""
        return bool(_mounted()) and all(os.access(file, os.W_OK) for file in self.joined_by())

    def joining(self, command: Sequence[str]) -> list[str]:
        """The command in this group from its first instruction; it does not start outside."""
        return ["sh", "-c", f'{_into(self.joined_by())}exec "$@"', "sh", *command]

    def join(self) -> None:
        """This process, and those that it starts from now on."""
        for file in self.joined_by():
            file.write_text("0")

    def limit_processors(self, count: float) -> None:
        quota = round(count * _PERIOD_US)
        if not self._write("cpu.max", f"{quota} {_PERIOD_US}"):
            self._write_version_1("cpu", "cpu.cfs_quota_us", str(quota))

    def limit_memory(self, size_bytes: int) -> None:
        if not self._write("memory.max", str(size_bytes)):
            self._write_version_1("memory", "memory.limit_in_bytes", str(size_bytes))

    def limit_device(self, device: str, bytes_per_s: int) -> None:
        """`device`: its numbers, as 7:3. 0: no limit. In version 1 it is a limit of the root group."""
        if not self._write("io.max", f"{device} rbps={bytes_per_s or 'max'} wbps={bytes_per_s or 'max'}"):
            if "blkio" not in _mounted():
                raise PenstockError("this kernel cannot limit devices", "slow the link instead: --link")
            _throttle(_mounted()["blkio"], device, bytes_per_s)

    def freeze(self, frozen: bool) -> None:
        if not self._write("cgroup.freeze", "1" if frozen else "0"):
            raise PenstockError(f"this kernel cannot freeze {self._below}")

    def processes(self) -> list[int]:
        folder = _mounted()[""] / self._below
        found: list[int] = []
        for file in [*folder.rglob("cgroup.procs")]:
            with contextlib.suppress(OSError):
                found += [int(each) for each in file.read_text(encoding="ascii").split()]
        return found

    def usage(self) -> tuple[float, int] | None:
        """Returns seconds of processors and bytes of memory; None where the kernel does not count them."""
        two = _mounted()[""] / self._below
        try:
            stat = dict(line.split() for line in (two / "cpu.stat").read_text("ascii").splitlines())
            busy_s = int(stat["usage_usec"]) / 1e6
            memory = two / "memory.current"
            if not memory.exists():
                memory = _mounted()["memory"] / self._below / "memory.usage_in_bytes"
            return busy_s, int(memory.read_text("ascii"))
        except (OSError, KeyError, ValueError):
            return None

    def kill(self) -> None:
        """Returns when no process is left. Raises PenstockError if the kernel keeps one."""
        deadline = time.monotonic() + _ENDS_WITHIN_S
        self._thaw()
        while left := self._killed():
            if time.monotonic() > deadline:
                raise PenstockError(
                    f"processes {', '.join(map(str, left))} of the laboratory do not end",
                    "a storage that hangs holds them; see what they wait for in /proc/PID/stack",
                )
            time.sleep(0.01)

    def _killed(self) -> list[int]:
        """Kills all processes that are in the group now, and returns them."""
        found = self.processes()
        if found and not self._write("cgroup.kill", "1"):
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        return found

    def remove(self) -> None:
        """Kills processes that have joined since `kill`, and waits for those that the kernel still counts."""
        deadline = time.monotonic() + _ENDS_WITHIN_S
        for controller, root in _mounted().items():
            for folder in [*self._folders(root / self._below)]:
                while not _removed(folder):
                    if time.monotonic() > deadline:
                        raise PenstockError(f"control group {folder} is still in use")
                    self._killed()
                    time.sleep(0.01)
            with contextlib.suppress(OSError):  # another laboratory is in it
                if controller:
                    (root / _TREE).rmdir()
                else:
                    Controllers(root / _TREE).end()

    def exists(self) -> bool:
        return any((root / self._below).exists() for root in _mounted().values())

    def _thaw(self) -> None:
        for file in (_mounted()[""] / self._below).rglob("cgroup.freeze"):
            with contextlib.suppress(OSError):
                file.write_text("0")

    def _of_version_1(self) -> list[Path]:
        """Of `blkio` the root group: a limit is one group's there, and writing back belongs to that."""
        roots = {controller: root for controller, root in _mounted().items() if controller}
        return [root if each == "blkio" else root / self._below for each, root in roots.items()]

    def _write(self, file: str, value: str) -> bool:
        """Returns False if the file does not exist. Raises PenstockError if the kernel refuses the value."""
        return _is_set(_mounted()[""] / self._below / file, value)

    def _write_version_1(self, controller: str, file: str, value: str) -> None:
        tree = _mounted().get(controller)
        if tree is None or not _is_set(tree / self._below / file, value):
            raise PenstockError(f"this kernel has no control group for {controller}", "leave the limit out")

    def _folders(self, top: Path) -> Iterator[Path]:
        """The deepest first."""
        for folder, _, _ in os.walk(top, topdown=False):
            yield Path(folder)


def _is_set(file: Path, value: str) -> bool:
    try:
        file.write_text(value)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise PenstockError(f"the kernel refuses {value!r} for {file}: {reason_of(error)}") from error
    return True


def joining_by_rank(groups: Sequence[Group]) -> list[str]:
    """Returns a prefix of a command that takes rank r into group number r modulo their count."""
    if len(groups) == 1:
        return groups[0].joining([])
    choices = "".join(f"{number}) {_into(each.joined_by())};; " for number, each in enumerate(groups))
    script = f'case $(({_RANK} % {len(groups)})) in {choices}esac; exec "$@"'
    return ["sh", "-c", script, "sh"]


def _into(files: Sequence[Path]) -> str:
    """Returns the steps of a shell that becomes part of a group."""
    return "".join(f'echo 0 > "{file}" || exit 125; ' for file in files)


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def leave() -> None:
    """This process is in the root group from now on."""
    for root in _mounted().values():
        with contextlib.suppress(OSError):  # it never was in another one
            (root / "cgroup.procs").write_text("0")


def unlimit_device(device: str) -> None:
    """In the root group of version 1, where it is there: a limit would stay with a device's numbers."""
    if "blkio" in _mounted():
        _throttle(_mounted()["blkio"], device, 0)


def _throttle(group: Path, device: str, bytes_per_s: int) -> None:
    for direction in ("read", "write"):
        file = group / f"blkio.throttle.{direction}_bps_device"
        with contextlib.suppress(OSError):
            file.write_text(f"{device} {bytes_per_s}")
