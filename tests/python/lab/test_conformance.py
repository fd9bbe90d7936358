"""The conformance suite: it finds a broken promise, and two systems keep theirs."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laboratories import Run, requires

from penstock.lab import disks
from penstock.lab.conformance import files
from penstock.lab.conformance import run as conformance
from penstock.lab.conformance.check import BrokenError, Finding, NotApplicableError, Outcome, Place
from penstock.lab.conformance.faults import full_system
from penstock.lab.conformance.model import random_operations
from penstock.lab.conformance.run import CHECKS
from penstock.lab.disks import Disks, growth_problem, growth_warning, require_memory
from penstock.lab.request import LabState, NodeState
from penstock.model.errors import UsageError

NAME = f"t{os.getpid()}-conform"


class NoFaults:
    def kill_client(self, number: int) -> None: ...
    def kill_server(self, number: int) -> None: ...
    def start_server(self, number: int) -> None: ...
    def wait_until_healed(self) -> None: ...


def node_state(name: str, state: str = "up", mount: str = "") -> NodeState:
    return NodeState(name=name, address="", processes=0, state=state, mount=mount)


def place(first: Path, second: Path) -> Place:
    return Place(first, second, 1, False, False, "the disks are directories", NoFaults())


@pytest.mark.parametrize(
    "check",
    [
        files.seen_after_close,
        files.seen_after_sync,
        files.disjoint_writers,
        files.appending_writers,
        files.truncation,
        files.names,
        files.extended_attributes,
        random_operations,
    ],
)
def test_what_the_other_client_does_not_see_is_found(
    check: Callable[[Place], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders that have nothing to do with each other, as clients of a system that keeps no promise."""
    monkeypatch.setattr(files, "_FILES", 20)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with pytest.raises((BrokenError, OSError)):
        check(place(first, second))


def test_a_full_system_is_not_tried_where_it_would_fill_this_machine(tmp_path: Path) -> None:
    with pytest.raises(NotApplicableError, match=r"not checked: the disks are directories.*--disks ram"):
        full_system(place(tmp_path, tmp_path))
    assert not list(tmp_path.iterdir())


def test_disks_that_could_fill_this_machine_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "server-1.img"
    with image.open("wb") as file:
        file.truncate(4 << 30)
    monkeypatch.setattr(disks, "free_bytes", lambda _: 3 << 30)
    assert growth_problem([image], []) == "disks may grow by 4 GiB, and 3 GiB are free"
    warning = growth_warning(Disks.parse("loop:1GiB"), 4, tmp_path / "new")
    assert warning.startswith(
        "warning: --disks loop:1GiB: 4 disks could grow beyond the 3 GiB that are free in"
    )
    monkeypatch.setattr(disks, "free_bytes", lambda _: 5 << 30)
    assert growth_problem([image], []) == ""
    assert growth_warning(Disks.parse("loop:1GiB"), 4, tmp_path / "new") == ""
    not_readable = tmp_path / ("too long" * 99)  # as root's folder, for an ordinary user
    assert growth_warning(Disks.parse("ram:1GiB"), 4, not_readable) == ""


