"""Bars on a terminal: none stays behind short of its end."""

import io

from rich.console import Console

from penstock.model.events import (
    DetectorProgress,
    DetectorSeriesEnd,
    RecorderProgress,
    RecorderSeriesEnd,
    SeriesStart,
    Waiting,
)
from penstock.report.progress import ProgressView, detector_summary, recorder_summary, show


def test_bar_of_a_series_ends_with_the_series() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        show(view, DetectorProgress(event="progress", time=0, frames_sent=199, frames=200))
        show(
            view, DetectorSeriesEnd(event="series_end", time=0, frames_sent=200, sending_seconds=1, seconds=1)
        )
        assert view._bars is not None
        assert not view._bars.tasks


def test_the_summary_of_a_paced_series_has_its_rate() -> None:
    """40 frames at 130 Hz take 39 intervals."""
    end = DetectorSeriesEnd(event="series_end", time=0, frames_sent=40, sending_seconds=39 / 130, seconds=1)
    assert "(130 Hz)" in detector_summary(end)


def test_lines_in_a_log_come_every_10_s() -> None:
    plain = Console(file=io.StringIO(), width=200)
    now = 0.0
    view = ProgressView(plain, lambda: now)
    for step in range(41):
        now = step * 0.5
        view.update("verifying chunks", step, 40, f"{step} of 40")
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [f"verifying chunks: {step} of 40" for step in (0, 20, 40)]


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


def test_summary_gives_reasons_of_missing_frames() -> None:
    counts = {"missing": 13, "never_came": 10, "damaged": 3, "duplicate": 7, "late": 8}
    end = RecorderSeriesEnd(event="series_end", series_unique_id="s", file="s.h5", **counts)
    assert recorder_summary(end).endswith("; 13 missing (3 damaged), 7 duplicate, 8 late")


def test_dropped_frames_are_not_called_sent() -> None:
    end = DetectorSeriesEnd(event="series_end", frames_sent=500, acknowledged=500, faults={"drop": 10})
    assert detector_summary(end).startswith("490 of 500 frames (10 dropped by --fault)")
    of_elements = end.model_copy(update={"elements": 2})
    assert detector_summary(of_elements).startswith("500 frames")
