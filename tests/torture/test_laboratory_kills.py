"""Laboratories whose command, supervisor, guard or both are killed at any moment: nothing stays behind."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from laboratories import SMALL, free_name, requires, watchers, without_traces
from rounds import rounds, say, seed

from penstock.lab.control import laboratories, take_down
from penstock.lab.place import Place, is_up
from penstock.model.errors import PenstockError

# From the first process until it is up.
SYSTEMS = {"xfs": 0.4, "xrootd": 0.5, "moosefs": 3.0, "gluster": 8.0}
ENDS = ("down", "failed up", "command", "supervisor", "guard", "both")


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param(each, marks=requires(each)) for each in SYSTEMS])
def test_nothing_stays_behind(system: str) -> None:
    for number in range(rounds(1)):
        for end in ENDS:
            dice = random.Random(f"{seed() + number} {system} {end}")
            with free_name() as name:
                _round(system, name, end, dice)
                without_traces(name)
                _down_again(name)
                without_traces(name)  # another test's `lab list` may just look
            say(f"{system}, round {number}, {end}: nothing left")


def _round(system: str, name: str, end: str, dice: random.Random) -> None:
    options = ["--link", "1b/s"] if end == "failed up" else []  # tc refuses so little
    command = subprocess.Popen(
        [sys.executable, "-m", "penstock", "lab", "up", system, "--name", name, *SMALL, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if end == "command":
        time.sleep(0.2 + dice.uniform(0, SYSTEMS[system]))
        command.kill()
        command.wait()
        time.sleep(1.0)
        if Place(name).state.exists():  # it was up before, and stays
            take_down(name)
        return
    code = command.wait(timeout=120)
    assert (code == 0) == (end != "failed up")
    if end == "down":
        take_down(name)
    elif end != "failed up":
        guard, supervisor = watchers(name)
        for victim in {"supervisor": [supervisor], "guard": [guard]}.get(end, [guard, supervisor]):
            os.kill(victim, signal.SIGKILL)
        if end == "both":
            _wait_until_dead(name)
            _sweep_with_others(name)


def _wait_until_dead(name: str) -> None:
    deadline = time.monotonic() + 30
    while is_up(Place(name)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _sweep_with_others(name: str) -> None:
    """As the next `penstock lab list` does. It leaves a place to another test's that is there already."""
    deadline = time.monotonic() + 30
    while Place(name).folder.exists() and time.monotonic() < deadline:
        laboratories()
        time.sleep(0.2)


def _down_again(name: str) -> None:
    with pytest.raises(PenstockError):
        take_down(name)
    assert not is_up(Place(name))
