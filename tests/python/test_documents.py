"""Documents that are written while they grow."""

import os
from pathlib import Path

import pytest
from bench_documents import frames_document, run_of
from pydantic import BaseModel

from penstock.files.documents import GrowingDocument, read_document
from penstock.model.errors import PenstockError
from penstock.model.runs import Run


def a_run(target: str) -> Run:
    return run_of(frames_document(), []).model_copy(update={"target": target})


def test_each_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    document = GrowingDocument(path)
    assert list(tmp_path.iterdir()) == []
    for target in ("/first", "/second"):
        document.write(a_run(target))
        read = read_document(path)
        assert isinstance(read, Run)
        assert read.target == target
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    document = GrowingDocument(path)
    path.write_text("mine")
    with pytest.raises(PenstockError, match=r"run\.json cannot be written"):
        document.write(a_run("/x"))
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


class Breaks(BaseModel):
    """Ends in the middle of being written."""

    def model_dump_json(self, **_options: object) -> str:
        raise KeyboardInterrupt


def test_an_interruption_leaves_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    document = GrowingDocument(path)
    document.write(a_run("/x"))
    with pytest.raises(KeyboardInterrupt):
        document.write(Breaks())
    assert read_document(path) == a_run("/x")
    assert list(tmp_path.iterdir()) == [path]
    document.write(a_run("/y"))
    (tmp_path / f"run.json.{os.getpid()}.new").write_text("mine")
    with pytest.raises(PenstockError):
        document.write(a_run("/z"))
    assert (tmp_path / f"run.json.{os.getpid()}.new").read_text() == "mine"
