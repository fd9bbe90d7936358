"""What becomes of a campaign's runs that fail or are interrupted, and of its document. No load is made."""

import resource
from pathlib import Path

import pytest
from bench_documents import frames_document
from campaign_documents import job_that, made_up_campaign, made_up_run

from penstock.bench.campaign.campaigns import (
    CampaignPlan,
    CampaignTelling,
    Standing,
    plan_repetitions,
    run_campaign,
    strange_conditions,
)
from penstock.bench.campaign.text import CampaignText
from penstock.bench.judge.conditions import conditions_of
from penstock.bench.run.run import Telling
from penstock.files.growing_document import GrowingDocument
from penstock.model.bench.campaigns import Campaign, CaseRun, Target
from penstock.model.bench.runs import Run
from penstock.model.errors import InterruptedRunError, PenstockError, UsageError


class Told:
    """What a campaign told while it ran."""

    def __init__(self) -> None:
        self.standings: list[Standing] = []
        self.troubles: list[str] = []
        self.saved: list[Campaign] = []

    def telling(self) -> CampaignTelling:
        nobody = Telling(lambda _: None, lambda _: None)
        return CampaignTelling(self.standings.append, self.troubles.append, self.saved.append, nobody)


def run_all(target: Path, outcomes: list[Run | Exception], blocks: int) -> tuple[Campaign, Told, list[Path]]:
    folders: list[Path] = []
    told = Told()
    plan = plan_repetitions(job_that(outcomes, folders), target, blocks)
    return run_campaign(plan, told.telling()), told, folders


def test_a_run_that_fails_is_written_down_and_the_others_go_on(tmp_path: Path) -> None:
    outcomes: list[Run | Exception] = [
        made_up_run(),
        PenstockError("the disk is on fire"),
        OSError(5, "Input/output error"),
        made_up_run(),
    ]
    campaign, told, folders = run_all(tmp_path, outcomes, 4)
    assert [each.block for each in campaign.runs] == [0, 3]
    assert [(each.block, each.problem) for each in campaign.failures] == [
        (1, "the disk is on fire"),
        (2, "[Errno 5] Input/output error"),
    ]
    assert campaign.complete
    assert told.saved[-1] == campaign
    assert [len(saved.done) for saved in told.saved] == [1, 2, 3, 4]
    assert len(told.troubles) == 2
    assert "on fire" in told.troubles[0]
    assert [standing.done for standing in told.standings] == [0, 1, 2, 3]
    assert len(set(folders)) == 4
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_is_no_run_of_the_campaign(tmp_path: Path) -> None:
    short = made_up_run()
    short = short.model_copy(update={"document": frames_document(interrupted=True)})
    for end in (short, InterruptedRunError("interrupted before anything was written")):
        told = Told()
        plan = plan_repetitions(job_that([made_up_run(), end], []), tmp_path, 5)
        with pytest.raises(InterruptedRunError):
            run_campaign(plan, told.telling())
        assert [len(saved.runs) for saved in told.saved] == [1]
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_removed_costs_no_figures(tmp_path: Path) -> None:
    folders: list[Path] = []
    inner = job_that([made_up_run(), made_up_run()], folders)

    def act(folder: object, telling: Telling) -> Run:
        run = inner.run(folder, telling)  # type: ignore[arg-type]
        (folders[-1] / "somebody's").write_text("kept")
        return run

    plan = plan_repetitions(inner, tmp_path, 2)
    (case,) = plan.jobs
    told = Told()
    job = type(inner)(**{**vars(inner), "run": act})
    campaign = run_campaign(CampaignPlan(plan.campaign, {case: job}), told.telling())
    assert len(campaign.runs) == 2
    assert campaign.failures == []
    assert all("somebody's" in trouble for trouble in told.troubles)
    assert len(told.troubles) == 2


def test_what_is_left_takes_as_long_as_what_is_done_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run was thought to take 1.5 s and takes 6 s of the test's own clock."""
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("penstock.bench.campaign.campaigns.time.monotonic", lambda: next(clock))
    told = Told()
    plan = plan_repetitions(job_that([made_up_run()] * 4, []), tmp_path, 4)
    run_campaign(plan, told.telling())
    assert [round(standing.seconds_left, 6) for standing in told.standings] == [6, 18, 12, 6]


def test_a_target_that_goes_away_fails_its_own_cases_alone(tmp_path: Path) -> None:
    gone = made_up_campaign(blocks=3, cases=1, done=0)
    gone = gone.model_copy(update={"targets": [Target(name="disk", path=str(tmp_path / "gone"))]})
    told = Told()
    job = job_that([], [])
    campaign = run_campaign(CampaignPlan(gone, {"threads=1": job}), told.telling())
    assert len(campaign.failures) == 3
    assert "gone does not exist" in campaign.failures[0].problem


