"""What a verdict makes of the runs that it has."""

from typing import Any

import pytest
from bench_documents import SECOND, frames_document, histogram, paced_document, searched, step_of, verdict_of

from penstock.bench.judge.checks import check_complete
from penstock.bench.judge.holds import backlog_growth, outcome_of
from penstock.bench.judge.verdict import carries_bytes_per_s, exit_code_of, is_at_least
from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Check, Step
from penstock.model.errors import ExitCode
from penstock.report.verdicts import bracket_line, verdict_rows


def check(outcome: str, bias: str) -> Check:
    return Check.model_validate(
        {"name": "c", "outcome": outcome, "expected": "e", "actual": "a", "bias": bias, "advice": "do"}
    )


def at_rate(dropped: int = 0, *checks: Check, **changes: Any) -> Step:
    return step_of("rate", frames_document(dropped=dropped, **changes), *checks)


def soak(dropped: int = 0, *checks: Check, **changes: Any) -> Step:
    return step_of("soak", frames_document(dropped=dropped, **changes), *checks)


def full_speed(*checks: Check, duration_s: float = 5.0, ceiling_hz: float | None = None) -> Step:
    """100 MB in 5 s: 20 MB/s, where 10 are needed."""
    return step_of("full speed", paced_document(0.0, 100, duration_s=duration_s), *checks)


@pytest.mark.parametrize(
    ("dropped", "checks", "answer"),
    [
        (0, [], "yes"),
        (0, [check("warning", "worse")], "yes"),
        (0, [check("warning", "better")], "cannot tell"),
        (0, [check("warning", "either")], "cannot tell"),
        (1, [], "no"),
        (1, [check("warning", "better")], "no"),
        (1, [check("warning", "worse")], "cannot tell"),
        (0, [check("failed", "better")], "invalid"),
        (1, [check("failed", "worse")], "invalid"),
    ],
)
@pytest.mark.parametrize("quick", [True, False])
def test_the_answer_follows_from_losses_and_checks(
    dropped: int, checks: list[Check], answer: str, quick: bool
) -> None:
    steps = [at_rate(dropped, *checks), full_speed()]
    verdict = verdict_of(*steps) if quick else verdict_of(*steps, soak(), search=searched())
    assert verdict.reasons
    advice = ["c: do (at the detector's rate)"] if checks and checks[0].outcome != "ok" else []
    assert verdict.advice == advice
    if answer == "invalid":
        assert quick == (verdict.answer == "invalid")  # otherwise there is a soak that counts
        assert verdict.lost == 0
        return
    assert verdict.answer == answer
    assert verdict.lost == dropped


def test_without_a_search_the_margin_is_what_the_pattern_carries_as_fast_as_it_goes() -> None:
    verdict = verdict_of(at_rate(), full_speed())
    assert verdict.needed_bytes_per_s == 10 * 10**6
    assert verdict.measured_bytes_per_s == 20 * 10**6
    assert verdict.margin == pytest.approx(1.0)
    assert verdict.detectors == 2
    assert verdict.lost_share_bound_95 == pytest.approx(0.00994, rel=1e-3)
    assert verdict_of(at_rate(), full_speed(duration_s=20.0)).answer == "cannot tell"
    assert verdict_of(at_rate()).answer == "cannot tell"
    assert verdict_of(at_rate(), full_speed(check("warning", "better"))).answer == "cannot tell"
    void = verdict_of(at_rate(), full_speed(check("failed", "either")))
    assert void.measured_bytes_per_s is None


def test_a_generator_that_is_not_much_faster_is_told() -> None:
    def advised(ceiling_hz: float) -> list[str]:
        step = at_rate()
        near = step.model_copy(update={"run": step.run.model_copy(update={"ceiling_hz": ceiling_hz})})
        return verdict_of(near, full_speed()).advice  # it went at 20 Hz

    assert "increase --writers" in advised(39.0)[0]
    assert advised(41.0) == []


def test_with_a_search_the_margin_is_of_the_highest_rate_that_held() -> None:
    verdict = verdict_of(at_rate(), full_speed(), soak(), search=searched(held_hz=30.0, not_held_hz=31.0))
    assert verdict.answer == "yes"
    assert verdict.measured_bytes_per_s == 30 * 10**6
    assert verdict.margin == pytest.approx(2.0)
    assert verdict.detectors == 3
    assert (verdict.due, verdict.lost) == (600, 0)
    assert verdict.lost_share_bound_95 == pytest.approx(0.00498, rel=1e-2)


