"""What happens to the directory of a run on a server that does not answer."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import typer

from penstock.bench.data import remote_folder
from penstock.bench.data.folder import FileSet
from penstock.bench.data.remote_folder import RemoteFolder, removal_of
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.storage_url import StorageUrl


@pytest.fixture
def url() -> Iterator[StorageUrl]:
    """Of a server that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield StorageUrl(f"http://127.0.0.1:{server.getsockname()[1]}/data")


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_folder, "_PATIENCE_AFTER_FAILURE_S", 0.5)


def end(folder: RemoteFolder, error: Exception) -> None:
    with folder:
        folder.announce(FileSet(prefix="a-", count=1000))
        raise error


def test_a_user_who_ended_the_run_reads_soon_what_is_left(url: StorageUrl) -> None:
    folder, begun = RemoteFolder(url), time.monotonic()
    with pytest.raises(PenstockError) as found:
        end(folder, typer.Exit(1))
    assert time.monotonic() - begun < 10
    assert found.value.message == f"{folder.path} may be left: the server did not answer for 0.5 s"
    assert f"curl --request DELETE {folder.path}/" in found.value.remedy


def test_what_ended_the_run_stays_its_error(url: StorageUrl) -> None:
    with pytest.raises(PenstockError) as found:
        end(RemoteFolder(url), PenstockError("broken", code=ExitCode.UNANSWERED))
    assert found.value.message.startswith("broken; ")
    assert "may be left" in found.value.message
    assert found.value.code == ExitCode.UNANSWERED


def test_a_run_that_made_nothing_asks_no_server(url: StorageUrl) -> None:
    with pytest.raises(typer.Exit), RemoteFolder(url):
        raise typer.Exit(1)


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("root://h:1//p/d", "gfal-rm -r root://h:1//p/d"),
        ("nfs://h/p/d", "mount the export"),
        ("hdfs://h/d", "hdfs dfs -rm -r hdfs://h/d"),
        ("s3://h:1/b/d", "aws s3 rm --recursive s3://b/d --endpoint-url http://h:1"),
        ("s3s://h/b/d", "aws s3 rm --recursive s3://b/d --endpoint-url https://h"),
        ("s3://b/d", "aws s3 rm --recursive s3://b/d"),
    ],
)
def test_each_protocol_has_a_command_that_removes(url: str, command: str) -> None:
    assert removal_of(StorageUrl(url)).endswith(command) or removal_of(StorageUrl(url)).startswith(command)
