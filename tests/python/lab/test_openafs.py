"""OpenAFS serves two clients, starts again with its data and leaves nothing behind."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, contents_of, free_name, mounts, requires, up, without_traces

pytestmark = requires("openafs")
_HOST = [Path("/etc/openafs"), Path("/var/lib/openafs"), Path("/var/log/openafs"), Path("/afs")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def wait_for(file: Path, data: bytes, seconds_max: float) -> None:
    """Clients send data after a file is closed, and do not wait for it."""
    deadline = time.monotonic() + seconds_max
    while not file.exists() or file.read_bytes() != data:
        assert time.monotonic() < deadline, f"{file} does not have the data"
        time.sleep(0.1)


def test_clients_read_and_write_before_and_after_the_server_was_killed(run: Run) -> None:
    """The FUSE client of OpenAFS ends by itself now and then; another laboratory is tried then."""
    for attempt in range(3):
        with free_name() as name:
            try:
                return serves_before_and_after_a_kill(run, name)
            except OSError as error:
                if error.errno != errno.ENOTCONN or attempt == 2:
                    raise
    return None


def serves_before_and_after_a_kill(run: Run, name: str) -> None:
    before, root = contents_of(_HOST), set(Path("/").iterdir())
    up(run, "openafs", name, "--clients", "2")
    assert set(Path("/").iterdir()) == root
    first, second = mounts(name)
    data = os.urandom(6 << 20)
    (first / "a").write_bytes(data)
    wait_for(second / "a", data, 20)
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert run("lab", "fail", name, "1", "--yes").returncode == 0
    assert run("lab", "heal", name, "1").returncode == 0
    (second / "b").write_bytes(data)
    # The killed server has forgotten what the first client caches. A request tells the client.
    (first / "c").write_bytes(data)
    wait_for(first / "b", data, 30)
    wait_for(second / "c", data, 30)
    assert (first / "a").read_bytes() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert contents_of(_HOST) == before
    assert set(Path("/").iterdir()) == root


def test_two_laboratories_have_their_own_files(run: Run, name: str) -> None:
    with free_name() as other:
        up(run, "openafs", name)
        up(run, "openafs", other)
        (mounts(name)[0] / "a").write_bytes(b"1")
        assert list(mounts(other)[0].iterdir()) == []
        assert [each.name for each in mounts(name)[0].iterdir()] == ["a"]


def test_more_servers_than_one_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "openafs", "--name", name, "--servers", "2", "--disks", "loop:400MiB")
    assert done.returncode == 2
    assert "servers: 2" in done.stderr
    without_traces(name)
