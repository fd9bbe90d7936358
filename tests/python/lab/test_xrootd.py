"""XRootD serves directly or through a redirector, starts again with its data and leaves nothing behind."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, free_name, has_healed, requires, up, wait_until_healed, without_traces

from penstock.lab.place import Place

pytestmark = requires("xrootd")


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def copy(run: Run, name: str, source: object, to: object, client: int = 1) -> int:
    command = ("timeout", "20", "xrdcp", "--silent", "--force", str(source), str(to))
    return run("lab", "exec", name, "--client", str(client), "--", *command).returncode


def stored(name: str) -> dict[str, int]:
    """Returns the number of the server that has each file."""
    files = Place(name).folder.glob("server-*/disk/root/data/*")
    return {each.name: int(each.parts[-5].removeprefix("server-")) for each in files}


def test_clients_read_what_they_wrote_after_the_server_was_killed(
    run: Run, name: str, tmp_path: Path
) -> None:
    before = set(Path("/tmp").glob("xrootd*"))
    state = up(run, "xrootd", name, "--clients", "2")
    assert set(Path("/tmp").glob("xrootd*")) == before
    assert state["mount"] == ""
    url = f"{state['url']}/a"
    (tmp_path / "in").write_bytes(os.urandom(1 << 20))
    assert copy(run, name, tmp_path / "in", url) == 0
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert run("lab", "fail", name, "1", "--yes").returncode == 0
    assert not has_healed(name)
    assert run("lab", "heal", name, "1").returncode == 0
    assert has_healed(name)
    assert copy(run, name, url, tmp_path / "out", client=2) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


@pytest.mark.slow
def test_a_redirector_spreads_files_and_finds_them_after_a_server_came_back(
    run: Run, name: str, tmp_path: Path
) -> None:
    url = up(run, "xrootd", name, "--servers", "2")["url"]
    (tmp_path / "in").write_bytes(os.urandom(1 << 20))
    for each in "abcd":
        assert copy(run, name, tmp_path / "in", f"{url}/{each}") == 0
    servers = stored(name)
    assert (set(servers), set(servers.values())) == ({*"abcd"}, {1, 2})
    lost = servers["a"]
    assert run("lab", "fail", name, str(lost), "--yes").returncode == 0
    assert not has_healed(name)
    deadline = time.monotonic() + 20
    while copy(run, name, tmp_path / "in", f"{url}/e") != 0:
        assert time.monotonic() < deadline
    assert stored(name)["e"] != lost
    assert run("lab", "heal", name, str(lost)).returncode == 0
    wait_until_healed(name)
    for each in "abcde":
        assert copy(run, name, f"{url}/{each}", tmp_path / each) == 0
        assert (tmp_path / each).read_bytes() == (tmp_path / "in").read_bytes()
    assert run("lab", "down", name).returncode == 0
    without_traces(name)


def test_two_laboratories_have_their_own_files(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1")
    with free_name() as other:
        urls = [up(run, "xrootd", each)["url"] for each in (name, other)]
        assert urls[0] == urls[1]
        assert copy(run, name, tmp_path / "in", f"{urls[0]}/a") == 0
        assert (list(stored(name)), list(stored(other))) == (["a"], [])
        assert copy(run, other, f"{urls[0]}/a", tmp_path / "out") != 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="requires curl")
@pytest.mark.parametrize("servers", [1, 2])
def test_files_are_the_same_over_http(run: Run, name: str, tmp_path: Path, servers: int) -> None:
    state = up(run, "xrootd", name, "--servers", str(servers))
    data = os.urandom(1 << 20)
    (tmp_path / "in").write_bytes(data)
    curl = 'curl --silent --fail --location "${PENSTOCK_LAB_HTTP_URL}a" "$@"'
    over_http = ("lab", "exec", name, "--", "sh", "-c", curl, "sh")
    assert run(*over_http, "--upload-file", str(tmp_path / "in")).returncode == 0
    assert copy(run, name, f"{state['url']}/a", tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == data
    assert run(*over_http, "--range", "5-9", "--output", str(tmp_path / "part")).returncode == 0
    assert (tmp_path / "part").read_bytes() == data[5:10]
    assert run(*over_http, "--request", "DELETE").returncode == 0
    assert stored(name) == {}
