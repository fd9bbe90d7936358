"""Many documents through time: what is called steady, rising, falling or jumped."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy
import pytest
from comparable import Numbers, measured, set_of
from scipy import stats

from penstock.bench.compare.sets import RunSet
from penstock.bench.compare.trend import jumps_of, kendall, trend
from penstock.model.bench.comparisons import TrendRow
from penstock.model.errors import UsageError


def nightly(levels: Sequence[float] | Numbers, runs: int = 3, seed: int = 1) -> list[RunSet]:
    """A document for each level, of a few runs that scatter by 1 % around it."""
    numbers = numpy.random.default_rng(seed)
    return [
        set_of(
            f"night {night}",
            [1440 * night + 10 * run for run in range(runs)],
            throughput=level * numbers.lognormal(0, 0.01, runs),
        )
        for night, level in enumerate(levels)
    ]


def row_of(sets: Sequence[RunSet]) -> TrendRow:
    (row,) = trend(sets).rows
    return row


def test_steady_nights_are_called_something_else_in_one_of_ten_at_most() -> None:
    """Two families of tests, of jumps and of slopes, each wrong in one of twenty. Nights scatter by 5 %."""
    numbers, trials, alarms = numpy.random.default_rng(3), 200, 0
    for _ in range(trials):
        found = trend(nightly(1e9 * numbers.lognormal(0, 0.05, 10), runs=1))
        alarms += any(row.movement != "steady" for row in found.rows)
    assert alarms <= trials * 0.1 + 3 * (trials * 0.1 * 0.9) ** 0.5


def test_a_jump_is_told_with_its_document() -> None:
    levels = 1e9 * numpy.random.default_rng(4).lognormal(0, 0.01, 12)
    levels[7:] *= 0.7
    found = trend(nightly(levels))
    (row,) = found.rows
    assert (row.movement, row.jumped_at, found.answer) == ("jumped", ["night 7"], "worse")
    assert row.points[7].jump == pytest.approx(-0.3, abs=0.03)
    levels[7:] *= 2
    assert trend(nightly(levels)).answer == "nothing worse"


@pytest.mark.parametrize(
    ("pace", "movement", "answer"), [(0.98, "falling", "worse"), (1.02, "rising", "nothing worse")]
)
def test_what_moves_slowly_is_no_jump(pace: float, movement: str, answer: str) -> None:
    levels = 1e9 * numpy.array([pace**night for night in range(12)])
    found = trend(nightly(levels))
    (row,) = found.rows
    assert (row.movement, row.jumped_at, found.answer) == (movement, [], answer)
    assert row.slope == pytest.approx(pace - 1, abs=0.004)
    assert row.slope_low is not None
    assert row.slope_high is not None
    assert row.slope_low < pace - 1 < row.slope_high


def test_the_slope_is_the_median_of_all_pairs() -> None:
    """Theil and Sen by their definition; Kendall's test by scipy."""
    levels = 1e9 * numpy.random.default_rng(5).lognormal(0, 0.05, 9)
    row = row_of(nightly(levels, runs=1))
    logs = numpy.log([point.middle.median for point in row.points])
    pairs = [(logs[b] - logs[a]) / (b - a) for a in range(9) for b in range(a + 1, 9)]
    assert row.slope == pytest.approx(numpy.exp(numpy.median(pairs)) - 1)
    assert row.p_adjusted == pytest.approx(stats.kendalltau(range(9), logs).pvalue)


@pytest.mark.parametrize(
    "numbers", [[1, 1, 2, 2, 3], [0, 0, 0, 0, 1, 2], [1, 1, 2, 3, 4], [1, 2, 2, 2, 3, 3], [5] * 5]
)
def test_orders_of_equal_numbers_are_called_moving_in_one_of_twenty_at_most(numbers: list[int]) -> None:
    """Counted over all orders in which they may come."""
    orders = {order: kendall(numpy.array(order, dtype=float)) for order in itertools.permutations(numbers)}
    assert sum(p_value < 0.05 for p_value in orders.values()) <= 0.05 * len(orders)
    assert all(0 < p_value <= 1 for p_value in orders.values())


def test_orders_without_equal_numbers_are_exact() -> None:
    numbers = numpy.random.default_rng(6).normal(size=9)
    assert kendall(numbers) == stats.kendalltau(range(9), numbers, method="exact").pvalue


