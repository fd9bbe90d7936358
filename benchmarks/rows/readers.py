"""Readers beside the writer: what it loses to programs that follow its file while it grows."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.frames import FrameSet, make_frame_sets
from measure.machine import settle
from measure.process import BenchmarkError, pinned, run_json
from measure.results import Result, Sample, beside_best

READERS = (1, 4)
RAW_BYTES = 6 * GIB  # seconds of one core that compresses
AT_LEAST = 0.9


@contextlib.contextmanager
def _following(context: Context, path: Path, readers: int, core: int) -> Iterator[list[int]]:
    """So many readers of the growing file on one core; afterwards the list has the frames that each read."""
    command = [*context.peer("swmr_reader.py"), "--path", str(path)]
    children = [
        subprocess.Popen(pinned(command, [core]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(readers)
    ]
    read: list[int] = []
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()  # it is ready
        yield read
        read += [int(child.communicate("\n", timeout=60)[0].strip() or 0) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def _writer(context: Context, frames: FrameSet, readers: int) -> Sample:
    settle()
    writer_core, readers_core = context.cores[:2]
    path = context.disk / "readers.h5"
    count = context.bytes_of(RAW_BYTES) // (frames.elements * frames.element_bytes)
    command = [context.program("bench_ranks"), "--path", str(path), "--gate", "--raw", str(frames.raw)]
    command += ["--element-bytes", str(frames.element_bytes), "--frame-elements", str(frames.elements)]
    command += ["--frames", str(count), "--encoding", "bslz4"]
    with _following(context, path, readers, readers_core) as read:
        document, _ = run_json(command, cores=[writer_core], at_gate=settle)
    path.unlink()
    if readers > 0 and min(read) == 0:
        raise BenchmarkError(f"{readers} readers saw {read} frames of the growing file")
    return {"bytes_per_s": document["raw_bytes"] / document["seconds"], "frames_read": float(sum(read))}


def beside_writer(context: Context) -> list[Result]:
    """A writer that compresses on one core, and SWMR readers on the other one."""
    context.need(context.disk, context.bytes_of(RAW_BYTES))
    if len(context.cores) < 2:
        raise BenchmarkError("a writer and its readers need a core each; there is one")
    results = []
    for frames in make_frame_sets(context.tmpfs, context.images):
        if frames.name == "simulated 16 bit":
            subjects: dict[str, Subject] = {
                f"{readers} readers": partial(_writer, context, frames, readers) for readers in (0, *READERS)
            }
            samples = interleaved(f"readers {frames.name}", subjects, context.repetitions)
            for readers in READERS:
                found = samples[f"{readers} readers"]
                read = sorted(sample["frames_read"] for sample in found)[len(found) // 2]
                results.append(
                    beside_best(
                        f"readers/{readers}",
                        f"writer on one core, {readers} SWMR readers on the other, {frames.name}",
                        found,
                        {"no reader": samples["0 readers"]},
                        at_least=AT_LEAST,
                        remarks=(f"the readers read {read:.0f} frames meanwhile",),
                    )
                )
        frames.raw.unlink()
    return results
