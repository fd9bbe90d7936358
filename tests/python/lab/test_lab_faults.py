"""Servers of real laboratories fail and come back while a campaign's frames are written."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Probe, Run, free_name, mounts, requires, up

from penstock.lab.control import state_of
from penstock.lab.place import place_of, places
from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run as Measured

FILE = """\
title: Faults
workload: frames
parameters: {rate: 20, frame_size: 64 KiB, seconds: 6, buffer_seconds: 20, layout: file_a_writer}
vary: {faults: [CASES]}
schedules: {away: [{at_s: 2, server: 2, fault: FAULT}, {at_s: 4, server: 2, fault: heal}]}
views: [{kind: table, value: dip, rows: faults}]
blocks: 1
"""


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def campaign_file(folder: Path, fault: str, cases: str = "away") -> Path:
    file = folder / "faults.yaml"
    file.write_text(FILE.replace("FAULT", fault).replace("CASES", cases), encoding="utf-8")
    return file


def measured(run: Run, target: str, folder: Path, fault: str, cases: str = "away") -> list[Measured]:
    file, output = campaign_file(folder, fault, cases), folder / "campaign.json"
    done = run("campaign", str(file), "--target", target, "--output", str(output), "-y")
    campaign = Campaign.model_validate_json(output.read_text(encoding="utf-8"))
    assert campaign.complete, done.stderr
    assert not campaign.failures, campaign.failures
    by_case = {each.case: each.run for each in campaign.runs}
    return [by_case[case.name] for case in campaign.cases]


def _runs(process: str) -> bool:
    """Laboratories of campaigns have the ID of the command in their name; other tests have their own."""
    return Path(f"/proc/{process}").exists()


@pytest.mark.slow
@requires("moosefs")
def test_a_killed_server_costs_no_frame(run: Run, tmp_path: Path) -> None:
    target = "lab:moosefs,servers=3,goal=2,disks=loop:400MiB"
    calm, disturbed = measured(run, target, tmp_path, "fail", "none, away")
    assert (calm.faults, calm.stored) == ([], None)
    _assert_as_scheduled(disturbed, "fail")
    ended = [each.name for each in places() if not _runs(each.name.removeprefix("campaign-"))]
    assert not [name for name in ended if name.startswith("campaign-")]


@requires("gluster")
def test_a_stalled_brick_costs_no_frame(run: Run, tmp_path: Path) -> None:
    (disturbed,) = measured(run, "lab:gluster,servers=3,disks=loop:400MiB", tmp_path, "stall")
    _assert_as_scheduled(disturbed, "stall")


def _assert_as_scheduled(run: Measured, fault: str) -> None:
    (found,) = run.faults
    assert (found.server, found.fault) == (2, fault)
    assert found.began_s == pytest.approx(2, abs=1)
    assert found.ended_s is not None
    assert 1.5 < found.ended_s - found.began_s < 8
    assert found.healed_s is not None
    assert found.before_hz == pytest.approx(20, rel=0.3)
    assert found.dip_s is not None
    assert run.stored is not None
    assert (run.stored.written, run.stored.wrong) == (120, 0)


@pytest.mark.slow
@requires("moosefs")
def test_a_dip_is_as_long_as_an_independent_probe_sees_it(run: Run, tmp_path: Path, name: str) -> None:
    """Both servers have a copy of everything: without one of them nothing is written.

    Their disks are in memory: on a disk that others write to, a sync of the probe takes seconds.
    """
    up(run, "moosefs", name, "--servers", "2", "--option", "goal=2", "--disks", "ram:400MiB")
    (mount,) = mounts(name)
    probe = Probe(mount)
    probe.start()
    (disturbed,) = measured(run, f"lab:{name}", tmp_path, "stall")
    probe.stop.set()
    probe.join()
    (found,) = disturbed.faults
    assert found.dip_s is not None
    assert found.dip_s == pytest.approx(probe.longest_s, abs=0.5)
    assert found.dip_s > 1.5
    assert found.returned_s == pytest.approx(found.dip_s, abs=0.5)
    assert all(node.state == "up" for node in state_of(place_of(name)).nodes)
    assert [each.name for each in mount.iterdir()] == ["probe"]


@pytest.mark.slow
@requires("moosefs")
def test_an_interrupted_campaign_leaves_no_server_failed(run: Run, tmp_path: Path, name: str) -> None:
    up(run, "moosefs", name, "--servers", "3")
    file, output = campaign_file(tmp_path, "fail"), tmp_path / "campaign.json"
    command = [sys.executable, "-m", "penstock", "campaign", str(file), "--target", f"lab:{name}"]
    with subprocess.Popen([*command, "--output", str(output), "-y"], stderr=subprocess.PIPE) as campaign:
        _wait_for(name, "failed", 60)
        os.kill(campaign.pid, signal.SIGINT)
        _, words = campaign.communicate(timeout=60)
    assert campaign.returncode == 1, words
    assert all(node.state == "up" for node in state_of(place_of(name)).nodes)
    assert json.loads(output.read_text(encoding="utf-8"))["runs"] == []


def _wait_for(name: str, state: str, seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while all(node.state != state for node in state_of(place_of(name)).nodes):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@requires("xfs")
def test_a_fault_of_a_server_is_refused_where_none_could_fail(run: Run, tmp_path: Path, name: str) -> None:
    up(run, "xfs", name, "--servers", "1")
    file = campaign_file(tmp_path, "fail")
    done = run("campaign", str(file), "--target", f"lab:{name}", "--dry-run")
    assert done.returncode == 2
    assert f"--target {name}: the fault at 2 s: XFS has no servers that could fail" in done.stderr
