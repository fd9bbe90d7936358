"""Whether the load generator itself ran all the time, and what its own work took of that of a storage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.bench.judge.rank_checks import make_check
from penstock.bench.statistics.quantiles import sum_s
from penstock.model.bench.load import LoadDocument, StreamPhase
from penstock.model.bench.network import Gaps
from penstock.model.bench.runs import STREAM_S_MIN, Check, CheckOutcome
from penstock.model.units import human_seconds

IN_TIME, NOT_THE_BOTTLENECK = "generator on schedule", "generator not the bottleneck"
# A gap of a share of the phase moves its figures by as much: a tenth is more than storages are compared
# by, a hundredth less than two runs differ by. A second is a freeze of the storage in every table, however
# long the run. Below GAP_NOTED_S it is what the scheduler of a busy machine does.
GAP_S, GAP_MAX_S = 0.1, 1.0
GAP_NOTED_S = 0.05
GAP_SHARE, GAP_SHARE_MAX = 0.01, 0.1
# Of the time of the threads that write or read: their own work, and waiting for something to do.
OWN_SHARE = 0.05

_ORDER: list[CheckOutcome] = ["ok", "warning", "failed"]


@dataclass(frozen=True)
class StoodStill:
    """How long the generator did not run at once, and in all, in which phase, and what that means."""

    what: str
    longest_s: float
    all_s: float
    outcome: CheckOutcome

    @property
    def actual(self) -> str:
        one, all_ = human_seconds(self.longest_s), human_seconds(self.all_s)
        reported = one if self.all_s <= self.longest_s else f"{one}, {all_} in all"
        return f"{reported}{f' in {self.what}' if self.what else ''}"

    def is_worse_than(self, outcome: CheckOutcome) -> bool:
        return _ORDER.index(self.outcome) > _ORDER.index(outcome)


def graded_gap(longest_s: float, seconds: float, all_s: float = 0.0) -> CheckOutcome:
    """`seconds` of the phase, 0 where that is not known; `all_s` of all gaps of GAP_NOTED_S and more.

    Many short ones move a figure as far as a long one does.
    """
    stood_s = max(longest_s, all_s)
    share = stood_s / seconds if seconds > 0 else 0.0
    if longest_s > GAP_MAX_S or (stood_s > GAP_S and share > GAP_SHARE_MAX):
        return "failed"
    noted = longest_s > GAP_NOTED_S and share > GAP_SHARE
    return "warning" if longest_s > GAP_S or noted else "ok"


def worst_gap(document: LoadDocument) -> StoodStill | None:
    """Of all phases; None where nobody looked."""
    found = [
        _stood_still(what, seconds, gaps) for what, seconds, gaps in _phases(document) if gaps is not None
    ]
    return max(found, key=lambda one: (_ORDER.index(one.outcome), one.longest_s), default=None)


def _stood_still(what: str, seconds: float, gaps: Gaps) -> StoodStill:
    longest_s, all_s = gaps.longest_ns * 1e-9, gaps.sum_ns * 1e-9
    return StoodStill(what, longest_s, all_s, graded_gap(longest_s, seconds, all_s))


def _phases(document: LoadDocument) -> Iterator[tuple[str, float, Gaps | None]]:
    """What each phase is called, its seconds, and its gaps."""
    if document.generator is not None:
        seconds = (document.seconds.completed or document.seconds.last_done) if document.seconds else None
        yield "", seconds or 0.0, document.generator.gaps
    for phase in _standing(document.phases or []):
        yield phase.phase, _seconds_of(phase), phase.gaps
    for named in document.metadata.phases if document.metadata is not None else []:
        yield named.operation.replace("_", " "), named.last_done_s or 0.0, named.gaps
    for measured in document.network.phases if document.network is not None else []:
        yield f"{measured.pattern}, here", measured.client.seconds, measured.client.gaps
        if measured.server is not None:
            yield f"{measured.pattern}, at the other end", measured.server.seconds, measured.server.gaps


def _standing(phases: Sequence[StreamPhase]) -> Sequence[StreamPhase]:
    """Those that were long enough for a figure: what happens in others spoils none. All, where none was."""
    return [phase for phase in phases if _seconds_of(phase) >= STREAM_S_MIN] or phases


def _seconds_of(phase: StreamPhase) -> float:
    return max((thread.done_s for thread in phase.threads if thread.done_s is not None), default=0.0)


def check_running(document: LoadDocument) -> Iterator[Check]:
    """A generator that was stopped, or had no processor, is no storage that hangs."""
    if (worst := worst_gap(document)) is not None:
        yield make_check(
            IN_TIME,
            worst.outcome,
            f"it stalls for at most {human_seconds(GAP_S)}, and {100 * GAP_SHARE:.0f} % of a phase",
            worst.actual,
            "worse",
            "run again on an idle machine: the generator was stopped, or another program used the processors",
        )


def check_own_work(phase: StreamPhase) -> Iterator[Check]:
    """While a thread makes or compares bytes the storage has nothing to do, but for what is queued."""
    seconds = _seconds_of(phase) * len(phase.threads)
    if seconds <= 0:
        return
    if phase.verify_ns is not None:
        yield _check_own_share(
            phase.phase,
            phase.verify_ns * 1e-9 / seconds,
            "comparing the data read",
            "use --no-verify once the data is known to be correct: the storage reads faster than measured",
        )
    if phase.fill_ns is not None:
        yield _check_own_share(
            phase.phase,
            phase.fill_ns * 1e-9 / seconds,
            "generating the data to write",
            "increase --threads or --queue-depth: the storage writes faster than measured",
        )


def check_handing_over(document: LoadDocument) -> Iterator[Check]:
    """Of frames without a rate: writers are with the storage, and do not wait for the generator."""
    assert document.times is not None
    writers = document.generator.writers if document.generator is not None else []
    seconds = sum(writer.last_done_s for writer in writers if writer.last_done_s is not None)
    if seconds > 0:
        yield _check_own_share(
            "",
            max(0.0, 1 - sum_s(document.times.service) / seconds),
            "in which writers wait for a frame or generate it",
            "increase --writers: the storage writes faster than measured",
        )


def _check_own_share(phase: str, share: float, what: str, advice: str) -> Check:
    return make_check(
        f"{NOT_THE_BOTTLENECK}{f' ({phase})' if phase else ''}",
        "ok" if share <= OWN_SHARE else "warning",
        f"at most {100 * OWN_SHARE:.0f} % of the time {what}",
        f"{100 * share:.1f} %",
        "worse",
        advice,
    )
