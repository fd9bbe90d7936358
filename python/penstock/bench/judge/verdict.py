"""A verdict, from nothing but what was measured."""

import math
from collections.abc import Iterator, Sequence

from penstock.bench.judge.answer import decide
from penstock.bench.judge.bounds import Bounds
from penstock.bench.judge.checks import CEILING_FACTOR
from penstock.bench.judge.evidence import STEP_NAMES, Measured, frame_counts
from penstock.bench.judge.storage_advice import next_command, storage_advice
from penstock.bench.statistics.quantiles import share_bound
from penstock.model.bench.runs import Check, Run, Search, Step, Verdict
from penstock.model.units import human_bytes

# An upper bound that is further from the unpaced throughput than this factor says nothing about the storage.
_BOUND_MAX = 3.0


def judge(measured: Measured) -> Verdict:
    needed, found = measured.needed_bytes_per_s, measured.bytes_per_s
    due, lost = frame_counts(measured.at_rate)
    decision, bounds = decide(measured), measured.bounds
    return Verdict(
        detector=measured.detector,
        beside=measured.beside,
        answer=decision.answer,
        confidence=decision.confidence,
        reasons=list(decision.reasons),
        advice=storage_advice(measured, decision),
        next_command=next_command(measured, decision),
        notes=[
            *_notes(measured.steps),
            *_about_the_measurement(measured),
            *measured.left_out,
            *_largest_cache(measured),
        ],
        problem=measured.problem,
        needed_hz=measured.needed_hz,
        needed_bytes_per_s=needed,
        typical_ratio=measured.typical_ratio,
        late_limit_s=measured.late_limit_s,
        measured_bytes_per_s=found,
        less_than_bytes_per_s=measured.less_than_bytes_per_s,
        unpaced_bytes_per_s=bounds.measured if bounds is not None else None,
        at_most_bytes_per_s=_at_most(bounds),
        margin=None if found is None else found / needed,
        # A rate that is a multiple, but for rounding, counts as one.
        detectors=None if found is None else math.floor(found / needed * (1 + 1e-9)),
        written_bytes=measured.written_bytes,
        lost=lost,
        due=due,
        lost_share_bound_95=share_bound(lost, due) if due else 1.0,
        search=measured.search,
        steps=list(measured.steps),
    )


def _at_most(bounds: Bounds | None) -> float | None:
    """Returns an upper bound that is near enough to say something."""
    return bounds.high if bounds is not None and bounds.high <= _BOUND_MAX * bounds.measured else None


def _notes(steps: Sequence[Step]) -> Iterator[str]:
    """Checks that did not pass, each once, with the steps; what decided is among the reasons as well."""
    found: dict[tuple[str, str], tuple[Check, list[str]]] = {}
    for step in steps:
        if step.kind == "probe":  # a longer run replaced it
            continue
        for check in step.run.checks:
            if check.outcome != "ok":
                _, names = found.setdefault((check.name, check.outcome), (check, []))
                names.append(STEP_NAMES[step.kind])
    for check, names in found.values():
        where = ", ".join(dict.fromkeys(names))
        yield f"{check.name}: {check.actual}; expected: {check.expected} ({where})"


def is_at_least(verdict: Verdict) -> bool:
    """Whether nothing that was tried was too much for the storage: it carries what was measured, or more."""
    search = verdict.search
    if search is not None:
        return search.held_hz is not None and search.not_held_hz is None and not search.chance_hz
    at_rate = next((s for s in verdict.steps if s.kind == "rate" and s.outcome != "invalid"), None)
    full = next((step for step in verdict.steps if step.kind == "full speed"), None)
    return full is not None and at_rate is not None and _generator_limited(full.run, at_rate.run.ceiling_hz)


def carries_bytes_per_s(verdict: Verdict) -> float | None:
    """At least, where no more was measured than that the detector's own rate held; else None."""
    return at_rate_bytes_per_s(verdict) if verdict.measured_bytes_per_s is None else None


def at_rate_bytes_per_s(verdict: Verdict) -> float | None:
    """What is needed, if the detector's own rate was sustained in each run that says something; else None."""
    at_rate = [
        step
        for step in verdict.steps
        if step.kind in ("rate", "soak") or (step.kind == "search" and step.rate_hz == verdict.needed_hz)
    ]
    outcomes = {step.outcome for step in at_rate} - {"invalid", "disturbed"}
    return verdict.needed_bytes_per_s if outcomes == {"held"} else None


def nothing_higher_was_tried(search: Search, steps: Sequence[Step]) -> bool:
    """Than the highest rate that held."""
    held_hz = search.held_hz
    return held_hz is not None and not any(s.kind == "search" and s.rate_hz > held_hz for s in steps)


def _about_the_measurement(measured: Measured) -> Iterator[str]:
    """What would make its figures better; no answer changes with it."""
    full = measured.full_speed
    at_rate = [step for step in measured.at_rate if step.kind == "rate"]
    if full is not None and at_rate and _generator_limited(full.run, at_rate[0].run.ceiling_hz):
        yield "the unpaced rate is close to the generator's limit, not the storage's: --writers raises it"
    search = measured.search
    if search is None:
        return
    held_top = search.not_held_hz is None and search.held_hz is not None and search.held_hz >= search.top_hz
    if search.ended == "top" or (held_top and search.ended in ("time", "steps")):
        yield "the highest rate tried was sustained; --search-max tries higher ones"
    elif search.ended in ("time", "steps"):
        yield "the search ended before its bracket was narrow and repeated; --search-time allows more"


def _largest_cache(measured: Measured) -> Iterator[str]:
    """How large a cache of the storage may be that no sustained run noticed, however long it took.

    Files that are removed while a run goes on need never leave a cache that has room for those that stay.
    """
    rings = [ring for step in measured.of("held") if (ring := _ring_frames(step))]
    if rings:
        size = human_bytes(max(rings) * measured.frame_bytes)
        yield f"a cache of the storage that holds more than {size} is not noticed; --space increases that"


def _ring_frames(step: Step) -> int:
    """How many frames were on the storage at once; 0: none were removed during the run."""
    written = step.run.frames.written if step.run.frames is not None else 0
    ring: int = getattr(step.run.document.plan.workload, "ring_frames", 0)
    return ring if ring < written else 0


def _generator_limited(full: Run, ceiling_hz: float | None) -> bool:
    """Frames went nearly as fast as they do without any storage."""
    seconds = full.document.seconds.completed if full.document.seconds else None
    if full.frames is None or not seconds or ceiling_hz is None:
        return False
    return full.frames.written / seconds * CEILING_FACTOR > ceiling_hz
