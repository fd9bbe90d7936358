"""The search: with storage of a known capacity, made up and through the load generator."""

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench_documents import paced_document, run_of, simulated_document
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.bench.data.folder import BenchFolder
from penstock.bench.judge.search import STEPS_MAX, WIDTH, Bracket, Limits, limits_of, search
from penstock.bench.run.run import Access, FramesRequest, Telling, frames_request, run_frames_on
from penstock.bench.run.stages import FolderPlace, VerdictRequest, _Course, measure
from penstock.model.bench.load import NullBackend
from penstock.model.bench.runs import Run, Step, StepOutcome, Verdict
from penstock.model.errors import PenstockError

FOR_EVER = 1e9


def limits(full_hz: float | None, needed_hz: float = 10.0, times: float = 10.0) -> Limits:
    return limits_of(needed_hz, full_hz, times, math.inf, FOR_EVER, lambda _: 10.0)


@given(capacity=st.floats(0.5, 2000), optimism=st.floats(0.5, 3.0))
@example(capacity=30.0, optimism=0.6)
@example(capacity=12.0, optimism=0.5)
def test_the_capacity_is_in_the_bracket(capacity: float, optimism: float) -> None:
    """Whatever it is, and whatever the rate unpaced made believe."""
    tried: list[float] = []

    def outcome_at(rate_hz: float) -> StepOutcome:
        tried.append(rate_hz)
        return "held" if rate_hz <= capacity else "not held"

    allowed = limits(capacity * optimism)
    found, ended = search(outcome_at, Bracket().with_outcome(10.0, outcome_at(10.0)), allowed)
    tried.pop(0)
    assert len(tried) <= STEPS_MAX
    ends = [end for end in (found.held_hz, found.not_held_hz) if end is not None]
    assert all(([10.0, *tried]).count(rate) == (2 if rate in ends else 1) for rate in {10.0, *tried})
    assert not found.chance_hz
    assert all(allowed.bottom_hz < rate <= allowed.top_hz for rate in tried)
    assert found.held_hz is None or found.held_hz <= capacity
    assert found.not_held_hz is None or found.not_held_hz > capacity
    match ended:
        case "narrow":
            assert found.held_hz is not None
            assert found.not_held_hz is not None
            assert found.not_held_hz <= found.held_hz * (1 + WIDTH) * 1.001
        case "top":
            assert found.held_hz == allowed.top_hz == 100.0
        case "bottom":
            assert found.held_hz is None
            assert found.not_held_hz is not None
            assert found.not_held_hz <= allowed.bottom_hz * (1 + WIDTH) * 1.001
        case _:
            raise AssertionError(ended)


def test_chance_near_the_limit_leaves_a_bracket_near_it() -> None:
    """Outcomes are drawn: at the limit a rate holds every second time, 10 % off it nearly always or never."""
    chance = random.Random(7)

    def outcome_at(rate_hz: float) -> StepOutcome:
        holds = 1 / (1 + math.exp(80 * math.log(rate_hz / 40)))
        return "held" if chance.random() < holds else "not held"

    around = 0
    for _ in range(200):
        found, ended = search(outcome_at, HELD, limits(60.0))
        assert ended in ("narrow", "chance", "steps")
        assert found.held_hz is not None
        assert 40 / 1.2 <= found.held_hz <= 40 * 1.2
        around += found.not_held_hz is not None and found.held_hz <= 40 <= found.not_held_hz
    # With ends that are single runs it is every second one: see measuring.md.
    assert around > 160


HELD = Bracket().with_outcome(10.0, "held")


class Script:
    """Storage of 30 Hz that does otherwise in some runs: `otherwise` of the n-th run at a rate."""

    def __init__(self, otherwise: Callable[[float, int], StepOutcome | None]) -> None:
        self.otherwise = otherwise
        self.tried: list[float] = []

    def __call__(self, rate_hz: float) -> StepOutcome:
        self.tried.append(rate_hz)
        usual: StepOutcome = "held" if rate_hz <= 30 else "not held"
        return self.otherwise(rate_hz, self.tried.count(rate_hz)) or usual


