"""Removes what the tests of a killed run left behind, so that it neither fails nor slows the next run.

A run marks what its tests make. Their temporary files, and so their mounts and the files behind their loop
devices, are in a directory named after the runner. Its processes inherit RUN in their environment. Network
namespaces and control groups are named after the process that made them. When a run begins, it removes what
belongs to processes that have ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

RUN = "PENSTOCK_TEST_RUN"
_DIRECTORY = re.compile(r"pst-(\d+)-(\d+)")
_NAMESPACE = re.compile(r"pen-(\d+)-")
_GROUP = re.compile(r"penstock-test-(\d+)")
_TMP = Path(tempfile.gettempdir())


def _begun(pid: int) -> str:
    """When a process began, in clock ticks since boot; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def run_directory() -> Iterator[dict[str, str]]:
    """The environment of a run's tests. What they leave is removed at the end."""
    name = f"pst-{os.getpid()}-{_begun(os.getpid())}"
    directory = _TMP / name
    directory.mkdir()
    try:
        yield {"TMPDIR": str(directory), RUN: name}
    finally:
        remove(directory)


def remove_leftovers() -> None:
    for directory in _TMP.glob("pst-*"):
        found = _DIRECTORY.fullmatch(directory.name)
        if found and _begun(int(found[1])) != found[2]:
            print(f"run_tests: removing what an earlier run left: {directory}", flush=True)
            remove(directory)
    for name in _lines("ip", "netns", "list"):
        found = _NAMESPACE.match(name)
        if found and not _begun(int(found[1])):
            _lines("ip", "netns", "delete", name.split()[0])
    for group in _control_groups():
        found = _GROUP.fullmatch(group.name)
        if found and not _begun(int(found[1])):
            with contextlib.suppress(OSError):
                group.rmdir()


def remove(directory: Path) -> None:
    """Ends a run's processes, then unmounts, detaches and removes what is in its directory."""
    for pid in _processes(directory.name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([each for each in mounts if Path(each).is_relative_to(directory)]):
        _lines("umount", "--lazy", mount)
    for line in _lines("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"):
        device, _, file = line.partition(" ")
        if Path(file.strip()).is_relative_to(directory):
            _lines("losetup", "--detach", device)
    shutil.rmtree(directory, ignore_errors=True)


def _processes(run: str) -> list[int]:
    mark = f"{RUN}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _control_groups() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return sorted((each for each in root.rglob("penstock-test-*") if each.is_dir()), reverse=True)


def _lines(*command: str) -> list[str]:
    """What a command printed; nothing if it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
