"""One job of event analysis beside the same uproot script alone: what counting and the harness cost."""

from __future__ import annotations

import shutil
from functools import partial

from measure.blocks import Subject, interleaved
from measure.context import Context
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, beside_best

from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.analysis.run import requests_of, specs
from penstock.bench.science.data.prepare import DataSet, prepared
from penstock.bench.science.jobs.slope import clipped_slope
from penstock.bench.science.jobs.team import run_jobs

AT_LEAST = 0.97
SECONDS = 5.0
FILE_BYTES = 20_000_000


def _job(parameters: AnalysisParameters, data: DataSet) -> Sample:
    outcome = run_jobs(requests_of(parameters, [data]), parameters.seconds)
    if outcome.problem:
        raise BenchmarkError(outcome.problem)
    return {"per_min": 60 * clipped_slope([job.course for job in outcome.jobs]).per_s}


def _script(context: Context, parameters: AnalysisParameters, data: DataSet) -> Sample:
    files = [f"{data.place}/{each.name}" for each in data.files[: parameters.files]]
    document, _ = run_json([*context.peer("uproot_scan.py"), str(parameters.seconds), *files])
    return {"per_min": 60 * document["events"] / document["seconds"]}


def beside_script(context: Context) -> list[Result]:
    """Files in memory: nothing hides what the harness costs."""
    parameters = AnalysisParameters(jobs=1, seconds=SECONDS, file_size=FILE_BYTES)
    context.need(context.tmpfs, 4 * FILE_BYTES)
    (spec,) = specs(parameters)
    with prepared(context.tmpfs, spec, lambda _: None) as data:
        subjects: dict[str, Subject] = {
            "penstock": partial(_job, parameters, data),
            "script": partial(_script, context, parameters, data),
        }
        samples = interleaved("event analysis", subjects, context.repetitions)
    shutil.rmtree(str(data.place))
    return [
        beside_best(
            "analysis/scan",
            "events a minute of one analysis job (scan), files in memory",
            samples["penstock"],
            {"the same uproot script alone": samples["script"]},
            at_least=AT_LEAST,
            metric="per_min",
            scale=1e-6,
            unit="million events/min",
        )
    ]
