"""ZFS (zfs-fuse) serves without a disk, resilvers it, and survives a kill of its daemon; two do not clash."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import (
    SMALL,
    Run,
    contents_of,
    free_name,
    mounts,
    requires,
    up,
    wait_until_healed,
    without_traces,
)

from penstock.lab.cgroups import Group
from penstock.lab.control import ask
from penstock.lab.place import place_of
from penstock.lab.systems.zfs import Zfs
from penstock.model.bench.degraded import Degraded

pytestmark = requires("zfs")
_HOST = [Path("/etc/zfs"), Path("/var/lib/zfs"), Path("/run/zfs"), Path("/run/lock/zfs"), Path("/zfs-kstat")]
with_daemon = pytest.mark.skipif(Zfs.FILE_SYSTEM != "fuse", reason="ZFS is the kernel's here")


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def kill_daemon(name: str) -> None:
    (process,) = Group(name, "meta").processes()
    os.kill(process, signal.SIGKILL)
    while states(name)["meta"] != "failed":
        time.sleep(0.01)


def states(name: str) -> dict[str, str]:
    nodes = ask(place_of(name), "state")["state"]["nodes"]
    return {node["name"]: node["state"] for node in nodes}


def synced(file: Path, size: int) -> bytes:
    data = os.urandom(size)
    with file.open("wb") as stream:
        stream.write(data)
        os.fsync(stream.fileno())
    return data


@with_daemon
def test_a_disk_that_was_out_has_all_data_when_another_one_is_out(run: Run, name: str) -> None:
    before = contents_of(_HOST)
    state = up(run, "zfs", name, "--clients", "2")
    assert "zfs-fuse" in state["title"]
    first, second = mounts(name)
    old = synced(first / "old", 4 << 20)
    assert run("lab", "fail", name, "2").returncode == 0
    assert (states(name)["server-1"], states(name)["server-2"]) == ("up", "failed")
    new = synced(first / "new", 4 << 20)
    assert run("lab", "heal", name, "2").returncode == 0
    wait_until_healed(name)
    assert run("lab", "fail", name, "1").returncode == 0
    kill_daemon(name)  # with its cache
    assert run("lab", "heal", name, "3").returncode == 0
    assert (second / "old").read_bytes() == old
    assert (second / "new").read_bytes() == new
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert contents_of(_HOST) == before


@with_daemon
def test_synced_data_survive_a_killed_daemon_and_nothing_stays_after_a_second_kill(
    run: Run, name: str
) -> None:
    up(run, "zfs", name)
    (mount,) = mounts(name)
    data = synced(mount / "a", 2 << 20)
    kill_daemon(name)
    with pytest.raises(OSError, match=r"not connected|abort"):
        (mount / "a").read_bytes()
    assert run("lab", "heal", name, "1").returncode == 0
    assert (mount / "a").read_bytes() == data
    kill_daemon(name)
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


def test_two_laboratories_have_their_own_pools(run: Run, name: str) -> None:
    with free_name() as other:
        up(run, "zfs", name, "--servers", "2", "--option", "raid=mirror")
        up(run, "zfs", other, "--servers", "1", "--option", "raid=stripe")
        (mounts(name)[0] / "a").write_bytes(b"1")
        assert list(mounts(other)[0].iterdir()) == []
        refused = run("lab", "fail", other, "1")
        assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
        assert run("lab", "down", other).returncode == 0
        without_traces(other)
        assert (mounts(name)[0] / "a").read_bytes() == b"1"


def test_a_raid_that_the_disks_do_not_allow_is_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "zfs", "--name", name, *SMALL, "--servers", "2", "--option", "raid=raidz2")
    assert done.returncode == 2
    assert "raid: raidz2 requires at least 3 disks" in done.stderr
    without_traces(name)


def test_a_series_is_complete_after_a_disk_was_out(run: Run, name: str) -> None:
    up(run, "zfs", name)
    done = run(
        *("lab", "degrade", name, "2", "--rows", "128", "--columns", "128"),
        *("--seconds", "6", "--at", "2", "--away", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    found = Degraded.model_validate_json(done.stdout)
    assert (found.missing, found.different, found.problem) == (0, 0, None)
    assert found.healed_s is not None
