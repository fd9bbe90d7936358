"""What may make a series look better or worse than the chain is: the checks of a verdict, for each series."""

from collections.abc import Iterable, Iterator

from penstock.bench.judge.checks import OTHERS_SHARE, QUIET
from penstock.bench.judge.conditions import check_kept, is_memory
from penstock.bench.judge.meanwhile import check_moved, check_used_alone
from penstock.bench.judge.rank_checks import make_check
from penstock.model.bench.runs import Check, CheckOutcome, Conditions, Meanwhile
from penstock.model.events import RecorderSeriesEnd
from penstock.model.plans import RecorderPlan

_GRADES: tuple[CheckOutcome, ...] = ("ok", "warning", "failed")
# A frame in the file is aligned, and has an entry in the index.
_NOTED_BYTES_EACH = 8 << 10


def series_checks(
    plan: RecorderPlan,
    conditions: Conditions,
    meanwhile: Meanwhile,
    recorded: RecorderSeriesEnd,
    others_share: float | None,
    *,
    direct_refused: bool,
) -> list[Check]:
    """Of a series that was recorded and closed `meanwhile`."""
    own = recorded.stored_bytes
    noted = recorded.frames_written * _NOTED_BYTES_EACH
    return [
        check_kept(conditions),
        check_past_the_cache(plan, conditions, direct_refused=direct_refused),
        *check_moved(meanwhile, own, own, conditions),
        *check_used_alone(meanwhile, own, noted, recorded.seconds),
        *_check_quiet(others_share),
    ]


def check_past_the_cache(plan: RecorderPlan, conditions: Conditions, *, direct_refused: bool) -> Check:
    """Whether a frame that the recorder wrote was in the storage, or only in the page cache."""
    name, expected = "storage, not the page cache", "direct I/O, or a sync"
    if is_memory(conditions):
        return make_check(name, "ok", expected, "not applicable: the target is memory")
    why = conditions.direct_cached
    if direct_refused:
        why = "the file system rejects direct I/O"
    if not plan.store.direct:
        why = "store.direct is false"
    if not why:
        return make_check(name, "ok", expected, "direct I/O")
    if plan.store.durability != "none":
        return make_check(
            name, "ok", expected, f"{why}, with a sync (store.durability: {plan.store.durability})"
        )
    return make_check(
        name,
        "warning",
        expected,
        f"{why}, and store.durability is none",
        "better",
        "set store.durability to interval, or store.direct to true where the file system accepts it",
    )


def _check_quiet(others_share: float | None) -> Iterator[Check]:
    if others_share is not None:
        yield make_check(
            QUIET,
            "ok" if others_share <= OTHERS_SHARE else "warning",
            f"others use at most {100 * OTHERS_SHARE:.0f} % of the processors",
            f"{100 * others_share:.0f} %",
            "worse",
            "stop other programs on this machine",
        )


def worst_of(checks: Iterable[Check]) -> list[Check]:
    """Each check once, with its worst outcome."""
    found: dict[str, Check] = {}
    for check in checks:
        before = found.setdefault(check.name, check)
        if _GRADES.index(check.outcome) > _GRADES.index(before.outcome):
            found[check.name] = check
    return list(found.values())
