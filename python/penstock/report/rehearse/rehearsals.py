"""Rehearsals for people: the view on the terminal, and the words that all formats share."""

from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.bench.rehearse.request import RehearsalRequest
from penstock.lab.clients import folders_of_ranks, ranks_text
from penstock.model.bench.recorder_words import codec_words, recorder_text
from penstock.model.bench.rehearsals import (
    KIND_WORDS,
    Rehearsal,
    RehearsalAnswer,
    RehearsalStep,
    StageUse,
)
from penstock.model.bench.runs import Search, SearchEnd
from penstock.model.plans import RecorderPlan
from penstock.model.text import counted
from penstock.model.units import (
    human_bytes,
    human_hz,
    human_number,
    human_percent,
    human_rate,
    human_seconds,
    human_size,
)
from penstock.report.tables import fact_table

OUTCOME_WORDS = {
    "held": "sustained",
    "not held": "not sustained",
    "invalid": "invalid",
    "measured": "measured",
}
_STYLE: dict[RehearsalAnswer, str] = {
    "yes": "bold green",
    "likely yes": "green",
    "cannot tell": "bold yellow",
    "likely no": "red",
    "no": "bold red",
    "invalid": "bold red",
}
_MANY = 10.0
_REACHED = 0.99  # share of the detector's rate at which a step counts as one at that rate
STAGE_COLUMNS = ("stage", "threads", "utilisation", "headroom", "waits for", "queue")


def rehearsal_plan_rows(request: RehearsalRequest, plan: RecorderPlan, target: str) -> dict[str, str]:
    """Returns what would be done."""
    rate = f"{human_hz(request.rate_hz, 6)}, {human_rate(request.rate_hz * request.frame_bytes)}"
    where = request.sender or "this machine"
    ranks = f", {counted(request.ranks.count, 'rank')}" if request.ranks is not None else ""
    folders = folders_of_ranks(Path(target), request.ranks)
    clients = ranks_text(folders, request.ranks.count) if request.ranks is not None else ""
    sent = "" if request.images.encoding == "none" else f", sent as {request.images.encoding}"
    search = (
        f"{human_seconds(request.search_s)} at most, up to {human_number(request.times_max)} times the rate"
    )
    return {
        "target": f"a new directory in {target}, removed afterwards",
        "detector": f"{request.name}: frames of {human_size(request.frame_bytes)}, {rate}",
        "images": f"{request.images.words}{sent}",
        "sender": f"on {where}, over {plan.sources[0].kind.upper()}; its buffer holds"
        f" {human_seconds(request.buffer_s)}",
        "recorder": f"{counted(plan.threads, 'thread')}, pool {human_size(plan.pool_bytes)}, codec"
        f" {codec_words(plan.codec.model_dump())}{ranks}",
        "clients": clients,
        "first": f"{human_seconds(request.seconds)} at the detector's rate",
        "then": f"unpaced, and the search: {search}" if request.search_s else "no search",
        "soak": f"{human_seconds(request.soak_s)} at the detector's rate" if request.soak_s else "none",
        "space": f"at most {human_bytes(request.series_bytes)} per series, checked and removed before the"
        " next one",
        "takes": f"about {human_seconds(request.seconds_expected)}, longer if the checks are slow",
    }


def rehearsal_step_line(step: RehearsalStep) -> str:
    """ "search at 81.3 Hz: not sustained: the backlog grew by 4.1 %; narrowest: compress"."""
    rate = f" at {human_hz(step.rate_hz)}" if step.rate_hz else ""
    got = f" {human_hz(step.written_hz)}" if step.written_hz else ""
    why = f": {why_text(step)}" if why_text(step) else ""
    if step.outcome == "measured" and why and not got:
        return f"{KIND_WORDS[step.kind]}{why}"
    stage = f"; narrowest: {step.narrowest}" if step.narrowest else ""
    return f"{KIND_WORDS[step.kind]}{rate}: {OUTCOME_WORDS[step.outcome]}{got}{why}{stage}"


def why_text(step: RehearsalStep) -> str:
    """Returns the shortcomings of a step, and why it was repeated."""
    return "; ".join([*step.shortcomings, *([step.repeated] if step.repeated else [])])


def interval_text(rehearsal: Rehearsal) -> str:
    """ "at least 25 Hz (622 MB/s), less than 81.3 Hz (2.02 GB/s)"."""
    return interval_of(rehearsal.sustained_hz, rehearsal.less_than_hz, rehearsal.frame_bytes)


