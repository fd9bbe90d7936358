"""nfs-ganesha serves clients of its protocol, starts again with its data and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, contents_of, free_name, mounts, requires, up, without_traces

from penstock.lab.systems.ganesha import Ganesha

pytestmark = requires("ganesha")
_OVER_PROTOCOL = not Ganesha.is_mounted()
_HOST = [Path("/run/rpcbind"), Path("/run/ganesha"), Path("/var/lib/nfs"), Path("/var/log/ganesha")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


@pytest.mark.skipif(not _OVER_PROTOCOL, reason="this kernel mounts NFS")
def test_clients_read_what_they_wrote_after_the_server_was_killed(
    run: Run, name: str, tmp_path: Path
) -> None:
    before = contents_of(_HOST)
    state = up(run, "ganesha", name, "--clients", "2")
    assert (state["mount"], mounts(name)) == ("", [])
    at, _, settings = state["url"].partition("?")
    url = f"{at}/a?{settings}"
    data = os.urandom(1 << 20)
    (tmp_path / "in").write_bytes(data)
    assert run("lab", "exec", name, "--", "nfs-cp", str(tmp_path / "in"), url).returncode == 0
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert run("lab", "fail", name, "1", "--yes").returncode == 0
    assert run("lab", "exec", name, "--", "nfs-ls", state["url"]).returncode != 0
    assert run("lab", "heal", name, "1").returncode == 0
    assert run("lab", "exec", name, "--", "nfs-cp", url, str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out").read_bytes() == data
    listed = run("lab", "exec", name, "--", "nfs-ls", state["url"]).stdout.split()
    assert listed[-1] == "a"
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert contents_of(_HOST) == before


@pytest.mark.skipif(_OVER_PROTOCOL, reason="this kernel has no NFS client")
def test_mounts_of_two_clients_have_the_same_files(run: Run, name: str) -> None:
    up(run, "ganesha", name, "--clients", "2")
    first, second = mounts(name)
    (first / "a").write_bytes(b"through the server")
    assert (second / "a").read_bytes() == b"through the server"
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


@pytest.mark.skipif(not _OVER_PROTOCOL, reason="this kernel mounts NFS")
def test_two_laboratories_have_their_own_files(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1")
    with free_name() as other:
        urls = [up(run, "ganesha", each)["url"] for each in (name, other)]
        assert urls[0] == urls[1]
        to = urls[0].replace("?", "/a?")
        assert run("lab", "exec", name, "--", "nfs-cp", str(tmp_path / "in"), to).returncode == 0
        assert run("lab", "exec", name, "--", "nfs-ls", urls[0]).stdout != ""
        assert run("lab", "exec", other, "--", "nfs-ls", urls[0]).stdout == ""


def test_more_servers_than_one_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "ganesha", "--name", name, "--servers", "2", "--disks", "loop:400MiB")
    assert done.returncode == 2
    assert "servers: 2" in done.stderr
    without_traces(name)