def test_a_soak_that_loses_frames_is_a_no_whatever_held_before() -> None:
    verdict = verdict_of(at_rate(), full_speed(), soak(3), search=searched())
    assert verdict.answer == "no"
    assert verdict.reasons == ["soak, 10 Hz: 3 of 300 frames were lost (3 because the queue was full)"]
    assert (verdict.due, verdict.lost) == (600, 3)
    doubtful = verdict_of(at_rate(), full_speed(), soak(3, check("warning", "worse")), search=searched())
    assert doubtful.answer == "cannot tell"


def test_a_soak_that_is_invalid_confirms_nothing() -> None:
    void = soak(0, check("failed", "worse"))
    verdict = verdict_of(at_rate(), full_speed(), void, void, search=searched())
    assert verdict.answer == "cannot tell"
    assert any("the soak is invalid" in reason for reason in verdict.reasons)
    assert verdict_of(at_rate(), full_speed(), void, soak(), search=searched()).answer == "yes"


def test_what_was_cut_short_is_no_yes_and_may_be_a_no() -> None:
    verdict = verdict_of(at_rate(), problem="it was interrupted", search=searched(ended="cut short"))
    assert (verdict.answer, verdict.problem) == ("cannot tell", "it was interrupted")
    assert any("interrupted" in reason for reason in verdict.reasons)
    assert verdict_of(at_rate(1), problem="it was interrupted").answer == "no"


def test_a_rate_close_above_that_did_not_hold_makes_a_yes_doubtful() -> None:
    near = verdict_of(at_rate(), full_speed(), soak(), search=searched(held_hz=10.0, not_held_hz=10.3))
    assert near.answer == "cannot tell"
    assert any("3.0 % higher" in reason for reason in near.reasons)
    far = verdict_of(at_rate(), full_speed(), soak(), search=searched(held_hz=10.0, not_held_hz=10.6))
    assert far.answer == "yes"
    assert far.detectors == 1


