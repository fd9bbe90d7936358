"""Whether a step was sustained, from what sender, recorder and check reported."""

from dataclasses import replace
from typing import Any

import pytest
from rehearsed_series import FRAMES, RATE, recorded

from penstock.bench.rehearse.outcome import Recorded, step_of
from penstock.bench.rehearse.throughput import Throughput
from penstock.model.bench.rehearsals import Delays
from penstock.model.bench.runs import Check
from penstock.model.events import StageTimes, ThreadGroup
from penstock.model.findings import Finding


def outcome(each: Recorded) -> tuple[str, str]:
    step = step_of("rate", RATE, [each], 1.0)
    return step.outcome, "; ".join(step.shortcomings)


def test_frames_that_are_all_there_on_time_are_sustained() -> None:
    assert outcome(recorded()) == ("held", "")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"written": FRAMES - 1, "lost": 1}, "1 of 500 frames are not in the file (1 lost)"),
        ({"different": 2}, "2 frames differ from what was sent"),
        ({"problem": "the index stops here"}, "the index stops here"),
        ({"late_max_ms": 1500.0}, "late; the detector's buffer holds 1 s"),
        (
            {"closing_s": 8.0},
            "the backlog grew: frames of 10 s were on the storage only 8 s after the last one",
        ),
        ({"sent": 100, "written": 100, "stopped": True}, "sending fell behind"),
        (
            {"findings": [Finding(level="error", what="wrong checksum", actual="1 chunk")]},
            "check: wrong checksum",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], words: str) -> None:
    found, why = outcome(recorded(**fields))
    assert found == "not held"
    assert words in why


def test_backlog_that_grows_is_not_sustained_though_every_frame_is_there() -> None:
    """The pool is still filling up."""
    growing = Delays(received_max_s=0.01, written_max_s=2.0, growth=0.04)
    assert outcome(recorded(growing)) == ("not held", "the backlog grew by 3.8 % of what was sent")
    jitter = Delays(received_max_s=0.01, written_max_s=0.3, growth=0.012)
    assert outcome(recorded(jitter))[0] == "held"


def test_index_that_falls_behind_is_not_sustained_though_frames_are_written_in_time() -> None:
    second = 1_000_000_000
    reports = [
        StageTimes(
            event="stages",
            monotonic_ns=passed * second,
            frames_received=50 * passed,
            frames_written=30 * passed,
            threads=[
                ThreadGroup(name="pen-receive", threads=1, alive_ns=passed * second),
                ThreadGroup(
                    name="pen-compress", threads=1, alive_ns=passed * second, work_ns=passed * second
                ),
                ThreadGroup(
                    name="pen-index", threads=1, alive_ns=passed * second, running_ns=passed * second
                ),
            ],
        )
        for passed in range(11)
    ]
    step = step_of("rate", RATE, [recorded(stages=reports)], 1.0)
    assert (step.outcome, step.narrowest) == ("not held", "index")
    assert step.shortcomings == ["40 % of the frames that arrived were not indexed meanwhile"]


def reports_of(compress: dict[str, int]) -> list[StageTimes]:
    """Once a second, of a recorder whose receiving thread is idle; times are nanoseconds per second."""
    second = 1_000_000_000
    idle = {"work_ns": second}
    threads = {"pen-receive": idle, "pen-compress": compress, "pen-write": idle, "pen-index": idle}
    return [
        StageTimes(
            event="stages",
            monotonic_ns=passed * second,
            frames_received=50 * passed,
            frames_written=5 * passed,
            threads=[
                ThreadGroup(
                    name=name,
                    threads=1,
                    alive_ns=passed * second,
                    **{state: passed * each for state, each in states.items()},
                )
                for name, states in threads.items()
            ],
        )
        for passed in range(11)
    ]


def test_sender_that_the_recorder_held_back_is_not_blamed() -> None:
    busy = reports_of({"running_ns": 1_000_000_000})
    each = recorded(sent=400, written=400, stopped=True, stages=busy)
    step = step_of("rate", RATE, [each], 1.0)
    assert step.narrowest == "compress"
    assert step.shortcomings == [
        "compress was 100 % busy, and the backlog grew: 400 of 500 frames could be sent within 10 s"
    ]
    growing = recorded(Delays(received_max_s=0.01, written_max_s=40.0, growth=9.0), stages=busy)
    assert step_of("rate", RATE, [growing], 1.0).shortcomings == [
        "compress was 100 % busy, and the backlog grew by 90.0 % of what was sent"
    ]


def test_unpaced_rate_is_that_at_which_frames_reached_the_file() -> None:
    of_file = Throughput(frames=FRAMES, held=10, average_hz=20.0, steady_hz=22.0)
    step = step_of("full speed", 0.0, [replace(recorded(), throughput=of_file)], 1.0)
    assert step.written_hz == 22.0
    assert step.sent_hz == pytest.approx(50.0)


def test_frames_that_were_not_compared_make_the_step_invalid() -> None:
    assert outcome(recorded(compared=FRAMES - 5))[0] == "invalid"


def test_frames_of_several_series_are_summed() -> None:
    step = step_of("soak", RATE, [recorded(), recorded(different=1)], 1.0)
    assert step.outcome == "not held"
    assert step.total("sent") == 2 * FRAMES
    assert step.total("missing") == 1
    assert step.sent_hz == pytest.approx(50.0)


@pytest.mark.parametrize(("rate_hz", "closing_s"), [(RATE, 2.05), (0.0, 8.0)])
def test_closing_a_file_takes_a_moment_and_longer_only_if_unpaced(rate_hz: float, closing_s: float) -> None:
    step = step_of("rate", rate_hz, [recorded(closing_s=closing_s)], 1.0)
    assert step.outcome == ("held" if rate_hz else "measured")


def test_step_has_the_worst_outcome_of_each_check() -> None:
    checks = [
        Check(name="machine quiet", outcome=outcome, expected="", actual=str(number), bias="worse")
        for number, outcome in enumerate(("ok", "warning", "ok"))
    ]
    step = step_of("soak", RATE, [replace(recorded(), checks=[check]) for check in checks], 1.0)
    assert [check.actual for check in step.checks] == ["1"]


def test_recorder_that_failed_sustained_nothing() -> None:
    stalled = "no frame reached the file for 60 s"
    for complete in ([], [recorded()]):
        step = step_of("soak", RATE, complete, 1.0, stalled)
        assert (step.outcome, step.failure, step.shortcomings) == ("not held", stalled, [stalled])
        assert step.total("sent") == len(complete) * FRAMES
