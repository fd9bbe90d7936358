"""Bars on a terminal: none stays behind short of its end."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.model.events import (
    DetectorProgress,
    DetectorSeriesEnd,
    LoadProgress,
    RecorderProgress,
    RecorderSeriesEnd,
    SeriesStart,
    Waiting,
)
from penstock.report.progress import (
    ProgressView,
    detector_summary,
    load_line,
    recorder_summary,
    show,
    show_load,
)
from penstock.report.remaining import Pace, left_text


def test_bar_of_a_series_ends_with_the_series() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        show(view, DetectorProgress(event="progress", time=0, frames_sent=199, frames=200))
        show(
            view, DetectorSeriesEnd(event="series_end", time=0, frames_sent=200, sending_seconds=1, seconds=1)
        )
        assert view._bars is not None
        assert not view._bars.tasks


def test_all_bars_end_together() -> None:
    """A check that ends early must not leave its bar at 80 %."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        view.update("verifying chunks", 8, 10, "80 %")
        view.update("recording", 3, 10, "3 of 10 frames")
        view.end_all()
        assert view._bars is not None
        assert not view._bars.tasks


def test_the_summary_of_a_paced_series_has_its_rate() -> None:
    """40 frames at 130 Hz take 39 intervals."""
    end = DetectorSeriesEnd(event="series_end", time=0, frames_sent=40, sending_seconds=39 / 130, seconds=1)
    assert "(130 Hz)" in detector_summary(end)


def test_lines_in_a_log_come_after_2_s_and_then_every_10_s() -> None:
    plain = Console(file=io.StringIO(), width=200)
    now = 0.0
    view = ProgressView(plain, lambda: now)
    for step in range(41):
        now = step * 0.5
        view.update("verifying chunks", step, 40, f"{step} of 40")
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [
        "verifying chunks: 4 of 40, about 18 s left",
        "verifying chunks: 24 of 40, about 8 s left",
    ]


def test_jobs_that_work_for_a_time_end_then_whatever_they_have_done() -> None:
    now = 0.0
    plain = Console(file=io.StringIO(), force_terminal=False, width=200)
    view = ProgressView(plain, lambda: now)
    for now in (2.0, 4.0, 35.0):
        show_load(
            view,
            LoadProgress(
                event="progress",
                phase="files written",
                unit="operations",
                done=round(now) ** 2,
                seconds=now,
                seconds_left=40 - now,
            ),
        )
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == ["files written: 4 done, 38 s left", "files written: 1225 done, 5 s left"]


def test_the_first_iteration_of_some_is_not_counted() -> None:
    event = LoadProgress(event="progress", phase="truth", unit="operations", done=8, total=10)
    assert load_line(event) == "8 of 10"
    assert load_line(event.model_copy(update={"iteration": 1})) == "8 of 10, iteration 2"


def test_what_ends_within_2_s_is_not_in_a_log() -> None:
    """Otherwise a short check prints a line for each of its steps."""
    plain = Console(file=io.StringIO(), width=200)
    now = 0.0
    view = ProgressView(plain, lambda: now)
    for step in ("reading the index", "verifying chunks", "verifying bytes outside the chunks"):
        view.update(step, 0, 10, "0 %")
        now += 1.9
        view.update(step, 9, 10, "90 %")
        view.end(step)
    assert isinstance(plain.file, io.StringIO)
    assert plain.file.getvalue() == ""


def test_the_summary_of_a_sender_leaves_its_problem_to_the_error() -> None:
    end = DetectorSeriesEnd(event="series_end", time=0, frames_sent=4, problem="frame 4: refused", seconds=1)
    assert "refused" not in detector_summary(end)


def test_a_bar_has_the_remaining_time_of_the_whole_command_alone() -> None:
    now = 0.0
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal, lambda: now) as view:
        assert view._bars is not None
        view.expect(600)
        view.update("frames", 0, 100, "")
        assert view._bars.tasks[0].fields["left"] == "about 10 min left"
        now = 10.0
        view.update("frames", 20, 100, "")
        assert view._bars.tasks[0].fields["left"] == "about 10 min left"
        view.end("frames")
        view.update("frames", 30, 100, "")
        assert view._bars.tasks[0].fields["left"] == "about 10 min left"


def test_the_remaining_time_of_the_command_is_never_less_than_that_of_its_step() -> None:
    now = 0.0
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal, lambda: now) as view:
        assert view._bars is not None
        view.expect(100)
        view.update("frames", 0, 100, "")
        now = 10.0
        view.update("frames", 2, 100, "")
        assert view._bars.tasks[0].fields["left"] == "at least 9 min left"


def test_what_waits_has_no_remaining_time() -> None:
    """The pace says nothing about storage that is full."""
    plain = Console(file=io.StringIO(), width=200)
    now = 0.0
    view = ProgressView(plain, lambda: now)
    for second, frames in ((0.0, 10), (11.0, 20)):
        now = second
        event = {"series_unique_id": "s", "frames_written": frames, "frames_announced": 400}
        show(view, RecorderProgress(event="progress", time=0, **event))
    show(view, RecorderProgress(event="progress", time=0, holdup="storage full", **event))
    assert isinstance(plain.file, io.StringIO)
    later, last = plain.file.getvalue().splitlines()
    assert later.endswith(", about 7 min left")
    assert last == "s: 20 of 400 frames, storage full"


