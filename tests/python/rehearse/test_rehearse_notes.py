"""What a rehearsal says beside its answer: of the configuration, repeated steps, and an ssh that failed."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.bench.rehearse import course as module
from penstock.bench.rehearse.course import Told, room_advice
from penstock.bench.rehearse.request import Images, RehearsalRequest, notes_of, require_usable
from penstock.bench.rehearse.throughput import Throughput
from penstock.model.bench.rehearsals import RehearsalStep
from penstock.model.catalogue import Detector
from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.units import parse_size
from penstock.programs.ssh import shown_command, ssh_command, unreachable


def request_of(**settings: Any) -> RehearsalRequest:
    detector = Detector.model_validate({"name": "custom", "rows": 8, "columns": 8, "type": "uint16"})
    return RehearsalRequest(
        name="custom", images=Images(detector), rate_hz=10, seconds=1, search_s=0, times_max=2, soak_s=0,
        buffer_s=1, series_bytes=10**6, configuration=Configuration.model_validate(settings),
        configuration_file="beamline.yaml",
    )  # fmt: skip


def test_folder_that_a_recorder_could_not_use_is_noted(tmp_path: Path) -> None:
    (note,) = notes_of(request_of(folder=str(tmp_path / "gone")), {})
    assert note.startswith("`penstock record --config beamline.yaml` would not start: the folder")
    assert "does not exist; create it" in note


def test_advised_space_is_enough_for_a_rehearsal(tmp_path: Path) -> None:
    request = replace(request_of(), series_bytes=1000)
    with pytest.raises(UsageError) as refused:
        require_usable(request)
    advised = parse_size(refused.value.remedy.rsplit(" ", 1)[-1])
    require_usable(replace(request, series_bytes=advised))
    remedy = room_advice(request).to_fit(tmp_path, advised - 1)
    assert "must be at least" in remedy


def test_source_without_its_token_is_noted(tmp_path: Path) -> None:
    sources = [{"kind": "tcp", "listen": "0.0.0.0:9900"}]
    (note,) = notes_of(request_of(folder=str(tmp_path), sources=sources), {})
    assert "would not start" in note
    assert "requires a token" in note


@pytest.mark.parametrize("named", [True, False])
def test_configuration_that_starts_has_no_note(tmp_path: Path, *, named: bool) -> None:
    assert notes_of(request_of(**({"folder": str(tmp_path)} if named else {})), {}) == []


class _Chain:
    """Stands for the programs: steps are made up."""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    steps: list[RehearsalStep] = []

    def made(kind: str, rate_hz: float, *_: object) -> RehearsalStep:
        outcome = "measured" if kind == "full speed" else "not held"
        written_hz = 100.0 if kind == "full speed" else None
        values = {"kind": kind, "rate_hz": rate_hz, "outcome": outcome, "shortcomings": [], "series": []}
        return RehearsalStep.model_validate(
            values | {"seconds": 1.0, "sent_hz": 5000.0, "written_hz": written_hz}
        )

    monkeypatch.setattr(module, "step_of", made)
    folder = SimpleNamespace(path=tmp_path / "x")
    request = request_of(folder=str(tmp_path))
    plan = request.configuration.plan({})
    told = Told(lambda _: None, lambda _: None, lambda step, _: steps.append(step))
    found = module._Course(request, plan, folder, told)  # type: ignore[arg-type]
    throughput = Throughput(frames=1000, held=10, average_hz=90.0, steady_hz=100.0)
    made_up = SimpleNamespace(result=SimpleNamespace(stopped=False), throughput=throughput)
    monkeypatch.setattr(found, "_record", lambda *_: made_up)
    return found


def test_unpaced_step_that_is_too_short_is_repeated_and_never_the_result(
    course: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course, "_frames_enough", lambda _: 2000)
    course.take_unpaced(_Chain())
    *others, last = course.steps
    assert {each.repeated for each in others} == {"shorter than 5 s; repeated with more frames"}
    assert last.repeated == ""
    assert last.shortcomings == ["no unpaced throughput: shorter than 5 s"]
    assert course.rehearsal(None).unpaced_hz is None


def test_unpaced_step_that_memory_took_has_no_throughput(
    course: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 4 Hz, frames that are several times the pool would take minutes."""
    in_memory = Throughput(frames=50, held=50, average_hz=4.0, steady_hz=None)
    made_up = SimpleNamespace(result=SimpleNamespace(stopped=False), throughput=in_memory)
    monkeypatch.setattr(course, "_record", lambda *_: made_up)
    course.take_unpaced(_Chain())
    (step,) = course.steps
    assert step.shortcomings == [
        "no unpaced throughput: the recorder's memory held 50 of 50 frames when the last one arrived"
    ]
    assert course.rehearsal(None).unpaced_hz is None
    assert course.guess_hz == 4.0


def test_rate_that_was_not_sustained_is_repeated_to_confirm(course: Any) -> None:
    course.take_all(_Chain())
    assert [each.repeated for each in course.steps if each.kind == "rate"] == ["repeated to confirm", ""]


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (
            "ssh: Could not resolve hostname nohost.example: Name or service not known",
            "the name cannot be resolved",
            "getent hosts nohost.example",
        ),
        (
            "ssh: connect to host nohost.example port 22: Connection refused",
            "refuses connections",
            "start the ssh server on nohost.example",
        ),
        (
            "ssh: connect to host nohost.example port 22: Connection timed out",
            "cannot be reached",
            "ping nohost.example",
        ),
        (
            "me@nohost.example: Permission denied (publickey,password).",
            "does not accept your key",
            "ssh-copy-id me@nohost.example",
        ),
        (
            "Timeout, server nohost.example not responding.",
            "the connection was lost",
            "ssh me@nohost.example true",
        ),
        ("Host key verification failed.", "its host key is not known", "ssh me@nohost.example true"),
        ("something else", "ssh failed", "ssh me@nohost.example true"),
    ],
)
def test_failed_ssh_is_explained(words: str, message: str, remedy: str) -> None:
    error = unreachable("me@nohost.example", [words])
    assert message in error.message
    assert words in error.message
    assert remedy in error.remedy
    assert ("ssh-copy-id" in error.remedy) is ("Permission denied" in words)


def test_options_of_the_users_ssh_command_come_first() -> None:
    """ssh takes the first value of an option that it gets."""
    command = ssh_command({"PENSTOCK_SSH": " ssh -p 2222 -o ConnectTimeout=60 "})
    assert command[:5] == ["ssh", "-p", "2222", "-o", "ConnectTimeout=60"]
    assert "BatchMode=yes" in command
    assert ssh_command({"PENSTOCK_SSH": ""})[0] == "ssh"
    assert shown_command({}) == "ssh"


@pytest.mark.parametrize(
    ("ahead_s", "note"),
    [(0.4, None), (-0.4, None), (7.0, "7 s ahead of this machine's"), (-7200, "2 h 00 min behind this")],
)
def test_clocks_that_are_apart_are_noted(tmp_path: Path, ahead_s: float, note: str | None) -> None:
    request = replace(request_of(folder=str(tmp_path)), sender="dcu", sender_ahead_s=ahead_s)
    found = notes_of(request, {})
    assert [f"the clock of dcu is {note}" in each for each in found] == ([] if note is None else [True])
