"""The out-of-core sort of seismic traces beside two passes over the disk at fio's rates."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.process import BenchmarkError
from measure.results import Result, Sample, absolute, beside_best
from peers import fio

from penstock.bench.science.data.prepare import DataSet, prepared
from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.bench.science.seismic.survey import Survey, survey_of
from penstock.bench.science.seismic.work import sorted_name, survey_spec

AT_LEAST = 0.7
SIZE_BY_MEMORY = 4
SAMPLES = 1500
WORK = "penstock.bench.science.seismic.work"


def _sort(folder: Path, survey: Survey, data: DataSet, memory: int) -> Sample:
    parameters = {
        "survey": asdict(survey),
        "source": f"{data.place}/{data.files[0].name}",
        "tiers": [str(folder)],
        "memory": memory,
    }
    outcome = run_jobs([JobRequest(f"{WORK}:sort", folder, parameters)])
    ended = outcome.jobs[0].ended
    if outcome.problem or ended is None:
        raise BenchmarkError(outcome.problem or "the sort did not end")
    (folder / sorted_name(0)).unlink()
    (done,) = ended.result["sorts"]
    taken = ended.result["peak"] - ended.result["base"]
    return {
        "bytes_per_s": survey.bytes / (done["runs_s"] + done["merge_s"]),
        "memory_share": taken / memory,
    }


def _two_passes(folder: Path, total: int) -> Sample:
    rates = fio.write_then_read(folder, total, block=fio.BLOCK_BYTES, direct=True)
    return {"bytes_per_s": 1 / (2 / rates["read"] + 2 / rates["write"])}


def beside_two_passes(context: Context) -> list[Result]:
    """Each trace is read twice and written twice: the bound is that of a disk that does one at a time."""
    size = context.bytes_of(2 * GIB)
    context.need(context.disk, 4 * size)
    survey, memory = survey_of(size, SAMPLES, 1), size // SIZE_BY_MEMORY
    with prepared(context.disk, survey_spec(survey), lambda _: None) as data:
        subjects: dict[str, Subject] = {
            "penstock": partial(_sort, context.disk, survey, data, memory),
            "two passes": partial(_two_passes, context.disk, size),
        }
        samples = interleaved("seismic-sort", subjects, context.repetitions)
    shutil.rmtree(str(data.place))
    return [
        beside_best(
            "seismic-sort/disk",
            f"SEG-Y file of {SIZE_BY_MEMORY} times the memory, sorted",
            samples["penstock"],
            {"2 reads and 2 writes at fio's rates (direct, psync)": samples["two passes"]},
            at_least=AT_LEAST,
            remarks=("bytes of the file by the time of the sort; it may read and write at once",),
        ),
        absolute(
            "seismic-sort/memory",
            "peak memory of the sort, beside the program itself",
            [sample["memory_share"] for sample in samples["penstock"]],
            unit="of the bound",
            at_most=1.0,
        ),
    ]