def test_the_wait_for_a_receiver_counts_down() -> None:
    plain = Console(file=io.StringIO(), width=200)
    show(
        ProgressView(plain),
        Waiting(event="waiting", time=0, address="tcp://a:1", seconds=60, seconds_left=41.2),
    )
    assert isinstance(plain.file, io.StringIO)
    assert plain.file.getvalue() == "waiting for tcp://a:1: 42 s left\n"


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    """A cache takes 1000/s for 100 s; then the disk takes 100/s."""
    pace, left = Pace(), None
    for second in range(201):
        done = 1000 * min(second, 100) + 100 * max(0, second - 100)
        left = pace.left_s(float(second), done, 200_000)
        if second == 1:
            assert left is None, "it is not known yet"
        if second == 100:
            assert left == pytest.approx(100)
    assert left == pytest.approx(900)


def test_another_iteration_begins_anew() -> None:
    pace = Pace()
    for second in range(11):
        pace.left_s(float(second), 10 * second, 100)
    assert pace.left_s(11.0, 0, 100) is None
    assert pace.left_s(14.0, 60, 100) == pytest.approx(2)
    assert pace.left_s(15.0, 100, 100) is None, "it is done"
    assert Pace().left_s(15.0, 100, 0) is None, "the end is not known"


@given(st.floats(0, 1e8))
def test_remaining_times_are_rounded_up(seconds: float) -> None:
    number, unit = left_text(seconds).removesuffix(" left").split()[:2]
    factor = {"s": 1, "min": 60, "h": 3600}[unit]
    assert float(number) > 0
    assert seconds <= float(number) * factor + (3600 if unit == "h" else 0)


def test_no_bar_outlives_the_view() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        view.update("verifying chunks", 199, 200, "99 %")
    assert view._bars is not None
    assert not view._bars.tasks


def test_a_state_is_printed_once_when_it_changes() -> None:
    plain = Console(file=io.StringIO(), width=200)
    now = 0.0
    view = ProgressView(plain, lambda: now)
    for holdup, ends_in_s in (*[("storage full: waiting for space", 0.0)] * 5, ("", 10.0), ("", 4.0)):
        show(
            view,
            RecorderProgress(
                event="progress",
                time=0,
                series_unique_id="s",
                frames_written=130,
                frames_received=130,
                frames_announced=400,
                holdup=holdup,
                ends_in_s=ends_in_s,
            ),
        )
        now += 6
    assert isinstance(plain.file, io.StringIO)
    assert plain.file.getvalue().splitlines() == [
        "s: 130 of 400 frames, storage full: waiting for space",
        "s: 130 of 400 frames, waiting for 270 missing frames (10 s left)",
    ]


def test_the_reason_of_a_receiver_is_shown() -> None:
    plain = Console(file=io.StringIO(), width=200)
    view = ProgressView(plain)
    for over in (False, True):
        show(
            view,
            Waiting(event="waiting", time=0, address="tcp://a:1", reason="storage full: waiting", over=over),
        )
    assert isinstance(plain.file, io.StringIO)
    assert plain.file.getvalue().splitlines() == [
        "recorder at tcp://a:1: storage full, waiting",
        "recorder at tcp://a:1: frames are acknowledged again",
    ]


def test_frames_of_a_removed_file_are_gone() -> None:
    end = RecorderSeriesEnd(
        event="series_end", time=0, series_unique_id="d1", file="d1.h5", frames_written=23, removed=True
    )
    assert recorder_summary(end) == "d1.h5 was deleted during the recording: its 23 frames are lost"


def test_resumed_series_has_no_rate() -> None:
    plain = Console(file=io.StringIO(), width=200)
    view = ProgressView(plain)
    show(view, SeriesStart(event="series_start", series_unique_id="s", frames=300, frames_before=200))
    end = {"file": "s.h5", "frames_written": 300, "raw_bytes": 10**8, "stored_bytes": 10**7, "seconds": 0.02}
    show(view, RecorderSeriesEnd(event="series_end", series_unique_id="s", **end))
    assert isinstance(plain.file, io.StringIO)
    line = plain.file.getvalue().splitlines()[-1]
    assert "100 were added" in line
    assert "MB/s" not in line


def test_single_frame_has_a_singular_and_no_rate() -> None:
    """A frame of 9 MB that was there after 40 µs was not recorded with 226 GB/s."""
    numbers = {"raw_bytes": 9 * 10**6, "stored_bytes": 10**6, "seconds": 0.5, "frames_seconds": 4e-5}
    end = RecorderSeriesEnd(
        event="series_end", series_unique_id="s", file="s.h5", frames_written=1, **numbers
    )
    assert recorder_summary(end) == "1 frame in s.h5, 1 MB (ratio 9.0), 40 µs"
    several = end.model_copy(update={"frames_written": 2, "frames_seconds": 9e-3})
    assert ", 9 ms, 1 GB/s" in recorder_summary(several)
    sent = DetectorSeriesEnd(event="series_end", frames_sent=1, bytes=10**6, seconds=4e-5, rate_hz=25000)
    assert detector_summary(sent) == "1 frame, 1 MB in 40 µs"
    assert "(25000 Hz)" in detector_summary(sent.model_copy(update={"frames_sent": 2}))
    removed = end.model_copy(update={"removed": True})
    assert recorder_summary(removed) == "s.h5 was deleted during the recording: its 1 frame is lost"


def test_summary_gives_reasons_of_missing_frames() -> None:
    counts = {"missing": 13, "never_came": 10, "damaged": 3, "duplicate": 7, "late": 8}
    end = RecorderSeriesEnd(event="series_end", series_unique_id="s", file="s.h5", **counts)
    assert recorder_summary(end).endswith("; 13 missing (3 damaged), 7 duplicate, 8 late")


def test_dropped_frames_are_not_called_sent() -> None:
    end = DetectorSeriesEnd(event="series_end", frames_sent=500, acknowledged=500, faults={"drop": 10})
    assert detector_summary(end).startswith("490 of 500 frames (10 dropped by --fault)")
    of_elements = end.model_copy(update={"elements": 2})
    assert detector_summary(of_elements).startswith("500 frames")
