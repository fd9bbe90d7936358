"""The search: with storage of a known capacity, made up and through the load generator."""

import math
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.bench.folder import BenchFolder
from penstock.bench.run import Access, FramesRequest, Telling, frames_request, run_frames_on
from penstock.bench.search import STEPS_MAX, WIDTH, Bracket, Limits, limits_of, search
from penstock.bench.stages import FolderPlace, VerdictRequest, measure
from penstock.model.errors import PenstockError
from penstock.model.load import NullBackend
from penstock.model.runs import Run, Step, StepOutcome, Verdict

FOR_EVER = 1e9


def limits(full_hz: float | None, needed_hz: float = 10.0, times: float = 10.0) -> Limits:
    return limits_of(needed_hz, full_hz, times, math.inf, FOR_EVER, lambda _: 10.0)[0]


@given(capacity=st.floats(0.5, 2000), optimism=st.floats(0.5, 3.0))
@example(capacity=30.0, optimism=0.6)
@example(capacity=12.0, optimism=0.5)
def test_the_capacity_is_in_the_bracket(capacity: float, optimism: float) -> None:
    """Whatever it is, and whatever the rate as fast as it goes made believe."""
    tried: list[float] = []

    def outcome_at(rate_hz: float) -> StepOutcome:
        tried.append(rate_hz)
        return "held" if rate_hz <= capacity else "not held"

    allowed = limits(capacity * optimism)
    start = Bracket().with_outcome(10.0, capacity >= 10)
    found, ended = search(outcome_at, start, allowed)
    assert len(tried) <= STEPS_MAX
    assert len(set(tried)) == len(tried)
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

    for _ in range(200):
        found, ended = search(outcome_at, Bracket(held_hz=10.0), limits(60.0))
        assert ended == "narrow"
        assert found.held_hz is not None
        assert 40 / 1.2 <= found.held_hz <= 40 * 1.2


def test_a_step_that_is_invalid_is_made_once_more() -> None:
    outcomes: list[StepOutcome] = ["invalid", "held", "not held", "invalid", "invalid"]
    tried: list[float] = []

    def outcome_at(rate_hz: float) -> StepOutcome:
        tried.append(rate_hz)
        return outcomes[len(tried) - 1]

    found, ended = search(outcome_at, Bracket(held_hz=10.0), limits(40.0))
    assert ended == "invalid"
    assert (found.held_hz, found.not_held_hz) == (tried[0], tried[2])
    assert tried[0] == tried[1] == pytest.approx(20.0)
    assert tried[3] == tried[4]


def test_time_ends_it_before_a_step_that_would_take_too_long() -> None:
    now = [0.0]

    def outcome_at(rate_hz: float) -> StepOutcome:
        now[0] += 10.0
        return "held"

    allowed = limits_of(10.0, 90.0, 10.0, math.inf, 25.0, lambda _: 10.0)[0]
    found, ended = search(outcome_at, Bracket(held_hz=10.0), allowed, lambda: now[0])
    assert ended == "time"
    assert now[0] == 20.0
    assert found.held_hz is not None
    assert found.not_held_hz is None


def test_a_target_that_is_gone_is_named(tmp_path: Path) -> None:
    """Between two steps: an error of the system would be no answer."""
    target = tmp_path / "target"
    target.mkdir()
    request = frames_request(4096, 10, 1, 1, 1, None, "file_a_frame", Access())
    asked = VerdictRequest("X", request, late_limit_s=1, search_s=10, times_max=2, soak_s=0)
    folder = BenchFolder.make(target)
    place = FolderPlace(folder, Telling(lambda _: None, lambda _: None))
    shutil.rmtree(target)
    for use in (lambda: place.run(request, "rate-"), lambda: place.fits_hz(asked), place.clear):
        with pytest.raises(PenstockError) as gone:
            use()
        assert str(target) in gone.value.message
        assert gone.value.remedy
    folder.close()


def test_what_limits_the_search_is_told() -> None:
    for fits, top, reason in ((math.inf, 100.0, "asked"), (50.0, 50.0, "space")):
        found, why = limits_of(10.0, 40.0, 10.0, fits, FOR_EVER, lambda _: 10.0)
        assert (found.top_hz, why) == (top, reason)


