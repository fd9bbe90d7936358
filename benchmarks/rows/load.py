"""The load generator: what it costs by itself, whether it comes in time, and its bandwidth beside fio's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.huge_pages import may_reserve_huge_pages, reserved_huge_pages
from measure.limited_device import limited_device
from measure.machine import settle
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, absolute, beside_best, within
from peers import fio

from rows.ranks import ENVIRONMENT, MPIRUN

RANKS = 2
WRITTEN_BYTES = 4 * GIB
OPERATIONS = 8_000_000
NS_AT_MOST = 100.0
JITTER_US_AT_MOST = 100.0
PACED_SECONDS, PACED_HZ = 10, 1000
AT_LEAST = 0.97
QUEUE_DEPTH = 8
# The buffers of a job of fio, and what it has beside them.
_HUGE_PAGES_BYTES = 2 * QUEUE_DEPTH * fio.BLOCK_BYTES
# Far below what a disk can do, so that the limit decides; in bytes a second.
LIMIT_BYTES_PER_S = 400_000_000
LIMITED_BYTES = 2 * GIB
MARGIN = 0.03
STORE_TRANSFERS = (1 << 20, 8 << 20)
STORE_AT_LEAST = 0.95


def run_plan(
    context: Context, plan: dict[str, Any], launcher: Sequence[str] = (), **options: Any
) -> dict[str, Any]:
    """The document; a BenchmarkError where something went wrong."""
    path = context.tmpfs / "load-plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    answer, _ = run_json([*launcher, context.program("penstock-load"), "--plan", str(path)], **options)
    document: dict[str, Any] = answer["document"]
    if document["problem"]:
        raise BenchmarkError(f"penstock-load: {document['problem']}")
    return document


def _seconds(phase: dict[str, Any]) -> float:
    return max(float(thread["done_s"]) for thread in phase["threads"])


def _nothing_stored(context: Context, threads: int) -> float:
    """Nanoseconds of a write of one sector that goes nowhere, each thread's."""
    settle()
    bytes_each = context.bytes_of(OPERATIONS) * 512
    workload = {"kind": "stream", "threads": threads, "thread_bytes": bytes_each, "transfer_bytes": 512}
    document = run_plan(context, {"backend": {"kind": "null"}, "workload": {**workload, "read": False}})
    (phase,) = document["phases"]
    return _seconds(phase) / (phase["operations"] / threads) * 1e9


