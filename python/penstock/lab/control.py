"""What commands do with laboratories: bring them up, ask them, take them down."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil

from penstock.lab.ground import GROUND
from penstock.lab.laboratory import require_possible
from penstock.lab.packages import require_programs
from penstock.lab.place import (
    Place,
    alone_at,
    is_free,
    is_up,
    lock_in_use,
    locked,
    place_of,
    places,
)
from penstock.lab.request import LabRequest, LabState
from penstock.lab.sweep import sweep
from penstock.lab.systems.all import system_named
from penstock.model.errors import ExitCode, PenstockError, UsageError

_ANSWERS_WITHIN_S, _STATE_WITHIN_S, _ENDS_WITHIN_S = 120.0, 10.0, 10.0
_DOWN_WITHIN_S = 90.0


def bring_up(request: LabRequest) -> LabState:
    """A laboratory that stays. Raises PenstockError; nothing stays then."""
    supervisor, state = _started(request)
    assert supervisor.stdout is not None
    supervisor.stdout.close()
    return state


@contextmanager
def held(request: LabRequest) -> Iterator[LabState]:
    """A laboratory that ends with the block, and with this process, however that ends."""
    supervisor, state = _started(request.model_copy(update={"held": True}))
    try:
        yield state
    finally:
        assert supervisor.stdout is not None
        supervisor.stdout.close()
        _require_swept(supervisor, place_of(request.name))


def _require_swept(supervisor: "subprocess.Popen[str]", place: Place) -> None:
    """Raises PenstockError where something is left."""
    try:
        code = supervisor.wait(timeout=_DOWN_WITHIN_S)
    except subprocess.TimeoutExpired:
        code = -1
    if code != 0:
        last = place.log.read_text(errors="replace").strip()[-500:] if place.log.exists() else ""
        raise PenstockError(
            f"laboratory {place.name} is not down: {last or 'its guard is still at work'}",
            f"penstock lab down {place.name}",
        )


def _started(request: LabRequest) -> tuple["subprocess.Popen[str]", LabState]:
    place = place_of(request.name)
    require_possible(request)
    GROUND.require()
    require_programs(system_named(request.system))
    with tempfile.TemporaryFile() as log:
        supervisor = _guarded(place, log)
        return supervisor, _told(supervisor, request, place, log)


def _guarded(place: Place, log: IO[bytes]) -> "subprocess.Popen[str]":
    """Starts the guard, which makes the folder. Killed before, this command leaves only a lock's file."""
    lock = locked(place)
    if lock is None:
        raise PenstockError(
            f"a laboratory {place.name} is there already",
            f"use it, `penstock lab down {place.name}`, or choose another --name",
            ExitCode.USAGE,
        )
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock.lab.supervisor", str(lock), place.name, str(place.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            pass_fds=[lock],
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(lock)


def _told(supervisor: "subprocess.Popen[str]", request: LabRequest, place: Place, log: IO[bytes]) -> LabState:
    """Sends the request, and waits until the laboratory is up. `log`: of the guard before it has a folder."""
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    try:
        with suppress(BrokenPipeError):  # its guard has ended, and says why
            supervisor.stdin.write(request.model_dump_json() + "\n")
            supervisor.stdin.close()
        line = supervisor.stdout.readline()
        log.seek(0)
        if not line and (early := log.read()):
            why = early.decode(errors="replace")[-500:].strip()
            raise PenstockError(
                f"the guard of laboratory {place.name} ended: {why}",
                "install Penstock again if a module is missing",
            )
        said = _parsed(line, place)
        if "error" in said:
            supervisor.wait(timeout=_DOWN_WITHIN_S)
            raise _error_of(said)
        return LabState.model_validate(said["up"])
    except BaseException:
        supervisor.stdout.close()
        with suppress(OSError):  # it waits for the end of the request
            supervisor.stdin.close()
        # An immediate second try must find nothing left.
        with suppress(subprocess.TimeoutExpired):
            supervisor.wait(timeout=_DOWN_WITHIN_S)
        raise


