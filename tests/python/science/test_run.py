"""What a run of jobs tells while it goes on, and what its document has."""

from pathlib import Path

import pytest

from penstock.bench.campaign.campaigns import plan_campaign
from penstock.bench.campaign.faults import require_faults
from penstock.bench.data.folder import BenchFolder
from penstock.bench.run.run import Telling
from penstock.bench.science.jobs.slope import Slope
from penstock.bench.science.jobs.team import JobRequest, TeamOutcome
from penstock.bench.science.run import Found, Requested, run_science
from penstock.bench.statistics.values import values_of
from penstock.cli.campaign.targets import targets_of
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.runs import Run
from penstock.model.bench.science import NamedValue, ScienceWorkload
from penstock.model.errors import UsageError
from penstock.model.events import LoadProgress
from penstock.model.yaml_file import parse_yaml


def judged(outcome: TeamOutcome, slope: Slope) -> Found:
    assert outcome.problem is None
    for job in outcome.jobs:  # a job that was late catches up: the slope may be steeper for a moment
        last = job.reports[-1]
        assert 0 < last.units <= 100 * (last.at_ns - outcome.go_ns) * 1e-9 + 1, "100 units per second are due"
    return Found([NamedValue(name="events", value=slope.per_s, unit="1/s", better="higher")], [])


def test_faults_begin_with_the_jobs_and_progress_has_its_time(tmp_path: Path) -> None:
    said: list[str | LoadProgress] = []
    telling = Telling(said.append, lambda _: None, begins=lambda: said.append("begins"))
    requested = Requested(
        "events", [JobRequest("jobs_of_tests:steady", tmp_path, {"hz": 100})] * 2, 2.0, "--seconds"
    )
    with BenchFolder.make(tmp_path) as folder:
        workload = ScienceWorkload(name="analysis", jobs=2)
        run = run_science(workload, folder, requested, judged, telling)
    assert said[0] == "begins"
    times = [each.seconds for each in said[1:] if isinstance(each, LoadProgress)]
    assert times == sorted(times)
    assert 0.5 < times[-1] < 60
    again = Run.model_validate_json(run.model_dump_json())
    assert again == run
    assert values_of(run)["events"].value > 0
    assert run.science is not None
    assert [job.problem for job in run.science.jobs] == [None, None]


def test_an_interruption_of_the_checks_is_one_of_the_run(tmp_path: Path) -> None:
    telling = Telling(lambda _: None, lambda _: None)
    requested = Requested("events", [JobRequest("jobs_of_tests:steady", tmp_path, {"hz": 100})], 0.1, "")
    workload = ScienceWorkload(name="analysis", jobs=1)
    with BenchFolder.make(tmp_path) as folder:
        run = run_science(workload, folder, requested, lambda *_: Found([], [], interrupted=True), telling)
    assert run.document.interrupted


def test_a_schedule_that_a_workload_cannot_have_is_refused() -> None:
    text = (
        "title: T\nworkload: acquire-and-analyse\nparameters: {detector: eiger2-1m, faults: away}\n"
        "schedules: {away: [{at_s: 1, server: 2, fault: stall}, {at_s: 2, server: 2, fault: heal}]}\n"
    )
    file = parse_yaml(text, CampaignFile, "campaign.yaml")
    plan = plan_campaign("t", file, targets_of(["lab:moosefs,servers=3"]), seed=1)
    with pytest.raises(UsageError, match="acquire-and-analyse"):
        require_faults(plan.campaign, {})
