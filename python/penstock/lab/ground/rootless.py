"""An ordinary user: the supervisor is process 1 of namespaces, which end with it.

Facts from user_namespaces(7), pid_namespaces(7), mount_namespaces(7) and unix(7).
"""

import os
import pwd
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from penstock.lab.commands import run
from penstock.lab.disks import Disks
from penstock.lab.ground import system_calls
from penstock.lab.ground.base import Ground
from penstock.lab.ground.in_namespace import OfNetwork, in_namespace, killed, until_none
from penstock.lab.network import Network
from penstock.lab.place import Place
from penstock.lab.processes import Processes
from penstock.lab.request import LabRequest
from penstock.lab.system import System
from penstock.model.errors import ExitCode, PenstockError, UsageError

_ANSWERS_WITHIN_S = 10.0
_FUSE = Path("/dev/fuse")
_PEER = struct.Struct("iII")  # process, user and group
_NEEDED = ("--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc")


class Rootless(Ground):
    DISKS = "dir:/var/tmp"

    def __init__(self) -> None:
        self._is_separate = False
        """of the guard, and of process 1"""

    def require(self) -> None:
        if problem := _problem():
            raise PenstockError(
                f"this kernel gives an ordinary user no namespaces: {problem}",
                "run the command with sudo, or see sysctl user.max_user_namespaces,"
                " kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns",
                ExitCode.USAGE,
            )

    def require_possible(self, request: LabRequest) -> None:
        limits = {
            "--server-cpus": request.server_cpus,
            "--server-memory": request.server_memory_bytes,
            "--disk-rate": request.disk_bytes_per_s,
        }
        for option, value in limits.items():
            if value is not None:
                raise UsageError(
                    f"{option} {value:g} requires root: control groups set this limit",
                    "run the command with sudo, or limit the servers' links with --link",
                )
        if Disks.parse(request.disks).kind == "loop":
            raise UsageError(
                f"--disks {request.disks} requires root: it makes loop devices",
                "run the command with sudo, or use --disks dir:/var/tmp or --disks ram:2GiB",
            )

    def need_of(self, kind: type[System[Any]]) -> str:
        if not kind.NEEDS_ROOT and kind.FILE_SYSTEM == "fuse" and not os.access(_FUSE, os.R_OK | os.W_OK):
            return f"{_FUSE} is not open to other users here (chmod 0666 {_FUSE} opens it)"
        return kind.NEEDS_ROOT

    def separate(self) -> None:
        """The next child is process 1."""
        user, group = os.geteuid(), os.getegid()
        system_calls.unshare(system_calls.NEW_USER | system_calls.NEW_PID)
        self._is_separate = True
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        except OSError as error:
            raise PenstockError(f"the user namespace cannot be set up: {error}") from error

    def settle(self, place: Place) -> None:  # noqa: ARG002
        system_calls.unshare(system_calls.NEW_MOUNTS | system_calls.NEW_NETWORK)
        system_calls.keep_mounts_inside()
        system_calls.mount_processes()

    def unsettle(self) -> None:
        pass

    def make(self, place: Place) -> None:
        pass

    def processes(self, place: Place, node: str) -> Processes:
        return OfNetwork(Network(place.namespaces).namespace(node))

    def kill(self, place: Place) -> None:  # noqa: ARG002
        """By the guard, after process 1 has ended, what came in from outside; by process 1, all others.

        Another command sweeps only after both have ended. What came in then ends with its own command.
        """
        if not self._is_separate:
            return
        if os.getpid() == 1:
            until_none(_kill_all_but_first)
        else:
            own = Path("/proc/self/ns/user").stat().st_ino
            until_none(lambda: killed([pid for pid in in_namespace("user", own) if pid != os.getpid()]))

    def remove(self, place: Place) -> None:
        pass

    def on_client(self, place: Place, node: str) -> list[str]:
        network = Network(place.namespaces)
        first = _first_process(place)
        if _is_inside(first):
            return network.inside(node)
        file = Path(f"/proc/{first}/root", *network.namespace(node).parts[1:])
        return ["nsenter", f"--user=/proc/{first}/ns/user", "--preserve-credentials", f"--net={file}", "--"]

    def at_client(self, place: Place, node: str) -> list[str]:
        inside = Network(place.namespaces).inside(node)
        first = _first_process(place)
        if _is_inside(first):
            return inside
        enter = ("--user", "--preserve-credentials", "--mount", "--pid", f"--wd={Path.cwd()}")
        # It is not a child of its caller, so the kernel has to tell it when the caller ends.
        return ["nsenter", f"--target={first}", *enter, "--", "setpriv", "--pdeathsig", "TERM", *inside]

    def at_mounts(self, place: Place) -> list[str]:
        first = _first_process(place)
        return [] if _is_inside(first) else [sys.executable, "-m", "penstock.lab.enter", str(first)]

    def hand_over(self, folder: Path, user: str) -> None:
        """Nothing: there is one user, who has it already."""

    def as_user(self, user: str) -> Sequence[str]:
        """In one more user namespace, in which the only user has this number."""
        found = pwd.getpwnam(user)
        return ("unshare", "--user", f"--map-user={found.pw_uid}", f"--map-group={found.pw_gid}")

    def user(self, instead: str) -> str:
        return instead


@cache
def _problem() -> str:
    """Why an ordinary user has no namespaces here; empty: there are."""
    try:
        run(["unshare", *_NEEDED, "true"])
    except PenstockError as error:
        return error.message
    return ""


def _first_process(place: Place) -> int:
    """Returns the ID of the supervisor as this process sees it."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWERS_WITHIN_S)
            connection.connect(str(place.socket))
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    except OSError as error:
        raise PenstockError(
            f"laboratory {place.name} does not answer: {error}", f"see {place.log}"
        ) from error
    process, _, _ = _PEER.unpack(peer)
    if not process:  # it is in no PID namespace below this one
        raise UsageError(
            f"laboratory {place.name} cannot be reached from inside of another one without root",
            "use one command for each laboratory, or bring them up with sudo",
        )
    return int(process)


def _is_inside(first: int) -> bool:
    """Whether this process is in the laboratory's namespaces already."""
    try:
        return Path(f"/proc/{first}/ns/user").stat().st_ino == Path("/proc/self/ns/user").stat().st_ino
    except OSError:
        return False


def _kill_all_but_first() -> list[int]:
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return [-1]
    return []
