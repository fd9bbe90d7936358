"""Decisions depend on the code of a failure, whatever its sentence says."""

import errno
import json
from functools import partial
from pathlib import Path

import pytest
from bench_documents import frames_document
from marked import mark

from penstock.bench.data.folder import BenchFolder, FileSet
from penstock.bench.judge.checks import NO_SPACE_ADVICE, check_complete
from penstock.model.bench.load import LoadDocument
from penstock.model.errors import PenstockError
from penstock.model.events import DetectorSeriesEnd, Failed, parse_event
from penstock.model.failure import Failure, failure_of
from penstock.model.plans import DetectorPlan, FilesTarget, TcpTarget, ZmqTarget
from penstock.programs.load import load
from penstock.programs.simulate import _target_remedy


def failed_document(code: str, sentence: str) -> LoadDocument:
    return frames_document(problem=sentence, failure={"code": code, "path": "a", "detail": sentence})


@pytest.mark.parametrize(
    ("code", "sentence", "is_no_space"),
    [
        ("no_space", "the allowance is used up", True),
        ("io", "write no space left on the storage.bin: it failed", False),
    ],
)
def test_a_full_storage_is_known_by_the_code(code: str, sentence: str, is_no_space: bool) -> None:
    check = check_complete(failed_document(code, sentence))
    assert (check.advice == NO_SPACE_ADVICE) == is_no_space
    assert check.actual == sentence


def test_a_document_of_an_older_program_has_no_failure() -> None:
    document = frames_document(problem="no space left on the storage").model_dump(mode="json")
    del document["failure"]
    old = LoadDocument.model_validate(document)
    assert old.failure is None
    assert check_complete(old).outcome == "failed"


def test_the_code_of_an_exception_is_that_of_its_cause() -> None:
    try:
        try:
            raise OSError(errno.EDQUOT, "said in another language")
        except OSError as error:
            raise PenstockError("the copy failed", "free space") from error
    except PenstockError as error:
        assert failure_of(error) == Failure(code="no_space", detail="the copy failed")
    assert failure_of(ValueError("x")).code == "io"


TCP = TcpTarget(host="127.0.0.1", port=9900)
ZMQ = ZmqTarget(endpoint="tcp://127.0.0.1:31001")


@pytest.mark.parametrize(
    ("target", "code", "is_begun", "remedy"),
    [
        (TCP, "disconnected", False, "check that a recorder listens"),
        (TCP, "io", False, "check that a recorder listens"),
        (TCP, "timed_out", True, "check that a recorder listens"),
        (TCP, "io", True, ""),
        (TCP, "refused", False, ""),
        (ZMQ, "timed_out", False, "check that a recorder pulls"),
        (ZMQ, "io", False, ""),
        (FilesTarget(folder="/x", format="cbf"), "no_space", True, "check the free space"),
    ],
)
def test_the_remedy_of_a_target_depends_on_the_code(
    target: TcpTarget | ZmqTarget | FilesTarget, code: str, is_begun: bool, remedy: str
) -> None:
    plan = DetectorPlan.model_construct(to=target, elements_told=True)  # type: ignore[call-arg]
    found = _target_remedy(plan, Failure(code=code, detail="connect to: no receiver"), is_begun)
    assert found.startswith(remedy)
    assert bool(found) == bool(remedy)


def test_failures_of_programs_are_events() -> None:
    line = json.dumps({"event": "failed", "code": "io", "path": "a", "detail": "it failed", "number": 200})
    failed = parse_event("penstock-recover", line)
    assert isinstance(failed, Failed)
    assert failed.failure == Failure(code="io", path="a", detail="it failed")
    end = parse_event("penstock-detector", json.dumps({"event": "series_end", "failure": {"code": "io"}}))
    assert isinstance(end, DetectorSeriesEnd)
    assert end.failure == Failure(code="io")


def test_what_a_run_created_is_known_though_it_measured_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of its files was in the way."""
    events = [
        {"event": "made", "made": {"files": [[0, 0]], "partial": [], "names": []}},
        {"event": "failed", "code": "already_exists", "path": "", "detail": "the name is taken"},
    ]
    (tmp_path / "events").write_text("".join(json.dumps(each) + "\n" for each in events))
    program = tmp_path / "penstock-load"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {tmp_path}/events\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    folder = BenchFolder.make(tmp_path)
    folder.announce(FileSet(prefix="frame-", count=2))
    own, mine = (folder.path / f"frame-{number:09}.bin" for number in range(2))
    own.write_text("x")
    mark(own)
    mine.write_text("the user's")
    with pytest.raises(PenstockError, match="exit code 1"):
        load(frames_document().plan, lambda _: None, on_made=partial(folder.note_made, "frame-"))
    with pytest.raises(PenstockError, match=f"{mine.name} does not belong to this run"):
        folder.remove()
    folder.close()
    assert mine.exists()
    assert not own.exists()