def take_down(name: str) -> None:
    """Also removes what a killed supervisor left. Raises UsageError if no laboratory has this name."""
    place = place_of(name)
    if not place.exists() and not is_up(place):
        raise UsageError(f"laboratory {name} does not exist", _names())
    with lock_in_use(place) as lock:
        if lock is not None:
            # It may be just coming up, or its supervisor has been killed: its guard sweeps then.
            try:
                ask(place, "down", within_s=_ENDS_WITHIN_S)
            except PenstockError:
                _end_supervisor(place)
            _wait_until_released(lock, place)
    if place.exists():
        with alone_at(place, _DOWN_WITHIN_S):
            sweep(place)


def _end_supervisor(place: Place) -> None:
    """One that does not answer, because a storage or a tool of it hangs; its guard sweeps then."""
    lock = str(place.lock)
    holders = []
    for process in psutil.process_iter(["ppid"]):
        with suppress(OSError, psutil.Error):
            files = Path(f"/proc/{process.pid}/fd").iterdir()
            if any(str(file.readlink()) == lock for file in files) and process.pid != os.getpid():
                holders.append(process)
    guards = {process.pid for process in holders}
    for process in holders:
        if process.info["ppid"] in guards:
            with suppress(psutil.Error):
                process.kill()


def _wait_until_released(lock: int, place: Place) -> None:
    """Until the guard has let go of it, too: it removes the file of the lock a little before."""
    deadline = time.monotonic() + _DOWN_WITHIN_S
    while not is_free(lock):
        if time.monotonic() > deadline:
            raise PenstockError(
                f"laboratory {place.name} is not down after {_DOWN_WITHIN_S:g} s", f"see {place.log}"
            )
        time.sleep(0.02)


def laboratories() -> list[LabState]:
    """Those that are up. What a killed supervisor left is removed."""
    found = []
    for place in places():
        if is_up(place):
            found.append(_asked(place))
        elif problem := _swept(place):
            found.append(_unknown(place, "left behind", problem))
    return found


def _asked(place: Place) -> LabState:
    """Also of one that is just coming up or going down: it does not hide the others."""
    try:
        return state_of(place)
    except PenstockError as error:
        return _unknown(place, "does not answer", error.message)


def _unknown(place: Place, state: str, problem: str) -> LabState:
    return LabState(name=place.name, system="", title="", state=state, problem=problem)


def _swept(place: Place) -> str:
    """What is left, where something is; it does not hide the other laboratories."""
    try:
        with alone_at(place):
            sweep(place)
    except PenstockError as error:
        return error.message
    return ""


def state_of(place: Place) -> LabState:
    """Raises UsageError if no laboratory has this name."""
    if not is_up(place):
        raise UsageError(f"laboratory {place.name} does not exist", _names())
    return LabState.model_validate(ask(place, "state", within_s=_STATE_WITHIN_S)["state"])


def _names() -> str:
    names = ", ".join(each.name for each in places())
    return f"laboratories: {names}" if names else "`penstock lab up SYSTEM` brings one up"


def ask(place: Place, what: str, *, within_s: float = _ANSWERS_WITHIN_S, **arguments: Any) -> dict[str, Any]:
    """Raises PenstockError with the supervisor's own error, or if it does not answer in time."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(within_s)
            connection.connect(str(place.socket))
            connection.sendall(json.dumps({"request": what, **arguments}).encode() + b"\n")
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    except OSError as error:
        raise PenstockError(
            f"laboratory {place.name} does not answer: {error}", f"see {place.log}"
        ) from error
    said = _parsed(answer.decode(), place)
    if "error" in said:
        raise _error_of(said)
    return said


def _parsed(text: str, place: Place) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        last = place.log.read_text(errors="replace")[-500:].strip() if place.log.exists() else ""
        raise PenstockError(
            f"the supervisor of laboratory {place.name} ended without an answer {last}".rstrip()
        )
    return said


def _error_of(said: dict[str, Any]) -> PenstockError:
    code = ExitCode(said.get("code", 1))
    return PenstockError(str(said["error"]), str(said.get("remedy", "")), code)