def test_both_ends_are_run_once_more_in_turn() -> None:
    usual = Script(lambda _rate, _time: None)
    found, ended = search(usual, HELD, limits(40.0))
    assert ended == "narrow"
    assert (found.held_runs, found.not_held_runs) == (2, 2)
    assert found.held_hz is not None
    assert found.not_held_hz is not None
    assert found.held_hz <= 30 < found.not_held_hz <= found.held_hz * 1.051
    last, before = usual.tried[-1], usual.tried[-2]
    assert {last, before} == {found.held_hz, found.not_held_hz}
    assert usual.tried[-3] == last, "the end that was run last waits: no rate is run twice in a row"


@pytest.mark.parametrize("limit_hz", [24.0, 36.0])
def test_an_end_that_does_not_repeat_moves_the_search(limit_hz: float) -> None:
    """Rates from 24 to 30 Hz hold in their first run alone; those from 30 to 36 Hz from the second one on."""

    def otherwise(rate_hz: float, time: int) -> StepOutcome | None:
        if limit_hz < rate_hz <= 30 and time > 1:
            return "not held"
        return "held" if 30 < rate_hz <= limit_hz and time > 1 else None

    found, ended = search(Script(otherwise), HELD, limits(50.0))
    assert ended == "chance"
    assert (found.held_runs, found.not_held_runs) == (2, 2)
    assert found.held_hz is not None
    assert found.not_held_hz is not None
    assert found.held_hz <= min(30, limit_hz)
    assert found.not_held_hz >= max(30, limit_hz)
    assert found.chance_hz
    assert all(found.held_hz < rate < found.not_held_hz for rate in found.chance_hz)


def test_a_top_that_held_by_chance_is_no_top() -> None:
    found, ended = search(
        Script(lambda rate, time: "held" if rate == 100 and time == 1 else None), HELD, limits(None)
    )
    assert ended == "chance"
    assert found.not_held_hz is None
    assert found.chance_hz[-1] == 100.0
    assert found.held_hz is not None
    assert 28 < found.held_hz <= 30 < found.chance_hz[0]
    assert found.held_runs == 2


def test_a_step_that_is_invalid_is_made_once_more() -> None:
    once = Script(lambda _rate, time: "invalid" if time == 1 else None)
    found, ended = search(once, HELD, limits(40.0))
    assert ended == "narrow"
    assert once.tried[0] == once.tried[1] == pytest.approx(32.0)
    assert (found.held_runs, found.not_held_runs) == (2, 2)


@pytest.mark.parametrize("sound_hz", [70.0, 25.0, 4.0])
def test_below_a_rate_that_is_invalid_twice_lower_ones_are_tried(sound_hz: float) -> None:
    """From `sound_hz` on no run is sound, as where the generator itself is not faster."""
    script = Script(lambda rate, _time: "invalid" if rate > sound_hz else None)
    found, ended = search(script, HELD if sound_hz > 10 else Bracket(((10.0, "not held"),)), limits(None))
    assert len(script.tried) <= STEPS_MAX
    assert len(found.given_up_hz) <= 4, "three of the search, and an end"
    assert all(script.tried.count(rate) == 2 for rate in found.given_up_hz)
    if sound_hz > 30:  # the limit is below what is sound
        assert ended == "narrow"
        assert found.not_held_hz is not None
    else:
        assert ended == "invalid"
    assert found.held_hz is not None
    assert found.held_hz > min(30.0, sound_hz) / 2
    assert found.held_runs == 2


def test_nothing_that_is_sound_ends_it_soon() -> None:
    never = Script(lambda _rate, _time: "invalid")
    found, ended = search(never, HELD, limits(None))
    assert (found.held_hz, ended) == (10.0, "invalid")
    assert never.tried.count(100.0) == 2
    assert len(never.tried) <= 8


