"""Options of the back end `null`, which stores nothing and can simulate delays and stalls."""

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.model import panels
from penstock.model.bench.load import NullBackend
from penstock.model.errors import UsageError

NullDelay = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        metavar="SECONDS",
        help="With --backend null: duration in seconds of each write and read. [default: 0]",
        rich_help_panel=panels.ACCESS,
    ),
]
NullStraggler = Annotated[
    str | None,
    typer.Option(
        metavar="N:SECONDS",
        help="With --backend null: make every Nth write or read take this many seconds longer. [default:"
        " none]",
        rich_help_panel=panels.ACCESS,
    ),
]
NullFreeze = Annotated[
    str | None,
    typer.Option(
        metavar="AT:SECONDS",
        help="With --backend null: stall once, AT seconds after the start, for SECONDS. [default: no stall]",
        rich_help_panel=panels.ACCESS,
    ),
]
_SECONDS_MAX = 3600.0


@dataclass(frozen=True)
class NullOptions:
    """Delays and stalls of the back end `null`."""

    null_delay: NullDelay = None
    null_straggler: NullStraggler = None
    null_freeze: NullFreeze = None

    def backend(self, kind: str) -> NullBackend | None:
        """Returns None for other back ends. Raises UsageError."""
        return null_backend(kind, self.null_delay, self.null_straggler, self.null_freeze)


def null_backend(
    backend: str, delay: float | None, straggler: str | None, freeze: str | None
) -> NullBackend | None:
    """Returns None for other back ends. Raises UsageError."""
    if backend != "null":
        for name, given in (("delay", delay), ("straggler", straggler), ("freeze", freeze)):
            if given is not None:
                raise UsageError(f"--null-{name} requires --backend null", "add --backend null")
        return None
    every, straggler_s = _two_of(straggler, "--null-straggler", "100:0.5") if straggler else (0.0, 0.0)
    if every != int(every):
        raise UsageError(
            f"--null-straggler {straggler}: N must be a whole number", "write for example 100:0.5"
        )
    at_s, freeze_s = _two_of(freeze, "--null-freeze", "2:3") if freeze else (0.0, 0.0)
    if max(straggler_s, at_s, freeze_s) > _SECONDS_MAX:
        raise UsageError(
            f"--null-straggler, --null-freeze: a duration exceeds the maximum of {_SECONDS_MAX:g} seconds",
            "give at most 3600 seconds",
        )
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
        raise UsageError(
            f"{option} {text}: numbers must be finite and not negative", f"write for example {example}"
        )
    return numbers
