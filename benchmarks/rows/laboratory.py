"""Storage systems of the laboratory: the load generator beside fio, and shares of a known sum.

Servers, clients and disks share the processors of one machine. fio's engines filecreate, filestat and
filedelete (fio(1)) open, look up and remove empty files, as mdtest does; mdtest itself is not in Debian 12.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import MIB, Context
from measure.machine import count_as_own, settle
from measure.process import BenchmarkError, run
from measure.results import Result, Sample, absolute, within
from peers import fio

from rows.load import run_plan

_SYSTEMS = {"moosefs": "MooseFS", "gluster": "GlusterFS", "ceph": "CephFS"}
_STREAM_BYTES, _TRANSFER = 512 * MIB, MIB
_MARGIN, _PATIENCE_S = 0.05, 600
_FILES = 2000
_DISK_BYTES_PER_S, _SHARE_AT_LEAST = 100_000_000, 0.97
_SHARE_AT_MOST = 2 - _SHARE_AT_LEAST
_ABOVE_THE_SUM = (
    "above the sum: the disks did not limit all data, so this does not show that the target is met"
)
_SHARE_BYTES_EACH, _SHARE_THREADS = 2048 * MIB, 6
# Data count when they are on the disks: MooseFS syncs them only so. GlusterFS spreads files in pieces.
_SHARE_OPTIONS = {"moosefs": ("goal=1", "fsync=1"), "gluster": ("kind=distribute", "shard=1")}


@contextmanager
def _laboratory(context: Context, system: str, *options: str) -> Iterator[Path]:
    """The first client's mount point of a new laboratory."""
    if os.geteuid() != 0:
        raise BenchmarkError("laboratories require root")
    penstock = str(context.checkout / ".venv" / "bin" / "penstock")
    name = f"bench-{secrets.token_hex(4)}"
    found = run([penstock, "lab", "up", system, "--name", name, "--json", *options])
    try:
        yield Path(json.loads(found.stdout)["mount"])
        nodes = json.loads(run([penstock, "lab", "status", name, "--json"]).stdout)["nodes"]
        count_as_own(sum(node["cpu_s"] or 0.0 for node in nodes))
    finally:
        run([penstock, "lab", "down", name])


def _remove(files: Iterable[Path]) -> None:
    """A client of MooseFS keeps the space of a removed file for minutes, but not that of a truncated one."""
    for path in files:
        os.truncate(path, 0)
        path.unlink()


def _wait_for_space(mount: Path) -> None:
    """MooseFS removes chunks in the background; a write on full disks stalls."""
    deadline = time.monotonic() + _PATIENCE_S
    while (state := os.statvfs(mount)).f_bavail < state.f_blocks // 2:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{mount}: the space of removed files is not free after {_PATIENCE_S} s")
        time.sleep(1)


def _penstock_stream(context: Context, mount: Path, direct: bool) -> Sample:
    _wait_for_space(mount)
    settle()
    backend = {"kind": "posix", "folder": str(mount), "direct": direct, "sync": "end"}
    workload = {
        "kind": "stream",
        "thread_bytes": context.bytes_of(_STREAM_BYTES),
        "transfer_bytes": _TRANSFER,
    }
    plan = {"backend": backend, "workload": workload, "drain_timeout_s": _PATIENCE_S}
    phases = run_plan(context, plan)["phases"]
    _remove(mount.glob("load-*.bin"))
    return {each["phase"]: each["bytes"] / each["threads"][0]["done_s"] for each in phases}


def _fio_stream(context: Context, mount: Path, direct: bool) -> Sample:
    _wait_for_space(mount)
    settle()
    return fio.write_then_read(mount, context.bytes_of(_STREAM_BYTES), block=_TRANSFER, direct=direct)


def streams_beside_fio(system: str, context: Context) -> list[Result]:
    """One file of one thread in calls of 1 MiB, to fsync, and read again without the page cache."""
    title, results = _SYSTEMS[system], []
    with _laboratory(context, system, "--disks", "ram:4GiB") as mount:
        for direct in (True, False):
            how = "direct" if direct else "buffered"
            subjects: dict[str, Subject] = {
                "penstock": partial(_penstock_stream, context, mount, direct),
                "fio": partial(_fio_stream, context, mount, direct),
            }
            samples = interleaved(f"{title}, {how}", subjects, context.repetitions)
            results += [
                within(
                    f"lab-fio/{system}/{how}/{phase}",
                    f"{phase} on {title}, default options, disks in memory, 1 MiB, {how}",
                    samples["penstock"],
                    f"fio psync, {how}",
                    samples["fio"],
                    margin=_MARGIN,
                    metric=phase,
                )
                for phase in ("write", "read")
            ]
    return results


