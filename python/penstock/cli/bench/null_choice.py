"""The options by which a workload has no storage, but one that misbehaves by the clock as it is told."""

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.model.bench.load import NullBackend
from penstock.model.errors import UsageError

NullDelay = Annotated[
    float | None,
    typer.Option(
        min=0, max=3600, metavar="SECONDS", help="With --backend null: each write and read takes so long."
    ),
]
NullStraggler = Annotated[
    str | None,
    typer.Option(
        metavar="N:SECONDS", help="With --backend null: each Nth write or read takes so much longer."
    ),
]
NullFreeze = Annotated[
    str | None,
    typer.Option(
        metavar="AT:SECONDS",
        help="With --backend null: so long after the start nothing goes on, for so many seconds.",
    ),
]
_SECONDS_MAX = 3600.0


@dataclass(frozen=True)
class NullOptions:
    """How a back end that stores nothing misbehaves."""

    null_delay: NullDelay = None
    null_straggler: NullStraggler = None
    null_freeze: NullFreeze = None

    def backend(self, kind: str) -> NullBackend | None:
        """None for a storage. A UsageError names what is wrong, or has no meaning there."""
        return null_backend(kind, self.null_delay, self.null_straggler, self.null_freeze)


def null_backend(
    backend: str, delay: float | None, straggler: str | None, freeze: str | None
) -> NullBackend | None:
    """None for a storage. A UsageError names what is wrong, or has no meaning there."""
    if backend != "null":
        for name, given in (("delay", delay), ("straggler", straggler), ("freeze", freeze)):
            if given is not None:
                raise UsageError(f"--null-{name} without --backend null", "add --backend null")
        return None
    every, straggler_s = _two_of(straggler, "--null-straggler", "100:0.5") if straggler else (0.0, 0.0)
    if every != int(every):
        raise UsageError(f"--null-straggler {straggler} has no whole number", "write for example 100:0.5")
    at_s, freeze_s = _two_of(freeze, "--null-freeze", "2:3") if freeze else (0.0, 0.0)
    if max(straggler_s, at_s, freeze_s) > _SECONDS_MAX:
        raise UsageError("a storage that stands still for more than an hour", "3600 seconds at most")
    return NullBackend(
        delay_s=delay or 0.0,
        straggler_every=int(every),
        straggler_s=straggler_s,
        freeze_at_s=at_s,
        freeze_s=freeze_s,
    )


def _two_of(text: str, option: str, example: str) -> tuple[float, float]:
    first, _, second = text.partition(":")
    try:
        numbers = float(first), float(second)
    except ValueError as error:
        raise UsageError(f"{option} {text} is not two numbers", f"write for example {example}") from error
    if not all(0 <= number < float("inf") for number in numbers):
        raise UsageError(f"{option} {text} is not possible", f"write for example {example}")
    return numbers
