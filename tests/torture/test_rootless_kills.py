"""Laboratories of an ordinary user whose command, supervisor or guard is killed: nothing stays behind."""

import os
import random
import signal
import subprocess
import time

import pytest
from ordinary_users import User, new_user, open_fuse, possible, requires
from rounds import rounds, say, seed

pytestmark = possible

# From the first process until it is up.
SYSTEMS = {"xrootd": 1.0, "moosefs": 4.0}
ENDS = ("down", "failed up", "command", "supervisor", "guard", "both")


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param(each, marks=requires(each)) for each in SYSTEMS])
def test_nothing_stays_behind_of_an_ordinary_user(system: str) -> None:
    for number in range(rounds(1)):
        for end in ENDS:
            dice = random.Random(f"{seed() + number} {system} {end}")
            with new_user() as user:
                if system == "moosefs":
                    open_fuse(user)
                _round(user, system, end, dice)
                assert user.run("lab", "down", user.name).returncode != 0
                user.without_traces()
            say(f"{system} without root, round {number}, {end}: nothing left")


def _round(user: User, system: str, end: str, dice: random.Random) -> None:
    options = ["--link", "1b/s"] if end == "failed up" else []  # tc refuses so little
    words = ("lab", "up", system, "--name", user.name, "--disks", "ram:400MiB", *options)
    command = subprocess.Popen(
        user.command(*words),
        env=user.environment,
        cwd=user.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if end == "command":
        time.sleep(0.2 + dice.uniform(0, SYSTEMS[system]))
        command.kill()
        command.wait()
        _until_up_or_gone(user)
        user.run("lab", "down", user.name)  # it may have been up before, and stays
    else:
        code = command.wait(timeout=120)
        assert (code == 0) == (end != "failed up")
    if end == "down":
        assert user.run("lab", "down", user.name).returncode == 0
    elif end in ("supervisor", "guard", "both"):
        _kill(user, system, end)
    user.without_traces()


def _kill(user: User, system: str, end: str) -> None:
    """While a command uses the laboratory."""
    inside = user.start("lab", "exec", user.name, "--", "sleep", "600")
    guard, supervisor = user.watchers()
    network = user.network()
    for victim in {"supervisor": [supervisor], "guard": [guard]}.get(end, [guard, supervisor]):
        os.kill(victim, signal.SIGKILL)
    inside.communicate(timeout=60)
    if end == "both":
        deadline = time.monotonic() + 30
        while user.holders():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert user.run("lab", "list").returncode == 0
    user.without_traces(network)


def _until_up_or_gone(user: User) -> None:
    """The supervisor of a killed command ends by itself, unless it is up."""
    deadline = time.monotonic() + 30
    while user.holders() and not (user.laboratories / user.name / "state.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
