"""Failures that a user can act on: one sentence with the address once, and a remedy."""

from pathlib import Path

import pytest

from penstock.files.aside import require_file
from penstock.model.errors import UsageError
from penstock.programs.failures import explained

_REPLY = "reply of tcp://h:1: the receiver rejects the"


@pytest.mark.parametrize(
    ("failure", "message", "remedy"),
    [
        (
            f"tcp://h:1: {_REPLY} connection: refused: hello: a token is required",
            "tcp://h:1: the recorder requires a token",
            "--token-file",
        ),
        (
            f'frame 3: {_REPLY} series: already_exists: series "s": a.h5 exists already',
            'frame 3: tcp://h:1: the recorder rejects the series "s": a.h5 exists already',
            "",
        ),
        (
            "listen on tcp://h:9900: another program listens there, perhaps a second one",
            "port 9900 is in use, perhaps by another `penstock record`",
            "--listen",
        ),
        (
            "listen on tcp://127.0.0.1:80: permission denied",
            "you have no permission to listen on port 80",
            "below 1024",
        ),
        ("the storage is full", "the storage is full", ""),
    ],
)
def test_failures_name_the_address_once(failure: str, message: str, remedy: str) -> None:
    found = explained(failure)
    assert found[0] == message
    assert remedy in found[1]
    assert bool(remedy) == bool(found[1])


def test_unreadable_file_is_a_matter_of_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    path.touch()
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match="no permission to read"):
        require_file(path)
