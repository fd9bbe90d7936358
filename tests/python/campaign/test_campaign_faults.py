"""Schedules of faults in a campaign: what is refused before the first run, and what the scale changes."""

from pathlib import Path

import pytest

from penstock.bench.campaign.campaigns import CampaignPlan, plan_campaign
from penstock.bench.campaign.faults import require_faults
from penstock.bench.run.jobs import Job
from penstock.cli.campaign.targets import targets_of
from penstock.lab.storage import name_of_laboratory
from penstock.model.bench.campaign_files import CampaignFile, read_campaign_file
from penstock.model.errors import UsageError
from penstock.model.yaml_file import parse_yaml
from penstock.programs.locate import campaigns_folder

FRAMES = "workload: frames\nparameters: {rate: 20, frame_size: 4 KiB, seconds: 20}\n"
KILLED = "[{at_s: 3, server: 2, fault: fail}, {at_s: 8, server: 2, fault: heal}]"


def file_of(schedule: str, more: str = "") -> CampaignFile:
    text = f"title: T\n{FRAMES}vary: {{faults: [none, away]}}\nschedules: {{away: {schedule}}}\n{more}"
    return parse_yaml(text, CampaignFile, "campaign.yaml")


def planned(file: CampaignFile, target: str, scale: float | None = None) -> CampaignPlan:
    plan = plan_campaign("t", file, targets_of([target]), seed=1, scale=scale)
    require_faults(plan.campaign, {n: job.due_s for n, job in plan.jobs.items() if isinstance(job, Job)})
    return plan


def test_cases_differ_in_their_schedule() -> None:
    campaign = planned(file_of(KILLED), "lab:moosefs").campaign
    assert {case.parameters["faults"]: len(campaign.faults_of(case)) for case in campaign.cases} == {
        "none": 0,
        "away": 2,
    }
    assert "faults=away" in campaign.cases[1].name


def test_scale_stretches_a_schedule() -> None:
    campaign = planned(file_of(KILLED), "lab:moosefs", scale=0.5).campaign
    assert [each.at_s for each in campaign.schedules["away"]] == [1.5, 4.0]


def test_shipped_campaign_is_possible_on_redundant_systems() -> None:
    file = read_campaign_file(campaigns_folder() / "degraded-mode.yaml")
    for target in ("lab:moosefs,servers=3", "lab:gluster,servers=3"):
        assert len(planned(file, target).campaign.cases) == 4


@pytest.mark.parametrize(
    ("schedule", "target", "words"),
    [
        (KILLED, "/tmp", ["laboratories only", "/tmp", "lab:moosefs"]),
        (KILLED, "lab:moosefs,goal=1", ["no second copy", "server 2", "stall"]),
        (KILLED, "lab:gluster,kind=distribute", ["no second copy"]),
        (KILLED.replace("server: 2", "server: 4"), "lab:moosefs,servers=3", ["no server 4", "1 to 3"]),
        (KILLED.replace("server: 2", "server: 9"), "lab:xfs", ["no servers that could fail"]),
        (KILLED, "lab:xfs,servers=2", ["no servers that could fail", "slow"]),
        (KILLED.replace("at_s: 8", "at_s: 20"), "lab:moosefs", ["at_s 20", "last frame", "seconds"]),
        (
            "[{at_s: 1, server: 1, fault: slow, disk: 10 MB/s}]",
            "lab:moosefs,disks=ram:400MiB",
            ["`disk` requires a loop device", "link"],
        ),
    ],
)
def test_impossible_schedules_are_refused(schedule: str, target: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as found:
        planned(file_of(schedule), target)
    said = f"{found.value.message} {found.value.remedy}"
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("schedule", "word"),
    [
        ("[{at_s: 8, server: 2, fault: heal}]", "has no fault"),
        ("[{at_s: 8, server: 2, fault: fail}, {at_s: 3, server: 2, fault: heal}]", "order of time"),
        ("[{at_s: 1, server: 2, fault: fail}, {at_s: 3, server: 2, fault: stall}]", "heal it first"),
        ("[{at_s: 1, server: 2, fault: fail}, {at_s: 3, server: 1, fault: fail}]", "another server"),
        ("[{at_s: 1, server: 2, fault: slow}]", "requires one"),
        ("[{at_s: 1, server: 2, fault: fail, disk: 1 MB/s}]", "belongs to slow"),
        ("[]", "away"),
    ],
)
def test_contradictions_of_a_schedule_are_named(schedule: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        file_of(schedule)


def test_names_of_schedules_and_of_cases_agree() -> None:
    text = f"title: T\n{FRAMES}schedules: {{away: {KILLED}}}\n"
    with pytest.raises(UsageError, match="no case has the schedule `away`"):
        parse_yaml(text, CampaignFile, "campaign.yaml")
    with pytest.raises(UsageError, match="'gone', which is not a schedule"):
        parse_yaml(text + "vary: {faults: [away, gone]}\n", CampaignFile, "campaign.yaml")


def test_views_may_show_what_a_fault_costs() -> None:
    shown = "views: [{kind: table, value: dip, rows: faults}]\n"
    assert planned(file_of(KILLED, shown), "lab:moosefs")
    without = f"title: T\n{FRAMES}vary: {{writers: [1, 2]}}\n{shown.replace('faults', 'writers')}"
    with pytest.raises(UsageError, match="dip"):
        planned(parse_yaml(without, CampaignFile, "campaign.yaml"), "lab:moosefs")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("lab:moosefs/data", "moosefs"),
        ("/run/penstock-lab/m/client-1/mount/data", "m"),
        ("/run/penstock-lab", ""),
        ("/data", ""),
    ],
)
def test_paths_know_their_laboratory(path: str, name: str) -> None:
    assert name_of_laboratory(path) == name


def test_no_target_is_touched(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        planned(file_of(KILLED), str(tmp_path))
    assert not list(tmp_path.iterdir())
