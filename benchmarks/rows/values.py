"""`penstock attach` of a million frames and 50 channels, beside numpy and h5py writing the same columns."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import cbor2
import h5py
import numpy as np
from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.results import Result, Sample, absolute

from penstock.client.messages import typed
from penstock.files.values.attach import How, attach
from penstock.files.values.journal import JournalWriter

FRAMES, CHANNELS, ROWS = 1_000_000, 50, 1000
FIRST_NS, STEP_NS = 10**18, 250_000
SECONDS_AT_MOST = 30.0  # "seconds, not minutes"


def _series(path: Path, frames: int) -> None:
    with h5py.File(path, "w") as file:
        file["/entry/penstock/frame_state"] = np.ones(frames, np.uint8)
        file["/entry/penstock/series_unique_id"] = "series"
        file["/entry/penstock/timing/received"] = FIRST_NS + STEP_NS * np.arange(frames)
        file["/entry/end_time"] = "2026-01-01T00:00:00Z"


def _journal(folder: Path, frames: int, by: str) -> Path:
    writer = JournalWriter(folder)
    numbers = np.random.default_rng(1)
    for first in range(0, frames, ROWS):
        index = np.arange(first, min(first + ROWS, frames))
        columns = {f"channel_{k}": typed(numbers.random(len(index))) for k in range(CHANNELS)}
        group = {by: typed(index if by == "frame" else FIRST_NS + STEP_NS * index - 7), "columns": columns}
        fields = {"type": "values", "client": "row", "batch": first, "groups": [group]}
        writer.append(cbor2.dumps(fields))
    writer.close()
    return writer.path


def _attach(series: Path, journal: Path, output: Path) -> Sample:
    began = time.perf_counter()
    attach(series, [journal], output, How(), dry_run=False)
    seconds = time.perf_counter() - began
    output.unlink()
    return {"seconds": seconds}


def _floor(output: Path, frames: int, by: str) -> Sample:
    """The same datasets, from memory: no journal is read, and nothing looked up."""
    index, column = np.arange(frames), np.random.default_rng(1).random(frames)
    began = time.perf_counter()
    with h5py.File(output, "x", libver=("v110", "v110")) as file:
        for channel in range(CHANNELS):
            file[f"entry/values/channel_{channel}/{by}"] = index
            file[f"entry/values/channel_{channel}/value"] = column
            file[f"entry/per_frame/channel_{channel}"] = column
    seconds = time.perf_counter() - began
    output.unlink()
    return {"seconds": seconds}


def join(context: Context) -> list[Result]:
    """By number and by time."""
    frames = FRAMES // 10 if context.quick else FRAMES
    context.need(context.tmpfs, 3 * GIB // (10 if context.quick else 1))
    series, output = context.tmpfs / "values-series.h5", context.tmpfs / "values.h5"
    _series(series, frames)
    results = []
    for by in ("frame", "time"):
        journal = _journal(context.tmpfs, frames, by)
        subjects: dict[str, Subject] = {
            "attach": partial(_attach, series, journal, output),
            "floor": partial(_floor, output, frames, by),
        }
        samples = interleaved(f"values by {by}", subjects, context.repetitions)
        journal.unlink()
        results.append(
            absolute(
                f"values/{by}",
                f"{CHANNELS} channels joined to {frames} frames by {by}, journal and file on tmpfs",
                [sample["seconds"] for sample in samples["attach"]],
                unit="s",
                at_most=SECONDS_AT_MOST,
                beside="numpy and h5py writing the same columns from memory",
                peer=[sample["seconds"] for sample in samples["floor"]],
            )
        )
    series.unlink()
    return results
