"""What the load generator adds to the system calls of a metadata workload, in memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import Context
from measure.machine import settle
from measure.process import run_json
from measure.results import Result, Sample, beside_best

from rows.load import run_plan

ITEMS, DEPTH, BRANCH, BYTES = 20_000, 1, 4, 1000
FOLDERS = 1 + BRANCH
AT_LEAST = 0.97
WORDS = {
    "folder_create": "mkdir",
    "folder_stat": "stat of folders",
    "folder_remove": "rmdir",
    "file_create": f"open, write {BYTES} bytes, close",
    "file_stat": "stat of files",
    "file_read": f"open, read {BYTES} bytes, close",
    "file_remove": "unlink",
}


def _penstock(context: Context, folder: Path, items: int) -> Sample:
    settle()
    workload = {"kind": "metadata", "items": items, "depth": DEPTH, "branch": BRANCH, "file_bytes": BYTES}
    backend = {"kind": "posix", "folder": str(folder), "direct": False, "sync": "none"}
    document = run_plan(context, {"backend": backend, "workload": workload})
    phases = document["metadata"]["phases"]
    return {phase["operation"]: phase["operations"] / phase["last_done_s"] for phase in phases}


def _bare(context: Context, folder: Path, items: int) -> Sample:
    settle()
    numbers = [str(number) for number in (items, DEPTH, BRANCH, BYTES)]
    seconds, _ = run_json([context.program("bare_metadata"), str(folder), *numbers])
    return {operation: items * FOLDERS / seconds[operation] for operation in WORDS}


def beside_bare_calls(context: Context) -> list[Result]:
    """One thread; the peer looks at the clock twice a phase, the generator after each operation."""
    items = ITEMS // 8 if context.quick else ITEMS
    subjects: dict[str, Subject] = {
        "penstock": partial(_penstock, context, context.tmpfs, items),
        "bare loop": partial(_bare, context, context.tmpfs, items),
    }
    samples = interleaved("metadata", subjects, context.repetitions)
    return [
        beside_best(
            f"metadata/{operation}",
            f"{words}, {items * FOLDERS} of them in {FOLDERS} folders, tmpfs",
            samples["penstock"],
            {"bare loop": samples["bare loop"]},
            at_least=AT_LEAST,
            metric=operation,
            scale=1e-3,
            unit="1000/s",
        )
        for operation, words in WORDS.items()
    ]
