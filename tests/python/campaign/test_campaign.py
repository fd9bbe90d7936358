"""`penstock campaign` and `penstock bench --repetitions` as a user runs them, interrupts and kills them."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run as RunCommand
from jsonschema import Draft202012Validator
from warm_command import popen

from penstock.bench.campaign.campaigns import (
    left_of,
    order_of,
)
from penstock.bench.data.folder import BenchFolder
from penstock.bench.run.jobs import NetworkJob
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import parameters_of
from penstock.bench.statistics.values import derived_of, values_of
from penstock.files.catalogue import Catalogue, default_path
from penstock.model.bench.campaigns import Campaign, Parameter

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "reference"
# Runs of a tenth of a second. Their figures are of no use to anybody, so that they are invalid.
QUICK = """
title: Quick
workload: frames
parameters: {rate: 0, frames: 20, writers: 1}
vary: {frame_size: [4 KiB, 8 KiB, 16 KiB]}
blocks: 4
"""


def valid_campaign(text: str) -> Campaign:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    schema = json.loads((SCHEMAS / "campaign.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    return Campaign.model_validate_json(text)


def described(folder: Path, text: str = QUICK) -> str:
    path = folder / "quick.yaml"
    path.write_text(text)
    return str(path)


def test_a_campaign_on_two_storages(run: RunCommand, tmp_path: Path, memory: Path) -> None:
    output, disk = tmp_path / "out.json", tmp_path / "disk"
    disk.mkdir()
    finished = run(
        "campaign", described(tmp_path), "--target", f"disk={disk}", "--target", f"memory={memory}",
        "--blocks", "2", "--seed", "5", "--output", str(output), "--yes", "--json",
    )  # fmt: skip
    assert finished.returncode in (0, 4), finished.stderr
    campaign = valid_campaign(finished.stdout)
    assert campaign == valid_campaign(output.read_text())
    assert campaign.complete
    assert campaign.failures == []
    names = [case.name for case in campaign.cases]
    for block in range(2):
        made = [each.case for each in campaign.runs if each.block == block]
        assert made == [names[number] for number in order_of(5, block, 6)]
    for each in campaign.runs:
        assert each.run.target == str(disk if each.case.endswith("target=disk") else memory)
        assert each.run.frames is not None
        assert each.run.frames.written == 20
    assert "run 12 of 12, block 2" in finished.stderr
    (entered,) = [each for each in Catalogue(default_path()).documents() if each.entry.path == str(output)]
    assert (entered.entry.kind, entered.entry.runs, entered.state) == ("campaign", 12, "there")
    assert list(memory.iterdir()) == list(disk.iterdir()) == []


def test_repetitions_are_a_campaign_with_one_case(run: RunCommand, tmp_path: Path, memory: Path) -> None:
    options = ("--frame-size", "4KiB", "--rate", "0", "--frames", "20", "--repetitions", "3", "--yes")
    finished = run("bench", "frames", str(memory), *options, "--output", str(tmp_path / "a.json"), "--json")
    assert finished.returncode in (0, 4), finished.stderr
    campaign = valid_campaign(finished.stdout)
    assert campaign == valid_campaign((tmp_path / "a.json").read_text())
    assert [(each.block, each.case) for each in campaign.runs] == [(n, "frames") for n in range(3)]
    shown = run("bench", "stream", str(memory), "--size", "1MiB", "--repetitions", "2", "--yes")
    assert "2 runs: " in shown.stdout
    refused = run("bench", "stream", str(memory), "--repetitions", "2", "--keep", "--yes")
    assert refused.returncode == 2
    assert list(memory.iterdir()) == []


def wait_until(process: "subprocess.Popen[str]", holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError(f"it did not come to that: {process.communicate(timeout=60)}")


@pytest.mark.slow
def test_a_killed_campaign_goes_on_where_it_stopped(run: RunCommand, tmp_path: Path, memory: Path) -> None:
    """Killed three times, at whatever it was doing; in the end it is as if nothing had been."""
    output = tmp_path / "out.json"
    command = ["campaign", described(tmp_path), "--target", str(memory), "--output", str(output), "--yes"]
    done: list[str] = []

    def has_grown() -> bool:
        text = output.read_text() if output.exists() else ""
        # The command first creates an empty file, to see whether it may, and removes it.
        return text != "" and len(Campaign.model_validate_json(text).runs) >= len(done) + 2

    for resume in ([], ["--resume"], ["--resume"]):
        with popen(*command, *resume) as process:
            wait_until(process, has_grown)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        campaign = valid_campaign(output.read_text())
        made = [each.model_dump_json() for each in campaign.runs]
        assert made[: len(done)] == done, "what was there stays"
        assert not campaign.complete
        done = made
    finished = run(*command, "--resume", "--json")
    assert finished.returncode in (0, 4), finished.stderr
    campaign = valid_campaign(output.read_text())
    assert [each.model_dump_json() for each in campaign.runs][: len(done)] == done
    assert campaign.complete
    names = [case.name for case in campaign.cases]
    planned = [(block, names[number]) for block in range(4) for number in order_of(1, block, 3)]
    assert [(each.block, each.case) for each in campaign.runs] == planned
    assert run(*command).returncode == 2, "a document that is there is not overwritten"
    again = run(*command, "--resume")
    assert again.returncode == finished.returncode
    assert valid_campaign(output.read_text()) == campaign


def test_an_interruption_tells_how_to_go_on(tmp_path: Path, memory: Path) -> None:
    text = QUICK.replace("rate: 0, frames: 20", "rate: 100, seconds: 600")
    output = tmp_path / "out.json"
    command = [
        "campaign",
        described(tmp_path, text),
        "--target",
        str(memory),
        "--output",
        str(output),
        "--yes",
    ]
    with popen(*command) as process:
        wait_until(process, lambda: any(memory.glob("*/frame-*.bin")))
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1, log
    assert "--resume" in log
    campaign = valid_campaign(output.read_text())
    assert campaign.runs == []
    assert len(list(left_of(campaign))) == 12
    assert list(memory.iterdir()) == []


def test_plans_are_shown_and_nothing_is_written(run: RunCommand, tmp_path: Path, memory: Path) -> None:
    command = ("campaign", described(tmp_path), "--target", str(memory))
    shown = run(*command, "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    plan = valid_campaign(shown.stdout)
    assert len(plan.cases) == 3
    assert plan.runs == []
    for word in ("3: frame_size=4 KiB", "12 remaining", "at most 328 kB at a time", "2.29 MB in all"):
        assert word in shown.stderr
    told = " ".join(shown.stderr.split())
    assert "the shortest phase moves 80 KiB: above 8.19 kB/s it takes less than 10 s" in told
    for more, words in (
        ((), ["--output"]),
        (("--output", "out.json"), ["--yes"]),
        (("--output", "absent/out.json"), ["absent/out.json", "does not exist"]),
        (("--output", "out.json", "--resume"), ["out.json", "cannot be opened"]),
        (("--target", str(memory), "--dry-run"), ["two targets"]),
        (("--target", "absent", "--dry-run"), ["absent", "does not exist"]),
    ):
        refused = run(*command, *more)
        assert refused.returncode == 2, refused.stderr
        assert all(word in refused.stderr for word in words), refused.stderr
    assert run("campaign").returncode == 2
    assert "pilatus-6m-rates" in run("campaign", "no-such-campaign", "--target", ".").stderr
    assert list(memory.iterdir()) == []


def test_a_plan_says_which_runs_are_too_short_to_be_valid(
    run: RunCommand, tmp_path: Path, memory: Path
) -> None:
    paced = QUICK.replace("{rate: 0, frames: 20, writers: 1}", "{rate: 40, frames: 20}")
    names = "workload: metadata\nparameters: {items: 5}\nblocks: 3\ntitle: Names\nvary: {threads: [1, 2]}\n"
    long_ = paced.replace("frames: 20", "frames: 4000")
    for text, words in (
        (paced, "3 of 3 cases at a rate may last only 500 ms: runs below 1 s are invalid"),
        (names, "operations that take less than 20 ms in total are left out"),
        (long_, ""),
    ):
        shown = run("campaign", described(tmp_path, text), "--target", str(memory), "--dry-run")
        assert shown.returncode == 0, shown.stderr
        assert words in " ".join(shown.stdout.split())
        assert ("warning" in shown.stdout) == bool(words)


def test_what_a_run_requires_besides_its_target_is_named_at_once(
    run: RunCommand, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRATCH", raising=False)
    refused = run(
        "campaign", "seismic-sort-on-demand", "--target", str(memory), "--scale", "0.01", "--dry-run"
    )
    assert refused.returncode == 2, refused.stderr
    assert "the variable $SCRATCH is not set" in refused.stderr
    assert "export SCRATCH=DIRECTORY" in refused.stderr


def test_the_largest_case_has_to_fit(run: RunCommand, tmp_path: Path, memory: Path) -> None:
    text = QUICK.replace("[4 KiB, 8 KiB, 16 KiB]", "[4 KiB, 4 GiB]").replace("frames: 20", "frames: 1000000")
    refused = run(
        "campaign",
        described(tmp_path, text),
        "--target",
        str(memory),
        "--output",
        str(tmp_path / "o"),
        "--yes",
    )
    assert refused.returncode == 1
    assert "4.29 PB" in refused.stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ('{"format":"penstock-campaign 1"}', "not a whole campaign"),
        ('{"format":"penstock-campaign 1","name":' + "[" * 100_000, "not a whole campaign"),
        ('{"format":"penstock-run 1"}', "not a whole run"),
    ],
)
def test_documents_of_others_are_not_resumed(
    text: str, words: str, run: RunCommand, tmp_path: Path, memory: Path
) -> None:
    output = tmp_path / "out.json"
    output.write_text(text)
    refused = run(
        "campaign", described(tmp_path), "--target", str(memory), "--output", str(output), "--resume", "--yes"
    )
    assert refused.returncode == 2
    assert words in refused.stderr or "out.json" in refused.stderr
    assert output.read_text() == text


def test_the_list_of_shipped_campaigns(run: RunCommand) -> None:
    listed = json.loads(run("campaign", "--list", "--json").stdout)
    assert {"pilatus-6m-rates", "scaling-with-clients"} <= set(listed)
    assert "PaN-data" in run("campaign", "--list").stdout


NETWORK = """
title: Both ways
workload: network
parameters: {seconds: 0.1, latency: "8B", latency_seconds: 0.1}
vary: {streams: [1, 2]}
blocks: 2
views:
  - {kind: table, value: "both: up", rows: streams, columns: [target]}
