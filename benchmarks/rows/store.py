"""The store alone: beside fio, the storage's own speed, and beside h5py's direct chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.machine import settle, warm
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, absolute, beside_best
from peers import fio

CHUNK_SIZES = (4 << 10, 64 << 10, 1 << 20, 8 << 20)
DISK_BYTES = 2 * GIB
TMPFS_BYTES = 2 * GIB
# Both sides take their data from so much memory in turn, more than any cache holds for two cores.
RING_BYTES = 1 * GIB
BESIDE_BYTES = 256 << 20  # what the store and HDF5 take besides
RING_BLOCKS = RING_BYTES // fio.BLOCK_BYTES
INDEX_CHUNKS = 2_000_000
INDEX_CHUNK_BYTES = 4096
INDEX_CHUNKS_A_SEGMENT = (2048, 8)


def _figures(document: dict[str, float], total: int, cpu_seconds: float) -> Sample:
    if document["bytes"] != total:
        raise BenchmarkError(f"{document['bytes']} of {total} bytes were written")
    return {
        "bytes_per_s": total / document["seconds"],
        "seconds": document["seconds"],
        "cpu_s_per_gb": document.get("cpu_seconds", cpu_seconds) / total * 1e9,
    }


def penstock(context: Context, path: Path, chunk: int, total: int, *options: str) -> Sample:
    command = [context.program("bench_store"), "--path", str(path), "--chunk-bytes", str(chunk)]
    command += ["--total-bytes", str(total), "--ring-bytes", str(RING_BYTES), "--gate", *options]
    document, finished = run_json(command, at_gate=partial(warm, path.parent, total + BESIDE_BYTES))
    path.unlink()
    return _figures(document, total, finished.cpu_seconds)


def _h5py(context: Context, path: Path, chunk: int, total: int) -> Sample:
    command = [*context.peer("h5py_store.py"), "--path", str(path), "--chunk-bytes", str(chunk)]
    command += ["--total-bytes", str(total), "--ring-bytes", str(RING_BYTES)]
    document, finished = run_json(command, at_gate=partial(warm, path.parent, total + BESIDE_BYTES))
    path.unlink()
    return _figures(document, total, finished.cpu_seconds)


def _fio(
    path: Path, total: int, engine: str, depth: int, direct: bool, burst: int = 1, laid_out: bool = True
) -> Sample:
    warm(path.parent, total + (RING_BYTES if burst > 1 else 0))
    return fio.write(path, total, engine=engine, depth=depth, direct=direct, burst=burst, laid_out=laid_out)


def _beside_h5py(place: str, chunk: int, samples: dict[str, list[Sample]], at_least: float) -> Result:
    mode = "penstock direct" if place == "disk" else "penstock"
    return beside_best(
        f"store-h5py/{place}/{size_name(chunk)}",
        f"store, {size_name(chunk)} chunks, {place}",
        samples[mode],
        {"h5py direct chunks": samples["h5py direct chunks"]},
        at_least=at_least if chunk == CHUNK_SIZES[0] else 1.0,
    )


def on_disk(context: Context) -> list[Result]:
    total = context.bytes_of(DISK_BYTES)
    context.need(context.disk, 2 * total)
    path = context.disk / "store.h5"
    results = []
    for chunk in CHUNK_SIZES:
        subjects: dict[str, Subject] = {}
        for mode, direct in (("direct", True), ("buffered", False)):
            subjects[f"fio {mode}, depth 1"] = partial(_fio, path, total, "psync", 1, direct)
            subjects[f"penstock {mode}"] = partial(penstock, context, path, chunk, total, f"--{mode}")
            subjects[f"fio {mode}, depth 4"] = partial(_fio, path, total, "io_uring", 4, direct)
        subjects["h5py direct chunks"] = partial(_h5py, context, path, chunk, total)
        samples = interleaved(f"store-disk {size_name(chunk)}", subjects, context.repetitions)
        for mode in ("direct", "buffered"):
            results.append(
                beside_best(
                    f"store-disk/{mode}/{size_name(chunk)}",
                    f"store, {size_name(chunk)} chunks, disk, {mode}",
                    samples[f"penstock {mode}"],
                    {peer: found for peer, found in samples.items() if peer.startswith(f"fio {mode}")},
                    at_least=0.95,
                )
            )
        results.append(_beside_h5py("disk", chunk, samples, 2.5))
    return results


def on_tmpfs(context: Context) -> list[Result]:
    total = context.bytes_of(TMPFS_BYTES)
    context.need(context.tmpfs, total + 2 * RING_BYTES)
    path = context.tmpfs / "store.h5"
    results = []
    for chunk in CHUNK_SIZES:
        subjects: dict[str, Subject] = {}
        for engine in ("libaio", "io_uring"):
            for laid_out, when in ((True, "laid out before"), (False, "not laid out")):
                subjects[f"fio {engine}, {RING_BLOCKS} buffers in turn, {when}"] = partial(
                    _fio, path, total, engine, RING_BLOCKS, False, RING_BLOCKS, laid_out
                )
        subjects["penstock"] = partial(penstock, context, path, chunk, total, "--buffered")
        subjects["h5py direct chunks"] = partial(_h5py, context, path, chunk, total)
        samples = interleaved(f"store-tmpfs {size_name(chunk)}", subjects, context.repetitions)
        results.append(
            beside_best(
                f"store-tmpfs/{size_name(chunk)}",
                f"store, {size_name(chunk)} chunks, tmpfs",
                samples["penstock"],
                {peer: found for peer, found in samples.items() if peer.endswith("laid out before")},
                at_least=0.8,
            )
        )
        results.append(
            beside_best(
                f"store-tmpfs-allocating/{size_name(chunk)}",
                f"store, {size_name(chunk)} chunks, tmpfs, both sides take their pages within the clock",
                samples["penstock"],
                {peer: found for peer, found in samples.items() if peer.endswith("not laid out")},
                at_least=0.8,
            )
        )
        results.append(_beside_h5py("tmpfs", chunk, samples, 4.0))
    return results


def _index(context: Context, chunks_a_segment: int) -> Sample:
    settle()
    path = context.disk / "index.h5"
    command = [context.program("bench_store"), "--index-only", "--path", str(path)]
    command += ["--chunk-bytes", str(INDEX_CHUNK_BYTES)]
    command += ["--segment-bytes", str(INDEX_CHUNK_BYTES * chunks_a_segment)]
    document, _ = run_json([*command, "--index-chunks", str(context.bytes_of(INDEX_CHUNKS))])
    path.unlink()
    return {"chunks_per_s": document["chunks_per_s"]}


def index(context: Context) -> list[Result]:
    """The index does not see how large chunks are, but how many come together."""
    context.need(context.disk, 2 * INDEX_CHUNKS * INDEX_CHUNK_BYTES)  # reserved, though not written
    subjects: dict[str, Subject] = {
        f"{count} chunks a segment": partial(_index, context, count) for count in INDEX_CHUNKS_A_SEGMENT
    }
    samples = interleaved("index", subjects, context.repetitions)
    return [
        absolute(
            f"index/{case}",
            f"index, {case}",
            [sample["chunks_per_s"] for sample in found],
            unit="chunks/s",
            at_least=500_000,
        )
        for case, found in samples.items()
    ]
