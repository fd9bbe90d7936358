"""A recording beside jobs: the search for the number that is too many, and real recordings."""

import json
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import h5py
import pytest
from warm_command import penstock

from penstock.bench.data.folder import BenchFolder
from penstock.bench.rehearse.chain import Chain
from penstock.bench.run.run import Telling
from penstock.bench.science.acquire import readers
from penstock.bench.science.acquire import run as acquire
from penstock.bench.science.acquire.parameters import AcquireParameters
from penstock.bench.science.acquire.run import idle_jobs, wrong_reads
from penstock.bench.science.acquire.search import JobsFound, find_jobs
from penstock.bench.science.jobs.job import Job
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import JobOutcome, TeamOutcome
from penstock.bench.science.jobs.words import Done, Ended
from penstock.bench.science.storage.posix import PosixStorage
from penstock.model.bench.rehearsals import RehearsalStep


def found_with(limit: int, jobs_max: int) -> JobsFound:
    """Of a recording that sustains its rate beside fewer than `limit` jobs."""
    found = JobsFound()
    find_jobs(lambda jobs: jobs < limit, jobs_max, found)
    return found


@pytest.mark.parametrize("jobs_max", [1, 2, 7, 8, 96])
def test_every_limit_is_found_and_both_ends_ran_twice(jobs_max: int) -> None:
    for limit in range(1, jobs_max + 3):
        found = found_with(limit, jobs_max)
        assert found.held == min(limit - 1, jobs_max)
        assert found.failed == (limit if limit <= jobs_max else None)
        assert found.is_confirmed
        assert len(found.runs) <= 20


def test_a_recording_that_fails_alone_has_no_number_of_jobs() -> None:
    found = found_with(0, 8)
    assert found.held is None
    assert found.runs == [(0, False), (0, False)]


def found_by_chance(chance: random.Random) -> JobsFound:
    found = JobsFound()
    find_jobs(lambda jobs: chance.random() < 1 / (1 + 1.6 ** (jobs - 6)), 16, found)
    return found


def test_an_answer_never_contradicts_a_run() -> None:
    """Outcomes near a limit are chance: what failed once beside so many jobs is not said to be sustained."""
    for seed in range(1000):
        found = found_by_chance(random.Random(seed))
        failed = [jobs for jobs, held in found.runs if not held]
        assert found.failed == min(failed, default=None), f"seed {seed}"
        assert found.held is None or all(held for jobs, held in found.runs if jobs <= found.held), seed
        assert len(found.runs) <= 24


def run_of(target: Path, *options: str) -> dict[str, Any]:
    done = penstock(
        "bench",
        "acquire-and-analyse",
        str(target),
        *("custom", "--rows", "64", "--columns", "64", "--rate", "50"),
        *("--seconds", "2", "--jobs-max", "2", "--buffer-seconds", "30", "--yes", "--json"),
        *options,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("read", [pytest.param("older", marks=pytest.mark.slow), "growing"])
def test_jobs_read_while_frames_are_recorded(tmp_path: Path, read: str) -> None:
    run = run_of(tmp_path, "--read", read)
    values = {each["name"]: each["value"] for each in run["science"]["values"]}
    outcomes = {check["name"]: check["outcome"] for check in run["checks"]}
    if values["jobs"] < 2 and outcomes["machine quiet"] != "ok":
        pytest.skip("other programs use the processors: the recording was not sustained beside two jobs")
    assert values["jobs"] == 2, run["science"]["findings"]
    assert values["jobs beside"] > 0
    assert values["delay beside"] > 0
    assert (outcomes["jobs read what was recorded"], outcomes["jobs were at work"]) == ("ok", "ok")
    assert not list(tmp_path.iterdir())
    assert all(job["units"] > 0 for job in run["science"]["jobs"])


def outcome_of(*checksums: dict[str, int], different: int = 0) -> TeamOutcome:
    jobs = [
        JobOutcome(number, "/data", ended=Ended(result={"checksums": each, "different": different}))
        for number, each in enumerate(checksums)
    ]
    return TeamOutcome(jobs, 0, 1.0, interrupted=False)


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([outcome_of({"0": 5, "1": 7}, {"1": 7, "2": 1})], []),
        ([outcome_of({"0": 5, "1": 7}, {"1": 8})], ["job 1 read frame 1 differently from another job"]),
        ([outcome_of({"3": 5}), outcome_of({"3": 6})], ["job 0 read frame 3 differently from another job"]),
        ([outcome_of({"0": 5}, different=2)], ["job 0 read 2 frames differently"]),
    ],
)
def test_a_wrong_frame_that_a_job_read_is_found(outcomes: list[TeamOutcome], words: list[str]) -> None:
    assert list(wrong_reads(outcomes, "older")) == words


