"""Completing a file whose recorder died: beside reading its segments' headers and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import Context, size_name
from measure.machine import settle
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, absolute

CHUNKS = 1_000_000
CHUNK_BYTES = 4096
TIMES_MAX = 2.0


@dataclass(frozen=True)
class Death:
    """How the writer worked before it died, and so what the index on storage had."""

    chunks_per_s: int  # 0: as fast as the storage takes them
    flush_ms: int = 1000  # as a recorder does


AT_MAXIMUM_RATE = "written at maximum rate"
DEATHS = {
    "a detector of 20 kHz": Death(20_000),
    AT_MAXIMUM_RATE: Death(0),
    "nothing in the index": Death(0, flush_ms=3_600_000),
}


def abandon(context: Context, path: Path, death: Death) -> None:
    """The file of a writer that was killed when every segment was on storage."""
    command = [context.program("bench_store"), "--path", str(path), "--chunk-bytes", str(CHUNK_BYTES)]
    command += ["--total-bytes", str(context.bytes_of(CHUNKS) * CHUNK_BYTES)]
    command += ["--abandon", "--flush-ms", str(death.flush_ms)]
    command += ["--chunks-per-s", str(death.chunks_per_s)]
    died = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if died.returncode != -9:
        raise BenchmarkError(f"bench_store ended with {died.returncode}: {died.stderr[-400:]}")


def _forget(path: Path) -> None:
    """Takes the file out of the page cache, so that both sides read it from the storage."""
    settle()
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _headers(context: Context, path: Path) -> Sample:
    _forget(path)
    document, _ = run_json([context.program("read_headers"), str(path)])
    if document["records"] != context.bytes_of(CHUNKS):
        raise BenchmarkError(
            f"{document['records']} of {context.bytes_of(CHUNKS)} chunks are in the segments"
        )
    return {"seconds": document["seconds"]}


def recover(context: Context, path: Path) -> Sample:
    copy = path.with_name("copy.h5")
    shutil.copyfile(path, copy)
    plan = path.with_name("plan.json")
    plan.write_text(json.dumps({"file": str(copy), "log_level": "error"}), encoding="utf-8")
    _forget(copy)
    document, finished = run_json([context.program("penstock-recover"), "--plan", str(plan)])
    if document["indexed"] + document["recovered"] != context.bytes_of(CHUNKS):
        raise BenchmarkError(f"of {context.bytes_of(CHUNKS)} chunks recover found {document}")
    copy.unlink()
    return {"seconds": finished.seconds, "lacked": document["recovered"]}


def million(context: Context) -> list[Result]:
    """A million chunks, on disk, nothing of the file in the page cache."""
    context.need(context.disk, 2 * context.bytes_of(CHUNKS) * CHUNK_BYTES)
    results = []
    for case, death in DEATHS.items():
        path = context.disk / "abandoned.h5"
        abandon(context, path, death)
        subjects: dict[str, Subject] = {
            "headers": partial(_headers, context, path),
            "recover": partial(recover, context, path),
        }
        samples = interleaved(f"recovery {case}", subjects, context.repetitions)
        path.unlink()
        headers = [sample["seconds"] for sample in samples["headers"]]
        ours = [sample["seconds"] for sample in samples["recover"]]
        lacked = samples["recover"][0]["lacked"]
        seconds = sorted(ours)[len(ours) // 2]
        results.append(
            absolute(
                f"recovery/{case}",
                f"recovery of {context.bytes_of(CHUNKS):,} chunks of {size_name(CHUNK_BYTES)}, {case}",
                [mine / theirs for mine, theirs in zip(ours, headers, strict=True)],
                unit="times the time of reading the segments' headers",
                at_most=TIMES_MAX,
                remarks=(
                    f"the index lacked {lacked:,.0f}",
                    f"recovery took {seconds:.2f} s, the headers {sorted(headers)[len(headers) // 2]:.2f} s",
                ),
            )
        )
    return results
