"""Statistics against other ways to the same numbers: exact fractions, numpy over all values."""

from fractions import Fraction
from math import comb

import numpy
import pytest
from bench_documents import paced_document, run_of
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.bench.statistics.figures import frame_figures
from penstock.bench.statistics.quantiles import latencies_ns, quantile_ns, recovery_s, share_bound
from penstock.bench.statistics.values import values_of
from penstock.model.bench.load import Histogram


def binomial_tail(hits: int, trials: int, share: Fraction) -> Fraction:
    """The probability of at most `hits`."""
    terms = (comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(hits + 1))
    return sum(terms, Fraction(0))


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_the_share_at_which_so_few_hits_are_one_in_twenty(counts: tuple[int, int]) -> None:
    hits, trials = counts
    bound = share_bound(hits, trials)
    if hits == trials:
        assert bound == 1
        return
    assert float(binomial_tail(hits, trials, Fraction(bound))) == pytest.approx(0.05, rel=1e-6)


def test_nothing_lost_of_twelve_thousand() -> None:
    assert share_bound(0, 12_000) == pytest.approx(2.5e-4, rel=2e-3)
    with pytest.raises(ValueError, match="3 of 2"):
        share_bound(3, 2)


def histogram_of(values: list[int]) -> Histogram:
    """With a bucket for each value."""
    unique, counts = numpy.unique(numpy.array(values), return_counts=True)
    buckets = [(int(v), int(v), int(c)) for v, c in zip(unique, counts, strict=True)]
    return Histogram(count=len(values), max_ns=max(values), buckets=buckets)


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 0.999, 1.0])
)
def test_quantiles_are_numpys(values: list[int], share: float) -> None:
    expected = numpy.quantile(numpy.array(values), share, method="inverted_cdf")
    assert quantile_ns(histogram_of(values), share) == int(expected)


def test_a_quantile_does_not_exceed_the_largest_value() -> None:
    histogram = Histogram(count=2, max_ns=1005, buckets=[(10, 10, 1), (1000, 1007, 1)])
    assert quantile_ns(histogram, 0.99) == 1005
    assert quantile_ns(Histogram(count=0, max_ns=0, buckets=[]), 0.5) == 0


def test_latencies_count_from_when_a_frame_was_due() -> None:
    assert list(latencies_ns([5, -2, 2_000_000_007], 1.0)) == [5, -1, 7]
    long = latencies_ns([0] * 3, 3.0)
    assert list(long) == [0, -333_333_333, -666_666_666]


def test_recovery_is_the_time_from_the_stall_to_the_next_frame_in_time() -> None:
    second = 10**9
    done = [0, second, 8 * second, int(8.1 * second), int(8.2 * second), int(8.3 * second), int(8.4 * second),
            int(8.5 * second), int(8.6 * second), int(9.1 * second)]  # fmt: skip
    found = recovery_s(done, 1.0, 1.0, 8.0)
    assert found == pytest.approx(0.6)  # frame 7, due at 7, was done at 8.5; frame 8, at 8.6, was in time
    assert recovery_s(done[:6], 1.0, 1.0, 8.0) is None


@pytest.mark.parametrize("due", [1, 2, 20])
def test_no_more_is_carried_than_becomes_due(due: int) -> None:
    """2 frames at 1 Hz are done after a second, and are 1 a second all the same."""
    last_s = due - 1.0
    done_s = last_s + 0.002
    seconds = {"last_due": last_s, "first_done": 0.0, "last_done": done_s, "completed": done_s}
    figures = frame_figures(paced_document(1.0, due, seconds=seconds))
    assert figures.carried_bytes_per_s == pytest.approx(figures.needed_bytes_per_s)
    slow = frame_figures(paced_document(1.0, due, seconds=seconds | {"completed": 2.0 * due}))
    assert slow.carried_bytes_per_s == pytest.approx(figures.needed_bytes_per_s / 2)


def test_a_part_of_a_period_is_no_difference_of_what_was_carried() -> None:
    """Runs that keep up carry the same to the last digit, which is no proof that one more digit matters."""
    at_rate, full = (values_of(run_of(paced_document(rate, 300), []))["throughput"] for rate in (10.0, 0.0))
    anywhere = numpy.std(numpy.linspace(0, 1, 10_001))  # in a period
    assert at_rate.error == pytest.approx(at_rate.value / 300 * anywhere, rel=1e-3)
    assert full.error == 0