def timed(outcome_at: Script, seconds_max: float, each_s: float = 10.0) -> tuple[Bracket, str, float]:
    """A search whose steps are planned with 10 s, and the time that it took."""
    now = [0.0]

    def take(rate_hz: float) -> StepOutcome:
        now[0] += each_s
        return outcome_at(rate_hz)

    allowed = limits_of(10.0, 35.0, 10.0, math.inf, seconds_max, lambda _: 10.0)
    return *search(take, HELD, allowed, lambda: now[0]), now[0]


@pytest.mark.parametrize("seconds_max", [5.0, 15.0, 25.0, 35.0, 45.0, 65.0, 95.0])
@pytest.mark.parametrize("each_s", [10.0, 13.0])
def test_time_for_the_ends_is_kept(seconds_max: float, each_s: float) -> None:
    """The bracket is wider then, but its ends are no single runs where there is time for two steps."""
    found, ended, took_s = timed(Script(lambda _rate, _time: None), seconds_max, each_s)
    assert took_s <= max(seconds_max, each_s if seconds_max >= 10 else 0.0)
    if seconds_max < 5 * each_s:
        assert ended == "time"
    if seconds_max >= 2 * each_s:
        assert found.held_runs == 2
        assert found.not_held_runs == (2 if found.not_held_hz else 0)
    assert bool(found.not_held_hz) == (seconds_max >= 4 * each_s)


def test_an_end_that_does_not_repeat_when_time_is_up_is_no_end() -> None:
    script = Script(lambda rate, time: "not held" if rate > 10 and time > 1 else None)
    found, ended, _ = timed(script, 45.0)
    assert ended == "time"
    assert found.held_hz == 10.0
    assert found.chance_hz


def test_a_target_that_is_gone_is_named(tmp_path: Path) -> None:
    """Between two steps: an error of the system would be no answer."""
    target = tmp_path / "target"
    target.mkdir()
    request = frames_request(4096, 10, 1, 1, 1, None, "file_a_frame", Access())
    folder = BenchFolder.make(target)
    place = FolderPlace(folder, Telling(lambda _: None, lambda _: None))
    shutil.rmtree(target)
    for use in (lambda: place.run(request, "rate-"), place.clear):
        with pytest.raises(PenstockError) as gone:
            use()
        assert str(target) in gone.value.message
        assert gone.value.remedy
    folder.close()


def test_the_generator_and_the_user_limit_the_search() -> None:
    for rate_max_hz, top in ((math.inf, 100.0), (50.0, 50.0)):
        assert limits_of(10.0, 40.0, 10.0, rate_max_hz, FOR_EVER, lambda _: 10.0).top_hz == top


def test_storage_far_above_is_tried_at_the_top_first() -> None:
    found, ended = search(lambda _: "held", HELD, limits(2000.0))
    assert [rate for rate, _ in found.runs] == [10.0, 100.0, 100.0]
    assert (found.held_hz, found.not_held_hz, ended) == (100.0, None, "top")


class NullPlace:
    """The load generator on a back end that stores nothing: `writers` / `delay_s` frames a second."""

    def __init__(self, folder: Path, delay_s: float, soak: NullBackend | None = None) -> None:
        self.folder = folder
        self.usual = NullBackend(delay_s=delay_s)
        self.in_soak = soak or self.usual
        self.cleared = 0
        self.ran: list[str] = []

    def run(self, request: FramesRequest, prefix: str) -> Run:
        self.ran.append(prefix)
        backend = self.in_soak if prefix.startswith("soak") else self.usual
        return run_frames_on(backend, request, self.folder, prefix, Telling(lambda _: None, lambda _: None))

    def clear(self) -> None:
        self.cleared += 1


def request_of(rate_hz: float, seconds: float = 2.0, soak_s: float = 2.0) -> VerdictRequest:
    return VerdictRequest(
        detector="X",
        at_rate=frames_request(4096, rate_hz, seconds, 4, 1.0, None, "file_a_frame", Access()),
        late_limit_s=0.5,
        search_s=120.0,
        times_max=10.0,
        soak_s=soak_s,
        step_s=2.0,
    )


