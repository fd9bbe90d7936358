"""A workload alone and beside another one: what is compared, and that the other one was there."""

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from bench_documents import frames_document, histogram, run_of
from conftest import Run as RunCommand
from hypothesis import given
from hypothesis import strategies as st
from warm_command import popen

from penstock.bench.run.interference import check_under_way, effects
from penstock.bench.statistics.values import values_of
from penstock.model.bench.campaigns import Campaign, Case, CaseRun
from penstock.model.bench.load import LoadPlan, NullBackend, StreamWorkload
from penstock.programs.beside import RepeatedCommand, RepeatedLoad, Stint

FRAMES = ("--frame-size", "64KiB", "--rate", "100", "--seconds", "1.2", "--yes", "--json")
STREAM = "stream --size 8MiB --transfer 1MiB --no-read"


def campaign_of(text: str) -> Campaign:
    return Campaign.model_validate_json(text)


@pytest.mark.slow
def test_blocks_have_both_cases_and_the_other_load_was_there(run: RunCommand, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    options = ("--background", STREAM, "--background-target", str(other), "--blocks", "2", "--seed", "3")
    finished = run("bench", "frames", str(tmp_path), *FRAMES, *options)
    campaign = campaign_of(finished.stdout)
    assert campaign.complete, finished.stderr
    lines = [line for line in finished.stderr.splitlines() if line.startswith("block ")]
    assert [bool(re.search(r"; about [0-9.]+ s left$", line)) for line in lines] == [True, True, True, False]
    assert [case.name for case in campaign.cases] == ["alone", "background"]
    assert campaign.cases[1].parameters == {"beside": STREAM, "beside_target": str(other)}
    assert [each.block for each in campaign.runs] == [0, 0, 1, 1]
    for block in (0, 1):
        assert {each.case for each in campaign.runs if each.block == block} == {"alone", "background"}
    for each in campaign.runs:
        checks = {check.name: check for check in each.run.checks}
        assert each.run.frames is not None
        assert each.run.frames.due == 120
        assert ("background load active" in checks) == (each.case == "background")
        assert "machine quiet" in checks
        assert each.case == "alone" or "storage used exclusively" not in checks
        if each.case == "background":
            # 8 MiB are written within a moment: it is begun again and again.
            actual = checks["background load active"].actual
            assert int(actual.split("started ")[1].split()[0]) > 1
            assert "it ended" not in actual
    assert {path.name for path in tmp_path.iterdir()} == {"other"}
    assert list(other.iterdir()) == []


def test_the_document_of_a_stream_beside_frames_is_kept(run: RunCommand, tmp_path: Path) -> None:
    output, target = tmp_path / "campaign.json", tmp_path / "target"
    target.mkdir()
    stream = ("--size", "8MiB", "--transfer", "1MiB", "--yes", "--output", str(output))
    beside = ("--background", "frames --frame-size 4KiB --rate 50 --seconds 60", "--blocks", "1")
    finished = run("bench", "stream", str(target), *stream, *beside)
    campaign = campaign_of(output.read_text())
    assert (
        campaign.title
        == "stream, alone and with background load frames --frame-size 4KiB --rate 50 --seconds 60"
    )
    assert set(values_of(campaign.runs[0].run)) >= {"write", "read", "processor time"}
    # Runs of a moment are invalid, and say nothing of the effect.
    assert effects(campaign) == []
    assert "Medians of 0 blocks" in finished.stdout
    assert "1 left out" in finished.stdout
    assert "background / alone" in finished.stdout
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_a_command_of_ones_own_ends_with_all_that_it_started(run: RunCommand, tmp_path: Path) -> None:
    """A shell, and a child of it, which would go on for a minute."""
    script = f"sleep 61 & echo $! > {tmp_path}/pid; wait"
    target = tmp_path / "target"
    target.mkdir()
    options = ("--background", f"command -- sh -c '{script}'", "--blocks", "1")
    campaign = campaign_of(run("bench", "frames", str(target), *FRAMES, *options).stdout)
    assert campaign.complete
    (beside,) = (each.run for each in campaign.runs if each.case == "background")
    checks = {check.name: check.outcome for check in beside.checks}
    assert checks["background load active"] == "ok"
    child = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ("", "is not a workload"),
        ("clean", "is not a workload"),
        ("stream 'x", "No closing quotation"),
        ("stream --size much", '--size: "much" is not a size'),
        ("stream --sizes 1GiB", "unknown option --sizes"),
        ("stream --yes", "--yes is not allowed"),
        ("stream --background stream", "--background is not allowed"),
        ("frames --rate 1", "--frame-size"),
        ("frames --rate 0 --frame-size 1MiB", "--rate 0 requires --frames"),
        ("command --", "is not a workload"),
    ],
)
def test_what_cannot_run_beside_is_named(run: RunCommand, tmp_path: Path, beside: str, words: str) -> None:
    finished = run("bench", "frames", str(tmp_path), *FRAMES, "--background", beside)
    assert finished.returncode == 2
    assert words in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_both(run: RunCommand, tmp_path: Path) -> None:
    finished = run(
        "bench", "frames", str(tmp_path), *FRAMES, "--background", STREAM, "--blocks", "4", "--dry-run"
    )
    assert finished.returncode == 0
    for words in (STREAM, "8 MiB", "4, each alone and with background load"):
        assert words in finished.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_begin_beside_fails_the_command(run: RunCommand, tmp_path: Path) -> None:
    target, broken = tmp_path / "target", tmp_path / "broken"
    target.mkdir()
    broken.write_text("no program")
    broken.chmod(0o755)
    finished = run("bench", "frames", str(target), *FRAMES, "--background", f"command -- {tmp_path}/none")
    assert finished.returncode == 2, "before anything is written"
    assert f"{tmp_path}/none was not found" in finished.stderr
    finished = run("bench", "frames", str(target), *FRAMES, "--background", f"command -- {broken}")
    assert finished.returncode == 1
    assert "the background load failed" in finished.stderr
    assert list(target.iterdir()) == []


