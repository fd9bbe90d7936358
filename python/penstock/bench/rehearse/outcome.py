"""What one step says: whether the chain sustained its rate, and what became of each frame."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.bench.rehearse.chain import SeriesResult
from penstock.bench.rehearse.stages import Window, index_backlog_growth, narrowest_of, uses_of
from penstock.bench.rehearse.surroundings import worst_of
from penstock.bench.rehearse.throughput import Throughput
from penstock.model.bench.rehearsals import (
    Delays,
    RehearsalOutcome,
    RehearsalStep,
    RehearsalStepKind,
    SeriesAccount,
    Stage,
    StageUse,
)
from penstock.model.bench.runs import Check
from penstock.model.events import CheckReport, SendingWork
from penstock.model.text import counted
from penstock.model.units import human_seconds

# A delay that rises by less per second is not told from one that does not; nor is one of less than a flush.
_BEHIND: tuple[Stage, ...] = ("compress", "write", "storage", "index")
GROWTH_MAX, _RISE_MIN_S = 0.01, 0.1
# From the last frame until the file is closed: the index, and what the buffers hold.
CLOSING_MAX_S = 2.0


@dataclass(frozen=True)
class Recorded:
    """A series that was recorded and checked."""

    result: SeriesResult
    check: CheckReport
    delays: Delays | None
    throughput: Throughput | None = None
    """of an unpaced series"""
    checks: Sequence[Check] = ()
    """of what may make it look better or worse"""


def account_of(recorded: Recorded) -> SeriesAccount:
    sent, file, check = recorded.result.sent, recorded.result.recorded, recorded.check
    problems = [*recorded.result.problems]
    if file.problem:
        problems.append(f"recorder: {file.problem}")
    return SeriesAccount(
        sent=sent.frames_sent,
        received=file.frames_received,
        written=file.frames_written,
        damaged=file.damaged,
        dropped=file.dropped,
        lost=file.lost,
        compared=check.compared_frames,
        different=check.different_frames,
        closing_s=max(0.0, file.seconds - file.frames_seconds),
        raw_bytes=file.raw_bytes,
        stored_bytes=file.stored_bytes,
        problems=problems,
        findings=[finding for finding in check.findings if finding.level == "error"],
    )


def step_of(
    kind: RehearsalStepKind,
    rate_hz: float,
    recorded: Sequence[Recorded],
    buffer_s: float,
    failure: str = "",
) -> RehearsalStep:
    """Of the series that are complete. `failure`: why the recorder failed in the one after them."""
    accounts = [account_of(each) for each in recorded]
    seconds = sum(each.result.sent.sending_seconds for each in recorded)
    stopped = any(each.result.stopped for each in recorded)
    delays = _worst([each.delays for each in recorded if each.delays is not None])
    work, window = _window(recorded)
    uses = [] if window is None else uses_of(work, window)
    arrival = None if delays is None else delays.arrival_growth
    in_transit = arrival is not None and arrival > GROWTH_MAX
    narrowest = narrowest_of(uses, window, in_transit, rate_hz > 0)
    outcome, shortcomings = _outcome(
        rate_hz, accounts, delays, stopped, buffer_s, recorded, _busy_words(uses, narrowest)
    )
    if outcome == "held" and window is not None and (growth := index_backlog_growth(uses, window)):
        outcome = "not held"
        shortcomings = [f"{100 * growth:.0f} % of the frames that arrived were not indexed meanwhile"]
    if failure:
        outcome, shortcomings = "not held", [failure, *shortcomings]
    overloaded = outcome == "not held" or rate_hz == 0
    return RehearsalStep(
        kind=kind,
        rate_hz=rate_hz,
        seconds=seconds,
        sent_hz=sum(each.sent for each in accounts) / seconds if seconds > 0 else 0.0,
        written_hz=_written_hz(recorded),
        outcome=outcome,
        shortcomings=shortcomings,
        stopped=stopped,
        failure=failure,
        series=accounts,
        checks=worst_of(check for each in recorded for check in each.checks),
        delays=delays,
        stages=uses,
        narrowest=narrowest if overloaded else None,
    )


def _written_hz(recorded: Sequence[Recorded]) -> float | None:
    found = recorded[-1].throughput if recorded else None
    return None if found is None else found.steady_hz


def _busy_words(uses: Sequence[StageUse], narrowest: Stage | None) -> str:
    """Returns "compress was 100 % busy, and "; empty unless the recorder itself is the limit."""
    if narrowest == "pool":
        return "the pool was full, and "
    use = next((use for use in uses if use.stage == narrowest and narrowest in _BEHIND), None)
    if use is None:
        return ""
    share = (
        use.utilisation if use.stage == "compress" else max(use.utilisation, 1 / (use.headroom or math.inf))
    )
    return f"{use.stage} was {100 * share:.0f} % busy, and "


def _worst(found: Sequence[Delays]) -> Delays | None:
    if not found:
        return None
    growths = [each.growth for each in found if each.growth is not None]
    arrivals = [each.arrival_growth for each in found if each.arrival_growth is not None]
    return Delays(
        received_max_s=max(each.received_max_s for each in found),
        written_max_s=max(each.written_max_s for each in found),
        growth=max(growths, default=None),
        arrival_growth=max(arrivals, default=None),
    )


def _window(recorded: Sequence[Recorded]) -> tuple[SendingWork | None, Window | None]:
    """Of the last series that was long enough, with the work of its sender."""
    for each in reversed(recorded):
        if each.result.window is not None:
            return each.result.sent.work, each.result.window
    return None, None


def _outcome(
    rate_hz: float,
    accounts: Sequence[SeriesAccount],
    delays: Delays | None,
    stopped: bool,
    buffer_s: float,
    recorded: Sequence[Recorded],
    busy: str,
) -> tuple[RehearsalOutcome, list[str]]:
    not_checked = sum(account.written - account.compared for account in accounts)
    wrong = list(_wrong(accounts, stopped))
    if not wrong and not_checked > 0:
        return "invalid", [f"{counted(not_checked, 'frame')} could not be compared with what was sent"]
    late = list(_late(delays, stopped, buffer_s, recorded, busy)) if rate_hz else []
    if not rate_hz and not wrong:
        return "measured", []
    return ("not held" if wrong or late else "held"), [*wrong, *late]


def _wrong(accounts: Sequence[SeriesAccount], stopped: bool) -> Iterator[str]:
    """Frames that are not in the file as they were sent. Of a sender that was stopped some never left."""
    sent = sum(account.sent for account in accounts)
    missing = sum(max(0, account.sent - account.written) for account in accounts)
    different = sum(account.different for account in accounts)
    known = {
        name: sum(int(getattr(account, name)) for account in accounts)
        for name in ("damaged", "dropped", "lost")
    }
    if stopped:
        missing = sum(known.values())
    if missing:
        how = ", ".join(f"{count} {name}" for name, count in known.items() if count)
        yield f"{missing} of {counted(sent, 'frame')} are not in the file" + (f" ({how})" if how else "")
    if different:
        yield f"{counted(different, 'frame')} differ from what was sent"
    for account in accounts:
        yield from account.problems
        if not different:
            yield from (f"check: {finding.what}: {finding.actual}" for finding in account.findings)


def _late(
    delays: Delays | None, stopped: bool, buffer_s: float, recorded: Sequence[Recorded], busy: str
) -> Iterator[str]:
    behind_s = max((each.result.sent.late_max_ms for each in recorded), default=0.0) * 1e-3
    if delays is not None:
        behind_s = max(behind_s, delays.received_max_s)
    if stopped:
        yield _held_back(recorded[-1].result, busy)
    elif behind_s > buffer_s:
        yield (
            f"a frame arrived {human_seconds(behind_s)} late; the detector's buffer holds"
            f" {human_seconds(buffer_s)}"
        )
    if stopped:
        return
    yield from _closed_late(recorded)
    if delays is None or delays.growth is None:
        return
    half_s = sum(each.result.sent.sending_seconds for each in recorded) / len(recorded) / 2
    if delays.growth > GROWTH_MAX and delays.growth * half_s > _RISE_MIN_S:
        # Frames that are due in a second are done in 1 + growth seconds.
        share = delays.growth / (1 + delays.growth)
        yield f"{busy}the backlog grew by {100 * share:.1f} % of what was sent"


def _closed_late(recorded: Sequence[Recorded]) -> Iterator[str]:
    """What was still to be written when the last frame came is a backlog, whatever memory it was in."""
    for account, each in ((account_of(each), each) for each in recorded):
        sending_s = each.result.sent.sending_seconds
        if account.closing_s - CLOSING_MAX_S > GROWTH_MAX * sending_s:
            yield (
                f"the backlog grew: frames of {human_seconds(sending_s)} were on the storage only"
                f" {human_seconds(account.closing_s)} after the last one"
            )
            return


def _held_back(result: SeriesResult, busy: str) -> str:
    """Why sending was stopped: by the recorder, which took no more, or by the sender or the network."""
    after_s = result.stopped_after_s or result.sent.sending_seconds
    how_many = f"{result.sent.frames_sent} of {counted(result.request.frames, 'frame')}"
    if busy:
        return f"{busy}the backlog grew: {how_many} could be sent within {human_seconds(after_s)}"
    return f"sending fell behind: {how_many} were sent within {human_seconds(after_s)}"
