"""Two sets of runs: what is called better, worse, the same or nothing of these, by simulation and by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy
import pytest
from campaign_documents import made_up_run
from comparable import Numbers, measured, set_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from penstock.bench.campaign.campaigns import order_of
from penstock.bench.compare.sets import Measured, RunSet
from penstock.bench.compare.storages import compare
from penstock.bench.statistics.values import Value, values_of
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.runs import ProcessorCost
from penstock.model.errors import UsageError

Noise = Callable[[numpy.random.Generator, int], Numbers]


def autocorrelated(numbers: numpy.random.Generator, count: int) -> Numbers:
    """Each as the one before it by half."""
    return numpy.asarray(lfilter([1], [1, -0.5], numbers.normal(0, 0.05, count + 50))[50:])


NOISES: dict[str, Noise] = {
    "normal": lambda numbers, n: numbers.normal(0, 0.05, n),
    "skewed": lambda numbers, n: numbers.lognormal(0, 1, n) * 0.05,
    "heavy tails": lambda numbers, n: 0.05 * numbers.standard_t(2, n),
    "two levels": lambda numbers, n: 0.1 * numbers.integers(0, 2, n) + numbers.normal(0, 0.002, n),
    "drift": lambda numbers, n: 0.03 * numpy.arange(n) + numbers.normal(0, 0.05, n),
    "autocorrelated": autocorrelated,
}
BLOCKS = 6
PLACES = (range(0, 12, 2), range(1, 13, 2))


def two_sets(
    numbers: numpy.random.Generator, noise: Noise, in_turn: bool, change: float = 1.0, blocks: int = BLOCKS
) -> tuple[RunSet, RunSet]:
    """Of one system, in a bandwidth and a latency; `change` is the factor of B's bandwidth."""
    line = numpy.arange(2 * blocks)
    first = 2 * numpy.arange(blocks) + numbers.integers(0, 2, blocks) if in_turn else line[:blocks]
    second = numpy.setdiff1d(line, first)
    throughput, latency = (numpy.exp(noise(numbers, 2 * blocks)) for _ in range(2))
    base = set_of("A", first.tolist(), throughput=1e9 * throughput[first], latency=5 * latency[first])
    other = set_of(
        "B", second.tolist(), throughput=1e9 * change * throughput[second], latency=5 * latency[second]
    )
    return base, other


DECIDED = {"better", "worse", "same"}


def outcomes(comparison: Comparison) -> dict[str, str]:
    return {row.value: row.outcome for row in comparison.values}


