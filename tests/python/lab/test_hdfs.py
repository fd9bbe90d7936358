"""HDFS stores blocks on several servers, makes lost copies again and leaves nothing behind."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, free_name, requires, up, wait_until_healed, without_traces

from penstock.lab import packages
from penstock.lab.place import Place
from penstock.lab.systems.hdfs import Hdfs
from penstock.model.errors import PenstockError

_HOST = [Path("/tmp"), Path("/var/log"), Path("/run")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def on_this_machine() -> set[Path]:
    return {
        each for folder in _HOST for each in folder.iterdir() if "hadoop" in each.name or "hdfs" in each.name
    }


def shell(run: Run, name: str, *command: str) -> str:
    """Returns the output of a file system command of Hadoop."""
    done = run("lab", "exec", name, "--", "sh", str(Place(name).folder / "hdfs"), *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def copies(name: str, expected: int) -> int:
    """Counts complete blocks on the servers' disks, for up to 60 s until they are as many as expected.

    Hadoop closes a file when one server has the block; the others say later that theirs is complete.
    """
    deadline = time.monotonic() + 60
    while True:
        found = Place(name).folder.glob("server-*/disk/blocks/**/finalized/**/blk_*")
        count = len([each for each in found if each.suffix != ".meta"])
        if count >= expected or time.monotonic() > deadline:
            return count
        time.sleep(0.2)


@requires("hdfs")
def test_clients_read_and_write_while_a_server_is_killed_and_it_heals(
    run: Run, name: str, tmp_path: Path
) -> None:
    before = on_this_machine()
    state = up(run, "hdfs", name)
    assert state["url"] == "hdfs://10.78.0.100:8020"
    data = os.urandom(1 << 20)
    (tmp_path / "in").write_bytes(data)
    shell(run, name, "-put", str(tmp_path / "in"), "/a")
    assert copies(name, 3) == 3
    assert run("lab", "fail", name, "2").returncode == 0
    shell(run, name, "-put", str(tmp_path / "in"), f"{state['url']}/b")
    assert copies(name, 5) == 5
    assert run("lab", "heal", name, "2").returncode == 0
    wait_until_healed(name)
    assert copies(name, 6) == 6
    assert run("lab", "fail", name, "1").returncode == 0
    shell(run, name, "-get", "/b", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert on_this_machine() == before


@requires("hdfs")
def test_files_are_cut_and_copied_as_the_options_have_it(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(os.urandom(3 << 20))
    up(run, "hdfs", name, "--servers", "2", "--option", "copies=1", "--option", "block_size=1MiB")
    shell(run, name, "-put", str(tmp_path / "in"), "/a")
    assert copies(name, 3) == 3
    assert shell(run, name, "-stat", "%r %o %b", "/a").split() == ["1", str(1 << 20), str(3 << 20)]


@requires("hdfs")
def test_more_copies_than_servers_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "hdfs", "--name", name, "--disks", "loop:400MiB", "--option", "copies=4")
    assert done.returncode == 2
    assert "copies" in done.stderr
    without_traces(name)


def test_what_no_package_has_is_missing_until_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/true")
    monkeypatch.setattr(Hdfs, "lacks", classmethod(lambda _: "Hadoop"))
    assert (packages.missing(Hdfs).is_complete, packages.missing(Hdfs).besides) == (False, "Hadoop")
    with pytest.raises(PenstockError, match="Hadoop"):
        packages.require_programs(Hdfs)
    monkeypatch.setattr(Hdfs, "lacks", classmethod(lambda _: ""))
    assert packages.missing(Hdfs).is_complete
