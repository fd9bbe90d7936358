"""Where chunks go in a file: a log, or slots with holes. Speed, sizes, and reading back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.machine import warm
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, absolute, beside_best

CHUNK_SIZES = (64 << 10, 1 << 20, 8 << 20)
DISK_BYTES = 1 * GIB
RING_BYTES = 512 << 20
BESIDE_BYTES = 256 << 20
# A slot has room for a frame that does not compress; real ones shrink about so much.
SLOT_FACTOR = 8
PLACEMENTS = ("log", "slots")
# Bytes that a file may take on the device, a byte of chunks: a slot has a page for its header.
ALLOCATED_AT_MOST = {"log": 1.05, "slots": 1.15}


def _write_and_read(context: Context, path: Path, placement: str, chunk: int, total: int) -> Sample:
    command = [context.program("bench_store"), "--path", str(path), "--chunk-bytes", str(chunk)]
    command += ["--total-bytes", str(total), "--ring-bytes", str(RING_BYTES), "--gate"]
    command += ["--placement", placement, "--slot-bytes", str(SLOT_FACTOR * chunk)]
    written, _ = run_json(command, at_gate=partial(warm, path.parent, total + BESIDE_BYTES))
    if written["bytes"] != total:
        raise BenchmarkError(f"{placement}: {written['bytes']} of {total} bytes were written")
    found = path.stat()
    read, _ = run_json([*context.peer("h5py_read.py"), "--path", str(path)])
    path.unlink()
    if read["bytes"] != total:
        raise BenchmarkError(f"{placement}: {read['bytes']} of {total} bytes were read")
    return {
        "bytes_per_s": total / written["seconds"],
        "seconds": written["seconds"],
        "read_bytes_per_s": total / read["seconds"],
        "size": found.st_size / total,
        "allocated": found.st_blocks * 512 / total,
    }


def _speed(samples: dict[str, list[Sample]], chunk: int, what: str, metric: str) -> Result:
    return beside_best(
        f"placements/{what}/{size_name(chunk)}",
        f"log, {size_name(chunk)} chunks, {what}",
        samples["log"],
        {name: found for name, found in samples.items() if name != "log"},
        at_least=0.95,
        metric=metric,
    )


def _size(samples: list[Sample], placement: str, chunk: int) -> Result:
    return absolute(
        f"placements/size/{placement}/{size_name(chunk)}",
        f"{placement}, {size_name(chunk)} chunks, allocated",
        [sample["allocated"] for sample in samples],
        unit="× the chunks",
        at_most=ALLOCATED_AT_MOST[placement],
        beside="size of the file",
        peer=[sample["size"] for sample in samples],
    )


def side_by_side(context: Context) -> list[Result]:
    total = context.bytes_of(DISK_BYTES)
    context.need(context.disk, 2 * total)
    path = context.disk / "placements.h5"
    results = []
    for chunk in CHUNK_SIZES:
        subjects: dict[str, Subject] = {
            placement: partial(_write_and_read, context, path, placement, chunk, total)
            for placement in PLACEMENTS
        }
        samples = interleaved(f"placements {size_name(chunk)}", subjects, context.repetitions)
        results.append(_speed(samples, chunk, "written", "bytes_per_s"))
        results.append(_speed(samples, chunk, "read back", "read_bytes_per_s"))
        results += [_size(samples[placement], placement, chunk) for placement in PLACEMENTS]
    return results