@pytest.mark.parametrize("noise", NOISES)
def test_the_same_system_in_turn_is_called_different_in_one_of_twenty_at_most(noise: str) -> None:
    """1020 trials over all kinds of noise; three standard deviations above a twentieth are no chance."""
    numbers, trials = numpy.random.default_rng([20, *noise.encode()]), 170
    alarms = 0
    for _ in range(trials):
        found = compare(*two_sets(numbers, NOISES[noise], in_turn=True))
        alarms += any(outcome in DECIDED for outcome in outcomes(found).values())
    assert alarms <= trials * 0.05 + 3 * (trials * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("noise", ["normal", "skewed", "heavy tails", "two levels", "drift"])
def test_the_same_system_one_set_after_the_other_is_neither(noise: str) -> None:
    numbers, trials = numpy.random.default_rng([21, *noise.encode()]), 170
    alarms = 0
    for _ in range(trials):
        found = compare(*two_sets(numbers, NOISES[noise], in_turn=False))
        alarms += any(outcome in DECIDED for outcome in outcomes(found).values())
    assert alarms <= trials * 0.05 + 3 * (trials * 0.05 * 0.95) ** 0.5


def test_runs_that_hang_together_want_to_be_measured_in_turn() -> None:
    """Of sets apart the runs' own scatter says too little: told in the documentation as 11 of 100."""
    numbers, trials, alarms = numpy.random.default_rng(24), 300, 0
    for _ in range(trials):
        base, other = two_sets(numbers, NOISES["autocorrelated"], in_turn=False)
        alarms += outcomes(compare(base, other))["throughput"] in DECIDED
    assert alarms <= trials * 0.11 + 3 * (trials * 0.11 * 0.89) ** 0.5


def test_a_fifth_is_found_in_six_blocks_of_five_percent_noise() -> None:
    numbers, trials, found = numpy.random.default_rng(22), 200, 0
    for _ in range(trials):
        base, other = two_sets(numbers, NOISES["normal"], in_turn=True, change=1 / 1.2)
        found += outcomes(compare(base, other))["throughput"] == "worse"
    assert found >= 0.95 * trials


@pytest.mark.parametrize("threshold", [0.0, 0.02])
def test_the_interval_that_is_shown_is_the_one_that_decided(threshold: float) -> None:
    """An interval of 95 % each would leave 0 out beside values that are not called different."""
    numbers, seen = numpy.random.default_rng(26), set()
    for change in (0.9, 0.93, 0.97, 1.0) * 15:
        base, other = two_sets(numbers, lambda g, n: g.normal(0, 0.03, n), in_turn=True, change=change)
        for row in compare(base, other, threshold).values:
            assert row.low is not None
            assert row.high is not None
            assert row.confidence is not None
            assert row.low < row.effect < row.high
            low, high = numpy.log(row.low), numpy.log(row.high)
            margin = numpy.log1p(threshold)
            is_beyond = bool(low > margin or high < -margin)
            assert is_beyond == (row.outcome in ("better", "worse"))
            if row.outcome == "same":
                assert row.confidence == 0.95
                assert -margin <= low < high <= margin
            seen.add((row.outcome, round(row.confidence, 3)))
    assert {("worse", 0.975), ("indistinguishable", 0.975), ("indistinguishable", 0.95)} <= seen


def test_what_blocks_share_does_not_hide_a_difference() -> None:
    """The machine's mood changes by a third from block to block, and B is 5 % slower in each."""
    mood = 1e9 * numpy.array([1.0, 0.6, 1.4, 0.8, 1.3, 0.7])
    jitter = numpy.random.default_rng(23).lognormal(0, 0.005, BLOCKS)
    base, other = (
        set_of("A", PLACES[0], throughput=mood),
        set_of("B", PLACES[1], throughput=0.95 * mood * jitter),
    )
    (row,) = compare(base, other).values
    assert (row.outcome, row.design) == ("worse", "in blocks")


def test_a_set_that_always_came_second_is_told() -> None:
    throughput = 1e9 * numpy.random.default_rng(25).lognormal(0, 0.01, (2, 4))

    def compared(first: Sequence[float], second: Sequence[float]) -> Comparison:
        return compare(
            set_of("A", first, throughput=throughput[0]), set_of("B", second, throughput=throughput[1])
        )

    assert any(
        "B was always second in its pair" in note for note in compared((0, 2, 4, 6), (1, 3, 5, 7)).notes
    )
    found = compared((0, 3, 4, 7), (1, 2, 5, 6))
    assert found.values[0].design == "in blocks"
    assert not any("always second" in note for note in found.notes)


@pytest.mark.parametrize("blocks", [3, 4, 5, 6])
def test_a_place_in_the_block_is_no_difference(blocks: int) -> None:
    """Whoever comes second is a fifth slower: in campaigns both cases do as often, but for the odd block."""
    numbers, trials, alarms = numpy.random.default_rng([26, blocks]), 200, 0
    for seed in range(trials):
        orders = [order_of(seed, block, 2) for block in range(blocks)]
        places = [[2 * block + order.index(case) for block, order in enumerate(orders)] for case in (0, 1)]
        base, other = (
            set_of(
                name, at, throughput=[1e9 * 0.8 ** (place % 2) * numbers.lognormal(0, 0.01) for place in at]
            )
            for name, at in zip("AB", places, strict=True)
        )
        alarms += outcomes(compare(base, other))["throughput"] in DECIDED
    assert alarms <= trials * 0.05 + 3 * (trials * 0.05 * 0.95) ** 0.5


def test_a_drift_through_sets_that_were_not_made_in_turn_is_told() -> None:
    places = list(range(12))
    falling: Numbers = 1e9 * numpy.exp(
        numpy.arange(12) * numpy.log(0.95) + numpy.random.default_rng(1).normal(0, 0.01, 12)
    )
    base, other = (
        set_of("A", places[:6], throughput=falling[:6]),
        set_of("B", places[6:], throughput=falling[6:]),
    )
    found = compare(base, other)
    (row,) = found.values
    assert (row.outcome, row.design) == ("drift", "apart")
    assert row.drift == pytest.approx(-0.05, abs=0.01)
    assert "drift" in row.reason
    assert found.answer == "cannot tell"
    assert any("not measured in alternation" in note for note in found.notes)
    assert any("throughput drifts by -5" in note for note in found.notes)
    base, other = (set_of("AB"[k], PLACES[k], throughput=falling[k::2]) for k in (0, 1))
    found = compare(base, other)
    assert (found.values[0].drift, found.values[0].design, found.answer) == (
        None,
        "in blocks",
        "nothing worse",
    )


@pytest.mark.parametrize(
    ("change", "threshold", "outcome", "answer"),
    [
        (1.0, 0.0, "indistinguishable", "nothing worse"),
        (1.0, 0.05, "same", "nothing worse"),
        (1.0, 0.001, "indistinguishable", "cannot tell"),
        (0.9, 0.0, "worse", "worse"),
        (0.9, 0.05, "worse", "worse"),
        (0.97, 0.0, "worse", "worse"),
        (0.97, 0.05, "same", "nothing worse"),
        (1.1, 0.05, "better", "nothing worse"),
    ],
)
def test_what_is_below_the_threshold_does_not_matter(
    change: float, threshold: float, outcome: str, answer: str
) -> None:
    jitter = numpy.array([1.003, 0.998, 1.001, 0.997, 1.002, 0.999])
    base = set_of("A", range(0, 12, 2), throughput=1e9 * jitter)
    other = set_of("B", range(1, 13, 2), throughput=1e9 * change * jitter[::-1])
    found = compare(base, other, threshold)
    (row,) = found.values
    assert (row.outcome, found.answer) == (outcome, answer)
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.effect < row.high
    assert row.effect == pytest.approx(change, rel=0.01)


def test_what_cannot_be_told_is_told_with_its_value_its_interval_and_the_rule() -> None:
    jitter = numpy.array([1.03, 0.98, 1.01, 0.97, 1.02, 0.99])
    base = set_of("A", range(0, 12, 2), throughput=1e9 * jitter)
    other = set_of("B", range(1, 13, 2), throughput=1e9 * jitter[::-1])
    found = compare(base, other, 0.01)
    assert found.answer == "cannot tell"
    (reason,) = found.reasons
    row = found.values[0]
    assert row.low is not None
    assert reason.startswith("frames: throughput: its change is -")
    assert "includes the threshold of 1 % either way (factor 1/1.01 to 1.01)" in reason
    assert compare(base, other).reasons == []  # that is "nothing worse"


def test_what_is_beyond_the_threshold_and_one_of_many_says_that() -> None:
    """Alone it would be enough; among twenty it is not."""
    rng = numpy.random.default_rng(4)
    jitter = numpy.array([1.02, 0.98, 1.025, 0.975, 1.015, 0.985])
    many: dict[str, Numbers] = {f"v{n}": 1e9 * rng.normal(1, 0.02, 6) for n in range(19)}
    base = set_of("A", range(0, 12, 2), throughput=1e9 * jitter, **many)
    other = set_of("B", range(1, 13, 2), throughput=0.94 * 1e9 * jitter[::-1], **many)
    first, second = (
        RunSet(each.name, [replace(run, values=_carried(run)) for run in each.runs]) for each in (base, other)
    )
    assert compare(first, second, 0.005).answer == "worse"
    found = compare(base, other, 0.005)
    told = [reason for reason in found.reasons if "throughput" in reason]
    assert ["not significant among 20 metrics" in reason for reason in told] == [True]


def _carried(run: Measured) -> dict[str, Value]:
    return {"throughput": run.values["throughput"]}


def test_few_runs_are_one_reason_for_all_values() -> None:
    found = compare(
        set_of("A", [0], throughput=[2e9], read=[1]), set_of("B", [1], throughput=[1e9], read=[1])
    )
    assert found.reasons == ["frames: throughput, read: one run each gives no information about noise"]


def with_cost(place: float, seconds: float) -> Measured:
    """A gigabyte in so much processor time."""
    cost = ProcessorCost(
        moved_bytes=10**9,
        user_s_per_gb=seconds,
        system_s_per_gb=0.0,
        steal_s_per_gb=0.0,
        own_user_s_per_gb=0.0,
        own_system_s_per_gb=0.0,
    )
    value = values_of(made_up_run().model_copy(update={"cost": cost}))["processor time"]
    return replace(measured(place, {}), values={"processor time": value})


@pytest.mark.parametrize(("seconds", "outcome"), [(0.51, "indistinguishable"), (0.6, "worse")])
def test_a_tick_of_the_kernels_clock_is_no_difference(seconds: float, outcome: str) -> None:
    """Runs that agree by chance, one hundredth of a second apart: counters are no finer than that."""
    base = RunSet("A", [with_cost(place, 0.5) for place in PLACES[0]])
    other = RunSet("B", [with_cost(place, seconds) for place in PLACES[1]])
    assert outcomes(compare(base, other)) == {"processor time": outcome}


def test_lower_is_better_for_a_latency() -> None:
    jitter = numpy.array([1.003, 0.998, 1.001, 0.997])
    base = set_of("A", range(0, 8, 2), latency=jitter)
    other = set_of("B", range(1, 9, 2), latency=2 * jitter)
    assert outcomes(compare(base, other)) == {"latency": "worse"}
    assert outcomes(compare(other, base)) == {"latency": "better"}


def test_one_run_each_says_nothing_about_noise() -> None:
    found = compare(set_of("A", [0], throughput=[2e9]), set_of("B", [1], throughput=[1e9]))
    (row,) = found.values
    assert (row.outcome, row.reason) == ("too few runs", "one run each gives no information about noise")
    assert row.effect == pytest.approx(0.5)
    assert (row.low, row.high, row.detectable) == (None, None, None)
    assert found.answer == "cannot tell"
    assert (
        "2 and 3 runs"
        in compare(set_of("A", [0, 1], throughput=[1, 2]), set_of("B", [2, 3, 4], throughput=[1, 2, 3]))
        .values[0]
        .reason
    )


def test_ranges_that_do_not_overlap_are_not_called_indistinguishable() -> None:
    high, low = {"throughput": [1e9, 1.01e9, 1.02e9]}, {"throughput": [0.3e9, 0.7e9, 0.95e9]}
    found = compare(set_of("A", range(0, 6, 2), **high), set_of("B", range(1, 7, 2), **low))
    (row,) = found.values
    assert (row.outcome, row.p_adjusted is not None and row.p_adjusted > 0.05) == ("too few runs", True)
    assert row.reason == (
        "all runs of B are worse than those of A, but 3 and 3 runs are too few to exclude chance"
    )
    assert found.answer == "cannot tell"
    better = compare(set_of("A", range(0, 6, 2), **low), set_of("B", range(1, 7, 2), **high))
    assert (outcomes(better), better.answer) == ({"throughput": "too few runs"}, "nothing worse")
    touching = {"throughput": [0.3e9, 0.7e9, 1e9]}
    overlap = compare(set_of("A", range(0, 6, 2), **high), set_of("B", range(1, 7, 2), **touching))
    assert outcomes(overlap) == {"throughput": "indistinguishable"}


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(0.5, 1.0), min_size=1, max_size=6),
    st.lists(st.floats(1.1, 9.0), min_size=1, max_size=6),
    st.booleans(),
)
def test_no_ranges_that_do_not_overlap_are_called_indistinguishable(
    first: list[float], second: list[float], in_turn: bool
) -> None:
    places = range(0, 2 * len(first), 2) if in_turn else range(len(first))
    after = range(1, 2 * len(second), 2) if in_turn else range(100, 100 + len(second))
    found = compare(set_of("A", places, throughput=first), set_of("B", after, throughput=second))
    assert outcomes(found) != {"throughput": "indistinguishable"}