def test_a_campaign_that_goes_on_elsewhere_is_told_so(tmp_path: Path) -> None:
    run = made_up_run().model_copy(update={"target": str(tmp_path)})
    here = conditions_of(tmp_path)
    campaign = made_up_campaign(blocks=1, cases=1)
    campaign = campaign.model_copy(update={"targets": [Target(name="disk", path=str(tmp_path))]})
    for conditions, told in (
        (here, []),
        (here.model_copy(update={"free_bytes": 1, "command": "other"}), []),
        (here.model_copy(update={"kernel": "0.1"}), [f"disk: kernel was 0.1, and is {here.kernel}"]),
    ):
        made = CaseRun(case="threads=1", block=0, run=run.model_copy(update={"conditions": conditions}))
        assert strange_conditions(campaign.model_copy(update={"runs": [made]})) == told


def test_the_text_of_a_growing_campaign_is_its_json() -> None:
    whole = made_up_campaign(blocks=3, cases=2).model_copy(
        update={"title": 'a "runs":[] b', "name": '"runs":[]'}
    )
    text = CampaignText()
    for count in (0, 1, 4, 6, 6):
        grown = whole.model_copy(update={"runs": whole.runs[:count]})
        assert text.of(grown) == grown.model_dump_json()


def test_a_growing_document_is_whole_and_one_commands_own(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    with GrowingDocument.create(path, "one") as document:
        for text in ("two", "three"):
            assert path.read_text() in ("one\n", "two\n")
            with pytest.raises(UsageError, match="another command"):
                GrowingDocument.open(path)
            document.write(text)
        with pytest.raises(UsageError, match="another command"):
            GrowingDocument.open(path)
    assert [each.name for each in tmp_path.iterdir()] == ["document.json"]
    with GrowingDocument.open(path) as document:
        assert document.read() == b"three\n"
    with pytest.raises(UsageError, match="exists already"):
        GrowingDocument.create(path, "four")
    assert path.read_text() == "three\n"


def test_a_version_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    """The kernel refuses files of more than 4096 bytes meanwhile, as a full disk would."""
    path = tmp_path / "document.json"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with GrowingDocument.create(path, "one") as document:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with pytest.raises(PenstockError, match="cannot be written: the file would exceed"):
                document.write("x" * 100_000)
            with pytest.raises(PenstockError, match="cannot be written"):
                GrowingDocument.create(tmp_path / "other.json", "x" * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [each.name for each in tmp_path.iterdir()] == ["document.json"]
        assert path.read_text() == "one\n"
        document.write("two")
    assert path.read_text() == "two\n"


def test_nothing_of_others_is_written_over(tmp_path: Path) -> None:
    path, link = tmp_path / "document.json", tmp_path / "link.json"
    (tmp_path / "document.json.new").write_text("mine")
    with pytest.raises(UsageError, match=r"document\.json\.new exists already"):
        GrowingDocument.create(path, "text")
    (tmp_path / "document.json.new").rename(tmp_path / "precious")
    GrowingDocument.create(path, "one").close()
    link.symlink_to(path)
    with GrowingDocument.open(link) as document:
        document.write("two")
    assert link.is_symlink()
    assert path.read_text() == "two\n"
    (tmp_path / "document.json.new").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="not part of a document"):
        GrowingDocument.open(path)
    assert (tmp_path / "precious").read_text() == "mine"
    assert path.read_text() == "two\n"


@pytest.mark.parametrize("text", ["mine", "", '{"format":"mine"}'])
def test_a_file_that_came_to_where_versions_are_made_stays(text: str, tmp_path: Path) -> None:
    path, new = tmp_path / "document.json", tmp_path / "document.json.new"
    with GrowingDocument.create(path, "one") as document:
        new.write_text(text)
        with pytest.raises(PenstockError, match="cannot be written: it exists already"):
            document.write("two")
    with pytest.raises(UsageError, match="not part of a document"):
        GrowingDocument.open(path)
    assert (path.read_text(), new.read_text()) == ("one\n", text)


def test_what_a_killed_command_had_not_finished_goes(tmp_path: Path) -> None:
    path, new = tmp_path / "document.json", tmp_path / "document.json.new"
    GrowingDocument.create(path, "one").close()
    new.write_text('{"format":"penstock-campaign 1","na')
    with GrowingDocument.open(path) as document:
        document.write("two")
        assert [each.name for each in tmp_path.iterdir()] == ["document.json"]
    assert path.read_text() == "two\n"


def test_another_file_in_the_place_of_a_version_stays(tmp_path: Path) -> None:
    path, moved = tmp_path / "document.json", tmp_path / "moved.json"
    with GrowingDocument.create(path, "one") as document:
        path.rename(moved)
        path.write_text("mine")
        with pytest.raises(PenstockError, match="not the file that was written"):
            document.write("two")
        assert (path.read_text(), moved.read_text()) == ("mine", "one\n")
        path.unlink()
        document.write("three")
        document.write("four")
    assert (path.read_text(), moved.read_text()) == ("four\n", "one\n")
    assert len(list(tmp_path.iterdir())) == 2
