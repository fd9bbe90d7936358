"""What a second load does to a first one: runs alone and beside it, in interleaved blocks."""

import random
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from penstock.bench.data.folder import BenchFolder
from penstock.bench.judge.checks import QUIET, check_quiet, validity_of
from penstock.bench.judge.meanwhile import ALONE as ALONE_ON_STORAGE
from penstock.bench.statistics.intervals import Interval, median_interval
from penstock.bench.statistics.values import Unit, values_of
from penstock.lab.storage import start_at
from penstock.model.bench.campaigns import Campaign, Case, CaseRun
from penstock.model.bench.load import LoadPlan
from penstock.model.bench.runs import Check, CheckOutcome, Run
from penstock.model.errors import PenstockError
from penstock.model.units import human_seconds
from penstock.programs.beside import Repeated, RepeatedLoad, Stint

ALONE, BESIDE = "alone", "background"
UNDER_WAY = "background load active"
UNDER_WAY_SHARE, UNDER_WAY_SHARE_MIN = 0.95, 0.5
# What the second load does to this machine and its storage is what is looked for. How much of processors'
# time is its own is known, of the device's bytes it is not.
_EXPECTED = (QUIET, ALONE_ON_STORAGE)


@dataclass(frozen=True)
class Effect:
    """One value of the first load. `ratio` is beside / alone within blocks; None where it is 0 alone."""

    name: str
    unit: Unit
    alone: float
    beside: float
    ratio: Interval | None


@contextmanager
def load_beside(target: Path, plan_of: Callable[[BenchFolder], LoadPlan]) -> Iterator[Repeated]:
    """The load generator, repeated in a folder of its own in `target`."""
    with BenchFolder.make(target) as folder:
        plan = plan_of(folder)
        made = partial(folder.note_made, plan.prefix)
        with RepeatedLoad(plan, folder.clear, start_at(folder.path), made) as repeated:
            yield repeated


def interfere(
    first: Callable[[], Run],
    second: Callable[[], AbstractContextManager[Repeated]],
    what: dict[str, str | int | float],
    blocks: int,
    seed: int,
    on_run: Callable[[CaseRun], None],
    on_trouble: Callable[[BaseException], None],
) -> Campaign:
    """Each block runs `first` alone and beside `second`, in an order drawn from `seed`.

    Every second block has the other order, as those of campaigns have.

    Ends with the run that was cut short, or before the one that came to nothing, if one did. `what` are
    the parameters of the second load.
    """
    numbers = random.Random(seed)
    order: list[str] = []
    runs: list[CaseRun] = []
    for block in range(blocks):
        order = order[::-1] if block % 2 else numbers.sample((ALONE, BESIDE), 2)
        for case in order:
            try:
                run = first() if case == ALONE else run_beside(first, second)
            except (PenstockError, KeyboardInterrupt) as trouble:
                if not runs:
                    raise
                on_trouble(trouble)
                return _campaign(runs, what, blocks, seed)
            runs.append(CaseRun(case=case, block=block, run=run))
            on_run(runs[-1])
            if run.document.interrupted or run.document.problem is not None:
                return _campaign(runs, what, blocks, seed)
    return _campaign(runs, what, blocks, seed)


def _campaign(runs: list[CaseRun], what: dict[str, str | int | float], blocks: int, seed: int) -> Campaign:
    return Campaign(
        name="interference",
        workload=runs[0].run.workload,
        title=f"{runs[0].run.workload}, alone and with background load {what['beside']}",
        seed=seed,
        blocks=blocks,
        cases=[Case(name=ALONE), Case(name=BESIDE, parameters=what)],
        runs=runs,
    )