def test_many_values_are_one_family() -> None:
    """A change that is found alone is not found among ten others, which have ten chances to stray."""
    numbers = numpy.random.default_rng(6)
    jitter = numbers.normal(0, 0.02, (11, 2, 6))
    alone = {"value": numpy.exp(jitter[0])}
    alone["value"][1] *= 1.045
    many = alone | {f"value{n}": numpy.exp(jitter[n]) for n in range(1, 11)}
    sets = []
    for values in (alone, many):
        base, other = (
            set_of("AB"[k], PLACES[k], **{name: both[k] for name, both in values.items()}) for k in (0, 1)
        )
        sets.append(compare(base, other))
    first, second = (found.values[0] for found in sets)
    assert first.p_value == second.p_value
    assert (first.outcome, second.outcome) == ("better", "indistinguishable")
    assert first.detectable is not None
    assert second.detectable is not None
    assert second.detectable > first.detectable


def test_runs_that_are_invalid_are_left_out_and_counted() -> None:
    base, other = (set_of(name, range(k, 8 + k, 2), throughput=[1e9] * 4) for k, name in enumerate("AB"))
    bad = measured(20, {"throughput": 1.0}, "B", validity="invalid")
    found = compare(base, RunSet("B", [*other.runs, bad]))
    assert (found.other.runs, found.other.invalid) == (4, 1)
    assert found.values[0].other.median == 1e9
    nothing = compare(base, RunSet("B", [bad]))
    assert (nothing.answer, nothing.values) == ("invalid", [])