def test_a_rate_between_the_ends_that_is_close_above_makes_a_yes_doubtful() -> None:
    search = searched(held_hz=10.0, not_held_hz=20.0, chance_hz=[10.4, 12.0], ended="chance")
    verdict = verdict_of(at_rate(), full_speed(), soak(), search=search)
    assert verdict.answer == "cannot tell"
    assert any("4.0 % higher" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(("runs", "answer"), [(2, "yes"), (1, "cannot tell")])
def test_an_end_that_did_not_repeat_has_to_be_replaced(runs: int, answer: str) -> None:
    """By one that is no single run, where it is more than the detector's rate, which the soak repeats."""
    chance: dict[str, Any] = {"chance_hz": [17.0], "ended": "time"}
    verdict = verdict_of(
        at_rate(), full_speed(), soak(), search=searched(held_hz=15.0, held_runs=runs, **chance)
    )
    assert verdict.answer == answer
    told = [
        reason for reason in verdict.reasons if "17 Hz was sustained in one run and not in another" in reason
    ]
    assert len(told) == (runs == 1)
    assert not is_at_least(verdict)
    bottom = verdict_of(at_rate(), full_speed(), soak(), search=searched(held_hz=10.0, held_runs=1, **chance))
    assert bottom.answer == "yes"


def test_frames_that_are_lost_when_the_search_repeats_the_detectors_rate_count() -> None:
    again = step_of("search", frames_document(dropped=2))
    verdict = verdict_of(at_rate(), full_speed(), again, search=searched(held_hz=None, held_runs=0))
    assert (verdict.answer, verdict.due, verdict.lost) == ("no", 600, 2)
    assert verdict.reasons[0].startswith("search, 10 Hz: 2 of 300")
    elsewhere = step_of("search", paced_document(20.0, 300, dropped=2))
    assert verdict_of(at_rate(), full_speed(), elsewhere, soak(), search=searched()).lost == 0


def test_an_end_that_is_a_single_run_is_told() -> None:
    single = verdict_of(at_rate(), full_speed(), soak(), search=searched(not_held_runs=1))
    assert single.answer == "yes"
    assert ["single run" in each for each in single.advice] == [True]
    assert bracket_line(searched(), []) == "20 Hz sustained (2 runs), 21 Hz not sustained (2 runs)"
    by_chance = searched(chance_hz=[20.3, 20.6], not_held_runs=1)
    assert (
        bracket_line(by_chance, [])
        == "20 Hz sustained (2 runs), 21 Hz not sustained (1 run); 20.3 to 20.6 Hz in some runs only"
    )


@pytest.mark.parametrize("ended", ["top", "time", "steps", "invalid", "chance"])
def test_a_search_that_did_not_end_by_itself_says_what_would_help(ended: str) -> None:
    verdict = verdict_of(at_rate(), full_speed(), soak(), search=searched(ended=ended))
    assert verdict.answer == "yes"
    assert len(verdict.advice) == 1


@pytest.mark.parametrize(
    ("steps", "searches", "problem", "why"),
    [
        ([at_rate()], True, "it was interrupted", "it was interrupted before the search"),
        ([at_rate(), full_speed()], True, "it was interrupted", "it was interrupted before the search"),
        ([at_rate()], True, "the target is gone", "the measurement ended before the search"),
        ([at_rate()], False, "it was interrupted", "it was interrupted before the unpaced run"),
        ([at_rate(), full_speed(check("failed", "either"))], False, None, "no search was requested"),
    ],
)
def test_what_was_not_measured_has_its_real_reason_and_the_rate_that_held_counts(
    steps: list[Step], searches: bool, problem: str | None, why: str
) -> None:
    verdict = verdict_of(*steps, problem=problem, searches=searches)
    told = [reason for reason in verdict.reasons if "the maximum sustained rate was not measured" in reason]
    assert len(told) == 1
    assert why in told[0]
    assert "sustains at least the detector's rate" in told[0]
    assert verdict_rows(verdict)["measured"].startswith("at least 10 MB/s")
    assert carries_bytes_per_s(verdict_of(at_rate(3), problem=problem)) is None


def test_the_top_of_the_search_that_could_not_be_repeated_is_no_wide_bracket() -> None:
    top = step_of("search", paced_document(100.0, 3000))
    found = searched(held_hz=100.0, not_held_hz=None, held_runs=1, not_held_runs=0, ended="time")
    verdict = verdict_of(at_rate(), full_speed(), top, soak(), search=found)
    assert "higher rates were not tried" in verdict_rows(verdict)["bracket"]
    assert [("--search-max" in each, "--search-time" in each) for each in verdict.advice] == [(True, True)]
    below = verdict_of(
        at_rate(), full_speed(), top, soak(), search=found.model_copy(update={"held_hz": 50.0})
    )
    assert "higher rates had no valid run" in verdict_rows(below)["bracket"]


def test_a_rate_that_lost_nothing_and_did_not_hold_is_no_yes() -> None:
    for document in (slower_and_slower(0.05), with_latency_ns(2 * SECOND)):
        verdict = verdict_of(step_of("rate", document), full_speed(), soak(), search=searched(5.0, 10.0))
        assert verdict.answer == "cannot tell"
        assert verdict.lost == 0
        assert verdict.margin == pytest.approx(-0.5)
        assert verdict.detectors == 0


QUIET = Check(
    name="machine quiet",
    outcome="warning",
    expected="others use at most 20 %",
    actual="48 %",
    bias="worse",
    advice="stop other programs",
)
QUIET_TOLD = 'check "machine quiet" gives a warning: 48 %; expected: others use at most 20 %'


def test_the_check_that_stood_in_the_way_is_told_with_its_rate_and_what_helps() -> None:
    """Whatever the rate did not hold for: frames that were lost, frames that were late."""
    late = step_of("rate", with_latency_ns(2 * SECOND), QUIET)
    for steps in ([at_rate(3, QUIET)], [late], [at_rate(), full_speed(), soak(3, QUIET)]):
        verdict = verdict_of(*steps, full_speed(), soak(), search=searched())
        name = "soak" if len(steps) == 3 else "at the detector's rate"
        assert verdict.answer == "cannot tell"
        assert f"{name}, 10 Hz: {QUIET_TOLD}, which may be why" in verdict.reasons
        assert verdict.advice[0] == f"machine quiet: stop other programs ({name})"


def test_a_rate_that_is_late_on_a_quiet_machine_has_advice_of_its_own() -> None:
    late = step_of("rate", with_latency_ns(2 * SECOND))
    verdict = verdict_of(late, full_speed(), soak(), search=searched())
    assert ["--late-after" in each for each in verdict.advice] == [True]


def test_a_higher_rate_that_did_not_hold_tells_what_it_may_come_from() -> None:
    near = step_of("search", paced_document(10.3, 310, 7), QUIET)
    found = searched(held_hz=10.0, not_held_hz=10.3)
    verdict = verdict_of(at_rate(), full_speed(), near, soak(), search=found)
    assert f"search, 10.3 Hz: {QUIET_TOLD}, which may be why" in verdict.reasons


def test_where_nothing_was_found_that_holds_the_runs_tell_why() -> None:
    void = step_of("search", paced_document(5.0, 155), QUIET.model_copy(update={"outcome": "failed"}))
    none = searched(held_hz=None, not_held_hz=None, held_runs=0, not_held_runs=0)
    verdict = verdict_of(at_rate(), full_speed(), void, soak(), search=none)
    assert verdict.answer == "cannot tell"
    assert any(reason.startswith('search, 5 Hz: check "machine quiet" failed') for reason in verdict.reasons)


def test_an_invalid_verdict_names_the_check_its_value_and_its_bound() -> None:
    verdict = verdict_of(at_rate(0, check("failed", "better")))
    assert verdict.reasons == ['at the detector\'s rate, 10 Hz: check "c" failed: a; expected: e']
    assert verdict.advice == ["c: do (at the detector's rate)"]


def test_storage_that_was_full_before_anything_was_measured_gives_no_answer() -> None:
    for problem in ("writing /x/rate-1-0: no space left on the storage", "the disk quota is exceeded"):
        document = frames_document(problem=problem)
        verdict = verdict_of(step_of("rate", document, check_complete(document)), problem=problem)
        assert (verdict.answer, exit_code_of(verdict)) == ("invalid", ExitCode.UNANSWERED)
        assert ["free space" in each for each in verdict.advice] == [True]
    broken = frames_document(problem="writing /x/rate-1-0: the storage reports an input/output error")
    verdict = verdict_of(step_of("rate", broken, check_complete(broken)), problem=broken.problem)
    assert exit_code_of(verdict) == ExitCode.INVALID


def test_advice_names_each_step_that_it_is_about_once() -> None:
    steps = [at_rate(0, QUIET), full_speed(QUIET), soak(0, QUIET), soak(0, QUIET)]
    verdict = verdict_of(*steps, search=searched())
    names = "at the detector's rate, unpaced, soak"
    assert verdict.advice == [f"machine quiet: stop other programs ({names})"]


@pytest.mark.parametrize("left_out", [False, True])
def test_a_soak_that_was_left_out_is_told(left_out: bool) -> None:
    verdict = verdict_of(at_rate(3), full_speed(), search=searched(5.0, 10.0), soak_left_out=left_out)
    assert verdict.answer == "no"
    assert any("no soak was run" in reason for reason in verdict.reasons) == left_out


def slower_and_slower(share: float) -> LoadDocument:
    """Storage that carries so much less than comes."""
    records = frames_document().records
    assert records is not None
    done = [int(n * SECOND / 10 * (1 + share)) + 2_000_000 for n in range(300)]
    return frames_document(records=records.model_dump() | {"done_ns": done})


def with_latency_ns(most_ns: int) -> LoadDocument:
    times = frames_document().times
    assert times is not None
    return frames_document(times=times.model_dump() | {"latency": histogram(*[2_000_000] * 299, most_ns)})


@pytest.mark.parametrize(("share", "outcome"), [(0.0, "held"), (0.005, "held"), (0.02, "not held")])
def test_a_backlog_that_grows_is_no_rate_that_holds(share: float, outcome: str) -> None:
    document = slower_and_slower(share)
    assert backlog_growth(document) == pytest.approx(share, abs=1e-6)
    step = step_of("rate", document)
    assert step.outcome == outcome
    assert [("grew by 2.0 %" in each) for each in step.shortcomings] == [True] * (outcome == "not held")


def test_a_backlog_is_told_without_the_times_of_frames_too() -> None:
    seconds = 60
    columns = {name: [10] * seconds for name in ("due", "done", "bytes", "late", "dropped", "time_max_ns")}

    def with_held(held: list[int]) -> LoadDocument:
        series = {"interval_s": 1.0, **columns, "held_max": held}
        return frames_document(records=None, series=series)

    assert backlog_growth(with_held([3] * seconds)) == 0
    # Half of what comes stays: 5 frames a second more in the buffer, half a second's worth.
    assert backlog_growth(with_held([5 * n for n in range(seconds)])) == pytest.approx(0.5)
    assert backlog_growth(frames_document(records=None)) is None


def test_a_frame_that_comes_too_late_is_no_rate_that_holds() -> None:
    run = step_of("rate", with_latency_ns(600_000_000)).run
    assert outcome_of(run, 0.7) == ("held", [])
    outcome, shortcomings = outcome_of(run, 0.5)
    assert outcome == "not held"
    assert "600 ms" in shortcomings[0]
