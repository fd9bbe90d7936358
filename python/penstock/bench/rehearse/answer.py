"""From the steps to the answer, its reasons and what to change."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.bench.judge.checks import QUIET
from penstock.bench.judge.meanwhile import ALONE
from penstock.model.bench.rehearsals import (
    KIND_WORDS,
    RehearsalAnswer,
    RehearsalStep,
    Stage,
    StageUse,
)
from penstock.model.bench.runs import Check, Search
from penstock.model.plans import RecorderPlan
from penstock.model.text import counted
from penstock.model.units import human_hz, human_rate, human_seconds, human_size

CERTAIN, LIKELY = 0.95, 0.75
_LONG_ENOUGH_S = 10.0
# A rate that is not sustained so little above the needed one leaves doubt.
_NEAR = 1.05
# Waiting for a processor is so much of what a stage does that more threads would not help.
_CROWDED = 0.2
# With so much headroom at the needed rate, nothing has to change.
_COMFORTABLE = 1.5
# Unpaced throughput of so much more than what is needed shows that the chain has the headroom.
_SHOWN = 1.25
# So many runs that were not sustained leave no doubt.
_RUNS_CERTAIN = 2


@dataclass(frozen=True)
class Evidence:
    """What was measured."""

    needed_hz: float
    frame_bytes: int
    steps: Sequence[RehearsalStep]
    search: Search | None
    problem: str | None
    plan: RecorderPlan
    ranks: int
    sender: str

    @property
    def at_rate(self) -> list[RehearsalStep]:
        """Steps at the needed rate that say something."""
        return [
            step
            for step in self.steps
            if step.rate_hz == self.needed_hz
            and step.outcome != "invalid"
            and (step.kind != "warm-up" or step.failure)
        ]

    @property
    def corrupt(self) -> list[RehearsalStep]:
        """Steps at any rate in which frames were stored that are not those that were sent."""
        return [step for step in self.steps if any(each.corrupt for each in step.series)]

    @property
    def unchecked(self) -> list[RehearsalStep]:
        """Steps at the needed rate that say nothing."""
        return [step for step in self.steps if step.rate_hz == self.needed_hz and step.outcome == "invalid"]

    @property
    def sustained_hz(self) -> float | None:
        """The highest sustained rate below each that was not."""
        if self.search is not None:
            return self.search.held_hz
        held = {step.outcome for step in self.at_rate} == {"held"}
        return self.needed_hz if held else None

    @property
    def less_than_hz(self) -> float | None:
        if self.search is not None:
            return self.search.not_held_hz
        failed = {step.outcome for step in self.at_rate} == {"not held"}
        return self.needed_hz if failed else None

    @property
    def wrong(self) -> list[RehearsalStep]:
        """Steps at or below the needed rate in which frames are missing, or the recorder failed."""
        return [
            step
            for step in self.steps
            if 0 < step.rate_hz <= self.needed_hz and (step.failure or _has_wrong(step))
        ]

    @property
    def narrowest(self) -> Stage | None:
        """The stage that most steps name; the last unpaced one counts twice."""
        found = [step.narrowest for step in self.steps if step.rate_hz and step.narrowest]
        unpaced = [step.narrowest for step in self.steps if not step.rate_hz and not step.repeated]
        if unpaced and unpaced[-1]:
            found = [unpaced[-1], unpaced[-1], *found]
        votes = Counter(found)
        return votes.most_common(1)[0][0] if votes else None


def _has_wrong(step: RehearsalStep) -> bool:
    if step.stopped:
        return any(each.different or each.lost or each.dropped or each.damaged for each in step.series)
    return any(each.missing for each in step.series)


def answer_of(evidence: Evidence) -> tuple[RehearsalAnswer, float | None, list[str]]:
    """Returns the answer, its confidence, and the reasons, of which the first one decides."""
    steps = evidence.at_rate
    failed = [step for step in steps if step.outcome == "not held"]
    if evidence.corrupt:
        return "no", CERTAIN, list(_named(evidence.corrupt))
    if not steps:
        return _unmeasured(evidence)
    if evidence.wrong and not failed:
        return "likely no", LIKELY, [text for step in evidence.wrong for text in step.shortcomings]
    return _no(evidence, steps, failed) if failed else _yes(evidence, steps)


def _named(steps: Sequence[RehearsalStep]) -> Iterator[str]:
    """ "search, 50 Hz: 5 frames differ from what was sent"."""
    for step in steps:
        rate = f", {human_hz(step.rate_hz, 6)}" if step.rate_hz else ""
        yield from (f"{KIND_WORDS[step.kind]}{rate}: {text}" for text in step.shortcomings)


_Answer = tuple[RehearsalAnswer, float | None, list[str]]


def _unmeasured(evidence: Evidence) -> _Answer:
    invalid = [step for step in evidence.steps if step.outcome == "invalid"]
    if invalid:
        return "invalid", None, invalid[-1].shortcomings
    return "cannot tell", None, ["the chain was not measured at the detector's rate"]


def _no(evidence: Evidence, steps: Sequence[RehearsalStep], failed: Sequence[RehearsalStep]) -> _Answer:
    reasons = max((step.shortcomings for step in failed), key=len)
    rate = human_hz(evidence.needed_hz, 6)
    if all(step.narrowest == "sender" for step in failed) and not any(_has_wrong(step) for step in failed):
        where = evidence.sender or "this machine"
        limit = f"the simulated detector on {where} cannot send at {rate}; the recorder was not at its limit"
        return "cannot tell", None, [limit, *reasons]
    if all(_is_disturbed(step) for step in failed):
        return _disturbed(evidence, failed, reasons)
    if len(failed) < len(steps):
        share = f"{rate} was sustained in {len(steps) - len(failed)} of {len(steps)} runs"
        return "likely no", LIKELY, [share, *reasons]
    certain = sum(not _is_disturbed(step) for step in failed) >= _RUNS_CERTAIN
    return "no" if certain else "likely no", CERTAIN if certain else LIKELY, reasons


def _is_disturbed(step: RehearsalStep) -> bool:
    """Whether other programs may explain that a rate was not sustained.

    They used the processors, for which threads of the chain waited, or the storage, which was the limit.
    """
    found = {check.name for check in step.checks if check.outcome != "ok"}
    return (QUIET in found and _waited(step)) or (ALONE in found and step.narrowest == "storage")


def _waited(step: RehearsalStep) -> bool:
    """Whether threads of the narrowest stage waited for a processor; any threads, if it is not known."""
    if step.narrowest == "network":
        return False
    own = [use for use in step.stages if use.stage == step.narrowest and use.threads]
    return not step.stages or max(use.delayed for use in own or step.stages) > _CROWDED


def _disturbed(evidence: Evidence, failed: Sequence[RehearsalStep], reasons: Sequence[str]) -> _Answer:
    """Every run that was not sustained was disturbed. Other runs may show that the chain has the headroom."""
    found = (check for step in failed for check in step.checks if check.outcome != "ok")
    excuses = {check.name: f"{check.name}: {check.actual}" for check in found if check.name in (QUIET, ALONE)}
    shown_hz = max((step.rate_hz for step in evidence.steps if step.outcome == "held"), default=0.0)
    unpaced_hz = max((step.written_hz or 0.0 for step in evidence.steps), default=0.0)
    excuse = f"other programs may explain it ({'; '.join(excuses.values())}): run again without them"
    if shown_hz >= evidence.needed_hz or unpaced_hz >= _SHOWN * evidence.needed_hz:
        return "cannot tell", None, [*reasons, excuse]
    return "likely no", LIKELY, [*reasons, excuse]


def _yes(evidence: Evidence, steps: Sequence[RehearsalStep]) -> _Answer:
    seconds = sum(step.seconds for step in steps)
    frames = sum(step.total("sent") for step in steps)
    rate = human_hz(evidence.needed_hz, 6)
    what = f"all {counted(frames, 'frame')} of {human_seconds(seconds)} at {rate}"
    reason = f"{what} are in the file as they were sent"
    doubts = []
    if max(step.seconds for step in steps) < 0.95 * _LONG_ENOUGH_S:
        doubts.append(f"the longest run at the rate was shorter than {human_seconds(_LONG_ENOUGH_S)}")
    less_than = evidence.less_than_hz
    if less_than is not None and less_than < _NEAR * evidence.needed_hz:
        doubts.append(f"{human_hz(less_than)} was not sustained, which is hardly more")
    doubts += _named(evidence.unchecked)
    doubts += dict.fromkeys(
        f"this may not show the storage: {check.reported}" for step in steps for check in _too_good(step)
    )
    if evidence.problem is not None:
        doubts.append(f"the rehearsal ended early: {evidence.problem}")
    return ("likely yes", LIKELY, [reason, *doubts]) if doubts else ("yes", CERTAIN, [reason])


def _too_good(step: RehearsalStep) -> list[Check]:
    """Conditions for which the chain may look better than it is."""
    return [check for check in step.checks if check.outcome != "ok" and check.bias != "worse"]


def step_notes(steps: Sequence[RehearsalStep]) -> list[str]:
    """Returns the checks that did not pass, each once, with the steps."""
    found: dict[str, tuple[Check, list[str]]] = {}
    for step in steps:
        for check in step.checks:
            if check.outcome != "ok":
                found.setdefault(check.name, (check, []))[1].append(KIND_WORDS[step.kind])
    return [
        f"{check.name}: {check.actual}; expected: {check.expected} ({', '.join(dict.fromkeys(kinds))}):"
        f" {check.advice}"
        for check, kinds in found.values()
    ]


def advice_of(evidence: Evidence, stages: Sequence[StageUse], answer: RehearsalAnswer) -> list[str]:
    """Returns what to change, the narrowest stage first; empty if the chain has headroom."""
    if answer == "yes" and _is_comfortable(evidence):
        return []
    stage = evidence.narrowest
    uses = {use.stage: use for use in stages}
    lines = []
    if stage is not None:
        lines += list(_for_stage(stage, evidence, uses.get(stage)))
        lines += _for_processors(stages, evidence.sender)
    slower = evidence.sustained_hz
    if answer in ("no", "likely no") and slower is not None and slower < evidence.needed_hz:
        lines.append(f"or run the detector at {human_hz(slower)} or less, which was sustained")
    search = evidence.search
    if search is not None and search.ended == "top":
        lines.append("increase --search-max to learn more: the highest rate tried was sustained")
    if search is not None and search.ended == "time":
        lines.append(
            "increase --search-time to learn more: it ran out before the highest rate was narrowed down"
        )
    if answer == "likely yes":
        lines.append("run again with --soak 600 to confirm the answer")
    return lines


def _is_comfortable(evidence: Evidence) -> bool:
    """Returns whether highest rate and stages leave enough headroom. The sender is not counted."""
    least_hz = _COMFORTABLE * evidence.needed_hz
    if evidence.less_than_hz is not None and (evidence.sustained_hz or 0) < least_hz:
        return False
    uses = next((step.stages for step in reversed(evidence.at_rate) if step.stages), [])
    headrooms = [use.headroom for use in uses if use.stage != "sender" and use.headroom is not None]
    return all(headroom >= _COMFORTABLE for headroom in headrooms)


def _for_processors(stages: Sequence[StageUse], sender: str) -> list[str]:
    crowded = [use.stage for use in stages if use.delayed > _CROWDED and use.stage != "sender"]
    if not crowded:
        return []
    elsewhere = (
        "" if sender else "; or simulate elsewhere with --from HOST: the simulated detector uses them too"
    )
    return [
        f"free processors: threads of {', '.join(crowded)} waited for one ({_delays(stages)} of their time),"
        f" so more threads do not help{elsewhere}"
    ]


def _delays(stages: Sequence[StageUse]) -> str:
    worst = max(use.delayed for use in stages if use.stage != "sender")
    return f"up to {100 * worst:.0f} %"


def _factor(evidence: Evidence) -> str:
    """How much more is needed, as words."""
    sustained = evidence.sustained_hz
    if not sustained or sustained >= evidence.needed_hz:
        return ""
    return f" by a factor of {evidence.needed_hz / sustained:.2g}"


def _for_stage(stage: Stage, evidence: Evidence, use: StageUse | None) -> Iterator[str]:
    plan, faster = evidence.plan, _factor(evidence)
    match stage:
        case "sender":
            yield (
                "simulate on another machine with --from HOST: the simulator was the limit"
                if not evidence.sender
                else f"simulate on a faster machine than {evidence.sender}, or on several: it was the limit"
            )
        case "network":
            yield (
                f"make the network faster{faster}: check its link speed and MTU, and measure it with"
                " `penstock bench network`"
            )
        case "receive":
            yield "receive over several connections: --ranks, or a detector that sends several streams"
        case "pool":
            yield f"increase pool_bytes (--pool), which is {human_size(plan.pool_bytes)}"
        case "compress":
            yield from _for_compression(plan, use, faster)
        case "write":
            direct = "" if plan.store.direct else "use direct I/O (store.direct: true), or "
            yield f"{direct}increase store.segment_bytes, which is {human_size(plan.store.segment_bytes)}"
        case "storage":
            yield from _for_storage(evidence, faster)
        case "index":
            yield (
                "make chunks larger (chunk.frames, chunk.shape): each costs the index the same; or split the"
                " series into files per rank (files.layout: per_writer)"
            )


def _for_compression(plan: RecorderPlan, use: StageUse | None, faster: str) -> Iterator[str]:
    if use is None or use.delayed <= _CROWDED:
        yield f"increase threads{faster}, which is {plan.threads}, if the machine has more processors"
    codec = plan.codec
    if codec.filters:
        yield "choose a faster filter, or a lower level of it"
    elif codec.level:
        yield f"reduce codec.level, which is {codec.level}"
    elif codec.encoding not in ("lz4", "bslz4", "none"):
        yield f"choose a faster encoding than {codec.encoding}, such as bslz4"
    yield "let the detector compress, if it can: compressed frames are stored unchanged"


def _for_storage(evidence: Evidence, faster: str) -> Iterator[str]:
    stored = sum(step.total("stored_bytes") for step in evidence.steps)
    raw = sum(step.total("raw_bytes") for step in evidence.steps)
    share = stored / raw if raw else 1.0
    needed = evidence.needed_hz * evidence.frame_bytes * share
    yield f"use storage that is faster{faster}: it has to accept {human_rate(needed)} of this series"
    if evidence.plan.codec.encoding == "none" and not evidence.plan.codec.filters:
        yield "compress frames (--codec bslz4), so that less is written"
    yield "measure the storage alone with `penstock verdict`, which gives reasons"
