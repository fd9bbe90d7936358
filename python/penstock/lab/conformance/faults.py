"""Promises about what was synced, when clients and servers are killed, and when the system is full."""

import errno
import hashlib
import os
import time
from pathlib import Path

from penstock.lab.conformance.check import (
    MIB,
    BrokenError,
    NotApplicableError,
    Place,
    bytes_of,
    opened,
    put,
    require,
    write_at,
)

_FILES = 16
_ANSWERS_WITHIN_S, _LOOKS_EVERY_S = 90.0, 0.2


def synced_then_client_killed(place: Place) -> str:
    if not place.has_daemons:
        raise NotApplicableError("clients have no daemons")
    _put_all(place.second, sync=True)
    place.faults.kill_client(2)
    return f"{_require_all(place.first)} after kill -9 of the client's daemon"


def synced_then_server_killed(place: Place) -> str:
    if not place.redundant:
        _require_daemons(place)
        raise NotApplicableError("one copy: service ends with a server")
    _put_all(place.first, sync=True)
    place.faults.kill_server(place.servers)
    begin = time.monotonic()
    try:
        found = _eventually_all(place.first)
        dip = time.monotonic() - begin
        put(place.first / "during", b"written without the server", sync=True)
    finally:
        place.faults.start_server(place.servers)
    place.faults.wait_until_healed()
    found = f"{found} and a new one while server {place.servers} was down (all read after {dip:.1f} s)"
    require(
        (place.second / "during").read_bytes() == b"written without the server",
        "what was written then is lost",
    )
    return found


def synced_then_all_killed(place: Place) -> str:
    """As a power cut of all servers, but for the caches of their disks."""
    _require_daemons(place)
    _put_all(place.first, sync=True)
    for server in range(1, place.servers + 1):
        place.faults.kill_server(server)
    for server in range(1, place.servers + 1):
        place.faults.start_server(server)
    place.faults.wait_until_healed()
    begin = time.monotonic()
    found = _eventually_all(place.second)
    return f"{found} {time.monotonic() - begin:.1f} s after all servers were killed and started again"


def full_system(place: Place) -> str:
    """Accepted data must be intact; further writes must fail with ENOSPC or EDQUOT."""
    if place.unfillable:
        raise NotApplicableError(f"not checked: {place.unfillable}; use --disks ram:2GiB, or smaller disks")
    block = bytes_of(5, 8 * MIB)
    digests: dict[str, str] = {}
    refused, took = "", 0.0
    for number in range(100_000):
        name, begin = f"fill-{number}", time.monotonic()
        try:
            put(place.first / name, block, sync=True)
        except OSError as error:
            refused, took = errno.errorcode.get(error.errno or 0, str(error)), time.monotonic() - begin
            break
        digests[name] = hashlib.blake2b(block).hexdigest()
    require(refused in ("ENOSPC", "EDQUOT"), f"a full system answers {refused or 'nothing'}, not ENOSPC")
    wrong = [
        name
        for name, digest in digests.items()
        if hashlib.blake2b((place.second / name).read_bytes()).hexdigest() != digest
    ]
    require(not wrong, f"{len(wrong)} of {len(digests)} files that were synced before are wrong")
    for each in place.first.glob("fill-*"):
        each.unlink()
    _eventually_writable(place.first)
    kept = f"{len(digests) * 8} MiB of before are right, and writing goes on after removal"
    return f"{refused}, {took:.1f} s after the write; {kept}"


def _require_daemons(place: Place) -> None:
    if not place.has_daemons:
        raise NotApplicableError("no servers: a local file system")


def _put_all(at: Path, sync: bool) -> None:
    for number in range(_FILES):
        put(at / f"synced-{number}", bytes_of(number, MIB), sync)


def _require_all(at: Path) -> str:
    wrong = [n for n in range(_FILES) if (at / f"synced-{n}").read_bytes() != bytes_of(n, MIB)]
    require(not wrong, f"{len(wrong)} of {_FILES} synced files are wrong")
    return f"{_FILES} synced files of 1 MiB are right"


def _eventually_all(at: Path) -> str:
    """Reads may fail for a while; wrong bytes may not be read at any time."""
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    while True:
        try:
            return _require_all(at)
        except OSError as error:
            if time.monotonic() > deadline:
                raise BrokenError(f"still not readable after {_ANSWERS_WITHIN_S:g} s: {error}") from error
        time.sleep(_LOOKS_EVERY_S)


def _eventually_writable(at: Path) -> None:
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    while True:
        try:
            with opened(at / "after", os.O_WRONLY | os.O_CREAT) as handle:
                write_at(handle, bytes(MIB), 0)
                os.fsync(handle)
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise BrokenError(
                    f"not writable {_ANSWERS_WITHIN_S:g} s after files were removed: {error}"
                ) from error
        time.sleep(_LOOKS_EVERY_S)