def test_disks_in_memory_fit_into_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    room = os.statvfs("/dev/shm")
    monkeypatch.setattr(disks, "free_memory_bytes", lambda: room.f_bfree * room.f_frsize // 2)
    assert growth_problem([], [Path("/dev/shm")]).startswith("disks may take ")
    monkeypatch.setattr(disks, "free_memory_bytes", lambda: 3 << 30)
    require_memory(Disks.parse("ram:1GiB"), 3)
    with pytest.raises(UsageError, match=r"--disks ram:1GiB: 4 disks of that size .* \(3 GiB\)"):
        require_memory(Disks.parse("ram:1GiB"), 4)


def test_a_lost_write_is_found_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truncate = os.truncate
    monkeypatch.setattr(os, "truncate", lambda path, size: truncate(path, size + 1))
    with pytest.raises(BrokenError, match="seed"):
        random_operations(place(tmp_path, tmp_path))


def test_the_model_agrees_with_this_machine(tmp_path: Path) -> None:
    assert "as the model says" in random_operations(place(tmp_path, tmp_path))


@pytest.fixture
def laboratory(run: Run) -> Iterator[Callable[..., list[dict[str, str]]]]:
    def conform(kind: str, *checks: str, disks: str = "loop:500MiB") -> list[dict[str, str]]:
        up = run("lab", "up", kind, "--name", NAME, "--disks", disks, "--clients", "2")
        assert up.returncode == 0, up.stderr
        only = [word for check in checks for word in ("--only", check)]
        done = run("lab", "conform", NAME, "--json", *only)
        found: list[dict[str, str]] = json.loads(done.stdout)
        assert len(found) == len(checks)
        return found

    yield conform
    run("lab", "down", NAME)


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A laboratory of two folders, whose first check leaves files and does not answer."""
    nodes = [node_state(f"client-{n}", mount=str(tmp_path)) for n in (1, 2)]
    state = LabState(name="silent", system="xfs", title="XFS", state="up", nodes=nodes)

    def silent(_: str, promise: str, below: str) -> tuple[Finding, str]:
        (tmp_path / below).mkdir()
        (tmp_path / below / "left").touch()
        outcome: Outcome = "kept" if promise != next(iter(CHECKS)) else "no answer"
        return Finding(promise=promise, outcome=outcome, detail=str(len(list(tmp_path.iterdir())))), ""

    monkeypatch.setattr(conformance, "_in_a_process", silent)
    monkeypatch.setattr(conformance, "state_of", lambda _: state)
    monkeypatch.setattr(conformance, "mount_of", lambda _: tmp_path)
    return tmp_path


def test_files_of_a_check_without_an_answer_are_removed_before_the_next(silent: Path) -> None:
    found = list(conformance.conform("silent", [], lambda _: None))
    assert [each.detail for each in found] == ["1"] * len(CHECKS)
    assert [each.outcome for each in found[:2]] == ["no answer", "kept"]
    assert not list(silent.iterdir())


def test_checks_after_files_that_cannot_be_removed_are_not_blamed(
    silent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert silent.is_dir()
    monkeypatch.setattr(conformance, "_ends", lambda *_: False)
    first, *later = conformance.conform("silent", [], lambda _: None)
    assert first.outcome == "no answer"
    assert {each.outcome for each in later} == {"not applicable"}
    why = 'not checked: the files of "closed files are seen by other clients" could not be removed'
    assert {each.detail for each in later} == {why}


def test_servers_that_a_check_left_failed_are_healed(silent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [node_state(f"client-{n}", mount=str(silent)) for n in (1, 2)]
    first, second = (node_state(f"server-{n}", state="failed") for n in (1, 2))
    before = LabState(name="silent", system="xfs", title="XFS", state="up", nodes=[*clients, first])
    after = before.model_copy(update={"nodes": [*clients, first, second]})
    states = iter([before])
    monkeypatch.setattr(conformance, "state_of", lambda _: next(states, after))
    asked: list[tuple[str, int | None]] = []

    def ask(_: object, what: str, number: int | None = None) -> dict[str, bool]:
        asked.append((what, number))
        return {"has_healed": True}

    monkeypatch.setattr(conformance, "ask", ask)
    list(conformance.conform("silent", ["holes"], lambda _: None))
    assert asked == [("heal", 2), ("has_healed", None)]


@pytest.mark.slow
@requires("moosefs")
def test_moosefs_keeps_what_was_synced(laboratory: Callable[..., list[dict[str, str]]]) -> None:
    found = laboratory(
        "moosefs",
        "several writers of one file",
        "synced data survive a killed server",
        "synced data survive the loss of all servers",
        "synced data survive a killed client",
    )
    assert [each for each in found if each["outcome"] != "kept"] == []


@pytest.mark.slow
@requires("moosefs")
def test_the_model_compares_two_clients(laboratory: Callable[..., list[dict[str, str]]]) -> None:
    """MooseFS shows data of the other client late, the later the busier the machine is."""
    (found,) = laboratory("moosefs", "random operations of two clients")
    assert found["outcome"] in ("kept", "broken")
    assert "seed" in found["detail"] or found["outcome"] == "kept"


@pytest.mark.slow
@requires("xfs")
def test_a_full_file_system_of_the_kernel(laboratory: Callable[..., list[dict[str, str]]]) -> None:
    killed, full = laboratory("xfs", "a full system", "synced data survive a killed server")
    assert (full["outcome"], killed["outcome"]) == ("kept", "not applicable"), (full, killed)


@requires("xfs")
def test_one_client_is_not_enough(run: Run) -> None:
    name = f"{NAME}-1"
    assert run("lab", "up", "xfs", "--name", name, "--disks", "loop:400MiB").returncode == 0
    try:
        refused = run("lab", "conform", name)
        assert (refused.returncode, "--clients 2" in refused.stderr) == (2, True)
    finally:
        run("lab", "down", name)
