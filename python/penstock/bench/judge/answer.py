"""Can this storage take this detector? The table of decision 49, from top to bottom."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.bench.judge.checks import SHORT_S, interruption_text
from penstock.bench.judge.evidence import Measured, frame_counts, name_of, too_good, was_shared
from penstock.bench.judge.holds import write_error, write_failed
from penstock.bench.judge.search import RUNS_OF_AN_END, WIDTH
from penstock.model.bench.runs import Answer, Step
from penstock.model.text import counted
from penstock.model.units import human_hz, human_number, human_percent, human_rate, human_seconds

CONFIDENCE: dict[Answer, float] = {"yes": 0.95, "no": 0.95, "likely yes": 0.75, "likely no": 0.75}
# All runs were disturbed: how far the unpaced run has to be from what is needed.
LIKELY_YES_FACTOR, LIKELY_NO_FACTOR = 1.25, 0.9
# So many disturbed runs carried the same, within this factor, and less than this share of what is needed,
# though the time without waits differed by the last factor.
STEADY_RUNS, STEADY_WITHIN, STEADY_NO_FACTOR, STEADY_WAITS_DIFFER = 3, 1.05, 0.95, 1.15

DOUBTFUL_SHARE, CERTAIN_SHARE = 0.25, 0.75
"""shares of the time of writes that were waits: from the first on, other runs may refute a charge; up to the
second, a charge is certain"""

Lacking = Literal["duration", "soak", "unpaced run"]
"""What a certain yes lacks: a run of SHORT_S, a longer soak, or a sound and long unpaced run."""


@dataclass(frozen=True)
class Decision:
    """`reasons` begin with the one that decides."""

    answer: Answer
    reasons: Sequence[str]
    lacks: frozenset[Lacking] = frozenset()
    """of a likely yes"""

    @property
    def confidence(self) -> float | None:
        return CONFIDENCE.get(self.answer)


def decide(measured: Measured) -> Decision:
    if not measured.at_rate:
        void = [step for step in measured.steps if step.rate_hz == measured.needed_hz]
        if void and void[-1].run.document.interrupted:
            return Decision("cannot tell", list(_cut_short(measured)))
        return Decision("invalid" if void else "cannot tell", list(_invalid(measured)))
    charged = [step for step in measured.of("not held") if step.alone is not None]
    doubtful = bool(charged) and _is_doubtful(measured, charged)
    if doubtful and not _is_refuted(measured, charged):
        return Decision("cannot tell", list(_doubts(measured)))
    if charged and not doubtful:
        return _charged(measured, charged)
    if measured.of("held"):
        return _sustained(measured)
    return _all_disturbed(measured)


def _is_doubtful(measured: Measured, charged: Sequence[Step]) -> bool:
    """Whether the storage showed that it sustains much more, and waits were part of each charge."""
    hindered = [step.alone.hindered_share or 0.0 for step in charged if step.alone is not None]
    return min(hindered) >= DOUBTFUL_SHARE and _shown_bytes_per_s(measured) >= (
        LIKELY_YES_FACTOR * measured.needed_bytes_per_s
    )


def _shown_bytes_per_s(measured: Measured) -> float:
    """The highest throughput that was sustained in a run, or is the lower bound of the unpaced one."""
    held = [step.rate_hz * measured.frame_bytes for step in measured.steps if step.outcome == "held"]
    full, bounds = measured.full_speed, measured.bounds
    is_sound = full is not None and not too_good(full)
    return max([0.0, *held, *([bounds.low] if bounds is not None and is_sound else [])])


def _is_refuted(measured: Measured, charged: Sequence[Step]) -> bool:
    """Whether the rate was sustained, in a run that was as long as each charge that is certain by itself."""
    held = measured.of("held")
    certain = [step for step in charged if step.alone is not None and step.alone.certain]
    return bool(held) and (not certain or _longest_s(held) >= _longest_s(certain))


def _doubts(measured: Measured) -> Iterator[str]:
    shown = human_rate(_shown_bytes_per_s(measured))
    for step in measured.of("not held"):
        yield f"{_charge(step)}; but another run reached {shown}"


def _invalid(measured: Measured) -> Iterator[str]:
    void = [step for step in measured.steps if step.rate_hz == measured.needed_hz]
    if not void:
        yield f"nothing was measured at the detector's rate{_because(measured)}"
        return
    yield from (f"{name_of(void[-1])}: {shortcoming}" for shortcoming in void[-1].shortcomings)


def _cut_short(measured: Measured) -> Iterator[str]:
    """Why there is not more; nothing of a measurement that is complete."""
    if measured.problem is None:
        return
    last = measured.steps[-1] if measured.steps else None
    if last is not None and last.rate_hz and last.run.document.interrupted:
        yield f"{name_of(last)}: {interruption_text(last.run.document)}"
    else:
        yield f"the measurement is incomplete: {measured.problem}"


def _because(measured: Measured) -> str:
    return f": {measured.problem}" if measured.problem is not None else ""


def _charged(measured: Measured, charged: Sequence[Step]) -> Decision:
    """The storage alone would not have sustained the rate."""
    lossy = [step for step in charged if frame_counts([step])[1]]
    certain = [step for step in lossy if _is_certain(step)]
    exclusive = [step for step in certain if write_failed(step.run) or not was_shared(step)]
    first = (exclusive or certain or lossy or charged)[0]
    reasons = [_charge(first)]
    if exclusive:
        return Decision("no", reasons)
    bounds = measured.bounds
    if bounds is not None and bounds.high < measured.needed_bytes_per_s:
        return Decision("no", [_too_slow(measured, bounds.high), *reasons])
    if certain:
        reasons.append("other programs used the same storage meanwhile, so it may be faster without them")
    elif any(step.alone is not None and step.alone.certain for step in lossy):
        reasons.append("most of the time of the writes was such waits, so the rest is uncertain")
    elif lossy:
        reasons.append("the storage alone missed the rate by less than a tenth of the time of its writes")
    else:
        reasons.append("no frame was lost in this time")
    return Decision("likely no", reasons)


def _is_certain(step: Step) -> bool:
    alone = step.alone
    return alone is not None and alone.certain and (alone.hindered_share or 0.0) <= CERTAIN_SHARE


def _charge(step: Step) -> str:
    """ "soak, 100 Hz: 3 of 300 frames were lost …; it alone would have lost 3 of 300 frames"."""
    alone = step.alone
    why = f"; the storage is the cause: {alone.shortcomings[0]}" if alone and alone.shortcomings else ""
    if alone and alone.hindered_share:
        share = human_percent(alone.hindered_share)
        why += (
            f" (the {share} of the time of the writes in which a thread waited for a processor is subtracted)"
        )
    return f"{name_of(step)}: {step.shortcomings[0]}{why}"


def _too_slow(measured: Measured, high: float) -> str:
    return (
        f"even without other programs the storage would sustain at most {human_rate(high)} of the required"
        f" {human_rate(measured.needed_bytes_per_s)}"
    )


def _sustained(measured: Measured) -> Decision:
    held = measured.of("held")
    due, _ = frame_counts(held)
    found = (
        f"the detector's rate was sustained in {counted(len(held), 'run')}: none of {due} frames was lost, or"
        f" written more than {human_seconds(measured.late_limit_s)} after it was due"
    )
    doubts = list(dict.fromkeys(f"{name_of(step)}: {c.reported}" for step in held for c in too_good(step)))
    held = [step for step in held if not too_good(step)]
    if not held:
        return Decision("cannot tell", [f"{found}, but this may not show the storage", *doubts])
    if against := list(_against(measured)):
        return Decision("cannot tell", [found, *against])
    if measured.problem is not None and _longest_s(held) < SHORT_S:
        return Decision("cannot tell", [*_cut_short(measured), found])
    lacks: dict[Lacking, list[str]] = {
        "duration": list(_short(held)),
        "soak": list(_weak(measured, held)),
        "unpaced run": list(_weak_bound(measured)),
    }
    weak = [*_cut_short(measured), *(doubt for doubts in lacks.values() for doubt in doubts)]
    return Decision(
        "likely yes" if weak else "yes",
        [found, *weak, *([] if lacks["unpaced run"] else _headroom(measured))],
        frozenset(name for name, doubts in lacks.items() if doubts),
    )


def _against(measured: Measured) -> Iterator[str]:
    """What contradicts runs that sustained the rate."""
    for step in measured.of("disturbed"):
        if step.alone is not None and step.alone.unknown:
            yield f"{name_of(step)}: {step.shortcomings[0]}, and the cause is unknown: {step.alone.unknown}"
    for step in measured.steps:
        if write_failed(step.run):
            yield f"{name_of(step)}: {write_error(step.run)}"
        is_lower = 0 < step.rate_hz < measured.needed_hz
        if is_lower and step.outcome == "not held" and step.alone is not None and step.alone.certain:
            yield f"{name_of(step)}, which is less than needed: {step.shortcomings[0]}"


def _short(held: Sequence[Step]) -> Iterator[str]:
    if _longest_s(held) < SHORT_S:
        shortest = human_seconds(SHORT_S)
        yield f"no run at the rate took {shortest}, so caches of devices may have taken the data"


def _weak(measured: Measured, held: Sequence[Step]) -> Iterator[str]:
    """Why a yes is not certain, whatever the unpaced run bounds."""
    yield from _doubts(measured)
    for step in measured.of("disturbed"):
        longest = _longest_s([step]) > _longest_s(held)
        if longest or frame_counts([step])[1]:
            where = ", in the longest run" if longest else ""
            yield f"{name_of(step)}: {step.shortcomings[0]}{where}; {_excuse(step)}"
    yield from _near_the_limit(measured)


def _weak_bound(measured: Measured) -> Iterator[str]:
    """Why a yes is not certain: what the unpaced run shows of the headroom."""
    bounds = measured.bounds
    if bounds is None and measured.problem is None:
        yield "the unpaced run is missing or invalid, so nothing shows how much more the storage sustains"
    elif bounds is not None and bounds.low < measured.needed_bytes_per_s:
        yield f"{_unpaced_text(bounds.measured, measured.needed_bytes_per_s)}, which is not clearly enough"


def _headroom(measured: Measured) -> Iterator[str]:
    if (bounds := measured.bounds) is not None:
        yield _unpaced_text(bounds.measured, measured.needed_bytes_per_s)


def _unpaced_text(reached: float, needed: float) -> str:
    """ "unpaced, the storage reached 40 MB/s of the required 50 MB/s", or "…, 2 times what is needed"."""
    text = f"unpaced, the storage reached {human_rate(reached)}"
    if reached < needed:
        return f"{text} of the required {human_rate(needed)}"
    return f"{text}, {human_number(reached / needed, 2)} times what is needed"


def _longest_s(steps: Sequence[Step]) -> float:
    """The last frame stands for a period, too."""
    return max(frame_counts([step])[0] / step.rate_hz for step in steps)


def _near_the_limit(measured: Measured) -> Iterator[str]:
    """A rate near the limit holds by chance."""
    search = measured.search
    if search is None:
        return
    # The lowest of those between the ends did not hold in a run.
    failed_hz = min([*search.chance_hz, search.not_held_hz or math.inf])
    if measured.needed_hz < failed_hz < measured.needed_hz * (1 + WIDTH):
        percent = human_percent(failed_hz / measured.needed_hz - 1)
        yield f"{human_hz(failed_hz)}, only {percent} more, was not sustained: chance may have decided"
    elif (
        search.chance_hz and search.held_runs < RUNS_OF_AN_END and search.held_hz != measured.needed_hz
    ):  # what replaced an end that did not repeat
        yield f"{human_hz(search.chance_hz[0])} was sustained in one run and not in another"


def _all_disturbed(measured: Measured) -> Decision:
    first = measured.of("disturbed")[0]
    reasons = [f"{name_of(first)}: {first.shortcomings[0]}; {_excuse(first)}"]
    bounds, needed = measured.bounds, measured.needed_bytes_per_s
    if bounds is None:
        return Decision("cannot tell", [*reasons, f"no unpaced run bounds the storage{_because(measured)}"])
    if bounds.high < needed:
        return Decision("no", [_too_slow(measured, bounds.high), *reasons])
    found = _unpaced_text(bounds.measured, needed)
    full = measured.full_speed
    if bounds.low >= LIKELY_YES_FACTOR * needed and full is not None and not too_good(full):
        return Decision("likely yes", [f"{found}, beside other programs", *reasons])
    if bounds.expected < LIKELY_NO_FACTOR * needed:
        alone = f"{found}; without other programs it may reach about {human_rate(bounds.expected)}"
        return Decision("likely no", [alone, *reasons])
    if (steady := _steady_bytes_per_s(measured)) is not None and steady < STEADY_NO_FACTOR * needed:
        same = f"each run reached {human_rate(steady)} of the required {human_rate(needed)}"
        return Decision("likely no", [f"{same}, however long writes waited for processors", *reasons])
    return Decision("cannot tell", [*reasons, found])


def _steady_bytes_per_s(measured: Measured) -> float | None:
    """The most that disturbed runs reached, if it was the same while waits were not.

    Had waits for processors decided the throughput, it would have changed with them.
    """
    carried, free = [], []
    for step in measured.of("disturbed"):
        share = step.alone.hindered_share if step.alone is not None else None
        if step.run.frames is not None and step.run.frames.carried_bytes_per_s and share is not None:
            carried.append(step.run.frames.carried_bytes_per_s)
            free.append(1 - share)
    if len(carried) < STEADY_RUNS or max(carried) > STEADY_WITHIN * min(carried):
        return None
    return max(carried) if max(free) >= STEADY_WAITS_DIFFER * min(free) else None


def _excuse(step: Step) -> str:
    alone = step.alone
    if alone is None or alone.unknown or alone.hindered_share is None:
        return alone.unknown if alone is not None and alone.unknown else "the cause is unknown"
    generator = step.run.document.generator
    if generator is not None and generator.stood_still_ns:
        return "the generator itself stalled, which explains it"
    share = human_percent(alone.hindered_share)
    return f"waiting for processors took {share} of the time of the writes, which explains it"
