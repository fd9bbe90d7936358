"""CephFS serves, heals, lays files out as asked and leaves nothing behind."""

import os
import time
from collections.abc import Iterator

import pytest
from laboratories import Run, free_name, has_healed, mounts, requires, up, wait_until_healed, without_traces

pytestmark = requires("ceph")
_DISKS = ("--disks", "loop:2GiB")


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def test_clients_read_and_write_while_a_server_is_killed_and_it_heals(run: Run, name: str) -> None:
    up(run, "ceph", name, "--clients", "2", *_DISKS)
    first, second = mounts(name)
    data = os.urandom(1 << 20)
    (first / "a").write_bytes(data)
    wait_until_healed(name)
    assert run("lab", "fail", name, "2").returncode == 0
    assert not has_healed(name)
    assert (second / "a").read_bytes() == data
    (first / "b").write_bytes(data)
    assert run("lab", "heal", name, "2").returncode == 0
    assert not has_healed(name)
    wait_until_healed(name)
    # A placement group of 3 copies stops below 2: the healed server has its copy.
    assert run("lab", "fail", name, "1").returncode == 0
    assert (second / "b").read_bytes() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


def test_file_data_is_coded_and_striped_as_asked_and_a_device_is_held_to_a_rate(run: Run, name: str) -> None:
    options = ("erasure=2+1", "object_size=4MiB", "stripe_unit=1MiB", "stripe_count=2")
    up(run, "ceph", name, *_DISKS, *(word for each in options for word in ("--option", each)))
    (mount,) = mounts(name)
    file = mount / "a"
    file.write_bytes(b"1")
    layout = os.getxattr(file, "ceph.file.layout").decode()
    assert layout == "stripe_unit=1048576 stripe_count=2 object_size=4194304 pool=coded"
    assert run("lab", "slow", name, "1", "--disk", "4MB/s").returncode == 0
    begin = time.monotonic()
    with file.open("wb") as handle:
        handle.write(os.urandom(16 << 20))
        os.fsync(handle.fileno())
    # A third of 24 MiB goes to each server.
    assert time.monotonic() - begin > 1.5


def test_copies_without_servers_for_them_are_refused(run: Run, name: str) -> None:
    for option, word in (("copies=4", "copies"), ("erasure=3+1", "erasure"), ("erasure=3", "erasure")):
        done = run("lab", "up", "ceph", "--name", name, *_DISKS, "--option", option)
        assert done.returncode == 2
        assert word in done.stderr
    without_traces(name)