class MadeUpPlace:
    """Runs at a rate are disturbed: each write takes half of the time that there is, and waits as long."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, request: FramesRequest, prefix: str) -> Run:
        self.ran.append(prefix.rstrip("-0123456789"))
        if not request.rate_hz:
            return run_of(paced_document(0.0, 300, duration_s=15.0), [])
        return run_of(simulated_document(0.05, waited_s=0.08), [])

    def clear(self) -> None:
        pass


@pytest.mark.parametrize(
    ("within_s", "ran", "left_out"),
    [
        (math.inf, ["rate", "rate", "soak", "soak"], []),
        (100.0, ["rate", "rate", "soak", "soak"], []),
        (90.0, ["rate", "soak", "soak"], ["at the detector's rate"]),
        (50.0, ["rate", "soak"], ["at the detector's rate", "soak"]),
    ],
)
def test_repetitions_are_left_out_for_lack_of_time(
    within_s: float, ran: list[str], left_out: list[str]
) -> None:
    place = MadeUpPlace()
    request = replace(request_of(10.0, 30.0, soak_s=60.0), search_s=0.0, within_s=within_s)
    verdict = measure(request, place, ignore)
    assert [kind for kind in place.ran if kind in ("rate", "soak")] == ran
    notes = [note for note in verdict.notes if "--within" in note]
    assert notes == [f"no time was left to repeat a step ({name}): --within allows more" for name in left_out]


def test_search_has_the_time_that_other_steps_leave() -> None:
    request = replace(request_of(10.0, 30.0, soak_s=60.0), within_s=120.0)
    course = _Course(request, MadeUpPlace(), ignore)
    assert course.search_seconds() == pytest.approx(120 - request.soak_seconds, abs=5)
    assert "of 2 min: --within allows more" in course.left_out[0]
    assert _Course(request_of(10.0), MadeUpPlace(), ignore).search_seconds() == 120.0


def ignore(_step: Step, _verdict: Verdict) -> None:
    pass


@pytest.mark.slow
def test_the_search_finds_the_capacity_of_storage_that_has_one(tmp_path: Path) -> None:
    """Four writers of 40 ms a frame hold 100 frames a second. A machine that is too busy says so."""
    place = NullPlace(tmp_path, 0.04)
    reported: list[Step] = []
    verdict = measure(request_of(30.0), place, lambda step, _: reported.append(step))
    ran = [name.rstrip("-0123456789") for name in place.ran]
    assert ran[:2] == ["full-speed", "full-speed"]
    assert "rate" in ran or verdict.search is None  # on a busy machine, full speed is tried again first
    assert [step.kind for step in reported] == [step.kind for step in verdict.steps]
    for probe in (step for step in verdict.steps if step.kind == "probe"):
        assert "is too short; repeating with" in probe.shortcomings[0]
    assert place.cleared == len(verdict.steps) == len(place.ran)
    if verdict.answer == "invalid" or verdict.search is None:
        assert any(step.outcome == "invalid" for step in verdict.steps)
        return
    search_ = verdict.search
    assert search_.held_hz is not None
    # Growth of less than 1 % is not seen; sleeping takes a little longer than it should.
    assert search_.held_hz <= 101.5
    assert search_.ended in ("narrow", "chance", "invalid")
    if search_.ended == "narrow" and not any(step.run.validity == "invalid" for step in verdict.steps):
        assert search_.not_held_hz is not None
        assert search_.not_held_hz <= search_.held_hz * 1.051
        assert (search_.held_runs, search_.not_held_runs) == (2, 2)
        assert search_.not_held_hz >= 80  # what a busy machine leaves of it
        assert verdict.detectors in (2, 3)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.slow
def test_storage_that_is_too_slow_is_searched_below_the_needed_rate(tmp_path: Path) -> None:
    """Four writers of 40 ms a frame where 150 frames a second come: no soak is needed for a no."""
    answers: list[str] = []
    place = NullPlace(tmp_path, 0.04)
    verdict = measure(request_of(150.0, seconds=4.0), place, lambda _, so_far: answers.append(so_far.answer))
    assert verdict.answer in ("no", "likely no", "cannot tell", "invalid")
    assert verdict.lost > 0 or verdict.answer == "invalid"
    soaks = [at for at, step in enumerate(verdict.steps) if step.kind == "soak"]
    assert not soaks or answers[soaks[0] - 1] not in ("no", "likely no")
    if verdict.search is not None and verdict.search.held_hz is not None:
        assert verdict.search.held_hz <= 101.5
        assert verdict.margin is not None
        assert verdict.margin < 1


@pytest.mark.slow
def test_storage_that_freezes_in_the_soak_takes_no_detector(tmp_path: Path) -> None:
    """Everything held before: 2 s of standing still is more than a buffer of 1 s takes."""
    freezes = NullBackend(delay_s=0.001, freeze_at_s=0.5, freeze_s=2.0)
    verdict = measure(request_of(50.0, soak_s=4.0), NullPlace(tmp_path, 0.001, freezes), ignore)
    soaks = [step for step in verdict.steps if step.kind == "soak"]
    assert soaks
    assert soaks[-1].run.frames is not None
    assert soaks[-1].run.frames.dropped > 0
    assert verdict.answer != "yes"
    if verdict.answer in ("no", "likely no"):
        assert verdict.lost >= soaks[-1].run.frames.dropped
        assert any(reason.startswith("soak") for reason in verdict.reasons)


class SlowingPlace(NullPlace):
    """Every run but the first one takes 0.2 s a frame, and there is none at a rate."""

    def run(self, request: FramesRequest, prefix: str) -> Run:
        if prefix.startswith("rate"):
            raise PenstockError("that is all")
        done = super().run(request, prefix)
        self.usual = NullBackend(delay_s=0.2)
        return done


@pytest.mark.slow
def test_an_unpaced_run_ends_though_the_storage_became_slow(tmp_path: Path) -> None:
    """As many frames as the first run promised would take minutes."""
    verdict = measure(request_of(30.0), SlowingPlace(tmp_path, 0.001), ignore)
    run = verdict.steps[-1].run
    assert verdict.steps[-1].kind == "full speed"
    assert run.frames is not None
    assert run.document.seconds is not None
    assert run.document.frames is not None
    assert 0 < run.frames.written < run.document.frames.planned
    assert 8 <= (run.document.seconds.completed or 0) < 30
    assert not run.document.interrupted


class EndingPlace(NullPlace):
    """Something ends the measurement before a run, or after one."""

    def __init__(self, folder: Path, error: BaseException, at: str) -> None:
        super().__init__(folder, 0.0)
        self.error, self.at = error, at
        self.ended = False

    def run(self, request: FramesRequest, prefix: str) -> Run:
        if prefix.startswith(self.at):
            self.end()
        return super().run(request, prefix)

    def clear(self) -> None:
        super().clear()
        if self.at == "clear":
            self.end()

    def end(self) -> None:
        self.ended = True
        raise self.error


@pytest.mark.slow
@pytest.mark.parametrize("at", ["rate", "search", "soak", "clear"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), PenstockError("the storage is gone")])
def test_whatever_ends_it_what_was_measured_is_told(at: str, error: BaseException, tmp_path: Path) -> None:
    request = request_of(50.0, seconds=1.2)
    told: list[Verdict] = []
    for _ in range(4):  # a busy machine may be in the way before
        told.clear()
        place = EndingPlace(tmp_path, error, at)
        verdict = measure(request, place, lambda _step, so_far: told.append(so_far))
        if place.ended:
            break
    assert verdict.problem == (
        "the storage is gone" if isinstance(error, PenstockError) else "it was interrupted"
    )
    assert len(verdict.steps) == len(place.ran) == len(told) >= 1
    assert verdict.answer not in ("yes", "no", "likely no")
    assert all(each.problem for each in told)
    with pytest.raises(type(error)):
        measure(request, EndingPlace(tmp_path, error, "full-speed"), ignore)
