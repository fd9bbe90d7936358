"""A run of event analysis: its data, its jobs, and what is made of their results."""

from collections.abc import Iterator
from typing import Any

from penstock.bench.data.folder import FileSet
from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.checks import CACHED_SHARE, CACHED_SHARE_MAX
from penstock.bench.judge.conditions import conditions_of, is_memory
from penstock.bench.judge.rank_checks import make_check
from penstock.bench.run.run import Telling
from penstock.bench.science.analysis.parameters import (
    AMPLIFICATION,
    EVENTS,
    THROUGHPUT,
    VERSION,
    AnalysisParameters,
)
from penstock.bench.science.data.manifest import DataSpec
from penstock.bench.science.data.prepare import DataSet, all_prepared
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import JobRequest, TeamOutcome
from penstock.bench.science.run import Found, Requested, run_science
from penstock.bench.science.storage.endpoint import require_server
from penstock.bench.science.storage.open import require_libraries, require_storage
from penstock.lab.clients import through_client
from penstock.model.bench.runs import Check, CheckOutcome, Run
from penstock.model.bench.science import NamedValue
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.units import human_number, human_percent

_HERE = __name__.rpartition(".")[0]
_WASTE = 1.5
_OWN_FILES = "remove the data set (penstock bench clean), and make it as the user who measures"


def require_possible(place: Place) -> None:
    """Raises UsageError for what is missing, before anything is written."""
    require_libraries("event analysis", "uproot", "awkward")
    require_storage(place)


def run_analysis(parameters: AnalysisParameters, folder: RunFolder, telling: Telling) -> Run:
    target = folder.path.parent
    require_possible(target)
    require_server(target)
    in_memory = not isinstance(target, StorageUrl) and is_memory(conditions_of(target))
    with all_prepared(target, specs(parameters), telling.log) as sets:
        return run_science(
            parameters.workload("analysis", parameters.jobs),
            folder,
            Requested("events", requests_of(parameters, sets), parameters.seconds, "--seconds"),
            lambda outcome, slope: _judge(outcome, slope, in_memory),
            telling,
            place=target,
        )


def specs(parameters: AnalysisParameters) -> list[DataSpec]:
    """Data sets of all jobs."""
    jobs = parameters.jobs_of_set
    count = jobs * parameters.files
    return [
        DataSpec(
            name="events",
            parameters={
                "version": VERSION,
                "events": parameters.events,
                "seed": parameters.seed,
                "compression": parameters.compression,
                "first": first * parameters.files,
            }
            | _of_format(parameters),
            files=FileSet(prefix="events-", count=count, suffix="root"),
            make=f"{_HERE}.make:make",
            bytes=count * parameters.file_size,
        )
        for first in range(0, parameters.jobs, jobs)
    ]


def _of_format(parameters: AnalysisParameters) -> dict[str, str]:
    """Data sets of TTrees are older than the choice."""
    return {} if parameters.format == "ttree" else {"format": parameters.format}


def requests_of(parameters: AnalysisParameters, sets: list[DataSet]) -> list[JobRequest]:
    """The jobs, each with its own files."""
    return [_request(parameters, number, sets) for number in range(parameters.jobs)]


def _request(parameters: AnalysisParameters, number: int, sets: list[DataSet]) -> JobRequest:
    jobs = parameters.jobs_of_set
    data, first = sets[number // jobs], number % jobs * parameters.files
    files = [
        {"name": each.name, "truth": each.truth} for each in data.files[first : first + parameters.files]
    ]
    given = parameters.model_dump(include={"format", "pattern", "read_ahead", "vector_reads", "seed"})
    return JobRequest(f"{_HERE}.work:work", through_client(data.place, number), given | {"files": files})


def _judge(outcome: TeamOutcome, slope: Slope, in_memory: bool) -> Found:
    results = [job.ended.result for job in outcome.jobs if job.ended is not None and job.ended.result]
    needed = sum(result["needed_bytes"] for result in results)
    received = sum(job.reports[-1].received_bytes for job in outcome.jobs if job.reports)
    values = [
        NamedValue(name=EVENTS, value=60 * slope.per_s, unit="1/min", better="higher"),
        NamedValue(name=THROUGHPUT, value=slope.received_bytes_per_s, unit="B/s", better="higher"),
    ]
    findings = []
    if needed and len(results) == len(outcome.jobs):
        amplification = received / needed
        values.append(NamedValue(name=AMPLIFICATION, value=amplification, unit="factor", better="lower"))
        if amplification >= _WASTE:
            findings.append(
                f"reads cost {human_number(amplification, 2)} times the bytes of the baskets or pages"
                " that the analysis needed"
            )
    checks = [*_check_events(outcome, results), _check_cache(results, in_memory)]
    return Found(values, checks, findings)


def _check_events(outcome: TeamOutcome, results: list[dict[str, Any]]) -> Iterator[Check]:
    wrong = [f"job {job.number}: {each}" for job in outcome.jobs for each in _wrong_of(job.ended)]
    compared = sum(result["compared"] for result in results)
    if outcome.interrupted and not wrong and not compared:
        return
    idle = sum(not result["compared"] for result in results) + len(outcome.jobs) - len(results)
    actual = f"{compared} passes over a file, or parts of one, compared"
    if wrong:
        actual = f"wrong in {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    elif idle:
        actual += f"; {idle} of {len(outcome.jobs)} jobs read no file to its end"
    yield make_check(
        "events correct",
        "failed" if wrong else "warning" if idle else "ok",
        "all events as they were generated",
        actual,
        "either",
        "check the storage: it returned other bytes than were written"
        if wrong
        else "let the run end by itself"
        if outcome.interrupted
        else "use more --seconds, or a smaller --file-size",
    )


def _wrong_of(ended: Any) -> list[str]:
    return list(ended.result.get("wrong", [])) if ended is not None else []


def _check_cache(results: list[dict[str, Any]], in_memory: bool) -> Check:
    """A memory file system has nothing else, and says so elsewhere."""
    name, expected = "read from the storage", "this machine's caches dropped before each pass over a file"
    if not all(result["dropped"] for result in results):
        actual = "the client keeps nothing; what servers keep in memory is unknown"
        return make_check(name, "ok", expected, actual)
    shares = [result["cached_share"] for result in results]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares) and not in_memory:
        return make_check(name, "warning", expected, "not reported by the kernel", "better", _OWN_FILES)
    share = 0.0 if in_memory else max(known, default=0.0)
    outcome: CheckOutcome = (
        "failed" if share > CACHED_SHARE_MAX else "warning" if share > CACHED_SHARE else "ok"
    )
    actual = "dropped; what servers keep in memory is unknown"
    if outcome != "ok":
        actual = f"{human_percent(share)} of a file was still in the page cache"
    return make_check(name, outcome, expected, actual, "better", "end programs that have the files open")