def test_conditions_that_differ_are_listed_and_parameters_refused() -> None:
    base = RunSet("A", [measured(n, {"throughput": 1e9}, "A") for n in range(3)])
    kernel = {"conditions": {"kernel": "7"}}
    other = RunSet("B", [measured(n, {"throughput": 1e9}, "B", **kernel) for n in range(3, 6)])
    (differs,) = compare(base, other).conditions
    assert (differs.name, differs.base, differs.other) == ("kernel", "6", "7")
    larger = {"parameters": {"kind": "frames", "frame_bytes": "2"}}
    other = RunSet("B", [measured(n, {"throughput": 1e9}, "B", **larger) for n in range(3, 6)])
    with pytest.raises(UsageError, match="frame size: 1 B and 2 B") as error:
        compare(base, other)
    assert "--force" in error.value.remedy
    assert [each.name for each in compare(base, other, force=True).parameters] == ["frame_bytes"]


def test_sets_without_a_common_value_cannot_be_told_apart() -> None:
    found = compare(set_of("A", [0], throughput=[1]), set_of("B", [1], latency=[1]))
    assert (found.answer, found.values) == ("cannot tell", [])
    assert found.notes == ["no metric is in all runs of both sets"]


def test_sets_of_different_workloads_are_named() -> None:
    def of(name: str, kind: str, start: int) -> RunSet:
        parameters = {"parameters": {"kind": kind}}
        return RunSet(name, [measured(start, {"throughput": 1.0}, name, **parameters)])

    with pytest.raises(UsageError, match="m is a run of metadata, f of frames"):
        compare(of("m", "metadata", 0), of("f", "frames", 1), force=True)