def test_storage_far_above_is_tried_at_the_top_first() -> None:
    found, ended = search(lambda _: "held", Bracket(held_hz=10.0), limits(2000.0))
    assert (found, ended) == (Bracket(held_hz=100.0), "top")


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

    def fits_hz(self, request: VerdictRequest) -> float:
        return math.inf


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


def ignore(_step: Step, _verdict: Verdict) -> None:
    pass


def test_the_search_finds_the_capacity_of_storage_that_has_one(tmp_path: Path) -> None:
    """Four writers of 40 ms a frame hold 100 frames a second. A machine that is too busy says so."""
    place = NullPlace(tmp_path, 0.04)
    verdict = measure(request_of(30.0), place, ignore)
    assert place.ran[:2] == ["rate-1-", "full-speed-2-"]
    assert place.cleared == len(verdict.steps) == len(place.ran)
    if verdict.answer == "invalid" or verdict.search is None:
        assert any(step.outcome == "invalid" for step in verdict.steps)
        return
    search_ = verdict.search
    assert search_.held_hz is not None
    # Growth of less than 1 % is not seen; sleeping takes a little longer than it should.
    assert search_.held_hz <= 101.5
    assert search_.ended in ("narrow", "invalid")
    if search_.ended == "narrow" and not any(step.run.validity == "invalid" for step in verdict.steps):
        assert search_.not_held_hz is not None
        assert search_.not_held_hz <= search_.held_hz * 1.051
        assert search_.not_held_hz >= 80  # what a busy machine leaves of it
        assert verdict.detectors in (2, 3)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_storage_that_is_too_slow_is_searched_below_the_needed_rate(tmp_path: Path) -> None:
    """Four writers of 40 ms a frame where 150 frames a second come: no soak is needed for a no."""
    verdict = measure(request_of(150.0, seconds=4.0), NullPlace(tmp_path, 0.04), ignore)
    assert verdict.lost > 0
    assert verdict.answer in ("no", "cannot tell", "invalid")
    assert "soak" not in [step.kind for step in verdict.steps]
    if verdict.search is not None and verdict.search.held_hz is not None:
        assert verdict.search.held_hz <= 101.5
        assert verdict.margin is not None
        assert verdict.margin < 0


def test_storage_that_freezes_in_the_soak_takes_no_detector(tmp_path: Path) -> None:
    """Everything held before: 2 s of standing still is more than a buffer of 1 s takes."""
    freezes = NullBackend(delay_s=0.001, freeze_at_s=0.5, freeze_s=2.0)
    verdict = measure(request_of(50.0, soak_s=4.0), NullPlace(tmp_path, 0.001, freezes), ignore)
    soaks = [step for step in verdict.steps if step.kind == "soak"]
    assert soaks
    assert soaks[-1].run.frames is not None
    assert soaks[-1].run.frames.dropped > 0
    assert verdict.answer != "yes"
    if verdict.answer == "no":
        assert verdict.lost >= soaks[-1].run.frames.dropped
        assert any(reason.startswith("soak") for reason in verdict.reasons)


class EndingPlace(NullPlace):
    """Something ends the measurement before a run, or after one."""

    def __init__(self, folder: Path, error: BaseException, at: str) -> None:
        super().__init__(folder, 0.0)
        self.error, self.at = error, at

    def run(self, request: FramesRequest, prefix: str) -> Run:
        if prefix.startswith(self.at):
            raise self.error
        return super().run(request, prefix)

    def clear(self) -> None:
        super().clear()
        if self.at == "clear":
            raise self.error


@pytest.mark.parametrize("at", ["full-speed", "search", "soak", "clear"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), PenstockError("the storage is gone")])
def test_whatever_ends_it_what_was_measured_is_told(at: str, error: BaseException, tmp_path: Path) -> None:
    told: list[Verdict] = []
    place = EndingPlace(tmp_path, error, at)
    request = request_of(50.0, seconds=1.2)
    verdict = measure(request, place, lambda _step, so_far: told.append(so_far))
    assert verdict.problem == (
        "the storage is gone" if isinstance(error, PenstockError) else "it was interrupted"
    )
    assert len(verdict.steps) == len(place.ran) == len(told) >= 1
    assert verdict.answer != "yes"
    assert all(each.problem for each in told)
    with pytest.raises(type(error)):
        measure(request, EndingPlace(tmp_path, error, "rate"), ignore)