def run_beside(first: Callable[[], Run], second: Callable[[], AbstractContextManager[Repeated]]) -> Run:
    """Returns the run, with a check that `second` was active, and without checks of exclusive use.

    A quiet machine is one on which only these two use processors.
    """
    before_s = _used_s()
    with second() as repeated:
        run = first()
    own = [run.document.machine[when].get("own") or {} for when in ("before", "after")]
    own_s = sum(own[1].get(name, 0.0) - own[0].get(name, 0.0) for name in ("user_s", "system_s"))
    second_s = max(0.0, _used_s() - before_s - own_s)
    begin_s = datetime.fromisoformat(run.document.started).timestamp()
    window = Stint(begin_s, begin_s + run.document.active_seconds)
    checks = [check for check in run.checks if check.name not in _EXPECTED]
    checks += check_quiet(run.document, second_s)
    checks.append(check_under_way(window, repeated.stints, repeated.problem, repeated.done_text))
    return run.model_copy(update={"checks": checks, "validity": validity_of(checks)})


def _used_s() -> float:
    """Of processors, by this process and all that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def check_under_way(
    window: Stint, stints: Sequence[Stint], problem: str | None = None, done_text: str = ""
) -> Check:
    """Whether the second load was there while the first one was. `done_text`: what it did, where known."""
    seconds = window.end_s - window.begin_s
    share = sum(_overlap(window, stint) for stint in stints) / seconds if seconds > 0 else 0.0
    outcome: CheckOutcome = (
        "ok" if share >= UNDER_WAY_SHARE else "warning" if share >= UNDER_WAY_SHARE_MIN else "failed"
    )
    longest = max(_gaps(window, stints), default=0.0)
    actual = f"{100 * share:.1f} %; started {len(stints)} times, longest gap {human_seconds(longest)}"
    actual += f"; {done_text}" if done_text else ""
    if problem is not None:
        outcome, actual = "failed", f"{actual}; it ended: {problem}"
    return Check(
        name=UNDER_WAY,
        outcome=outcome,
        expected=f"at least {100 * UNDER_WAY_SHARE:.0f} % of the time (below"
        f" {100 * UNDER_WAY_SHARE_MIN:.0f} %: invalid)",
        actual=actual,
        bias="better",
        advice=""
        if outcome == "ok"
        else "increase --size or --seconds in --background, so that the load restarts less often",
    )


def _overlap(one: Stint, other: Stint) -> float:
    return max(0.0, min(one.end_s, other.end_s) - max(one.begin_s, other.begin_s))


def _gaps(window: Stint, stints: Sequence[Stint]) -> Iterator[float]:
    """Of the window, with nothing in them."""
    at = window.begin_s
    for stint in sorted(stints):
        yield max(0.0, min(stint.begin_s, window.end_s) - at)
        at = max(at, stint.end_s)
    yield max(0.0, window.end_s - at)


def sound_pairs(campaign: Campaign) -> list[tuple[Run, Run]]:
    """Of blocks in which both runs were made whole, and neither is invalid: alone, and beside."""
    blocks: dict[int, dict[str, Run]] = {}
    for each in campaign.runs:
        cut_short = each.run.document.interrupted or each.run.document.problem is not None
        if each.run.validity != "invalid" and not cut_short:
            blocks.setdefault(each.block, {})[each.case] = each.run
    return [(runs[ALONE], runs[BESIDE]) for runs in blocks.values() if len(runs) == 2]


def effects(campaign: Campaign) -> list[Effect]:
    """From the document alone."""
    pairs = [(values_of(alone), values_of(beside)) for alone, beside in sound_pairs(campaign)]
    if not pairs:
        return []
    names = [name for name in pairs[0][0] if all(name in alone and name in beside for alone, beside in pairs)]
    found = []
    for name in names:
        alone = [pair[0][name].value for pair in pairs]
        beside = [pair[1][name].value for pair in pairs]
        ratios = [b / a for a, b in zip(alone, beside, strict=True) if a]
        found.append(
            Effect(
                name=name,
                unit=pairs[0][0][name].unit,
                alone=median_interval(alone, campaign.seed).middle,
                beside=median_interval(beside, campaign.seed).middle,
                ratio=median_interval(ratios, campaign.seed) if len(ratios) == len(pairs) else None,
            )
        )
    return found
