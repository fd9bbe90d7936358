"""Whether the clock that times a run was one: not set, not adjusted much, and quick to read.

All times of a run are of the monotonic clock. Nobody can set it, but it may be made faster or slower, and it
stands still while a machine is suspended, or a virtual one is stopped or moved. What it is compared with are
the kernel's other clocks, on the machine where the run was begun.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.judge.rank_checks import make_check
from penstock.model.bench.runs import Check, CheckOutcome, Clock
from penstock.model.units import human_number, human_percent, human_seconds

CLOCK, CLOCK_SOURCE = "clock", "clock fast to read"
# Services that keep time set a clock that is off by more than 0.13 s, and else adjust it: by 0.05 % at most.
STEP_S = 0.1
ADJUSTED_SHARE, ADJUSTED_SHARE_MAX = 1e-3, 1e-2
# A suspended machine measures nothing.
_SUSPENDED_S = 0.01
# Read without a call of the kernel, in tens of nanoseconds.
QUICK_SOURCES = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "tod")
_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_LOOKS = 5


@dataclass(frozen=True)
class Clocks:
    """All at the same moment, in nanoseconds."""

    monotonic: int
    raw: int
    """the same without adjustments"""
    boot: int
    """the clock continues while the machine is suspended"""
    real: int
    """the time of day"""


def read_clocks() -> Clocks:
    """The look during which least time passed: a thread may lose its processor between two clocks."""
    looks = [_look() for _ in range(_LOOKS)]
    return min(looks, key=lambda look: look[1])[0]


def _look() -> tuple[Clocks, int]:
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    real = time.clock_gettime_ns(time.CLOCK_REALTIME)
    end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return Clocks((begin + end) // 2, raw, boot, real), end - begin


class ClockWatch:
    """Looks when it is made, before a run, and when `seen` is called, after it."""

    def __init__(self, read: Callable[[], Clocks] = read_clocks, source: Path = _SOURCE) -> None:
        self._read, self._source = read, source
        self._source_before = self._source_now()
        self._before = read()

    def seen(self) -> Clock:
        before, after = self._before, self._read()
        monotonic = after.monotonic - before.monotonic
        raw = after.raw - before.raw
        return Clock(
            source_before=self._source_before,
            source=self._source_now(),
            seconds=monotonic * 1e-9,
            set_by_s=(after.real - before.real - monotonic) * 1e-9,
            suspended_s=max(0, after.boot - before.boot - monotonic) * 1e-9,
            adjusted_share=monotonic / raw - 1 if raw > 0 else 0.0,
        )

    def _source_now(self) -> str:
        """Empty where the kernel does not report it."""
        with contextlib.suppress(OSError, ValueError):
            return self._source.read_text(encoding="ascii").strip()
        return ""


def clock_checks(clock: Clock) -> Iterator[Check]:
    """A time of day that was set may be a machine that stood still, and whose storage went on."""
    yield make_check(
        CLOCK,
        _outcome(clock),
        f"not stepped by more than {human_seconds(STEP_S)}, nor adjusted by more than"
        f" {human_percent(ADJUSTED_SHARE)}",
        _actual(clock),
        "either",
        "wait until the machine's time is synchronized; do not pause or migrate a virtual machine meanwhile",
    )
    if clock.source:
        yield make_check(
            CLOCK_SOURCE,
            "ok" if clock.source in QUICK_SOURCES else "warning",
            f"one of {', '.join(QUICK_SOURCES)}",
            clock.source,
            "worse",
            "check with dmesg why the kernel does not use the processor's own clock",
        )


def _outcome(clock: Clock) -> CheckOutcome:
    adjusted = abs(clock.adjusted_share)
    if clock.suspended_s > _SUSPENDED_S or adjusted > ADJUSTED_SHARE_MAX:
        return "failed"
    is_other = clock.source != clock.source_before
    return "warning" if abs(clock.set_by_s) > STEP_S or adjusted > ADJUSTED_SHARE or is_other else "ok"


def _actual(clock: Clock) -> str:
    """ "set by 0 s, adjusted by 0.002 %"."""
    found = [f"stepped by {human_seconds(clock.set_by_s)}", f"adjusted by {_percent(clock)} %"]
    if clock.suspended_s > _SUSPENDED_S:
        found.append(f"the machine was suspended for {human_seconds(clock.suspended_s)}")
    if clock.source != clock.source_before:
        found.append(f"read from {clock.source_before or 'something else'} before, {clock.source} now")
    return ", ".join(found)


def _percent(clock: Clock) -> str:
    return human_number(round(100 * clock.adjusted_share, 4), 2, "+")
