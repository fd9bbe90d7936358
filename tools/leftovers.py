"""Removes what the tests of a killed run left behind, so that it neither fails nor slows the next run.

A run marks what its tests make. The runner makes two directories of its own name, one for temporary files and
one in memory, and locks both. Mounts of tests, and files behind their loop devices, are in them. Processes of
a run inherit RUN in their environment. Network namespaces and control groups are named after the process that
made them. A new run removes what belongs to processes that have ended. It leaves a locked directory alone, as
the process that locked it may be in another namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

RUN = "PENSTOCK_TEST_RUN"
IN_MEMORY = "PENSTOCK_TEST_MEMORY"  # /dev/shm in tests that are run by hand
ROUNDS = 20  # of killing: a process may just be starting another one
_SEGMENTS_OF_RANKS = "OMPI_MCA_btl_vader_backing_directory"  # which killed ranks leave behind
_DIRECTORY = re.compile(r"pst-(\d+)-(\d+)")
_NAMESPACE = re.compile(r"pen-(\d+)-[0-9a-f]{8}-[ab]|pen(\d+)h\d+")
MARK = ".penstock-test-run"  # a directory without it is somebody else's, whatever its name
_GROUP = re.compile(r"penstock-test-(\d+)")
MEMORY = Path("/dev/shm")
_TMP = Path(tempfile.gettempdir()).resolve()  # as the kernel lists mounts


def _begun(pid: int) -> str:
    """When a process began, in clock ticks since boot; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def run_directories() -> Iterator[dict[str, str]]:
    """The environment of a run's tests. What they leave is removed at the end."""
    name = f"pst-{os.getpid()}-{_begun(os.getpid())}"
    # Ranks of other users make their segments in memory.
    with _directory(MEMORY / name, 0o1777) as memory, _directory(_TMP / name, 0o755) as temporary:
        yield {
            "TMPDIR": str(temporary),
            RUN: name,
            IN_MEMORY: str(memory),
            _SEGMENTS_OF_RANKS: str(memory),
        }


@contextlib.contextmanager
def _directory(path: Path, mode: int) -> Iterator[Path]:
    """Makes a directory, holds its lock, and removes it with what is in it."""
    new = Path(tempfile.mkdtemp(dir=path.parent))
    new.chmod(mode)
    (new / MARK).touch()
    with _locked(new):
        new.rename(path)  # once it is locked: another run may look for left-overs now
        try:
            yield path
        finally:
            remove(path)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds the lock of a run; OSError if another process does, which may be one that is not visible here."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def remove_leftovers() -> None:
    remove_directories()
    for line in _lines("ip", "netns", "list"):
        found = _NAMESPACE.fullmatch(line.split()[0])
        if found and not _begun(int(found[1] or found[2])):
            _lines("ip", "netns", "delete", found[0])
    # os.walk passes over a directory that vanishes, which those of other runs do.
    groups = [Path(at, name) for at, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    for group in groups:
        found = _GROUP.fullmatch(group.name)
        if found and not _begun(int(found[1])):
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()


def remove_directories() -> None:
    """Those of runs that have ended, with their processes and mounts."""
    for directory in (*_TMP.glob("pst-*"), *MEMORY.glob("pst-*")):
        found = _DIRECTORY.fullmatch(directory.name)
        if found and _begun(int(found[1])) != found[2] and (directory / MARK).exists():
            with contextlib.suppress(OSError), _locked(directory):
                print(f"run_tests: removing what an earlier run left: {directory}", flush=True)
                remove(directory)


def remove(directory: Path) -> None:
    """Ends a run's processes, then unmounts, detaches and removes what is in its directory."""
    for _ in range(ROUNDS):
        for pid in (running := _processes(directory.name)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not running:
            break
        time.sleep(0.05)
    # Whose file is on one of the mounts has another path without it.
    loops = _lines("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE")
    for mount in reversed(_mounts(directory)):
        _lines("umount", "--lazy", str(mount))
    for line in loops:
        device, _, file = line.partition(" ")
        if Path(file.strip()).is_relative_to(directory):
            _lines("losetup", "--detach", device)
    if left := _mounts(directory):
        print(f"run_tests: {directory} stays, as {left[0]} cannot be unmounted", flush=True)
        return
    shutil.rmtree(directory, ignore_errors=True)


def _mounts(directory: Path) -> list[Path]:
    """Those below the directory, in the order in which they were made."""
    listed = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    named = [Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), each)) for each in listed]
    return [each for each in named if each.is_relative_to(directory)]


def _processes(run: str) -> list[int]:
    mark = f"{RUN}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _lines(*command: str) -> list[str]:
    """What a command printed; nothing if it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
