"""The codec alone: one thread beside the two packages in use, and two threads beside one."""

from __future__ import annotations

import statistics
from functools import partial

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.frames import FrameSet, make_frame_sets
from measure.process import run_json
from measure.results import Result, Sample, beside_best

REPEAT = 3  # of one process, whose median is one sample
BYTES_A_REPEAT = 800_000_000


def _sample(command: list[str], cores: list[int]) -> Sample:
    document, _ = run_json(command, cores=cores, env={"OMP_NUM_THREADS": "1"})
    return {"bytes_per_s": document["bytes_per_repetition"] / statistics.median(document["seconds"])}


def _passes(context: Context, frames: FrameSet) -> str:
    return str(max(1, round(context.bytes_of(BYTES_A_REPEAT) / frames.raw.stat().st_size)))


def _penstock(context: Context, frames: FrameSet, mode: str, threads: int, cores: list[int]) -> Sample:
    command = [context.program("bench_codec"), "--raw", str(frames.raw), "--mode", mode]
    command += ["--element-bytes", str(frames.element_bytes), "--frame-elements", str(frames.elements)]
    command += ["--threads", str(threads), "--repeat", str(REPEAT), "--passes", _passes(context, frames)]
    return _sample(command, cores)


def _peer(context: Context, frames: FrameSet, mode: str, package: str, cores: list[int]) -> Sample:
    command = [*context.peer("filters.py"), "--raw", str(frames.raw), "--mode", mode, "--with", package]
    command += ["--type", frames.type, "--frame-elements", str(frames.elements)]
    command += ["--repeat", str(REPEAT), "--passes", _passes(context, frames)]
    return _sample(command, cores)


def one_thread(context: Context) -> list[Result]:
    context.need(context.tmpfs, GIB)
    core = context.cores[-1:]
    results = []
    for frames in make_frame_sets(context.tmpfs, context.images):
        for mode in ("compress", "decompress"):
            subjects: dict[str, Subject] = {
                package: partial(_peer, context, frames, mode, package, core)
                for package in ("bitshuffle", "hdf5plugin")
            }
            subjects["penstock"] = partial(_penstock, context, frames, mode, 1, core)
            samples = interleaved(f"codec {mode} {frames.name}", subjects, context.repetitions)
            ours = samples.pop("penstock")
            results.append(
                beside_best(
                    f"codec/{mode}/{frames.name}",
                    f"bitshuffle-LZ4, one thread, {mode}, {frames.name}",
                    ours,
                    samples,
                    at_least=1.3,
                )
            )
        frames.raw.unlink()
    return results


def two_threads(context: Context) -> list[Result]:
    context.need(context.tmpfs, GIB)
    results = []
    for frames in make_frame_sets(context.tmpfs, context.images):
        subjects: dict[str, Subject] = {
            "one thread": partial(_penstock, context, frames, "compress", 1, context.cores),
            "two threads": partial(_penstock, context, frames, "compress", 2, context.cores),
        }
        samples = interleaved(f"threads {frames.name}", subjects, context.repetitions)
        results.append(
            beside_best(
                f"threads/{frames.name}",
                f"bitshuffle-LZ4, compression with 2 threads, {frames.name}",
                samples["two threads"],
                {"one thread": samples["one thread"]},
                at_least=1.9,
            )
        )
        frames.raw.unlink()
    return results
