"""Mount points of an ordinary user's laboratory: commands, recorder and campaigns start inside of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ordinary_users import User, new_user, open_fuse, possible, requires
from ports import free_ports

from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.runs import Run

pytestmark = [possible, requires("moosefs")]

_DISKS = ("--disks", "ram:400MiB")
_WITHIN_S = 60


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """With a laboratory that has two clients and one server."""
    with new_user() as found:
        open_fuse(found)
        found.up("moosefs", "--clients", "2", "--servers", "1", "--option", "goal=1", *_DISKS)
        yield found


def _mount(user: User, client: int = 1) -> str:
    return str(user.laboratories / user.name / f"client-{client}" / "mount")


@contextmanager
def _ended(command: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    with command:
        try:
            yield command
        finally:
            command.kill()


def _names(user: User) -> list[str]:
    return user.inside("ls", _mount(user)).stdout.split()


@pytest.mark.slow
def test_ranks_of_a_run_use_both_clients(user: User) -> None:
    done = user.run(
        *("bench", "stream", f"lab:{user.name}", "--size", "4MiB", "--ranks", "2", "--yes", "--json")
    )
    assert done.returncode in (0, 4), done.stderr  # so short a run is invalid
    run = Run.model_validate_json(done.stdout)
    assert (run.target, run.conditions.file_system) == (_mount(user), "fuse")
    assert run.document.job is not None
    own = user.laboratories / user.name
    clients = [Path(each).relative_to(own).parts[0] for each in run.document.job.folders.values()]
    assert clients == ["client-1", "client-2"]
    assert not _names(user)


@pytest.mark.slow
def test_a_recorder_receives_from_outside_and_ends_with_sigterm(user: User) -> None:
    address = f"127.0.0.1:{free_ports(1)}"
    with _ended(user.start("record", "--listen", address, "--folder", f"lab:{user.name}/")) as recorder:
        assert recorder.stderr is not None
        assert "listening" in recorder.stderr.readline()
        sent = user.run(
            *("simulate", "custom", "--rows", "64", "--columns", "64", "--frames", "20", "--rate", "100"),
            *("--to", f"tcp://{address}"),
        )
        assert sent.returncode == 0, sent.stderr
        recorder.send_signal(signal.SIGTERM)
        assert recorder.wait(_WITHIN_S) == 0
        # It has closed its file by then.
        (file,) = _names(user)
    done = user.run("check", f"lab:{user.name}/{file}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert user.inside("rm", f"{_mount(user)}/{file}").returncode == 0


@pytest.mark.slow
def test_promises_are_checked_with_faults(user: User) -> None:
    checks = ("exclusive creation", "synced data survive the loss of all servers")
    only = [word for check in checks for word in ("--only", check)]
    done = user.run("lab", "conform", user.name, *only, "--json")
    assert {each["promise"]: each["outcome"] for each in json.loads(done.stdout)} == dict.fromkeys(
        checks, "kept"
    ), done.stderr


@pytest.mark.slow
def test_a_stalled_server_costs_no_frame(user: User) -> None:
    done = user.run(
        *("lab", "degrade", user.name, "1", "--stall", "--rows", "64", "--columns", "64", "--rate", "20"),
        *("--seconds", "5", "--at", "1", "--away", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["frames"], found["missing"], found["different"]) == (100, 0, 0)
    assert found["dip_s"] > 1  # a busy machine stalls the server late


@pytest.mark.parametrize(("number", "by_name"), [(signal.SIGTERM, True), (signal.SIGKILL, False)])
def test_a_command_that_is_ended_leaves_no_process_inside(
    user: User, number: signal.Signals, by_name: bool
) -> None:
    target = f"lab:{user.name}" if by_name else _mount(user)
    words = ("bench", "frames", target, "--rate", "10", "--frame-size", "4KiB", "--seconds", "60", "--yes")
    _wait_until(lambda: _stores(user))  # other tests end servers, which are known again after some seconds
    with _ended(user.start(*words)) as command:
        _wait_until(lambda: bool(_names(user)) or command.poll() is not None)
        assert command.poll() is None, command.communicate()
        os.kill(command.pid, number)
        command.communicate(timeout=_WITHIN_S)
    _wait_until(lambda: "penstock bench" not in _processes(user))
    _wait_until(lambda: not _names(user))


def _stores(user: User) -> bool:
    blocks = user.inside("stat", "--file-system", "--format", "%b", _mount(user)).stdout.strip()
    return blocks not in ("", "0")


def _processes(user: User) -> str:
    return user.inside("ps", "-e", "-o", "args=").stdout


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.4)  # to look costs as much as a command


@requires("xrootd")
def test_a_command_inside_of_one_laboratory_does_not_reach_another(user: User) -> None:
    other = replace(user, name=f"{user.name}-b")
    other.up("xrootd")
    try:
        penstock = (sys.executable, "-m", "penstock")
        refused = user.inside(*penstock, "bench", "stream", f"lab:{other.name}", "--size", "4KiB", "--yes")
    finally:
        other.run("lab", "down", other.name)
    assert refused.returncode == 2
    assert f"laboratory {other.name} cannot be reached from inside of another" in refused.stderr
    assert "one command for each" in refused.stderr


@pytest.mark.slow
def test_a_campaign_brings_up_and_enters_each_size(user: User) -> None:
    file, output = user.home / "streams.yaml", user.home / "run" / "campaign.json"
    file.write_text(
        "title: Streams\nworkload: stream\nparameters: {size: 4MiB, ranks: 2}\nblocks: 1\n"
        "views: [{kind: table, value: write, rows: clients, columns: [system]}]\n",
        encoding="utf-8",
    )
    file.chmod(0o644)
    target = "lab:moosefs,servers=1,clients=1..2,goal=1,disks=ram:400MiB"
    done = user.run("campaign", str(file), "--target", target, "--output", str(output), "--yes")
    campaign = Campaign.model_validate_json(output.read_text(encoding="utf-8"))
    assert not campaign.failures, done.stderr
    assert sorted(len(each.run.document.job.folders) for each in campaign.runs if each.run.document.job) == [
        0,
        2,
    ]
    assert {each.run.conditions.file_system for each in campaign.runs} == {"fuse"}
    assert [each.name for each in user.laboratories.iterdir() if each.name.startswith("campaign")] == []
