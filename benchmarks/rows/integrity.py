"""What checksums and segment headers cost the store: beside the same store that is given its checksums."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.machine import warm
from measure.process import run_json
from measure.results import Result, Sample, beside_best

TOTAL_BYTES = 4 * GIB
RING_BYTES = 1 * GIB
CHUNK_SIZES = (4 << 10, 1 << 20)


def _store(context: Context, path: Path, chunk: int, *options: str) -> Sample:
    total = context.bytes_of(TOTAL_BYTES)
    command = [context.program("bench_store"), "--path", str(path), "--chunk-bytes", str(chunk), "--gate"]
    command += ["--total-bytes", str(total), "--ring-bytes", str(RING_BYTES), *options]
    document, _ = run_json(command, at_gate=partial(warm, path.parent, total // 4))
    path.unlink()
    return {
        "bytes_per_s": document["bytes_per_s"],
        "beside_chunks": document["written_bytes"] / document["bytes"] - 1,
    }


def cost(context: Context) -> list[Result]:
    """Headers stay on both sides; their share of the bytes is told with each figure."""
    results = []
    for place, folder in (("disk", context.disk), ("tmpfs", context.tmpfs)):
        context.need(folder, context.bytes_of(TOTAL_BYTES))
        path = folder / "integrity.h5"
        options = ["--direct"] if place == "disk" else ["--buffered"]
        for chunk in CHUNK_SIZES:
            subjects: dict[str, Subject] = {
                "with checksums": partial(_store, context, path, chunk, *options),
                "checksums for nothing": partial(_store, context, path, chunk, "--no-crc", *options),
            }
            samples = interleaved(f"integrity {place} {size_name(chunk)}", subjects, context.repetitions)
            share = samples["with checksums"][0]["beside_chunks"]
            results.append(
                beside_best(
                    f"integrity/{place}/{size_name(chunk)}",
                    f"store with checksums, {size_name(chunk)} chunks, {place}",
                    samples["with checksums"],
                    {"the same without": samples["checksums for nothing"]},
                    at_least=0.98,
                    remarks=(f"headers and padding are {share:.2%} of the bytes, on both sides",),
                )
            )
    return results