def test_failed_checks_of_a_set_without_a_valid_run_are_named() -> None:
    valid = set_of("A", [0], throughput=[1])
    void = [replace(run, validity="invalid", failed_checks=("long enough",)) for run in valid.runs]
    later = [replace(run, started=run.started + timedelta(1)) for run in void]
    found = compare(valid, RunSet("B", later))
    assert found.answer == "invalid"
    assert found.reasons == ["B has no valid run; failed checks: long enough"]


def test_the_same_run_in_both_sets_is_refused() -> None:
    base = set_of("A", range(3), throughput=[1, 2, 3])
    with pytest.raises(UsageError, match="twice"):
        compare(base, base)


def test_values_that_may_be_zero_are_compared_by_difference() -> None:
    first, second = [0, 3, 4, 7, 8, 11], [1, 2, 5, 6, 9, 10]  # as A B B A: a drift cancels
    jitter = [0.0, 1.0, 0.0, 2.0, 1.0, 0.0]
    found = compare(set_of("A", first, throughput=jitter), set_of("B", second, throughput=jitter))
    assert found.values[0].scale == "difference"
    assert found.values[0].effect == pytest.approx(0)
    found = compare(set_of("A", first, throughput=jitter), set_of("B", second, throughput=[9.0] * 6))
    assert found.values[0].outcome == "better"
    assert found.values[0].effect == pytest.approx(9 - 4 / 6)


