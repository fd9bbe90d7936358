"""Bars on a terminal: none stays behind short of its end."""

import io

from rich.console import Console

from penstock.model.events import DetectorProgress, DetectorSeriesEnd
from penstock.report.progress import ProgressView, show


def test_bar_of_a_series_ends_with_the_series() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        show(view, DetectorProgress(event="progress", time=0, frames_sent=199, frames=200))
        show(
            view, DetectorSeriesEnd(event="series_end", time=0, frames_sent=200, sending_seconds=1, seconds=1)
        )
        assert view._bars is not None
        assert not view._bars.tasks


def test_no_bar_outlives_the_view() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressView(terminal) as view:
        view.update("verifying chunks", 199, 200, "99 %")
    assert view._bars is not None
    assert not view._bars.tasks