def test_what_ends_too_early_beside_makes_the_run_invalid(run: RunCommand, tmp_path: Path) -> None:
    finished = run(
        "bench", "frames", str(tmp_path), *FRAMES, "--background", "command -- false", "--blocks", "1"
    )
    campaign = campaign_of(finished.stdout)
    assert finished.returncode == 4
    (beside,) = (each.run for each in campaign.runs if each.case == "background")
    (check,) = (check for check in beside.checks if check.name == "background load active")
    assert check.outcome == "failed"
    assert "false ended with exit code 1" in check.actual


def test_an_interruption_ends_both_and_leaves_a_shorter_campaign(tmp_path: Path) -> None:
    output, target = tmp_path / "campaign.json", tmp_path / "target"
    target.mkdir()
    options = ("--frame-size", "4KiB", "--rate", "100", "--seconds", "600", "--yes", "--output", str(output))
    process = popen("bench", "frames", str(target), *options, "--background", STREAM, "--blocks", "3")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("frames: "):
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 1
    campaign = campaign_of(output.read_text())
    assert not campaign.complete
    assert len(campaign.runs) == 1
    assert campaign.runs[0].run.document.interrupted
    assert list(target.iterdir()) == []


def test_a_load_is_repeated_until_it_is_told_to_stop(tmp_path: Path) -> None:
    workload = StreamWorkload(thread_bytes=1 << 20, transfer_bytes=4096, read=False)
    cleared: list[float] = []
    deadline = time.monotonic() + 60
    with RepeatedLoad(
        LoadPlan(backend=NullBackend(), workload=workload), lambda: cleared.append(time.time())
    ) as load:
        while len(cleared) < 3 and time.monotonic() < deadline:
            os.sched_yield()
    assert load.problem is None
    assert len(load.stints) == len(cleared) >= 3
    for stint, after in zip(load.stints, load.stints[1:], strict=False):
        assert stint.begin_s < stint.end_s <= after.begin_s