def in_turn(name: str, **values: Sequence[float]) -> RunSet:
    return set_of(name, range("AB".index(name), 12, 2), **values)


STEADY = [1.003e9, 0.998e9, 1.001e9, 0.997e9, 1.002e9, 0.999e9]


def test_what_was_too_short_in_some_runs_is_not_passed_over() -> None:
    """A's reads take a moment in one run, and B's are five times slower: they are no "nothing is worse"."""
    base, other = in_turn("A", write=STEADY, read=STEADY), in_turn("B", write=STEADY[::-1], read=[2e8] * 6)
    assert compare(base, other).answer == "worse"
    short = replace(
        base.runs[3],
        values={"write": base.runs[3].values["write"]},
        too_short=frozenset(("read", "tree create")),
    )
    base = RunSet("A", [*base.runs[:3], short, *base.runs[4:]])
    found = compare(base, other)
    assert (outcomes(found), found.answer) == ({"write": "indistinguishable"}, "cannot tell")
    told = "frames: read was too short for a metric in 1 of 12 runs, and is not compared"
    assert told in found.reasons
    assert told in found.notes
    trees = replace(short, values=base.runs[0].values, too_short=frozenset(("tree create",)))
    fast = in_turn("B", write=STEADY[::-1], read=STEADY[::-1])
    assert compare(RunSet("A", [*base.runs[:3], trees, *base.runs[4:]]), fast).answer == "nothing worse"


def test_runs_that_the_storage_ended_with_an_error_are_no_proof_that_it_is_no_worse() -> None:
    base, other = in_turn("A", throughput=STEADY), in_turn("B", throughput=STEADY[::-1])
    assert compare(base, other).answer == "nothing worse"
    broken = measured(
        20,
        {"throughput": 1e9},
        "B",
        validity="invalid",
        fault="write x: the storage reports an input/output error",
    )
    found = compare(base, RunSet("B", [*other.runs, broken]))
    assert found.answer == "cannot tell"
    assert found.reasons == [
        "1 run of B failed with a storage error, and 0 of A: write x: the storage reports an input/output"
        " error"
    ]
    both = RunSet("A", [*base.runs, replace(broken, document="A-20.json", host="g")])
    assert compare(both, RunSet("B", [*other.runs, broken])).answer == "nothing worse"
    generator = measured(20, {"throughput": 1e9}, "B", validity="invalid")
    assert compare(base, RunSet("B", [*other.runs, generator])).answer == "nothing worse"


def with_lost(runs: RunSet, shares: Sequence[float]) -> RunSet:
    return RunSet(
        runs.name,
        [
            replace(run, values=run.values | {"lost": Value(share, "share", "lower", 0.001)})
            for run, share in zip(runs.runs, shares, strict=True)
        ],
    )


def test_frames_that_b_alone_lost_are_no_proof_that_it_is_no_worse() -> None:
    """In half of its runs: too seldom for Student, and not for a detector."""
    base, other = in_turn("A", throughput=STEADY), in_turn("B", throughput=STEADY[::-1])
    none, some = [0.0] * 6, [0, 0.05, 0, 0.08, 0, 0.1]
    for threshold in (0.0, 0.1):
        found = compare(with_lost(base, none), with_lost(other, some), threshold)
        assert outcomes(found)["lost"] == "indistinguishable"
        assert found.answer == "cannot tell"
        (reason,) = found.reasons
        assert reason == "frames: lost: frames were lost in 3 of 6 runs of B, 10 % at most, and in none of A"
    assert compare(with_lost(base, some), with_lost(other, none)).answer == "nothing worse"
    assert compare(with_lost(base, some), with_lost(other, some[::-1])).answer == "nothing worse"
