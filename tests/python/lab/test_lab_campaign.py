"""A campaign brings its laboratories up one after another, and one that fails costs its own runs."""

import json
from pathlib import Path

import pytest
from laboratories import Run, requires

from penstock.cli.campaign.targets import targets_of
from penstock.lab.clients import client_text
from penstock.lab.place import places
from penstock.model.bench.campaigns import Campaign
from penstock.model.errors import UsageError


def test_a_range_of_servers_is_a_target_each() -> None:
    found = targets_of(["lab:moosefs,servers=1..3,goal=1,local=disk", "disk=lab:ext4,disks=ram:1GiB"])
    assert [(each.name, each.servers, each.local) for each in found] == [
        ("moosefs-1", 1, "disk"),
        ("moosefs-2", 2, "disk"),
        ("moosefs-3", 3, "disk"),
        ("disk", 1, ""),
    ]
    assert found[1].laboratory == "moosefs,servers=2,goal=1"
    assert {each.system for each in found[:3]} == {"moosefs"}


def test_ranges_of_servers_and_clients_are_a_target_each() -> None:
    found = targets_of(["lab:moosefs,servers=2..3,clients=1..2,goal=1"])
    assert [(each.name, each.servers, each.clients, each.laboratory) for each in found] == [
        ("moosefs-2-clients-1", 2, 1, "moosefs,servers=2,clients=1,goal=1"),
        ("moosefs-2-clients-2", 2, 2, "moosefs,servers=2,clients=2,goal=1"),
        ("moosefs-3-clients-1", 3, 1, "moosefs,servers=3,clients=1,goal=1"),
        ("moosefs-3-clients-2", 3, 2, "moosefs,servers=3,clients=2,goal=1"),
    ]
    assert {each.system for each in found} == {"moosefs"}
    (one,) = targets_of(["lab:moosefs,clients=2"])
    assert (one.name, one.clients) == ("moosefs", 2)
    assert [each.name for each in targets_of(["lab:moosefs,servers=1..2,clients=2"])] == [
        "moosefs-1",
        "moosefs-2",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lab:none", ["none", "moosefs"]),
        ("lab:moosefs,servers=4..1", ["4..1"]),
        ("lab:moosefs,servers=0", ["'0'"]),
        ("lab:moosefs,clients=0..2", ["clients", "'0..2'"]),
        ("lab:moosefs,clients=33", ["clients", "'33'", "32"]),
        ("lab:moosefs,goal", ["goal"]),
        ("lab:moosefs,link=fast", ["fast"]),
        ("lab:moosefs,disk_rate=slow", ["slow"]),
        ("lab:xfs,disks=ram:1GiB,disk_rate=1MB/s", ["disks=loop:SIZE"]),
        ("lab:xfs,disks=tape", ["tape"]),
        ("lab:moosefs,colour=red", ["colour"]),
    ],
)
def test_wrong_settings_are_named(text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as found:
        targets_of([text])
    assert all(word in str(found.value.message) + found.value.remedy for word in words), found.value.message


@pytest.mark.slow
@requires("moosefs")
def test_a_campaign_on_two_systems(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "campaign.json"
    targets = ["lab:xfs,disks=loop:500MiB", "lab:moosefs,servers=2,disks=loop:500MiB,goal=1"]
    done = run(
        *("campaign", "metadata-operations", "--scale", "0.01", "--blocks", "2", "--yes"),
        *(word for target in targets for word in ("--target", target)),
        *("--output", str(output)),
    )
    campaign = Campaign.model_validate_json(output.read_text(encoding="utf-8"))
    assert campaign.complete, done.stderr
    assert not campaign.failures, done.stderr
    assert {each.run.conditions.file_system for each in campaign.runs} == {"xfs", "fuse"}
    order = [next(c.target for c in campaign.cases if c.name == each.case) for each in campaign.runs]
    assert sorted(order) == ["moosefs", "moosefs", "xfs", "xfs"]
    assert not [place for place in places() if place.name.startswith("campaign-")]


@pytest.mark.slow
@requires("moosefs")
def test_a_campaign_uses_each_number_of_clients(run: Run, tmp_path: Path) -> None:
    file, output = tmp_path / "streams.yaml", tmp_path / "campaign.json"
    file.write_text(
        "title: Streams\nworkload: stream\nparameters: {size: 4MiB, transfer: 1MiB, ranks: 2}\nblocks: 1\n"
        "views: [{kind: table, value: write, rows: clients, columns: [system]}]\n",
        encoding="utf-8",
    )
    target = "lab:moosefs,servers=1,clients=1..2,goal=1,disks=ram:400MiB"
    done = run("campaign", str(file), "--target", target, "--output", str(output), "--yes")
    campaign = Campaign.model_validate_json(output.read_text(encoding="utf-8"))
    assert not campaign.failures, done.stderr
    used = {}
    for each in campaign.runs:
        target_of_run = next(c.target for c in campaign.cases if c.name == each.case)
        assert each.run.document.problem is None
        assert each.run.document.job is not None
        used[target_of_run] = [client_text(f) for f in each.run.document.job.folders.values()]
    assert used == {"moosefs-1-clients-1": [], "moosefs-1-clients-2": ["client-1", "client-2"]}


@requires("btrfs")
def test_a_laboratory_that_does_not_come_up_costs_its_own_runs(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "campaign.json"
    done = run(
        *("campaign", "metadata-operations", "--scale", "0.01", "--blocks", "1", "--yes"),
        # Two mirrored copies of the metadata need two devices.
        *("--target", "lab:btrfs,servers=1,disks=loop:500MiB,raid=raid6"),
        *("--target", f"here={tmp_path}", "--output", str(output)),
    )
    assert done.returncode == 1
    document = json.loads(output.read_text(encoding="utf-8"))
    assert [len(document["runs"]), len(document["failures"])] == [1, 1]
    assert "mkfs.btrfs" in document["failures"][0]["problem"]