def _jitter_us(context: Context) -> float:
    """The 99th percentile of how late the generator comes to frames, from each frame's own times."""
    settle()
    frames = PACED_SECONDS * PACED_HZ // (8 if context.quick else 1)
    workload = {"kind": "frames", "frames": frames, "frame_bytes": 4096, "rate_hz": PACED_HZ}
    document = run_plan(
        context, {"backend": {"kind": "null"}, "workload": {**workload, "buffer_frames": 100}}
    )
    offered = document["records"]["offered_ns"]
    late = sorted(time - number * 1_000_000_000 // PACED_HZ for number, time in enumerate(offered))
    return float(late[len(late) * 99 // 100]) * 1e-3


def alone(context: Context) -> list[Result]:
    """What the generator costs, and how late it is, without any storage."""
    repetitions = range(context.repetitions)
    results = [
        absolute(
            f"load/operation/{threads}",
            f"a write of one sector that goes nowhere, with its time recorded; threads: {threads}",
            [_nothing_stored(context, threads) for _ in repetitions],
            unit="ns",
            at_most=NS_AT_MOST,
        )
        for threads in (1, 2)
    ]
    jitter = absolute(
        "load/jitter",
        f"how late the generator comes to a frame at {PACED_HZ} Hz, 99th percentile",
        [_jitter_us(context) for _ in repetitions],
        unit="µs",
        at_most=JITTER_US_AT_MOST,
    )
    return [*results, jitter]


def _streams(
    context: Context,
    folder: Path,
    total: int,
    ranks: int,
    direct: bool,
    depth: int = 1,
    kind: str = "posix",
    transfer: int = fio.BLOCK_BYTES,
) -> Sample:
    settle()
    backend = {"kind": kind, "folder": str(folder), "direct": direct, "sync": "end", "queue_depth": depth}
    sizes = {"thread_bytes": total // ranks, "transfer_bytes": transfer}
    plan = {"backend": backend, "workload": {"kind": "stream", **sizes, "read": False}}
    if ranks == 1:
        document = run_plan(context, plan)
    else:
        document = run_plan(context, plan, [*MPIRUN, "-n", str(ranks)], env=ENVIRONMENT)
    for path in folder.glob("load-*.bin"):
        path.unlink()
    return {"bytes_per_s": total / _seconds(document["phases"][0])}


def _fio(folder: Path, total: int, ranks: int, direct: bool, huge: bool) -> Sample:
    settle()
    with reserved_huge_pages(_HUGE_PAGES_BYTES * ranks if huge else 0):
        if ranks > 1:
            return fio.write_files(folder, total, jobs=ranks, direct=direct, huge=huge)
        return fio.write(
            folder / "fio", total, engine="psync", depth=1, direct=direct, laid_out=False, huge=huge
        )


def _both_ways(context: Context, name: str, what: str, ranks: int) -> list[Result]:
    """Past the page cache and through it; files that grow, in blocks of 8 MiB, to fsync."""
    total = context.bytes_of(WRITTEN_BYTES)
    context.need(context.disk, total)
    results = []
    for direct in (True, False):
        how = "direct" if direct else "buffered"
        subjects: dict[str, Subject] = {
            "penstock": partial(_streams, context, context.disk, total, ranks, direct),
        }
        jobs = "" if ranks == 1 else f", numjobs={ranks}"
        # A device takes what lies in huge pages in fewer pieces.
        for huge in (False, True) if direct and may_reserve_huge_pages() else (False,):
            peer = f"fio{jobs}, huge pages" if huge else f"fio{jobs}"
            subjects[peer] = partial(_fio, context.disk, total, ranks, direct, huge)
        samples = interleaved(f"{name} {how}", subjects, context.repetitions)
        results.append(
            beside_best(
                f"{name}/{how}",
                f"{what}, 8 MiB a write, {how}, to fsync",
                samples.pop("penstock"),
                samples,
                at_least=AT_LEAST,
            )
        )
    return results


def beside_fio(context: Context) -> list[Result]:
    return [*_both_ways(context, "load/write", "one file", 1), _queued(context)]


def _queued(context: Context) -> Result:
    """Several writes under way at once, through io_uring on both sides."""
    total = context.bytes_of(WRITTEN_BYTES)
    context.need(context.disk, total)

    def peer(huge: bool) -> Sample:
        settle()
        with reserved_huge_pages(_HUGE_PAGES_BYTES if huge else 0):
            return fio.write(
                context.disk / "fio",
                total,
                engine="io_uring",
                depth=QUEUE_DEPTH,
                direct=True,
                laid_out=False,
                huge=huge,
            )

    subjects: dict[str, Subject] = {
        "penstock": partial(_streams, context, context.disk, total, 1, True, QUEUE_DEPTH)
    }
    name = f"fio io_uring, depth {QUEUE_DEPTH}"
    for huge in (False, True) if may_reserve_huge_pages() else (False,):
        subjects[f"{name}, huge pages" if huge else name] = partial(peer, huge)
    samples = interleaved(f"load/write queue depth {QUEUE_DEPTH}", subjects, context.repetitions)
    return beside_best(
        "load/write/queued",
        f"one file, 8 MiB a write, {QUEUE_DEPTH} under way at once, direct, to fsync",
        samples.pop("penstock"),
        samples,
        at_least=AT_LEAST,
    )


def store_beside_posix(context: Context) -> list[Result]:
    """The same bytes as chunks of a store, with its index, and as a plain file; direct, to fsync."""
    total = context.bytes_of(WRITTEN_BYTES)
    context.need(context.disk, total)
    results = []
    for transfer in STORE_TRANSFERS:
        streams = partial(_streams, context, context.disk, total, 1, True, transfer=transfer)
        depths = {f"posix, depth {depth}": partial(streams, depth=depth) for depth in (1, QUEUE_DEPTH)}
        subjects: dict[str, Subject] = {
            "penstock": partial(streams, kind="store", depth=QUEUE_DEPTH), **depths
        }  # fmt: skip
        samples = interleaved(f"load-store {size_name(transfer)}", subjects, context.repetitions)
        results.append(
            beside_best(
                f"load/store/{size_name(transfer)}",
                f"one file of a store, uncompressed chunks of {size_name(transfer)}, direct, to fsync",
                samples["penstock"],
                {peer: samples[peer] for peer in depths},
                at_least=STORE_AT_LEAST,
            )
        )
    return results


def ranks_beside_fio(context: Context) -> list[Result]:
    return _both_ways(context, "load/ranks", f"{RANKS} processes, a file each", RANKS)


def beside_fio_at_a_known_rate(context: Context) -> list[Result]:
    """On a device with a limit, where what is true is known: both have to find it, and so each other."""
    total = context.bytes_of(LIMITED_BYTES)
    room = 2 * total + GIB
    context.need(context.disk, room)
    results = []
    with limited_device(context.disk, room, LIMIT_BYTES_PER_S) as folder:
        for ranks in (1, RANKS):
            for direct in (True, False):
                results.append(_limited(context, folder, total, ranks, direct))
    return results


def _limited(context: Context, folder: Path, total: int, ranks: int, direct: bool) -> Result:
    how = "direct" if direct else "buffered"
    peer = "fio" if ranks == 1 else f"fio, numjobs={ranks}"
    name = f"load/limited/{ranks}/{how}"
    subjects: dict[str, Subject] = {
        "penstock": partial(_streams, context, folder, total, ranks, direct),
        peer: partial(_fio, folder, total, ranks, direct, huge=False),
    }
    samples = interleaved(name, subjects, context.repetitions)
    processes = "one process" if ranks == 1 else f"{ranks} processes, a file each"
    return within(
        name,
        f"on a device of {LIMIT_BYTES_PER_S / 1e9:g} GB/s, {processes}, 8 MiB a write, {how}, to fsync",
        samples["penstock"],
        peer,
        samples[peer],
        margin=MARGIN,
    )
