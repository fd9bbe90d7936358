"""The processes of a sort: one makes the survey, one sorts it, one compares the result with the truth."""

import contextlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.bench.data.folder import FileSet
from penstock.bench.science.data.manifest import DataSpec
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.seismic.memory import begin_peak, peak
from penstock.bench.science.seismic.plan import SortPlan, sort_plan
from penstock.bench.science.seismic.segy import BY_CDP, file_header
from penstock.bench.science.seismic.sort import Sort, StoppedError
from penstock.bench.science.seismic.survey import Survey, Truth, write_survey
from penstock.bench.science.seismic.verify import problem_of
from penstock.bench.science.storage.direct import DirectReader, aligned

_PIECE = 8 << 20


def survey_spec(survey: Survey) -> DataSpec:
    """The data set with the unsorted traces."""
    return DataSpec(
        name="seismic-survey",
        parameters=asdict(survey),
        files=FileSet(prefix="shots-", count=1, suffix="sgy"),
        make=f"{__name__}:make",
        bytes=survey.bytes,
    )


def sorted_name(number: int) -> str:
    return f"sorted-{number:09d}.sgy"


def run_name(number: int) -> str:
    return f"run-{number:09d}.bin"


def make(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Writes the survey, which is one file."""
    job.begin()
    survey = Survey(**{name: parameters[name] for name in ("samples", "shots", "seed")})
    name = survey_spec(survey).file(0)
    written = write_survey(survey, Path(job.storage.place) / name, job.storage.counts, job.done)
    truth = asdict(written.truth) | {"checksum": str(written.truth.checksum)}
    return {"files": [{"name": name, "bytes": survey.bytes, "sha256": written.sha256, "truth": truth}]}


def sort(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Sorts `source` once for each of the directories `tiers`, in which the runs are during that time.

    Before several sorts it is read once: servers may keep what was read, and none may be the first to read.
    """
    survey = Survey(**parameters["survey"])
    plan = sort_plan(survey.traces, survey.samples, parameters["memory"])
    if len(parameters["tiers"]) > 1:
        _read_once(job, Path(parameters["source"]))
    job.begin()
    job.done(0)
    base = begin_peak()
    sorts = []
    with contextlib.suppress(StoppedError):
        for number, tier in enumerate(parameters["tiers"]):
            target = Path(job.storage.place) / sorted_name(number)
            sorts.append(_sort_once(job, plan, Path(parameters["source"]), Path(tier), target))
    return {"sorts": sorts, "base": base, "peak": peak(), "runs": plan.runs}


def _read_once(job: Job, path: Path) -> None:
    memory = memoryview(aligned(_PIECE))
    with DirectReader(path, job.storage.counts) as reader:
        for at in range(0, reader.size, _PIECE):
            if job.stopping:
                return
            reader.read(memory, at)


def _sort_once(job: Job, plan: SortPlan, source: Path, tier: Path, target: Path) -> dict[str, Any]:
    def on_traces(count: int) -> bool:
        job.done(count)
        return not job.stopping

    runs = [tier / run_name(number) for number in range(plan.runs)]
    sort = Sort(plan, job.storage.counts, on_traces)
    begun = time.monotonic()
    try:
        with job.spending("sort into runs"):
            sort.make_runs(source, runs)
        between = time.monotonic()
        with job.spending("merge"):
            sort.merge(runs, target, file_header(plan.samples, BY_CDP))
        ended = time.monotonic()
    finally:
        for path in runs:
            path.unlink(missing_ok=True)
    return {
        "tier": str(tier),
        "runs_s": between - begun,
        "merge_s": ended - between,
        "direct": sort.is_direct,
    }


def verify(job: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns what is wrong with each sorted file; "" for nothing."""
    folder, survey = Path(job.storage.place), Survey(**parameters["survey"])
    truth = Truth(parameters["truth"]["traces"], int(parameters["truth"]["checksum"]))
    job.begin()
    problems = [
        problem_of(
            folder / sorted_name(number),
            Path(parameters["source"]),
            survey.samples,
            truth,
            job.storage.counts,
            job.done,
        )
        for number in range(parameters["sorted"])
    ]
    return {"problems": problems}
