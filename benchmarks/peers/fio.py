"""Peer: fio, sequential writes of 8 MiB to one file, to fsync.

fio lays the file out before its clock starts (fallocate, its default), so it pays for no allocation
of space unless told otherwise; the file is removed before each run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from measure.process import BenchmarkError, run

BLOCK_BYTES = 8 << 20


def write(
    path: Path,
    total_bytes: int,
    *,
    engine: str,
    depth: int,
    direct: bool,
    burst: int = 1,
    laid_out: bool = True,
    huge: bool = False,
) -> dict[str, float]:
    """`burst`: blocks that are handed over together, so that so many buffers are in turn.
    Without `laid_out` the file grows as it is written, within the clock. With `huge` its buffers lie in
    huge pages, as Penstock's do; see measure.huge_pages."""
    path.unlink(missing_ok=True)
    finished = run(
        [
            "fio",
            "--name=peer",
            "--thread",
            f"--filename={path}",
            "--rw=write",
            f"--bs={BLOCK_BYTES}",
            f"--size={total_bytes}",
            f"--direct={int(direct)}",
            f"--ioengine={engine}",
            f"--iodepth={depth}",
            f"--iodepth_batch_submit={burst}",
            f"--iodepth_batch_complete_min={burst}",
            f"--iodepth_batch_complete_max={depth}",
            "--end_fsync=1",
            *([] if laid_out else ["--fallocate=none"]),
            *(["--iomem=shmhuge"] if huge else []),
            "--output-format=json",
        ]
    )
    job = _job(finished.stdout)
    if job["error"] or job["write"]["io_bytes"] != total_bytes:
        raise BenchmarkError(
            f"fio wrote {job['write']['io_bytes']} of {total_bytes} bytes, error {job['error']}"
        )
    path.unlink()
    return {
        "bytes_per_s": total_bytes / (job["write"]["runtime"] / 1000),
        "seconds": job["write"]["runtime"] / 1000,
        "cpu_s_per_gb": finished.cpu_seconds / total_bytes * 1e9,
    }


def write_by_jobs(path: Path, total_bytes: int, *, jobs: int, direct: bool) -> dict[str, float]:
    """Each job writes its part of one file, one block after the other, to fsync."""
    path.unlink(missing_ok=True)
    part = total_bytes // jobs // BLOCK_BYTES * BLOCK_BYTES
    finished = run(
        [
            "fio",
            "--name=peer",
            f"--numjobs={jobs}",
            f"--filename={path}",
            "--rw=write",
            f"--bs={BLOCK_BYTES}",
            f"--filesize={part * jobs}",
            f"--size={part}",
            f"--offset_increment={part}",
            f"--direct={int(direct)}",
            "--ioengine=psync",
            "--end_fsync=1",
            "--group_reporting",
            "--output-format=json",
        ]
    )
    job = _job(finished.stdout)
    if job["error"] or job["write"]["io_bytes"] != part * jobs:
        raise BenchmarkError(
            f"fio wrote {job['write']['io_bytes']} of {part * jobs} bytes, error {job['error']}"
        )
    path.unlink()
    # `runtime` is that of the job that took longest.
    seconds = job["write"]["runtime"] / 1000
    return {"bytes_per_s": part * jobs / seconds, "seconds": seconds}


def write_files(
    folder: Path, total_bytes: int, *, jobs: int, direct: bool, huge: bool = False
) -> dict[str, float]:
    """Each job writes a file of its own that grows, one block after the other, to fsync."""
    part = total_bytes // jobs // BLOCK_BYTES * BLOCK_BYTES
    finished = run(
        [
            "fio",
            "--name=peer",
            f"--numjobs={jobs}",
            f"--directory={folder}",
            "--rw=write",
            f"--bs={BLOCK_BYTES}",
            f"--size={part}",
            f"--direct={int(direct)}",
            "--ioengine=psync",
            "--fallocate=none",
            *(["--iomem=shmhuge"] if huge else []),
            "--end_fsync=1",
            "--group_reporting",
            "--output-format=json",
        ]
    )
    for path in folder.glob("peer.*"):
        path.unlink()
    job = _job(finished.stdout)
    if job["error"] or job["write"]["io_bytes"] != part * jobs:
        raise BenchmarkError(
            f"fio wrote {job['write']['io_bytes']} of {part * jobs} bytes, error {job['error']}"
        )
    return {"bytes_per_s": part * jobs / (job["write"]["runtime"] / 1000)}


def write_then_read(folder: Path, total_bytes: int, *, block: int, direct: bool) -> dict[str, float]:
    """One job: a file that grows, to fsync; then reads it, which fio does without what the page cache has."""
    path = folder / "fio-peer"
    rates = {}
    for phase in ("write", "read"):
        finished = run(
            [
                "fio",
                "--name=peer",
                "--thread",
                f"--filename={path}",
                f"--rw={phase}",
                f"--bs={block}",
                f"--size={total_bytes}",
                f"--direct={int(direct)}",
                "--ioengine=psync",
                "--fallocate=none",
                "--end_fsync=1",
                "--output-format=json",
            ]
        )
        job = _job(finished.stdout)
        if job["error"] or job[phase]["io_bytes"] != total_bytes:
            raise BenchmarkError(f"fio: {phase} of {job[phase]['io_bytes']} bytes, error {job['error']}")
        rates[phase] = total_bytes / (job[phase]["runtime"] / 1000)
    os.truncate(path, 0)  # a client of MooseFS keeps the space of a removed file for minutes
    path.unlink()
    return rates


ENGINES_OF_NAMES = {"create": "filecreate", "stat": "filestat", "remove": "filedelete"}


def names(folder: Path, files: int) -> dict[str, float]:
    """Operations a second on empty files, by one thread: each is one call of the engine, and its close."""
    rates = {}
    for operation, engine in ENGINES_OF_NAMES.items():
        finished = run(
            [
                "fio",
                "--name=peer",
                "--thread",
                f"--ioengine={engine}",
                f"--directory={folder}",
                f"--nrfiles={files}",
                "--filesize=1",
                "--bs=1",
                "--openfiles=1",
                "--fallocate=none",
                *(["--create_on_open=1"] if operation == "create" else []),
                "--output-format=json",
            ]
        )
        job = _job(finished.stdout)
        if job["error"] or job["read"]["total_ios"] != files:
            raise BenchmarkError(
                f"fio: {operation} of {job['read']['total_ios']} files, error {job['error']}"
            )
        rates[operation] = files / (job["read"]["runtime"] / 1000)
    return rates


def _job(output: str) -> dict[str, Any]:
    """fio may put a warning before the document."""
    jobs: list[dict[str, Any]] = json.loads(output[output.index("{") :])["jobs"]
    return jobs[0]
