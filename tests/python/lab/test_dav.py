"""Apache httpd serves WebDAV, starts again with its data and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import Run, contents_of, free_name, requires, up, without_traces

pytestmark = requires("dav")
_HOST = [Path("/var/log/apache2"), Path("/var/lock/apache2"), Path("/run/apache2"), Path("/etc/apache2")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def request(run: Run, name: str, url: str, *more: object, client: int = 1) -> int:
    """Returns the status of HTTP."""
    curl = ("curl", "--silent", "--write-out", "\n%{http_code}", *map(str, more), url)
    done = run("lab", "exec", name, "--client", str(client), "--", *curl)
    return int(done.stdout.splitlines()[-1])


def test_clients_read_what_they_wrote_after_the_server_was_killed(
    run: Run, name: str, tmp_path: Path
) -> None:
    before = contents_of(_HOST)
    state = up(run, "dav", name, "--clients", "2")
    assert (state["mount"], state["url"]) == ("", "http://10.78.0.1:8080/data/")
    url = f"{state['url']}new/a"
    data = os.urandom(1 << 20)
    (tmp_path / "in").write_bytes(data)
    assert request(run, name, url, "--upload-file", tmp_path / "in") == 409
    assert request(run, name, f"{state['url']}new", "--request", "MKCOL") == 201
    assert request(run, name, url, "--upload-file", tmp_path / "in") == 201
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert run("lab", "fail", name, "1", "--yes").returncode == 0
    assert request(run, name, url) == 0
    assert run("lab", "heal", name, "1").returncode == 0
    assert request(run, name, url, "--output", tmp_path / "out", client=2) == 200
    assert (tmp_path / "out").read_bytes() == data
    assert request(run, name, url, "--output", tmp_path / "part", "--range", "5-9", client=2) == 206
    assert (tmp_path / "part").read_bytes() == data[5:10]
    assert request(run, name, url, "--request", "DELETE") == 204
    assert request(run, name, url) == 404
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert contents_of(_HOST) == before


def test_two_laboratories_have_their_own_files(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1")
    with free_name() as other:
        urls = [f"{up(run, 'dav', each)['url']}a" for each in (name, other)]
        assert urls[0] == urls[1]
        assert request(run, name, urls[0], "--upload-file", tmp_path / "in") == 201
        assert request(run, name, urls[0]) == 200
        assert request(run, other, urls[0]) == 404


def test_more_servers_than_one_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "dav", "--name", name, "--servers", "2", "--disks", "loop:400MiB")
    assert done.returncode == 2
    assert "servers: 2" in done.stderr
    without_traces(name)
