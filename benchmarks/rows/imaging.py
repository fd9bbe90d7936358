"""Jobs that process one file: chunks read directly, and decompressed outside HDF5, beside h5py.

Two processes on two cores, bitshuffle-LZ4, from the page cache, so that reading costs processor time alone.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import Context
from measure.machine import settle
from measure.process import run
from measure.results import Result, Sample, beside_best

JOBS, SECONDS = 2, 12.0
PEER = "h5py + hdf5plugin"
ALONE, AHEAD, PLUGIN = "penstock", "a thread ahead", "hdf5plugin's library"
WAYS = {
    PEER: ["--read", "h5py"],
    AHEAD: ["--read", "direct", "--threads", "1"],
    ALONE: ["--read", "direct"],
    PLUGIN: ["--read", "direct", "--decoder", "hdf5plugin"],
}
PROCESSING = {"none": "read only", "statistics": "with statistics and spots"}
AT_LEAST = 1.5


def _jobs(context: Context, folder: Path, process: str, way: str) -> Sample:
    settle()
    command = [
        sys.executable,
        "-m",
        "penstock",
        "bench",
        "imaging",
        str(folder),
        "--json",
        "--yes",
        "--cached",
    ]
    command += ["--jobs", str(JOBS), "--process", process, *WAYS[way]]
    command += ["--seconds", str(SECONDS / 4 if context.quick else SECONDS)]
    env = {
        "PYTHONPATH": str(context.checkout / "python"),
        "PENSTOCK_BIN": str(context.build / "native" / "programs"),
    }
    if "PENSTOCK_BIN" in os.environ:
        env.pop("PENSTOCK_BIN")
    science = json.loads(run(command, cores=context.cores[:JOBS], env=env).stdout)["science"]
    values = {each["name"]: each["value"] for each in science["values"]}
    # A second of a processor, because other load of the machine changes it less than a second of time.
    per_processor_s = values["pixels"] / values["frames"] / (values["processor time of a frame"] * 1e-3)
    return {"bytes_per_s": values["pixels"], "bytes_per_processor_s": per_processor_s}


def beside_h5py(context: Context) -> list[Result]:
    """The file is made by the run that warms up."""
    folder = context.disk / "imaging"
    folder.mkdir(exist_ok=True)
    context.need(folder, 200 << 20)
    results = []
    for process, words in PROCESSING.items():
        subjects: dict[str, Subject] = {way: partial(_jobs, context, folder, process, way) for way in WAYS}
        samples = interleaved(f"imaging {process}", subjects, context.repetitions)
        for way, how in ((ALONE, "no thread"), (AHEAD, AHEAD), (PLUGIN, PLUGIN)):
            results.append(
                beside_best(
                    f"imaging/{process}/{way}",
                    f"{JOBS} processes of one bslz4 file, {words}, chunks read directly, {how}",
                    samples[way],
                    {PEER: samples[PEER]},
                    at_least=AT_LEAST if way == ALONE else 1.0,
                )
            )
    return results
