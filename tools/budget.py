"""The budget of the gate: how long one test may take, and where the time goes."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

from results import Case

Number = TypeVar("Number", int, float)
TEST_S = 5.0  # a longer test is marked `slow` and runs in `make test-all`
TOLERANCE = 3.0  # other tests run at the same time
SLOWEST_SHOWN = 10


def slowness() -> float:
    """How many times longer tests may take on this machine: PENSTOCK_TEST_SLOWNESS, default 1."""
    return _positive("PENSTOCK_TEST_SLOWNESS", 1.0, float)


def jobs() -> int:
    """How many processors to use: PENSTOCK_JOBS, default all."""
    return _positive("PENSTOCK_JOBS", os.cpu_count() or 2, int)


def _positive(name: str, default: Number, kind: Callable[[str], Number]) -> Number:
    """Reads a positive number from an environment variable. Ends the program if the text is anything else."""
    text = os.environ.get(name)
    if not text:
        return default
    with contextlib.suppress(ValueError):  # int() and float() accept " 4" and "1_0"
        if not set(text) & set(" _+") and 0 < (found := kind(text)) < math.inf:
            return found
    wanted = "a whole number of at least 1" if kind is int else "a positive number"
    sys.exit(f"{name} is {text!r}; it has to be {wanted}")


def over_limit(cases: Iterable[Case]) -> list[str]:
    """A line for each test that exceeds its limit."""
    limit_s = TEST_S * TOLERANCE * slowness()
    return [
        f"{case.name} took {case.seconds:.1f} s of at most {limit_s:.0f} s: make it faster, or mark it slow"
        for case in cases
        if case.seconds > limit_s
    ]


def slowest(cases: Iterable[Case]) -> list[str]:
    ordered = sorted(cases, key=lambda case: case.seconds, reverse=True)
    return [f"{case.seconds:>8.1f} s {_processor(case)} {case.name}" for case in ordered[:SLOWEST_SHOWN]]


def _processor(case: Case) -> str:
    return f"{case.processor_s:>8.1f} processor-s" if case.processor_s is not None else " " * 20


def by_directory(cases: Iterable[Case], processor_s: float) -> list[str]:
    """Processor-seconds of each directory. Tests that were not measured alone share `processor_s`."""
    cases = list(cases)
    total_s = sum(case.seconds for case in cases) or 1.0
    sums: defaultdict[str, float] = defaultdict(float)
    for case in cases:
        share = processor_s * case.seconds / total_s
        sums[case.directory] += share if case.processor_s is None else case.processor_s
    return [
        f"{seconds:>8.1f} processor-s {name}"
        for name, seconds in sorted(sums.items(), key=lambda each: -each[1])
    ]
