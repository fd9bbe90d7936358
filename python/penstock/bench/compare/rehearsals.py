"""Two rehearsals side by side: which chain has more headroom, and which settings differ."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.bench.campaign.entries import kind_at
from penstock.files.documents import read_shown
from penstock.model.bench.comparisons import Answer, Difference
from penstock.model.bench.rehearsals import STAGES, Rehearsal, RehearsalComparison, RehearsalFacts
from penstock.model.errors import UsageError
from penstock.model.units import human_hz, human_seconds

# What the rehearsal itself chooses of a recorder's job.
_OWN = (
    "folder",
    "file_name",
    "overwrite",
    "resume",
    "series_limit",
    "log_level",
    "sources",
    "metrics",
    "scan",
)
# Intervals whose ends are nearer than that are the same.
_SAME = 1.1
_SUSTAINED = ("yes", "likely yes")
_NOT_SUSTAINED = ("no", "likely no")


def all_rehearsals(paths: list[Path]) -> bool:
    """Returns whether all of `paths` are rehearsals. Raises UsageError if only some are."""
    kinds = [kind_at(path) for path in paths]
    if "rehearsal" not in kinds:
        return False
    other = next((path for path, kind in zip(paths, kinds, strict=True) if kind != "rehearsal"), None)
    if other is None:
        return True
    rehearsal = paths[kinds.index("rehearsal")]
    raise UsageError(
        f"{rehearsal} is a rehearsal, and {other} is not", "compare two rehearsals, or two other documents"
    )


def compare_rehearsals(paths: list[Path], *, force: bool = False) -> RehearsalComparison:
    """Compares the second of two rehearsals with the first one.

    Raises UsageError unless both needed the same, or `force` is set.
    """
    if len(paths) != 2:
        raise UsageError(
            f"{len(paths)} rehearsals given; two are required, A and B", "give two documents of rehearsals"
        )
    base, other = (_read(path) for path in paths)
    conditions = list(_differences(_conditions(base), _conditions(other)))
    needs = [each for each in conditions if each.name in ("detector", "needed", "frame size")]
    if needs and not force:
        texts = ", ".join(f"{each.name} ({each.base} and {each.other})" for each in needs)
        raise UsageError(
            f"the rehearsals {paths[0]} and {paths[1]} differ in {texts}",
            "rehearse the same detector at the same rate, or add --force to compare them nevertheless",
        )
    answer = _answer(base, other)
    return RehearsalComparison(
        base=_facts(paths[0], base),
        other=_facts(paths[1], other),
        answer=answer,
        summary=_summary(base, other, answer),
        conditions=conditions,
        configuration=list(_differences(_settings(base), _settings(other))),
        notes=_notes(base, other),
    )


def _read(path: Path) -> Rehearsal:
    document = read_shown(path)
    if not isinstance(document, Rehearsal):
        raise UsageError(f"{path} is not a rehearsal", "name a document that `penstock rehearse` wrote")
    return document


def _facts(path: Path, rehearsal: Rehearsal) -> RehearsalFacts:
    uses = {use.stage: use.headroom for use in rehearsal.stages}
    return RehearsalFacts(
        name=str(path),
        detector=rehearsal.detector,
        started=rehearsal.started,
        answer=rehearsal.answer,
        confidence=rehearsal.confidence,
        needed_hz=rehearsal.needed_hz,
        frame_bytes=rehearsal.frame_bytes,
        sustained_hz=rehearsal.sustained_hz,
        less_than_hz=rehearsal.less_than_hz,
        unpaced_hz=rehearsal.unpaced_hz,
        missing=rehearsal.missing,
        sent=rehearsal.sent,
        ratio=rehearsal.ratio,
        narrowest=rehearsal.narrowest,
        headroom={stage: uses[stage] for stage in STAGES if stage in uses},
        complete=rehearsal.problem is None,
    )


def _answer(base: Rehearsal, other: Rehearsal) -> Answer:
    """By the answers; if both are the same by the intervals of the highest sustained rate."""
    if "invalid" in (base.answer, other.answer):
        return "invalid"
    if "cannot tell" in (base.answer, other.answer):
        return "cannot tell"
    if base.answer in _SUSTAINED and other.answer in _NOT_SUSTAINED:
        return "worse"
    if base.answer in _NOT_SUSTAINED and other.answer in _SUSTAINED:
        return "nothing worse"
    if _is_above(base, other):
        return "worse"
    return "nothing worse" if _is_above(other, base) or _is_same(base, other) else "cannot tell"


def _is_above(first: Rehearsal, second: Rehearsal) -> bool:
    """Whether the first one sustained a rate that the second one did not."""
    if first.sustained_hz is None or second.less_than_hz is None:
        return False
    return first.sustained_hz >= second.less_than_hz


def _is_same(base: Rehearsal, other: Rehearsal) -> bool:
    """Both intervals together are narrow."""
    low = [each.sustained_hz for each in (base, other) if each.sustained_hz]
    high = [each.less_than_hz for each in (base, other) if each.less_than_hz]
    return len(low) == len(high) == 2 and max(high) <= _SAME * min(low)


def _summary(base: Rehearsal, other: Rehearsal, answer: Answer) -> str:
    if answer == "invalid":
        which = " and ".join(name for name, each in (("A", base), ("B", other)) if each.answer == "invalid")
        return f"{which}: the rehearsal is invalid"
    if base.answer in _SUSTAINED and other.answer in _NOT_SUSTAINED:
        return _one_keeps_up("A", base, "B", other)
    if base.answer in _NOT_SUSTAINED and other.answer in _SUSTAINED:
        return _one_keeps_up("B", other, "A", base)
    return f"{_both(base, other)}{_by_rates(base, other)}"


def _one_keeps_up(fast_name: str, fast: Rehearsal, slow_name: str, slow: Rehearsal) -> str:
    """With the rates, if they are not the same. The name of a detector may have its rate already."""
    differ = (fast.detector, fast.needed_hz) != (slow.detector, slow.needed_hz)
    needs = [f" at {human_hz(each.needed_hz)}" if differ else "" for each in (fast, slow)]
    named = fast.detector if needs[0] in fast.detector else f"{fast.detector}{needs[0]}"
    return f"{fast_name} keeps up with the {named}, {slow_name} does not{needs[1]}"


def _both(base: Rehearsal, other: Rehearsal) -> str:
    answers = {base.answer, other.answer}
    for sides, verb in ((_SUSTAINED, "both keep up"), (_NOT_SUSTAINED, "neither keeps up")):
        if answers <= set(sides):
            return f"{verb} with the {base.detector}; "
    return ""


def _by_rates(base: Rehearsal, other: Rehearsal) -> str:
    if _is_above(base, other):
        return f"A sustained {_hz(base.sustained_hz)}, which B did not"
    if _is_above(other, base):
        return f"B sustained {_hz(other.sustained_hz)}, which A did not"
    if _is_same(base, other):
        return "their highest sustained rates are the same"
    return f"it is not known which one has the higher sustained rate{_unpaced(base, other)}"


def _hz(rate_hz: float | None) -> str:
    return human_hz(rate_hz or 0.0)


def _unpaced(base: Rehearsal, other: Rehearsal) -> str:
    if base.unpaced_hz is None or other.unpaced_hz is None:
        return ""
    return f"; unpaced, A reached {human_hz(base.unpaced_hz)} and B {human_hz(other.unpaced_hz)}"


def _notes(base: Rehearsal, other: Rehearsal) -> list[str]:
    notes = [
        f"{name} ended early: {each.problem}"
        for name, each in (("A", base), ("B", other))
        if each.problem is not None
    ]
    if any(each.less_than_hz is None for each in (base, other)):
        notes.append(
            "a search that finds an upper bound decides more: increase --search-time or --search-max"
        )
    return notes


def _conditions(rehearsal: Rehearsal) -> dict[str, str]:
    return {
        "detector": rehearsal.detector,
        "needed": human_hz(rehearsal.needed_hz, 6),
        "frame size": f"{rehearsal.frame_bytes} B",
        "host": rehearsal.host,
        "target": rehearsal.target,
        "file system": rehearsal.file_system,
        "sender": rehearsal.sender or "on the recorder's machine",
        "transport": rehearsal.transport,
        "ranks": str(rehearsal.ranks),
        "images": rehearsal.images,
        "detector's buffer": human_seconds(rehearsal.buffer_s),
        "version": rehearsal.version,
    }


def _settings(rehearsal: Rehearsal) -> dict[str, str]:
    own = {name: each for name, each in rehearsal.configuration.items() if name not in _OWN}
    return {"configuration file": rehearsal.configuration_file, **dict(_flat("", own))}


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields "codec.encoding" and its value."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", "" if value is None else str(value)


def _differences(base: Mapping[str, str], other: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*base, *other]):
        first, second = base.get(name, ""), other.get(name, "")
        if first != second:
            yield Difference(name=name, base=first, other=second)