def test_a_jump_is_measured_by_students_prediction() -> None:
    """A new number beside those before it is a test of two samples of which one has a single number."""
    numbers = numpy.random.default_rng(6).normal(0, 1, 9)
    found = jumps_of(numbers, window=5)
    assert [each is None for each in found] == [True] * 3 + [False] * 6
    for at in (3, 8):
        before = numbers[max(0, at - 5) : at]
        expected = stats.ttest_ind([numbers[at]], before, equal_var=True)
        jump = found[at]
        assert jump is not None
        assert jump.p_value() == pytest.approx(expected.pvalue)


def test_few_documents_are_no_trend() -> None:
    found = trend(nightly([1e9, 2e9, 3e9]))
    assert (found.rows[0].movement, found.answer) == ("cannot tell", "cannot tell")
    assert found.reasons == [
        "frames: throughput: 3 documents are too few: with 1 metric tested together, a trend needs at least"
        " 5 documents"
    ]
    with pytest.raises(UsageError, match="1 document has no trend"):
        trend(nightly([1e9]))


def test_documents_are_sorted_by_time_and_changes_told() -> None:
    kernels = ["6", "6", "7"]
    sets = [
        RunSet(f"n{n}", [measured(n, {"throughput": 1e9}, f"n{n}", conditions={"kernel": kernel})])
        for n, kernel in enumerate(kernels)
    ]
    found = trend(sets[::-1])
    assert [each.name for each in found.documents] == ["n0", "n1", "n2"]
    (change,) = found.conditions
    assert (change.document, change.name, change.before, change.after) == ("n2", "kernel", "6", "7")


def test_documents_without_a_valid_run_are_named_and_other_parameters_refused() -> None:
    sets = nightly([1e9] * 3, runs=1)
    bad = RunSet("bad", [measured(9999, {"throughput": 1.0}, "bad", validity="invalid")])
    assert trend([*sets, bad]).notes == ["bad has no valid run"]
    assert (
        trend([bad, RunSet("worse", [measured(9998, {"throughput": 1.0}, validity="invalid")])]).answer
        == "invalid"
    )
    other = RunSet("other", [measured(9999, {"throughput": 1.0}, "other", parameters={"kind": "stream"})])
    with pytest.raises(UsageError, match="kind is frames in night 0 and stream in other"):
        trend([*sets, other])
    assert trend([*sets, other], force=True).rows


def test_a_last_night_that_says_nothing_is_no_steady_one() -> None:
    """Storage that failed last night has no figures of it: what was before is no answer."""
    sets = nightly([1e9] * 10, seed=2)
    assert trend(sets).answer == "nothing worse"
    broken = measured(99999, {"throughput": 1e9}, "last", validity="invalid", fault="errno 5")
    found = trend([*sets, RunSet("last", [broken])])
    assert (found.answer, found.reasons) == ("cannot tell", ["last, the last document, has no valid run"])
    sound = measured(99998, {"throughput": 1e9}, "last")
    found = trend([*sets, RunSet("last", [sound, broken])])
    assert (found.answer, found.reasons) == ("cannot tell", ["last, the last document: 1 run failed"])
    assert trend([*sets, RunSet("last", [sound])]).answer == "nothing worse"
    before = measured(-1, {"throughput": 1e9}, "first", validity="invalid", fault="errno 5")
    assert trend([RunSet("first", [before]), *sets]).answer == "nothing worse"


def test_a_value_that_was_too_short_in_one_night_is_looked_at_in_the_others() -> None:
    levels = [1e9] * 8 + [2e8] * 4
    sets = nightly(levels)
    short = RunSet(
        "night 2",
        [replace(run, values={}, too_short=frozenset(("throughput",))) for run in sets[2].runs],
    )
    found = trend([*sets[:2], short, *sets[3:]])
    (row,) = found.rows
    assert ("night 8" in row.jumped_at, found.answer) == (True, "worse")
    sets = nightly([1e9] * 8, seed=2)
    last = RunSet(
        "night 7",
        [replace(run, values={}, too_short=frozenset(("throughput",))) for run in sets[7].runs],
    )
    found = trend([*sets[:7], last])
    assert found.answer == "cannot tell"
    assert found.reasons == ["frames: throughput: missing in night 7, the last document"]