def interval_of(sustained_hz: float | None, less_than_hz: float | None, frame_bytes: int) -> str:
    """As `interval_text`."""
    parts = []
    for words, rate_hz in (("at least", sustained_hz), ("less than", less_than_hz)):
        if rate_hz is not None:
            parts.append(f"{words} {human_hz(rate_hz)} ({human_rate(rate_hz * frame_bytes)})")
    return ", ".join(parts) or "unknown: no rate was sustained or ruled out"


def rehearsal_rows(rehearsal: Rehearsal) -> dict[str, str]:
    """Returns the metrics of a rehearsal."""
    alone = rehearsal.storage_alone_bytes_per_s
    return {
        "needed": f"{human_hz(rehearsal.needed_hz, 6)}, {human_rate(rehearsal.needed_bytes_per_s)}",
        "sustained": interval_text(rehearsal),
        "margin": margin_text(rehearsal),
        "unpaced": unpaced_text(rehearsal),
        "search": "" if rehearsal.search is None else search_text(rehearsal.search),
        "narrowest stage": rehearsal.narrowest or "",
        "storage alone": f"{human_rate(alone)} by verdict" if alone is not None else "",
        "missing frames": f"{rehearsal.missing} of {rehearsal.sent} at the detector's rate",
        "compression": f"ratio {human_number(rehearsal.ratio)}" if rehearsal.ratio is not None else "",
        "recorder": recorder_text(rehearsal.configuration),
        "configuration": rehearsal.configuration_file,
        "chain": chain_text(rehearsal),
    }


def confidence_text(confidence: float | None) -> str:
    """Returns " (95 % confidence)"; empty if the answer has none."""
    return "" if confidence is None else f" ({human_percent(confidence)} confidence)"


def margin_text(rehearsal: Rehearsal) -> str:
    """Returns "factor 2", or "factor 1 or more (unpaced: factor 4.6)"; empty if nothing was sustained."""
    if rehearsal.factor is None:
        return ""
    text = f"factor {human_number(rehearsal.factor)}"
    if rehearsal.less_than_hz is not None:
        return text
    unpaced_hz = rehearsal.unpaced_hz
    beside = (
        "" if unpaced_hz is None else f" (unpaced: factor {human_number(unpaced_hz / rehearsal.needed_hz)})"
    )
    return f"{text} or more{beside}"


def chain_text(rehearsal: Rehearsal) -> str:
    """ "simulated on this machine, TCP, 2 ranks, xfs in /data"."""
    sender = rehearsal.sender or "this machine"
    ranks = f", {counted(rehearsal.ranks, 'rank')}" if rehearsal.ranks > 1 else ""
    system = f"{rehearsal.file_system} in " if rehearsal.file_system else ""
    return f"{rehearsal.images} on {sender}, {rehearsal.transport.upper()}{ranks}, {system}{rehearsal.target}"


def headroom_text(use: StageUse) -> str:
    """ "2.4", or "more than 10"."""
    return headroom_words(use.headroom)


def headroom_words(headroom: float | None) -> str:
    """As `headroom_text`."""
    if headroom is None or headroom > _MANY:
        return f"more than {_MANY:.0f}"
    return human_number(headroom, 2)


def stages_title(rehearsal: Rehearsal) -> str:
    """Returns "Stages at 25 Hz", or "Stages at 20.1 Hz, the rate reached (25 Hz needed)".

    The rate is that of the step from which the stages are: one at the detector's rate, or the soak.
    """
    needed = human_hz(rehearsal.needed_hz, 6)
    measured = [step for step in rehearsal.steps if step.stages]
    step = next((step for step in reversed(measured) if step.stages == rehearsal.stages), None)
    if step is None or step.sent_hz > _REACHED * rehearsal.needed_hz:
        return f"Stages at {needed}"
    return f"Stages at {human_hz(step.sent_hz)}, the rate reached ({needed} needed)"


def stage_cells(use: StageUse) -> tuple[str, ...]:
    """Returns the texts of a stage, in the order of STAGE_COLUMNS."""
    return (
        use.stage,
        str(use.threads) if use.threads else "–",
        f"{100 * use.utilisation:.0f} %",
        headroom_text(use),
        ", ".join(_waits(use)),
        _queue_text(use),
    )


