"""GlusterFS serves, heals and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, free_name, mounts, requires, up, wait_until_healed, without_traces

from penstock.lab.place import Place

pytestmark = requires("gluster")
_HOST = [Path("/run/gluster"), Path("/var/lib/glusterd"), Path("/var/log/glusterfs")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def copies(name: str, file: str) -> int:
    """Counts the file on the servers' disks."""
    return len([*Place(name).folder.glob(f"server-*/disk/brick/{file}")])


def on_this_machine() -> dict[Path, int]:
    return {each: each.lstat().st_mtime_ns for folder in _HOST for each in [folder, *folder.rglob("*")]}


def test_clients_read_and_write_while_a_server_is_killed_and_it_heals(run: Run, name: str) -> None:
    before = on_this_machine()
    up(run, "gluster", name, "--clients", "2")
    first, second = mounts(name)
    data = os.urandom(1 << 20)
    (first / "a").write_bytes(data)
    assert copies(name, "a") == 3
    assert run("lab", "fail", name, "2").returncode == 0
    assert (second / "a").read_bytes() == data
    (first / "b").write_bytes(data)
    assert copies(name, "b") == 2
    assert run("lab", "heal", name, "2").returncode == 0
    wait_until_healed(name)
    assert copies(name, "b") == 3
    assert run("lab", "fail", name, "1").returncode == 0
    assert (second / "b").read_bytes() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert on_this_machine() == before


@pytest.mark.parametrize(
    ("options", "on_disks"),
    [
        (["kind=distribute"], 10),
        (["copies=2", "shard=true"], 20),
        (["kind=disperse"], 30),
    ],
)
def test_files_are_placed_as_the_options_have_it(
    run: Run, name: str, options: list[str], on_disks: int
) -> None:
    given = [word for each in options for word in ("--option", each)]
    servers = "2" if "copies=2" in options else "3"
    up(run, "gluster", name, "--servers", servers, *given)
    (mount,) = mounts(name)
    for number in range(10):
        (mount / f"file-{number}").write_bytes(bytes([number]) * 8192)
    assert all((mount / f"file-{n}").read_bytes() == bytes([n]) * 8192 for n in range(10))
    assert copies(name, "file-*") == on_disks


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--servers", "3", "--option", "copies=2"], "copies"),
        (["--servers", "5"], "kind=disperse"),
        (["--option", "kind=disperse", "--option", "redundancy=2"], "redundancy"),
        (["--option", "kind=stripe"], "kind"),
    ],
)
def test_a_layout_that_the_servers_do_not_allow_is_refused(
    run: Run, name: str, options: list[str], word: str
) -> None:
    done = run("lab", "up", "gluster", "--name", name, "--disks", "loop:400MiB", *options)
    assert done.returncode == 2
    assert word in done.stderr
    without_traces(name)