def _penstock_names(context: Context, mount: Path) -> Sample:
    settle()
    items = context.bytes_of(_FILES)
    backend = {"kind": "posix", "folder": str(mount), "direct": False, "sync": "none"}
    workload = {"kind": "metadata", "items": items, "folders": False, "file_bytes": 0}
    phases = run_plan(context, {"backend": backend, "workload": workload})["metadata"]["phases"]
    rates = {each["operation"]: each["operations"] / each["last_done_s"] for each in phases}
    return {name: rates[f"file_{name}"] for name in ("create", "stat", "remove")}


def _fio_names(context: Context, mount: Path) -> Sample:
    settle()
    folder = mount / f"fio-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        return fio.names(folder, context.bytes_of(_FILES))
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def names_beside_fio(context: Context) -> list[Result]:
    """Empty files of one thread in one directory."""
    with _laboratory(context, "moosefs", "--disks", "ram:2GiB") as mount:
        subjects: dict[str, Subject] = {
            "penstock": partial(_penstock_names, context, mount),
            "fio": partial(_fio_names, context, mount),
        }
        samples = interleaved("MooseFS, names", subjects, context.repetitions)
    return [
        within(
            f"lab-names/moosefs/{operation}",
            f"{operation} of {_FILES} empty files in one directory of MooseFS, default options",
            samples["penstock"],
            f"fio {engine}",
            samples["fio"],
            margin=_MARGIN,
            metric=operation,
            scale=1.0,
            unit="1/s",
        )
        for operation, engine in fio.ENGINES_OF_NAMES.items()
    ]


def _share(context: Context, mount: Path, servers: int) -> float:
    """Of what the servers' disks may write together."""
    settle()
    backend = {"kind": "posix", "folder": str(mount), "direct": False, "sync": "end"}
    total = context.bytes_of(_SHARE_BYTES_EACH) * servers
    workload = {
        "kind": "stream",
        "threads": _SHARE_THREADS,
        "thread_bytes": total // _SHARE_THREADS // MIB * MIB,
        "transfer_bytes": MIB,
        "read": False,
    }
    plan = {"backend": backend, "workload": workload, "drain_timeout_s": _PATIENCE_S}
    (phase,) = run_plan(context, plan)["phases"]
    _remove(mount.glob("load-*.bin"))
    seconds = max(float(thread["done_s"]) for thread in phase["threads"])
    return float(phase["bytes"] / seconds / (servers * _DISK_BYTES_PER_S))


def shares_of_the_sum(context: Context) -> list[Result]:
    """Each server has a disk of 100 MB/s and a link of 1 Gbit/s; a new laboratory for each repetition."""
    limits = ("--disks", "loop:4GiB", "--disk-rate", "100MB/s", "--link", "1Gb/s")
    results = []
    for system, settings in _SHARE_OPTIONS.items():
        options = [word for each in settings for word in ("--option", each)]
        shares: dict[int, list[float]] = {1: [], 3: []}
        for _ in range(context.repetitions):
            for servers, found in shares.items():
                with _laboratory(context, system, "--servers", str(servers), *limits, *options) as mount:
                    found.append(_share(context, mount, servers))
        results += [
            absolute(
                f"lab-share/{system}/{servers}",
                f"write on {_SYSTEMS[system]}, servers: {servers}, each with a disk of 100 MB/s and a link of"
                f" 1 Gbit/s, {_SHARE_THREADS} files, to fsync, as a share of the disks' sum"
                f" ({', '.join(settings)})",
                found,
                unit="share",
                at_least=_SHARE_AT_LEAST,
                remarks=(_ABOVE_THE_SUM,) if statistics.median(found) > _SHARE_AT_MOST else (),
            )
            for servers, found in shares.items()
        ]
    return results