"""


def test_a_campaign_of_the_network_takes_addresses_and_stores_nothing(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    description = described(tmp_path, NETWORK)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        away = f"away=127.0.0.1:{nobody.getsockname()[1]}"
        options = ("--target", "local", "--target", away, "--output", "network.json", "--yes", "--json")
        finished = run("campaign", description, *options)
    assert finished.returncode == 1
    campaign = valid_campaign(finished.stdout)
    assert {target.path for target in campaign.targets} == {"local", away.removeprefix("away=")}
    assert len(campaign.runs) == 4
    assert {failure.case for failure in campaign.failures} == {
        case.name for case in campaign.cases if case.target == "away"
    }
    for each in campaign.runs:
        network = each.run.network
        assert network is not None
        assert {transfer.name for transfer in network.transfers} == {"up", "down", "both: up", "both: down"}
        assert [trips.message_bytes for trips in network.round_trips] == [8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.json", "quick.yaml"]
    assert run("campaign", description, *options, "--resume").returncode == 1, "nothing is left remaining"


@pytest.mark.parametrize(
    ("workload", "values"),
    [
        ("frames", {"frame_size": "4096 B", "rate": 50, "seconds": 0.1}),
        ("frames", {"frame_size": "4096 B", "rate": 0, "frames": 5}),
        ("stream", {"size": "1 MiB", "transfer": "64 KiB"}),
        ("stream", {"size": "1 MiB", "transfer": "64 KiB", "read": False}),
        ("metadata", {"items": 3}),
        ("metadata", {"items": 3, "file_size": "1 B", "rename": True}),
        ("network", {"seconds": 0.1, "latency": "8B,1KiB", "latency_seconds": 0.1, "link": "10Gb"}),
    ],
)
def test_runs_have_the_values_that_were_foretold(
    workload: str, values: dict[str, Parameter], memory: Path
) -> None:
    parameters, quiet = parameters_of(workload, values), Telling(lambda _: None, lambda _: None)
    job = parameters.job()
    if isinstance(job, NetworkJob):
        found = job.run("local", quiet)
    else:
        with BenchFolder.make(memory) as folder:
            found = job.run(folder, quiet)
    # Of an invalid run nothing is left out as too short.
    assert set(values_of(found.model_copy(update={"validity": "invalid"}))) == set(parameters.values())
    assert set(derived_of(found)) == set(parameters.derived())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{seconds: 0.1", "{seconds: 0.1, cpus: '999'"), ["999"]),
        (("{seconds: 0.1", "{seconds: 0.1, link: fast"), ["fast", "10Gb"]),
        (('"8B"', '"8B,lots"'), ["latency", "lots"]),
        (("streams: [1, 2]", "streams: [65]"), ["streams", "65"]),
    ],
)
def test_values_of_the_network_that_are_not_possible_are_named(
    change: tuple[str, str], words: list[str], run: RunCommand, tmp_path: Path
) -> None:
    description = described(tmp_path, NETWORK.replace(*change))
    finished = run("campaign", description, "--target", "local", "--dry-run")
    assert finished.returncode == 2, finished.stderr
    assert all(word in finished.stderr for word in words), finished.stderr


def test_a_target_that_is_read_only_is_refused_before_anything_is_tried(
    run: RunCommand, tmp_path: Path
) -> None:
    """Nobody, not even root, makes a folder in /proc."""
    output = tmp_path / "out.json"
    finished = run(
        "campaign", "metadata-operations", "--target", "/proc/sys/kernel", "--output", str(output), "--yes"
    )
    assert finished.returncode == 2, finished.stderr
    assert "write into /proc/sys/kernel" in finished.stderr
    assert not output.exists()


def test_a_target_of_the_network_is_an_address(run: RunCommand, tmp_path: Path) -> None:
    finished = run("campaign", described(tmp_path, NETWORK), "--target", "here:there", "--dry-run")
    assert finished.returncode == 2
    assert "here:there" in finished.stderr
