"""The steps of a rehearsal that ends early, or loses frames: series are made up, and the rest is real."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rehearsed_series import FRAMES, RATE, recorded

from penstock.bench.rehearse import chain as chain_module
from penstock.bench.rehearse.chain import ChainFailedError, SeriesRequest
from penstock.bench.rehearse.course import Told, _Course
from penstock.bench.rehearse.outcome import Recorded
from penstock.bench.rehearse.request import Images, RehearsalRequest
from penstock.bench.rehearse.stages import window_of
from penstock.bench.run.early_end import INTERRUPTED, problem_of
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.catalogue import Detector
from penstock.model.configuration import Configuration
from penstock.model.errors import PenstockError
from penstock.model.events import DetectorSeriesEnd, StageTimes
from penstock.programs.process import Message

SERIES = 4


class Made:
    """A course whose soak has SERIES series, and the documents that it reported."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *results: Recorded | BaseException):
        detector = Detector(name="custom", rows=256, columns=256, type="uint16")
        request = RehearsalRequest(
            name="custom", images=Images(detector), rate_hz=RATE, seconds=10.0, search_s=0.0, times_max=1.0,
            soak_s=SERIES * FRAMES / RATE, buffer_s=1.0, series_bytes=FRAMES * detector.frame_bytes,
            configuration=Configuration(),
        )  # fmt: skip
        self.written: list[Rehearsal] = []

        def on_step(_: object, document: Rehearsal) -> None:
            self.written.append(document)

        told = Told(lambda _: None, lambda _: None, on_step, self.written.append)
        folder_of_run: Any = SimpleNamespace(path=folder / "x")
        self.course = _Course(request, request.configuration.plan({}), folder_of_run, told)
        left = iter(results)

        def record(*_: object) -> Recorded:
            made = next(left)
            if isinstance(made, BaseException):
                raise made
            return made

        monkeypatch.setattr(self.course, "_record", record)

    def rehearse(self) -> Rehearsal:
        nothing: Any = None
        return self.course.rehearsal(problem_of(lambda: self.course.take_all(nothing), self.course.steps))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """Makes one whose warm-up and run at the rate are good; the series are those of the soak."""
    return lambda *soak: Made(tmp_path, monkeypatch, recorded(), recorded(), *soak)


def test_soak_that_is_interrupted_keeps_its_complete_series(made: Callable[..., Made]) -> None:
    found = made(recorded(), recorded(), KeyboardInterrupt()).rehearse()
    assert [(step.kind, len(step.series), step.outcome) for step in found.steps[1:]] == [
        ("rate", 1, "held"),
        ("soak", 2, "held"),
    ]
    assert (found.problem, found.answer, found.sent) == (INTERRUPTED, "likely yes", 3 * FRAMES)


def test_first_loss_ends_the_soak_and_counts(made: Callable[..., Made]) -> None:
    found = made(recorded(), recorded(written=FRAMES - 3, lost=3)).rehearse()
    soak = found.steps[-1]
    assert (soak.kind, len(soak.series), soak.outcome) == ("soak", 2, "not held")
    assert (found.problem, found.answer, found.missing) == (None, "likely no", 3)


def test_recorder_that_fails_in_the_soak_is_no_yes(made: Callable[..., Made]) -> None:
    found = made(recorded(), ChainFailedError("nothing reached the file for 60 s")).rehearse()
    assert (found.steps[-1].outcome, found.answer) == ("not held", "likely no")
    assert "nothing reached the file for 60 s" in found.reasons


def test_sender_that_fails_says_nothing_about_the_recorder(made: Callable[..., Made]) -> None:
    found = made(recorded(), PenstockError("the connection was lost")).rehearse()
    assert (found.steps[-1].outcome, found.answer) == ("held", "likely yes")
    assert "the rehearsal ended early: the connection was lost" in found.reasons


def test_recorder_that_fails_in_the_warm_up_is_a_likely_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Made(tmp_path, monkeypatch, ChainFailedError("it was killed by SIGSEGV")).rehearse()
    assert (found.answer, found.reasons) == ("likely no", ["it was killed by SIGSEGV"])


def test_document_is_written_after_each_series(made: Callable[..., Made]) -> None:
    course = made(*[recorded()] * SERIES)
    assert course.rehearse().answer == "yes"
    soaks = [document.steps[2:] for document in course.written]
    assert [len(step.series) for steps in soaks for step in steps] == [1, 2, 3, 4]


def test_every_planned_series_may_be_removed() -> None:
    """A soak of a week, in series of a second."""
    detector = Detector(name="custom", rows=256, columns=256, type="uint16")
    request = RehearsalRequest(
        name="custom", images=Images(detector), rate_hz=RATE, seconds=10.0, search_s=120.0, times_max=1.0,
        soak_s=7 * 86400.0, buffer_s=1.0, series_bytes=int(RATE) * detector.frame_bytes,
        configuration=Configuration(),
    )  # fmt: skip
    assert 600_000 < 7 * 86400 < request.series_max < 700_000


@pytest.mark.parametrize("ranks", [1, 2])
def test_events_of_a_long_series_are_thinned_out(ranks: int) -> None:
    series = series_under_way(None)
    series._began_at = 0.0
    series._sent = DetectorSeriesEnd(event="series_end", sending_seconds=1e12)
    for passed in range(5000):
        for rank in range(ranks):
            event = StageTimes(event="stages", rank=rank, monotonic_ns=passed * 10**9, frames_received=passed)
            series._note_stages(event)
    kept = series._stages_while(series._sending())
    assert {event.rank for event in kept} == set(range(ranks))
    assert ranks * 400 < len(kept) <= ranks * 1000
    window = window_of(kept)
    assert window is not None
    assert window.seconds == pytest.approx(2500, rel=0.3)
    assert window.frames_received == pytest.approx(ranks * window.seconds)


def series_under_way(recorder: object) -> Any:
    chain: Any = SimpleNamespace(recorder=recorder)
    sender: Any = SimpleNamespace(end=lambda: None)
    return chain_module._Course(chain, SeriesRequest("rehearsal-000000001", 1, 100, 10.0, 60.0), sender)


def test_stall_is_a_failure_of_the_recorder() -> None:
    series = series_under_way(None)
    series._moved_at -= chain_module._STALL_S + 1
    with pytest.raises(ChainFailedError, match="reached the file for 60 s"):
        series._look()


@pytest.mark.parametrize("is_crash", [True, False])
def test_recorder_that_ends_early_failed_unless_it_was_asked_to(*, is_crash: bool) -> None:
    def require_success(_: int) -> None:
        if is_crash:
            raise PenstockError("penstock-recorder was killed by SIGSEGV")

    recorder: Any = SimpleNamespace(wait=lambda _: 0, require_success=require_success)
    with pytest.raises(PenstockError) as raised:
        series_under_way(recorder)._take(Message(recorder, None))
    assert isinstance(raised.value, ChainFailedError) is is_crash
