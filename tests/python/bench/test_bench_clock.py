"""Whether the clock that times a run was one."""

import time
from pathlib import Path

import pytest
from bench_documents import frames_document, step_of, verdict_of

from penstock.bench.judge.clock import (
    CLOCK,
    CLOCK_SOURCE,
    QUICK_SOURCES,
    Clocks,
    ClockWatch,
    clock_checks,
    read_clocks,
)
from penstock.model.bench.runs import Check, Clock

SECOND = 10**9


def clock_after(
    folder: Path, real_s: float = 30.0, boot_s: float = 30.0, raw_s: float = 30.0, source: str = "tsc"
) -> Clock:
    """30 s of the monotonic clock, in which the others went on by so much; the source is that of the end."""
    file = folder / "current_clocksource"
    file.write_text("tsc\n")
    looks = iter(
        [
            Clocks(5 * SECOND, 5 * SECOND, 7 * SECOND, 1700 * SECOND),
            Clocks(
                35 * SECOND,
                5 * SECOND + round(raw_s * SECOND),
                7 * SECOND + round(boot_s * SECOND),
                1700 * SECOND + round(real_s * SECOND),
            ),
        ]
    )
    watch = ClockWatch(lambda: next(looks), file)
    file.write_text(source + "\n")
    return watch.seen()


def checks_of(clock: Clock) -> dict[str, Check]:
    return {check.name: check for check in clock_checks(clock)}


@pytest.mark.parametrize(
    ("changes", "outcome", "told"),
    [
        ({}, "ok", "stepped by 0 s, adjusted by +0 %"),
        ({"real_s": 30.09}, "ok", "stepped by 90 ms"),
        ({"real_s": 31.0}, "warning", "stepped by 1 s"),
        ({"real_s": 26.0}, "warning", "stepped by -4 s"),
        ({"raw_s": 30.0 / 1.0005}, "ok", "adjusted by +0.05 %"),
        ({"raw_s": 30.0 / 0.995}, "warning", "adjusted by -0.5 %"),
        ({"raw_s": 20.0}, "failed", "adjusted by +50 %"),
        ({"boot_s": 35.0, "real_s": 35.0}, "failed", "the machine was suspended for 5 s"),
        ({"source": "hpet"}, "warning", "read from tsc before, hpet now"),
    ],
)
def test_a_clock_that_is_none_is_told(
    changes: dict[str, float | str], outcome: str, told: str, tmp_path: Path
) -> None:
    check = checks_of(clock_after(tmp_path, **changes))[CLOCK]  # type: ignore[arg-type]
    assert (check.outcome, check.bias) == (outcome, "either")
    assert told in check.actual
    assert bool(check.advice) == (outcome != "ok")


@pytest.mark.parametrize("source", [*QUICK_SOURCES, "hpet", "acpi_pm", "refined-jiffies"])
def test_a_slow_clock_is_told_and_an_unknown_one_is_not(source: str, tmp_path: Path) -> None:
    check = checks_of(clock_after(tmp_path, source=source))[CLOCK_SOURCE]
    assert check.outcome == ("ok" if source in QUICK_SOURCES else "warning")
    assert check.bias == "worse"
    assert list(checks_of(ClockWatch(source=tmp_path / "absent").seen())) == [CLOCK]


def test_the_clocks_of_this_machine_agree() -> None:
    """Unless somebody sets them at this moment."""
    watch = ClockWatch()
    time.sleep(0.3)
    clock = watch.seen()
    assert 0.3 <= clock.seconds < 30
    assert clock.suspended_s < 0.01
    assert abs(clock.adjusted_share) < 0.01
    begin = read_clocks()
    assert begin.boot > begin.monotonic - 1_000_000 > 0  # they are read one after the other


def test_a_clock_that_was_set_makes_an_answer_doubtful(tmp_path: Path) -> None:
    """Also a good one: the machine may have stood still, and its storage not."""
    step = step_of("rate", frames_document(), *clock_checks(clock_after(tmp_path, real_s=33.0)))
    verdict = verdict_of(step)
    assert verdict.answer == "cannot tell"
    assert "stepped by 3 s" in verdict.reasons[1]
