"""The recorder's memory while a sender is faster than the recorder."""

from __future__ import annotations

from functools import partial

from measure.blocks import Subject, interleaved
from measure.context import GIB, MIB, Context
from measure.results import Result, absolute
from measure.wholepath import Recording, Series, penstock

POOLS = (256 * MIB, 1 * GIB)
OVERHEAD_MAX_MIB = 200.0
SERIES_BYTES = 3 * GIB
OVERLOADED = 0.7  # of the pool for frames in use at some time, else the storage kept up

# Compression by deflate, and one thread that syncs each segment before the next one, are slower than any
# sender over loopback, whatever the storage.
SLOW_CODEC = "deflate"
SLOW_STORE = {"write_threads": 1, "durability": "segment", "segment_bytes": 4 * MIB}
CASES = {"hold over TCP": ("tcp", "hold"), "drop over ZeroMQ": ("zmq", "drop")}


def bounded(context: Context) -> list[Result]:
    frame_bytes = 2527 * 2463 * 4
    frames = context.bytes_of(SERIES_BYTES) // frame_bytes
    series = Series("simulated 25 MB frames", 2527, 2463, "int32", frames)
    context.need(context.disk, 2 * series.raw_bytes)
    subjects: dict[str, Subject] = {}
    for pool in POOLS:
        for case, (protocol, when_full) in CASES.items():
            recording = Recording(
                protocol=protocol,
                codec=SLOW_CODEC,
                pool_bytes=pool,
                store=dict(SLOW_STORE),
                when_full=when_full,
            )
            subjects[f"{case}, pool {pool // MIB} MiB"] = partial(
                penstock, context, context.disk, series, recording
            )
    samples = interleaved("memory", subjects, context.repetitions, warm_ups=0)
    results = []
    for (name, found), pool in zip(samples.items(), [pool for pool in POOLS for _ in CASES], strict=True):
        least = min(sample["pool_used_share"] for sample in found)
        remarks = (
            ()
            if least >= OVERLOADED
            else (f"void: the pool was only {least:.0%} in use, so nothing was overloaded",)
        )
        results.append(
            absolute(
                f"memory/{name}",
                f"memory beyond the pool, {name}",
                [(sample["memory_peak_bytes"] - pool) / MIB for sample in found],
                unit="MiB",
                at_most=OVERHEAD_MAX_MIB,
                remarks=remarks,
            )
        )
    return results
