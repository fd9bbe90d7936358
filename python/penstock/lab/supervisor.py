"""The two processes that watch over a laboratory: the guard, and its child, the supervisor (decision 51).

The guard waits for the end of the supervisor, however it comes, and sweeps. Should the guard be killed, the
supervisor is told by the kernel, and sweeps itself. Both inherit the lock of the laboratory, so that it is
held until the last one has ended. Their standard output is the lease: the command that asked for it reads
it.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from penstock.lab.ground import GROUND
from penstock.lab.laboratory import Laboratory
from penstock.lab.place import Place, forget_lock, holds
from penstock.lab.request import LabRequest
from penstock.lab.sweep import sweep
from penstock.model.errors import PenstockError
from penstock.model.problems import reason_of

_PR_SET_PDEATHSIG = 1
_REQUEST_BYTES_MAX = 1 << 16
_REQUEST_WITHIN_S = 10.0


def main() -> int:
    """The guard. Its input is the request; its arguments are the descriptor of the lock, name and root."""
    os.umask(0o022)
    lock, place = int(sys.argv[1]), Place(sys.argv[2], Path(sys.argv[3]))
    # The command handles Ctrl-C. A closed terminal must not end the laboratory.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        _make_folder(place)
    except (PenstockError, OSError) as error:
        return _refused(place, lock, error)
    text = sys.stdin.read()
    if not text.endswith("\n"):  # the command was killed before it had sent it
        return _swept(place, lock)
    try:
        request = LabRequest.model_validate_json(text)
    except ValueError as error:
        return _refused(place, lock, PenstockError(f"the request is invalid: {error}"))
    guard = os.pidfd_open(os.getpid())
    problem = _separated()
    supervisor = os.fork()
    if supervisor == 0:
        _supervise(place, request, guard, lock, problem)
    handle = os.pidfd_open(supervisor)

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, end)
    os.close(sys.stdout.fileno())
    os.waitid(os.P_PIDFD, handle, os.WEXITED)
    # Nothing interrupts the sweep.
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    return _swept(place, lock)


def _refused(place: Place, lock: int, error: PenstockError | OSError) -> int:
    message, remedy = (error.message, error.remedy) if isinstance(error, PenstockError) else (str(error), "")
    _Lease().say({"error": message, "remedy": remedy, "code": 1})
    with contextlib.suppress(PenstockError):
        sweep(place)
    forget_lock(place, lock)
    return 1


def _make_folder(place: Place) -> None:
    """With the log, which standard error goes to. What a killed guard left goes first."""
    if place.exists():
        sweep(place)
    place.folder.mkdir(parents=True)
    place.folder.chmod(0o711)  # others reach the mount points, whatever the umask
    with place.log.open("wb") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())


def _swept(place: Place, lock: int) -> int:
    if not holds(place, lock):
        return 1  # of another laboratory, which took the name
    try:
        sweep(place)
    except PenstockError as error:
        print(f"{error.message}; {error.remedy}", file=sys.stderr, flush=True)
        return 1
    forget_lock(place, lock)
    return 0


def _separated() -> PenstockError | None:
    try:
        GROUND.separate()
    except PenstockError as error:
        return error
    return None


def _has_ended(process: int) -> bool:
    """`process`: its descriptor."""
    return bool(select.select([process], [], [], 0)[0])


def _supervise(
    place: Place, request: LabRequest, guard: int, lock: int, problem: PenstockError | None
) -> NoReturn:
    """`guard`: its descriptor."""
    lease = _Lease()

    def orphaned(*_: object) -> NoReturn:
        """While the guard lives, it sweeps."""
        if not _has_ended(guard):
            os._exit(0)
        lease.end()  # a command on a client, which the sweep kills, may have it
        GROUND.unsettle()
        os._exit(_swept(place, lock))

    signal.signal(signal.SIGTERM, orphaned)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if _has_ended(guard):
        orphaned()
    try:
        if problem is not None:
            raise problem
        # The programs that it runs end with it: a mount that comes after the sweep would stay.
        GROUND.settle(place)
        lease.watch()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place.socket))
            place.socket.chmod(0o600)
            listening.listen(8)
            laboratory = Laboratory(place, request)
            laboratory.up()
            place.state.write_text(laboratory.state().model_dump_json(), encoding="utf-8")
            if not request.held:
                lease.end()
            lease.say({"up": laboratory.state().model_dump(mode="json")})
            _serve(listening, laboratory)
    except PenstockError as error:
        lease.say({"error": error.message, "remedy": error.remedy, "code": int(error.code)})
    except BaseException as error:
        traceback.print_exc()
        lease.say({"error": f"the supervisor failed: {error_words(error)}", "remedy": _REPORT, "code": 1})
    os._exit(0)


_REPORT = "see `penstock lab logs`, and report this if the machine is not the reason"


def error_words(error: BaseException) -> str:
    """Returns why, with the file if there is one."""
    if isinstance(error, OSError):
        return f"{f'{error.filename}: ' if error.filename else ''}{reason_of(error)}"
    return f"{str(error) or 'no reason is known'} ({type(error).__name__})"


class _Lease:
    """Ends the process when its reader is gone, until `end` is called."""

    def __init__(self) -> None:
        self._out = os.dup(sys.stdout.fileno())
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        self._ended = threading.Event()

    def watch(self) -> None:
        """Starts a thread, which a process that makes namespaces may not have."""
        threading.Thread(target=self._watch, daemon=True, name="lease").start()

    def say(self, what: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            os.write(self._out, json.dumps(what).encode() + b"\n")

    def end(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._out, 0)
        while True:
            gone = poll.poll(500)
            if self._ended.is_set():
                return
            if gone:
                os._exit(0)


def _serve(listening: socket.socket, laboratory: Laboratory) -> None:
    """One request a connection, until it is asked to end."""
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(_REQUEST_WITHIN_S)
            try:
                request = json.loads(_line(connection))
                answer = _answer(laboratory, request)
            except PenstockError as error:
                answer = {"error": error.message, "remedy": error.remedy, "code": int(error.code)}
            except Exception as error:
                # No request and no answer of a system's tools may cost the data.
                what = f"the request cannot be served: {error_words(error)}"
                answer = {"error": what, "remedy": _REPORT, "code": 1}
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(answer).encode() + b"\n")
            if answer.get("down"):
                return


def _line(connection: socket.socket) -> bytes:
    line, deadline = b"", time.monotonic() + _REQUEST_WITHIN_S
    while not line.endswith(b"\n"):
        if time.monotonic() > deadline:
            raise TimeoutError("incomplete")
        more = connection.recv(4096)
        if not more or len(line) > _REQUEST_BYTES_MAX:
            raise ValueError("incomplete")
        line += more
    return line


def _answer(laboratory: Laboratory, request: dict[str, Any]) -> dict[str, Any]:
    what, arguments = request.pop("request"), request
    if what == "down":
        return {"down": True}
    if what == "state":
        return {"state": laboratory.state().model_dump(mode="json")}
    if what == "away":
        return {"away": laboratory.away()}
    if what == "has_healed":
        return {"has_healed": laboratory.has_healed()}
    if what in ("fail", "heal", "slow"):
        getattr(laboratory, what)(**arguments)
        return {"state": laboratory.state().model_dump(mode="json")}
    raise ValueError(f"unknown request {what!r}")


if __name__ == "__main__":
    sys.exit(main())
