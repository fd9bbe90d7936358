"""Faults that `penstock simulate --fault` injects between the simulated detector and the receiver."""

import re

from penstock.model.errors import UsageError
from penstock.model.plans import FaultKind, FaultRule, FaultsPlan

_FORM = re.compile(
    r"(?P<kind>[a-z]+)(:(?P<amount>\d{1,6})(?P<unit>ms)?)?(/(?P<element>\d{1,2}))?"
    r"(=(?P<rate>[0-9.eE+-]+)(?P<percent>%)?|@(?P<frames>[0-9,-]+))"
)
_HELP = (
    "KIND=RATE or KIND@FRAMES, as drop=1%, late:8=0.01, duplicate@17,40-45; see `penstock simulate --help`"
)
KINDS: tuple[FaultKind, ...] = ("drop", "late", "reorder", "duplicate", "corrupt", "flip", "shape", "cut")


def parse_fault(text: str) -> FaultRule:
    """Returns the rule of KIND[:AMOUNT][/ELEMENT]=RATE or …@FRAMES.

    The amount is a number of frames; `late` also accepts a time, such as `50ms`. Raises UsageError if the
    text has another form.
    """
    found = _FORM.fullmatch(text)
    if found is None or found["kind"] not in KINDS:
        raise UsageError(f'--fault: "{text}" cannot be read', f"{_HELP}; kinds: {', '.join(KINDS)}")
    kind = found["kind"]
    amount = None if found["amount"] is None else int(found["amount"])
    if amount is not None and (kind not in ("late", "reorder") or (found["unit"] and kind != "late")):
        raise UsageError(
            f'--fault: "{text}": {kind} does not take this amount', "late:FRAMES, late:50ms, reorder:FRAMES"
        )
    if amount is not None and not 1 <= amount <= (600_000 if found["unit"] else 65536):
        raise UsageError(
            f'--fault: "{text}": {amount} is not possible', "1 to 65536 frames, or 1 to 600000ms"
        )
    return FaultRule(
        kind=kind,
        rate=None if found["rate"] is None else _rate(text, found["rate"], bool(found["percent"])),
        frames=None if found["frames"] is None else _ranges(text, found["frames"]),
        element=None if found["element"] is None else int(found["element"]),
        by_frames=None if found["unit"] else amount,
        by_ms=amount if found["unit"] else None,
    )


def _rate(text: str, number: str, percent: bool) -> float:
    try:
        rate = float(number) / (100 if percent else 1)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UsageError(f'--fault: "{text}": {number} is not a probability', "write 0 to 1, or 0% to 100%")
    return rate


def _ranges(text: str, frames: str) -> list[tuple[int, int]]:
    ranges = []
    for part in frames.split(","):
        found = re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise UsageError(
                f'--fault: "{text}": "{part}" names no frames', "numbers and ranges, as 3,17,40-45"
            )
        ranges.append((first, last))
    return ranges


def faults_plan(faults: list[str], seed: int, log: str | None) -> FaultsPlan | None:
    """Returns the faults to inject; None without faults and without a log."""
    if not faults and log is None:
        return None
    return FaultsPlan(seed=seed, rules=[parse_fault(each) for each in faults], log=log or "")
