"""Recording while a server fails: the times agree with those of a probe that does without the recorder."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from laboratories import SMALL, Probe, Run, free_name, requires

from penstock.bench.degraded.dip import dip_of
from penstock.model.bench.degraded import Degraded


def frames(seconds: float, rate_hz: float = 50.0) -> numpy.ndarray:
    return numpy.arange(0, seconds, 1 / rate_hz)


def test_a_dip_is_the_longest_silence_and_its_end() -> None:
    """At 50 Hz, nothing is written from 10 s to 13 s; what waited is then written until 14.5 s."""
    came = frames(20)
    written = came + 0.05
    away = (came >= 10) & (came < 13)
    written[away] = 13.0 + (came[away] - 10) * 0.5
    found = dip_of(came, written, 10.0, 13.0)
    assert found.before_hz == pytest.approx(50, rel=0.02)
    assert found.dip_s == pytest.approx(3.0, abs=0.1)
    assert found.returned_s == pytest.approx(3.0, abs=0.1)
    assert found.lowest_hz <= 3
    assert found.caught_up_s == pytest.approx(3.0, abs=0.1)


def test_without_a_dip_service_goes_on() -> None:
    came = frames(20)
    found = dip_of(came, came + 0.05, 10.0, 15.0)
    assert found.dip_s < 0.1
    assert found.lowest_hz == pytest.approx(50, abs=1)
    assert found.caught_up_s is not None
    assert found.caught_up_s < 5.1


def test_nothing_is_written_until_the_end() -> None:
    came = frames(20)
    written = numpy.where(came < 10, came + 0.05, 30.0)
    found = dip_of(came, written, 10.0, 28.0)
    assert found.returned_s == pytest.approx(20.0, abs=0.1)
    assert found.caught_up_s is None
    assert found.lowest_hz <= 3


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


@pytest.mark.slow
@requires("moosefs")
def test_the_only_server_stalls(run: Run, name: str) -> None:
    done = run(
        "lab", "up", "moosefs", "--name", name, *SMALL, "--servers", "1", "--option", "goal=1", "--json"
    )
    probe = Probe(Path(json.loads(done.stdout)["mount"]))
    probe.start()
    degraded = run(
        *("lab", "degrade", name, "1", "--stall", "--rows", "128", "--columns", "128"),
        *("--seconds", "10", "--at", "3", "--away", "3", "--json"),
    )
    probe.stop.set()
    probe.join()
    found = Degraded.model_validate_json(degraded.stdout)
    assert degraded.returncode == 0, degraded.stderr
    assert (found.missing, found.different, found.problem) == (0, 0, None)
    assert found.dip_s == pytest.approx(probe.longest_s, abs=0.5)
    assert 2.5 < found.dip_s < 6
    assert found.heal_s is not None
    assert found.heal_s - found.fault_s == pytest.approx(3.0, abs=0.5)
    assert found.returned_s >= found.dip_s - 0.5
    assert not [each for each in Path(json.loads(done.stdout)["mount"]).iterdir() if each.name != "probe"]


@pytest.mark.slow
@requires("moosefs")
def test_a_killed_server_of_three_costs_no_frame(run: Run, name: str, tmp_path: Path) -> None:
    assert run("lab", "up", "moosefs", "--name", name, *SMALL).returncode == 0
    output = tmp_path / "degraded.json"
    done = run(
        *("lab", "degrade", name, "2", "--rows", "128", "--columns", "128"),
        *("--seconds", "9", "--at", "3", "--away", "3", "--output", str(output)),
    )
    assert done.returncode == 0, done.stderr
    found = Degraded.model_validate_json(output.read_text(encoding="utf-8"))
    assert (found.frames, found.missing, found.different) == (450, 0, 0)
    assert found.healed_s is not None
    refused = run("lab", "degrade", name, "2", "--seconds", "9", "--at", "5", "--away", "5")
    assert (refused.returncode, "--seconds" in refused.stderr) == (2, True)
