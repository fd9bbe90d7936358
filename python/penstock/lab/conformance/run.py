"""Runs the checks on a laboratory, each in a process of its own, because a file system may hang."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.lab.conformance import faults, files
from penstock.lab.conformance.check import (
    BrokenError,
    Check,
    Finding,
    NotApplicableError,
    Place,
    RefusedError,
)
from penstock.lab.conformance.model import random_operations
from penstock.lab.control import ask, state_of
from penstock.lab.disks import growth_problem
from penstock.lab.ground import GROUND
from penstock.lab.place import place_of
from penstock.lab.request import LabState
from penstock.lab.storage import mount_of
from penstock.model.errors import PenstockError, UsageError

_ENDS_WITHIN_S, _KILLED_WITHIN_S = 400.0, 10.0
_HEALS_WITHIN_S = 120.0

# Those that kill a client are the last: it does not come back.
CHECKS: dict[str, Check] = {
    "closed files are seen by other clients": files.seen_after_close,
    "synced data are seen by other clients": files.seen_after_sync,
    "exclusive creation": files.exclusive_creation,
    "rename over an existing file": files.rename_over_existing,
    "several writers of one file": files.disjoint_writers,
    "several clients append to one file": files.appending_writers,
    "random operations of two clients": random_operations,
    "holes": files.sparse_files,
    "truncation": files.truncation,
    "open files without a name": files.unlinked_but_open,
    "names": files.names,
    "10 000 files": files.many_files,
    "1 GiB": files.big_file,
    "record locks": files.locks,
    "direct I/O": files.direct_writes,
    "shared mappings": files.shared_memory,
    "extended attributes": files.extended_attributes,
    "links and modes": files.links_and_modes,
    "synced data survive a killed server": faults.synced_then_server_killed,
    "synced data survive the loss of all servers": faults.synced_then_all_killed,
    "a full system": faults.full_system,
    "synced data survive a killed client": faults.synced_then_client_killed,
}


@dataclass(frozen=True)
class _Laboratory:
    """Its faults, from the process of a check."""

    name: str

    def kill_client(self, number: int) -> None:
        GROUND.processes(place_of(self.name), f"client-{number}").kill()

    def kill_server(self, number: int) -> None:
        ask(place_of(self.name), "fail", number=number)

    def start_server(self, number: int) -> None:
        ask(place_of(self.name), "heal", number=number)

    def wait_until_healed(self) -> None:
        deadline = time.monotonic() + _HEALS_WITHIN_S
        while not ask(place_of(self.name), "has_healed")["has_healed"]:
            if time.monotonic() > deadline:
                raise BrokenError(f"not healed {_HEALS_WITHIN_S:g} s after all servers came back")
            time.sleep(0.2)


def conform(name: str, only: Sequence[str], tell: Callable[[str], None]) -> Iterator[Finding]:
    """Findings as they come. Raises UsageError for a laboratory that has no two clients with mount points."""
    state = state_of(place_of(name))
    mounts = [node.mount for node in state.nodes if node.name.startswith("client") and node.mount]
    if len(mounts) < 2:
        raise UsageError(
            f"laboratory {name} has {len(mounts)} mount points, and checks use two",
            "bring it up with --clients 2; systems without a mount point have no conformance suite",
        )
    mount_of(state)
    for unknown in set(only) - set(CHECKS):
        raise UsageError(f"check {unknown!r} does not exist", f"checks: {'; '.join(CHECKS)}")
    obstacle, failed_before = "", _failed(state)
    for promise in CHECKS:
        if only and promise not in only:
            continue
        if obstacle:
            yield Finding(promise=promise, outcome="not applicable", detail=f"not checked: {obstacle}")
            continue
        tell(promise)
        below = f"conformance-{uuid.uuid4().hex[:8]}"
        try:
            found, obstacle = _in_a_process(name, promise, below)
            yield found
        finally:
            obstacle = obstacle or _left_by(name, promise, Path(mounts[0], below), failed_before)


def _failed(state: LabState) -> set[int]:
    servers = [node for node in state.nodes if node.name.startswith("server")]
    return {number for number, node in enumerate(servers, 1) if node.state in ("failed", "stalled")}


def _left_by(name: str, promise: str, folder: Path, failed_before: set[int]) -> str:
    """Heals and removes what a check left. Returns why no further check is possible; empty: one is."""
    try:
        if failed := _failed(state_of(place_of(name))) - failed_before:
            for number in failed:
                ask(place_of(name), "heal", number=number)
            _Laboratory(name).wait_until_healed()
    except (PenstockError, BrokenError) as error:
        return f'after "{promise}": {error}'
    remover = subprocess.Popen(["rm", "-rf", folder])
    is_removed = _ends(remover, _ENDS_WITHIN_S) and remover.returncode == 0
    return "" if is_removed else f'the files of "{promise}" could not be removed'


def _ends(process: "subprocess.Popen[Any]", within_s: float) -> bool:
    """Kills it otherwise. It may hang in the kernel until the laboratory is taken down."""
    try:
        process.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    return True


def _in_a_process(name: str, promise: str, below: str) -> tuple[Finding, str]:
    """Returns why no further check is possible, too. `below`: the new folder of the check."""
    begin, obstacle = time.monotonic(), ""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.lab.conformance.run", name, promise, below],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=_ENDS_WITHIN_S)
    except KeyboardInterrupt:
        process.kill()
        raise
    except subprocess.TimeoutExpired:
        process.kill()
        if not _ends(process, _KILLED_WITHIN_S):
            obstacle = f'the process of "{promise}" does not end, and may hold files and space'
        found = Finding(promise=promise, outcome="no answer", detail=f"no answer within {_ENDS_WITHIN_S:g} s")
    else:
        last = output.strip().splitlines()[-1:] or [""]
        try:
            found = Finding.model_validate_json(last[0])
        except ValueError:
            found = Finding(
                promise=promise, outcome="broken", detail=f"the check failed: exit code {process.returncode}"
            )
    return found.model_copy(update={"seconds": round(time.monotonic() - begin, 2)}), obstacle


def _unfillable(name: str, servers: Sequence[str]) -> str:
    """Returns why the disks cannot be filled; empty: they can."""
    laboratory = place_of(name)
    disks = [laboratory.folder / server / "disk" for server in servers]
    if any(disk.is_symlink() for disk in disks):
        return "the servers store in directories of this machine"
    images = [image for _, folder in laboratory.links() for image in folder.glob("*.img")]
    memory = [at for disk in disks if (at := _memory(disk)).exists()]
    return growth_problem(images, [] if images else memory)


def _memory(disk: Path) -> Path:
    """Where a disk in memory is: an image, or the file system itself."""
    images = disk.with_name("memory")
    return images if images.exists() else disk


def _find(state: LabState, promise: str, below: str) -> Finding:
    mounts = [Path(node.mount) for node in state.nodes if node.name.startswith("client")]
    servers = [node for node in state.nodes if node.name.startswith("server")]
    place = Place(
        mounts[0] / below,
        mounts[1] / below,
        len(servers),
        state.failures_max > 0,
        any(node.processes for node in servers),
        _unfillable(state.name, [node.name for node in servers]),
        _Laboratory(state.name),
    )
    place.first.mkdir()
    try:
        return Finding(promise=promise, outcome="kept", detail=CHECKS[promise](place))
    except RefusedError as error:
        return Finding(promise=promise, outcome="refused", detail=str(error))
    except NotApplicableError as error:
        return Finding(promise=promise, outcome="not applicable", detail=str(error))
    except (BrokenError, PenstockError) as error:
        return Finding(promise=promise, outcome="broken", detail=str(error))
    except OSError as error:
        text = f"{os.strerror(error.errno)}" if error.errno else str(error)
        return Finding(promise=promise, outcome="broken", detail=f"an operation failed: {text}")


def main() -> int:
    name, promise, below = sys.argv[1:]
    found = _find(state_of(place_of(name)), promise, below)
    print(json.dumps(found.model_dump()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
