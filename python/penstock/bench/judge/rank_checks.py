"""What makes a measurement of several threads, or of the ranks of a job, one of them together."""

from collections.abc import Iterator

from penstock.model.bench.load import LoadDocument
from penstock.model.bench.runs import Bias, Check, CheckOutcome
from penstock.model.units import human_seconds

TOGETHER, TOGETHER_MIN = 0.8, 0.4
# How late a rank may begin, and how well its clock is to be known.
RANK_LATE_S, CLOCK_ERROR_S = 0.01, 1e-3


def make_check(
    name: str, outcome: CheckOutcome, expected: str, actual: str, bias: Bias = "either", advice: str = ""
) -> Check:
    good = outcome == "ok"
    return Check(
        name=name, outcome=outcome, expected=expected, actual=actual, bias=bias, advice="" if good else advice
    )


def rank_checks(document: LoadDocument) -> Iterator[Check]:
    """Whether the ranks of a job put on their load together."""
    if document.job is None or document.job.ranks < 2:
        return
    late_s = max(rank.late_ns for rank in document.job.parts) * 1e-9
    yield make_check(
        "ranks start together",
        "ok" if late_s <= RANK_LATE_S else "warning",
        f"each within {human_seconds(RANK_LATE_S)} of the start",
        human_seconds(late_s),
        "worse",
        "reduce the load on the ranks' machines and on the network between them",
    )
    error_s = max(rank.clock_error_ns for rank in document.job.parts) * 1e-9
    yield make_check(
        "clocks of ranks agree",
        "ok" if error_s <= CLOCK_ERROR_S else "warning",
        f"known to within {human_seconds(CLOCK_ERROR_S)}",
        human_seconds(error_s),
        "either",
        "use a faster network, or idle machines: times of different ranks are only that accurate",
    )


def check_ranks_end_together(document: LoadDocument) -> Iterator[Check]:
    """Of frames without a rate: a rank that ends early leaves the bandwidth to the others."""
    last: dict[int, float] = {}
    for writer in document.generator.writers if document.generator is not None else []:
        last[writer.rank] = max(last.get(writer.rank, 0.0), writer.last_done_s or 0.0)
    if len(last) > 1 and max(last.values()) > 0:
        yield ended_together(
            "ranks end together", min(last.values()) / max(last.values()), "increase --frames"
        )


def ended_together(name: str, share: float, advice: str) -> Check:
    return make_check(
        name,
        "ok" if share >= TOGETHER else "warning" if share >= TOGETHER_MIN else "failed",
        f"the first one after at least {100 * TOGETHER:.0f} % of the time of the last one",
        f"{100 * share:.0f} %",
        "worse",
        advice,
    )