def test_a_command_that_ignores_the_first_word_is_killed() -> None:
    with RepeatedCommand(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]) as command:
        pass
    assert command.problem is None
    assert len(command.stints) == 1


@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(1, 40)), max_size=6),
)
def test_the_share_under_way_counts_each_moment(stints: list[tuple[int, int]]) -> None:
    """Against counting moments one by one; stints follow one another, as they do."""
    at, ordered = -60, []
    for gap, length in sorted(stints):
        at += abs(gap) % 30
        ordered.append(Stint(at, at + length))
        at += length
    there = [any(stint.begin_s <= moment < stint.end_s for stint in ordered) for moment in range(100)]
    check = check_under_way(Stint(0, 100), ordered)
    share = sum(there) / 100
    assert check.actual.startswith(f"{100 * share:.1f} %")
    assert check.outcome == ("ok" if share >= 0.95 else "warning" if share >= 0.5 else "failed")
    runs = "".join("x" if each else " " for each in there).split("x")
    longest = max(len(each) for each in runs)
    assert check.actual.endswith(f"longest gap {_text(longest)}")


def _text(seconds: float) -> str:
    from penstock.model.units import human_seconds

    return human_seconds(seconds)


def test_effects_are_ratios_within_blocks() -> None:
    def of(block: int, case: str, latency_ms: int) -> CaseRun:
        times = {name: histogram(latency_ms * 10**6) for name in ("latency", "wait", "service", "jitter")}
        return CaseRun(case=case, block=block, run=run_of(frames_document(times=times), []))

    campaign = Campaign(
        name="interference",
        title="",
        seed=1,
        blocks=4,
        cases=[Case(name="alone"), Case(name="background")],
        runs=[
            *(of(n, "alone", 2 * (n + 1)) for n in range(3)),
            *(of(n, "background", 6 * (n + 1)) for n in range(3)),
            of(3, "alone", 1000),  # its partner was cut short
        ],
    )
    found = {effect.name: effect for effect in effects(campaign)}
    assert found["latency p99"].alone == 4
    assert found["latency p99"].beside == 12
    ratio = found["latency p99"].ratio
    assert ratio is not None
    assert (ratio.low, ratio.middle, ratio.high) == (3, 3, 3)
    assert found["lost"].ratio is None, "nothing was lost alone"


@pytest.mark.slow
def test_a_storm_of_names_runs_beside(run: RunCommand, tmp_path: Path) -> None:
    storm = "metadata --items 300 --iterations 3 --size 1KiB --rename --threads 2"
    finished = run("bench", "frames", str(tmp_path), *FRAMES, "--background", storm, "--blocks", "1")
    campaign = campaign_of(finished.stdout)
    (beside,) = (each.run for each in campaign.runs if each.case == "background")
    (check,) = (check for check in beside.checks if check.name == "background load active")
    assert "started 0 times" not in check.actual
    assert beside.frames is not None
    assert beside.frames.written == 120
    assert list(tmp_path.iterdir()) == []


def test_names_are_measured_alone_and_beside(run: RunCommand, tmp_path: Path) -> None:
    options = ("--items", "400", "--iterations", "2", "--yes", "--json")
    finished = run("bench", "metadata", str(tmp_path), *options, "--background", STREAM, "--blocks", "1")
    campaign = campaign_of(finished.stdout)
    assert [len(each.run.metadata) for each in campaign.runs] == [8, 8]
    assert list(tmp_path.iterdir()) == []


def test_a_storm_that_keeps_its_names_cannot_be_repeated(run: RunCommand, tmp_path: Path) -> None:
    finished = run("bench", "frames", str(tmp_path), *FRAMES, "--background", "metadata --no-remove")
    assert finished.returncode == 2
    assert "--no-remove" in finished.stderr
