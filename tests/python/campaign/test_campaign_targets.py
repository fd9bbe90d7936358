"""What the texts of `penstock campaign --target` say."""

from pathlib import Path

import pytest
from conftest import Run as RunCommand

from penstock.cli.campaign.targets import targets_of
from penstock.model.bench.campaigns import Campaign, Target
from penstock.model.errors import UsageError


def test_a_folder_may_have_a_name_servers_and_a_disk_like_theirs() -> None:
    assert targets_of(["/data", "ssd=/ssd", "fs=/mnt,servers=3,local=ssd"]) == [
        Target(name="/data", path="/data"),
        Target(name="ssd", path="/ssd"),
        Target(name="fs", path="/mnt", servers=3, local="ssd"),
    ]
    assert targets_of(["/data,servers=2"]) == [Target(name="/data", path="/data", servers=2)]


def test_a_url_is_a_target_as_it_is_written() -> None:
    assert targets_of(["x=root://h:1//p,servers=2", "nfs://h/e?version=4"]) == [
        Target(name="x", path="root://h:1//p", servers=2),
        Target(name="nfs://h/e?version=4", path="nfs://h/e?version=4"),
    ]


def test_one_name_with_several_numbers_of_servers_is_a_system() -> None:
    found = targets_of(["fs=/a,servers=1", "fs=/b,servers=20", "other=/c,servers=1"])
    assert [(target.name, target.system, target.servers) for target in found] == [
        ("fs-1", "fs", 1),
        ("fs-20", "fs", 20),
        ("other", "", 1),
    ]


def test_a_target_of_the_same_name_without_a_number_keeps_it() -> None:
    assert [target.name for target in targets_of(["a=/x,servers=2", "a=/y"])] == ["a-2", "a"]


def test_folders_with_odd_names_are_folders() -> None:
    for path in ("/a,b", "/a,servers=3/b", "/a,servers=3/", "/a=b,c=4"):
        (target,) = targets_of([f"x={path}"])
        assert (target.path, target.servers) == (str(Path(path)), None)
    (address,) = targets_of(["far=10.0.0.1:99"], of_network=True)
    assert address.path == "10.0.0.1:99"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "--target is missing"),
        (["a=/x", "a=/y"], 'two targets have the name "a"'),
        (["a=/x,servers=2", "a=/y,servers=2"], 'two targets have the name "a-2"'),
        (["a=/x,servers=0"], "servers is '0'"),
        (["a=/x,servers=many"], "servers is 'many'"),
        (["a=/x,servers=9999999"], "servers is '9999999'"),
        (["a=/x,servers="], "servers is ''"),
        (["a=/x,servers=2,servers=3"], "`servers` is given twice"),
        (["a=/x,servers=2,local=b"], 'local is "b", which is not another target'),
        (["a=/x,servers=2,local=a"], 'local is "a", which is not another target'),
        (["a=/x,local=b", "b=/y"], "local requires servers"),
        ([",servers=2"], "is not a folder"),
    ],
)
def test_texts_that_are_no_targets_are_named(texts: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        targets_of(texts)
    assert words in caught.value.message
    assert caught.value.remedy


SERVERS = """
title: Servers
workload: stream
parameters: {size: 1 MiB, transfer: 64 KiB, verify: false}
vary: {threads: [1, 2]}
blocks: 1
views:
  - {kind: plot, title: By servers, value: write, rows: servers, columns: [threads, system]}
  - {kind: plot, title: Of the disks, value: write, rows: servers, columns: [threads],
     share_of: {local: true}}
"""


@pytest.mark.slow
def test_a_campaign_of_file_systems_with_one_and_two_servers(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "servers.yaml").write_text(SERVERS)
    for name in ("disk", "one", "two"):
        (tmp_path / name).mkdir()
    targets = (
        "--target", f"fs={tmp_path}/one,servers=1,local=disk",
        "--target", f"fs={tmp_path}/two,servers=2,local=disk",
        "--target", f"disk={tmp_path}/disk",
    )  # fmt: skip
    output = tmp_path / "out.json"
    command = ("campaign", str(tmp_path / "servers.yaml"), *targets, "--output", str(output), "--yes")
    finished = run(*command)
    assert finished.returncode in (0, 4), finished.stderr
    assert "(2 servers, local disk disk)" in " ".join(finished.stderr.split())
    campaign = Campaign.model_validate_json(output.read_text())
    assert [target.name for target in campaign.targets] == ["fs-1", "fs-2", "disk"]
    assert len(campaign.runs) == 6
    assert "threads 2, system fs" in finished.stdout
    report = run("report", str(output), "--markdown", str(tmp_path / "out.md"))
    assert report.returncode == 0, report.stderr
    text = (tmp_path / "out.md").read_text()
    assert "Of the disks" in text
    assert run(*command, "--resume").returncode == finished.returncode
    other = run(*[word.replace("servers=2", "servers=3") for word in command], "--resume")
    assert other.returncode == 2
    assert "--target: " in other.stderr
