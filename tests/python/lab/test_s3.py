"""Swift serves S3 with copies on several servers, makes lost copies again and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import (
    Run,
    contents_of,
    free_name,
    has_healed,
    requires,
    up,
    wait_until_healed,
    without_traces,
)

from penstock.lab.place import Place

pytestmark = requires("s3")
_SIGNED = """\
curl --silent --fail --aws-sigv4 "aws:amz:$AWS_DEFAULT_REGION:s3" \\
    --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \\
    "$AWS_ENDPOINT_URL/$@"
"""
_HOST = [Path("/etc/swift"), Path("/var/cache/swift"), Path("/run/swift"), Path("/srv/node")]


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def signed(run: Run, name: str, key: str, *more: object, client: int = 1) -> bool:
    """Returns whether a request that is signed with the keys in the command's environment succeeds."""
    words = ("sh", "-c", _SIGNED, "sh", key, *map(str, more))
    return run("lab", "exec", name, "--client", str(client), "--", *words).returncode == 0


def copies(name: str) -> list[int]:
    """Returns the numbers of the servers that have an object."""
    files = Place(name).folder.glob("server-*/disk/devices/lab/objects/*/*/*/*.data")
    return sorted(int(each.parts[4].removeprefix("server-")) for each in files)


def test_clients_read_and_write_while_a_server_is_killed_and_it_heals(
    run: Run, name: str, tmp_path: Path
) -> None:
    before = contents_of(_HOST)
    state = up(run, "s3", name, "--clients", "2")
    assert (state["mount"], state["url"]) == ("", "s3://10.78.0.100:8080/lab")
    data = os.urandom(1 << 20)
    (tmp_path / "in").write_bytes(data)
    put, get = ("--upload-file", tmp_path / "in"), ("--output", tmp_path / "out")
    assert signed(run, name, "lab/a", *put)
    assert copies(name) == [1, 2, 3]
    assert run("lab", "fail", name, "2").returncode == 0
    assert not has_healed(name)
    assert signed(run, name, "lab/b/c", *put, client=2)
    assert copies(name) == [1, 1, 2, 3, 3]
    assert run("lab", "heal", name, "2").returncode == 0
    assert not has_healed(name)
    wait_until_healed(name)
    assert copies(name) == [1, 1, 2, 2, 3, 3]
    assert run("lab", "fail", name, "1").returncode == 0
    assert signed(run, name, "lab/b/c", *get, "--range", "5-9")
    assert (tmp_path / "out").read_bytes() == data[5:10]
    assert signed(run, name, "lab/b/c", *get)
    assert (tmp_path / "out").read_bytes() == data
    assert run("lab", "down", name).returncode == 0
    without_traces(name)
    assert contents_of(_HOST) == before


def test_only_the_keys_of_the_laboratory_are_accepted(run: Run, name: str, tmp_path: Path) -> None:
    state = up(run, "s3", name, "--servers", "1")
    keys = state["environment"]
    shown = run("lab", "status", name).stdout
    assert f"AWS_SECRET_ACCESS_KEY={keys['AWS_SECRET_ACCESS_KEY']}" in shown.splitlines()
    assert signed(run, name, "lab")
    wrong = _SIGNED.replace("$AWS_SECRET_ACCESS_KEY", "wrong")
    assert run("lab", "exec", name, "--", "sh", "-c", wrong, "sh", "lab").returncode != 0
    assert run("lab", "exec", name, "--", "curl", "--fail", f"{keys['AWS_ENDPOINT_URL']}/lab").returncode != 0


def test_objects_are_spread_without_copies_if_asked(run: Run, name: str, tmp_path: Path) -> None:
    up(run, "s3", name, "--option", "copies=1")
    (tmp_path / "in").write_bytes(b"1")
    assert signed(run, name, "lab/[1-40]", "--upload-file", tmp_path / "in")
    assert len(copies(name)) == 40
    assert set(copies(name)) == {1, 2, 3}
    refused = run("lab", "fail", name, "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)


def test_more_copies_than_servers_are_refused(run: Run, name: str) -> None:
    done = run("lab", "up", "s3", "--name", name, "--disks", "loop:400MiB", "--option", "copies=4")
    assert done.returncode == 2
    assert "copies" in done.stderr
    without_traces(name)