def _waits(use: StageUse) -> Iterator[str]:
    for name, share in (
        ("processor", use.delayed),
        ("next stage", use.no_room),
        ("memory", use.no_memory),
        ("work", use.no_work),
    ):
        if share >= 0.01:
            yield f"{name} {100 * share:.0f} %"


def _queue_text(use: StageUse) -> str:
    if use.queue_mean is None or not use.queue_limit:
        return ""
    if use.queue == "pool_bytes":
        share = 100 * use.queue_mean / use.queue_limit
        # The recorder divides its pool: one half is for frames, the other for segments.
        return f"{share:.0f} % of {human_size(round(use.queue_limit))}, half of the pool"
    return f"{use.queue_mean:.0f} of {use.queue_limit:.0f}"


def _stage_table(rehearsal: Rehearsal) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for column in STAGE_COLUMNS:
        table.add_column(
            column, justify="right" if column in ("threads", "utilisation", "headroom") else "left"
        )
    for use in rehearsal.stages:
        narrow = use.stage == rehearsal.narrowest
        table.add_row(*stage_cells(use), style="bold" if narrow else None)
    return table


def rehearsal_view(rehearsal: Rehearsal) -> RenderableType:
    """Returns the answer, the reasons, what to change, the metrics, then the stages."""
    question = f"Does the chain keep up with the {rehearsal.detector}? "
    parts: list[RenderableType] = [
        Text.assemble(
            question, (rehearsal.answer, _STYLE[rehearsal.answer]), confidence_text(rehearsal.confidence)
        )
    ]
    if rehearsal.problem is not None:
        parts.append(Text(f"INCOMPLETE: {rehearsal.problem}", style="bold red"))
    for title, lines in (
        ("Why:", rehearsal.reasons),
        ("What to change:", rehearsal.advice),
        ("Notes:", rehearsal.notes),
    ):
        if lines:
            parts += [Text(title), *(Text(f"- {line}") for line in lines)]
    parts += [Text(), fact_table(rehearsal_rows(rehearsal))]
    if rehearsal.stages:
        parts += [Text(), Text(f"{stages_title(rehearsal)}:"), _stage_table(rehearsal)]
    return Group(*parts)


_ENDED_WORDS: dict[SearchEnd, str] = {
    "time": "the time of the search ran out before it was narrowed down; increase --search-time",
    "steps": "the search ended after its maximum number of steps",
    "top": "higher rates were not tried; increase --search-max",
    "bottom": "lower rates were not tried",
    "invalid": "the search ended because steps were invalid",
    "cut short": "the search was interrupted",
}


def search_text(search: Search) -> str:
    """Returns what the search found, mixed outcomes, and why it is not narrow.

    "25 Hz sustained (2 runs); at 91.6 Hz only some runs were sustained; the time of the search ran out ...".
    """
    parts = []
    if search.held_hz is not None:
        parts.append(f"{human_hz(search.held_hz)} sustained ({counted(search.held_runs, 'run')})")
    if search.not_held_hz is not None:
        parts.append(f"{human_hz(search.not_held_hz)} not sustained ({counted(search.not_held_runs, 'run')})")
    found = [", ".join(parts) or "no rate had a clear outcome"]
    if search.chance_hz:
        low, high = human_hz(search.chance_hz[0]), human_hz(search.chance_hz[-1])
        where = f"at {low}" if low == high else f"between {low} and {high}"
        found.append(f"{where} only some runs were sustained")
    if search.ended in _ENDED_WORDS:
        found.append(_ENDED_WORDS[search.ended])
    return "; ".join(found)


def unpaced_text(rehearsal: Rehearsal) -> str:
    """Returns "114.5 Hz (2.85 GB/s), factor 4.6", or why it is not known; empty if no step was unpaced."""
    unpaced = [step for step in rehearsal.steps if step.kind == "full speed"]
    if unpaced and rehearsal.unpaced_hz is None:
        return f"unknown: {why_text(unpaced[-1])}" if why_text(unpaced[-1]) else "unknown"
    return unpaced_words(rehearsal.unpaced_hz, rehearsal.needed_hz, rehearsal.frame_bytes)


def unpaced_words(rate_hz: float | None, needed_hz: float, frame_bytes: int) -> str:
    """As `unpaced_text`."""
    if rate_hz is None:
        return ""
    rate = human_rate(rate_hz * frame_bytes)
    return f"{human_hz(rate_hz)} ({rate}), factor {human_number(rate_hz / needed_hz)}"
