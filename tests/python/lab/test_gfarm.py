"""Gfarm makes copies of files, makes lost ones again and leaves nothing behind."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, free_name, has_healed, mounts, requires, up, wait_until_healed, without_traces

from penstock.lab.place import Place

pytestmark = requires("gfarm")


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def on_this_machine() -> set[Path]:
    return {*Path("/tmp").glob(".gfarm*"), *Path.home().glob(".gfarm*"), *Path("/var/lib/gfarmfs").iterdir()}


def _size_of(file: Path) -> int:
    """-1: Gfarm has just removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return -1


def holders(name: str, size_bytes: int) -> list[int]:
    """Returns the numbers of the servers that have a copy of a file, told by its size."""
    files = [each for each in Place(name).folder.glob("server-*/disk/spool/**/*") if each.is_file()]
    return sorted(
        int(each.parts[4].removeprefix("server-")) for each in files if _size_of(each) == size_bytes
    )


def test_clients_read_and_write_while_a_server_is_killed_and_it_heals(run: Run, name: str) -> None:
    before = on_this_machine()
    up(run, "gfarm", name, "--clients", "2")
    assert on_this_machine() == before
    first, second = mounts(name)
    data = os.urandom(1 << 20)
    (first / "a").write_bytes(data)
    wait_until_healed(name)
    lost, other = holders(name, len(data))
    assert run("lab", "fail", name, str(lost)).returncode == 0
    assert not has_healed(name)
    assert (second / "a").read_bytes() == data
    (second / "b").write_bytes(data + b"1")
    assert lost not in holders(name, len(data) + 1)
    assert run("lab", "heal", name, str(lost)).returncode == 0
    wait_until_healed(name)
    assert len(holders(name, len(data) + 1)) == 2
    assert run("lab", "fail", name, str(other)).returncode == 0
    assert (first / "a").read_bytes() == data
    assert (first / "b").read_bytes() == data + b"1"
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert on_this_machine() == before


def test_files_are_spread_without_copies_if_asked(run: Run, name: str) -> None:
    up(run, "gfarm", name, "--option", "copies=1")
    (mount,) = mounts(name)
    with contextlib.ExitStack() as files:
        for index in range(9):
            files.enter_context((mount / str(index)).open("wb", buffering=0)).write(bytes(1000))
    assert has_healed(name)
    assert len(holders(name, 1000)) == 9
    assert set(holders(name, 1000)) == {1, 2, 3}
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)


def test_two_laboratories_have_their_own_files(run: Run, name: str) -> None:
    with free_name() as other:
        for each in (name, other):
            up(run, "gfarm", each, "--servers", "1")
        (mounts(name)[0] / "a").write_bytes(b"1")
        assert list(mounts(other)[0].iterdir()) == []


def test_more_copies_than_servers_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "gfarm", "--name", name, "--disks", "loop:400MiB", "--option", "copies=4")
    assert done.returncode == 2
    assert "copies" in done.stderr
    without_traces(name)