def test_pixels_that_changed_places_are_other_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["/entry/data/data"] = [[[1, 2], [3, 4]], [[2, 1], [3, 4]], [[1, 2], [3, 4]]]
    done: list[Any] = []
    go = threading.Event()
    go.set()
    job = Job(0, PosixStorage(tmp_path), done.append, go)

    def stop_at_the_end(frames: int) -> None:
        done.append(frames)
        if len(done) == 4:
            job.stop()

    monkeypatch.setattr(job, "done", stop_at_the_end)
    first, second, third = readers.older(job, {"name": "a.h5", "jobs": 1})["checksums"].values()
    assert first == third != second


def test_jobs_that_read_nothing_are_counted() -> None:
    outcome = outcome_of({}, {"0": 5}, {})
    outcome.jobs[0].reports.append(Done(at_ns=1, units=0, asked_bytes=0, received_bytes=0, calls=0))
    outcome.jobs[1].reports.append(Done(at_ns=1, units=1, asked_bytes=0, received_bytes=0, calls=0))
    assert idle_jobs(outcome) == 2


def course_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: TeamOutcome) -> acquire._Course:
    """Of a search that found one job, and then jobs alone with this outcome."""

    def found(_holds: object, _jobs_max: int, into: JobsFound) -> None:
        into.held = 1

    monkeypatch.setattr(acquire, "find_jobs", found)
    monkeypatch.setattr(acquire, "run_jobs", lambda *_: alone)
    parameters = AcquireParameters(detector="custom", rows=64, columns=64, type="uint16", rate=50)
    with BenchFolder.make(tmp_path) as folder:
        telling = Telling(lambda _: None, lambda _: None)
        course = acquire._Course(parameters, parameters.request(), folder, telling)
        course.take_all(cast(Chain, None))
    return course


def test_an_interruption_of_the_jobs_alone_is_one_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs = outcome_of({"0": 5}).jobs
    course = course_of(monkeypatch, tmp_path, TeamOutcome(jobs, 0, 1.0, interrupted=True))
    assert (course.interrupted, course.alone) == (True, None)


def test_a_job_that_dies_without_a_recording_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs = [JobOutcome(0, "/data", ended=Ended(problem="it ended with signal 9"))]
    course = course_of(monkeypatch, tmp_path, TeamOutcome(jobs, 0, 1.0, interrupted=False))
    assert course.problem == "without a recording, job 0: it ended with signal 9"


def reading(*per_s: float) -> TeamOutcome:
    """One job that reads at these rates for 10 s each, from second 1000 of the clock on."""
    job, units = JobOutcome(0, "/data"), 0.0
    for number in range(10 * len(per_s) + 1):
        at_ns = (1000 + number) * 10**9
        job.take(Done(at_ns=at_ns, units=round(units), asked_bytes=0, received_bytes=0, calls=0))
        units += per_s[min(number // 10, len(per_s) - 1)]
    return TeamOutcome([job], 0, 30.0, interrupted=False)


def test_the_rate_beside_is_that_of_the_time_of_sending() -> None:
    """The sender starts after the jobs, and the recorder closes its file before they end."""
    slope = acquire._while_sending(reading(90, 10, 70), (1010.0, 1020.0))
    assert (slope.per_s, slope.seconds) == (10.0, 10.0)
    assert acquire._while_sending(reading(90, 10, 70), None).per_s == 0.0


@pytest.mark.parametrize(("rates", "typical"), [([], None), ([5], 5), ([9, 5], 5), ([9, 2, 5], 5)])
def test_the_rate_of_repeated_recordings_is_the_median(rates: list[float], typical: float | None) -> None:
    recorded = cast(RehearsalStep, None)
    steps = [acquire.Step(1, recorded, outcome_of(), Slope(0, 1.0, rate, 0.0)) for rate in rates]
    found = acquire._typical(steps)
    assert (None if found is None else found.slope.per_s) == typical


def test_each_number_of_jobs_has_its_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    course = course_of(monkeypatch, tmp_path, TeamOutcome([], 0, 1.0, interrupted=False))
    for jobs, delay_s, rate in ((0, 0.1, 0.0), (1, 0.2, 50.0), (2, 0.5, 70.0), (1, 0.3, 40.0)):
        recorded = SimpleNamespace(outcome="held", delays=SimpleNamespace(written_max_s=delay_s))
        course.steps.append(
            acquire.Step(jobs, cast(RehearsalStep, recorded), outcome_of(), Slope(0, 1.0, rate, 0.0))
        )
    found = {each.name: each.value for each in acquire._values(course, JobsFound(held=2), course.steps[2])}
    tried = {
        "delay beside 1 job": 0.3,
        "rate of 1 job": 40.0,
        "delay beside 2 jobs": 0.5,
        "rate of 2 jobs": 70.0,
    }
    assert {name: found[name] for name in tried} == tried
    assert set(tried) <= set(course.parameters.derived())


def test_of_growing_files_each_has_other_frames() -> None:
    assert not list(wrong_reads([outcome_of({"3": 5}), outcome_of({"3": 6})], "growing"))


def test_a_url_is_refused_with_the_reason() -> None:
    done = penstock("bench", "acquire-and-analyse", "root://localhost//data", "mythen", "--yes")
    assert done.returncode == 2
    assert "mounted file system" in done.stderr
