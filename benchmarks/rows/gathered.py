"""Chunks of several frames beside chunks of a whole frame: recording, and reading pixels of all frames."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from measure.blocks import interleaved
from measure.context import GIB, MIB, Context
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, beside_best
from measure.wholepath import Recording, Series, penstock

RAW_BYTES = 2 * GIB
PIXELS = 16  # rows and columns of the region
WHOLE = "chunks of one whole frame"
GATHERED = {"shape": [64, 256], "frames": 16}  # 512 KiB before compression; a whole frame has 1 MiB


def _read_pixels(context: Context, series: Series, path: Path) -> Sample:
    command = [*context.peer("h5py_read.py"), "--path", str(path), "--dataset", "/entry/data/data"]
    read, _ = run_json([*command, "--pixels", str(PIXELS)])
    if read["bytes"] != series.frames * PIXELS * PIXELS * 2:
        raise BenchmarkError(f"{read['bytes']} bytes of pixels were read")
    return {"regions_per_s": 1 / read["seconds"]}


def side_by_side(context: Context) -> list[Result]:
    frames = max(64, context.bytes_of(RAW_BYTES) // MIB)
    series = Series("simulated 1 MiB frames", 512, 1024, "uint16", frames, distinct_frames=256)
    context.need(context.disk, 2 * series.raw_bytes)
    recordings = {
        "penstock": Recording(protocol="tcp", codec="bslz4", chunk=GATHERED),
        WHOLE: Recording(protocol="tcp", codec="bslz4"),
    }
    samples = interleaved(
        "gathered",
        {
            name: partial(
                penstock, context, context.disk, series, recording, partial(_read_pixels, context, series)
            )
            for name, recording in recordings.items()
        },
        context.repetitions,
    )
    of_frames = f"chunks of {GATHERED['frames']} frames"
    return [
        beside_best(
            "gathered/recorded",
            f"{of_frames}, recorded, bitshuffle-LZ4, over TCP, disk",
            samples["penstock"],
            {WHOLE: samples[WHOLE]},
            at_least=0.9,
        ),
        beside_best(
            "gathered/read",
            f"{of_frames}, {PIXELS} × {PIXELS} pixels of all {frames} frames read with h5py",
            samples["penstock"],
            {WHOLE: samples[WHOLE]},
            at_least=4,
            metric="regions_per_s",
            scale=1,
            unit="a second",
        ),
    ]
