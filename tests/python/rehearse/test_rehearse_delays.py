"""Whether frames came on time, and whether the backlog grew, from the times in a file."""

import numpy
import pytest

from penstock.bench.rehearse.delays import delays_of

RATE = 100.0
FRAMES = 1000
START = 1_700_000_000_000_000_000


def times(delay_s: numpy.ndarray) -> numpy.ndarray:
    due = numpy.arange(FRAMES) / RATE
    found: numpy.ndarray = (START + (due + delay_s) * 1e9).astype(numpy.int64)
    return found


def test_punctual_frames_have_no_delay() -> None:
    found = delays_of(times(numpy.zeros(FRAMES)), times(numpy.full(FRAMES, 0.25)), RATE)
    assert found is not None
    assert found.received_max_s == pytest.approx(0.0, abs=1e-3)
    assert found.written_max_s == pytest.approx(0.25, abs=1e-3)
    assert found.growth == pytest.approx(0.0, abs=1e-6)


def test_backlog_that_grows_by_a_tenth_is_found() -> None:
    """Though every frame was received on time: the pool takes what the storage does not."""
    growing = numpy.arange(FRAMES) / RATE * 0.1
    found = delays_of(times(numpy.zeros(FRAMES)), times(growing), RATE)
    assert found is not None
    assert found.growth == pytest.approx(0.1, rel=0.01)


def test_compression_that_falls_behind_is_found_though_frames_are_written_together() -> None:
    """All small compressed frames reach the file when a segment is full: the last one waits least."""
    at_once = numpy.full(FRAMES, START + int(20e9))
    found = delays_of(times(numpy.zeros(FRAMES)), at_once, RATE, times(numpy.arange(FRAMES) / RATE * 0.5))
    assert found is not None
    assert found.growth == pytest.approx(0.5, rel=0.01)
    punctual = delays_of(times(numpy.zeros(FRAMES)), at_once, RATE, times(numpy.full(FRAMES, 0.01)))
    assert punctual is not None
    assert punctual.growth == pytest.approx(0.0, abs=1e-6)


def test_late_start_of_the_first_frame_is_no_lateness_of_the_others() -> None:
    late = numpy.zeros(FRAMES)
    late[0] = 0.5
    found = delays_of(times(late), times(late), RATE)
    assert found is not None
    assert found.received_max_s == pytest.approx(0.5, abs=1e-3)


def test_frames_that_never_came_are_left_out() -> None:
    received, written = times(numpy.zeros(FRAMES)), times(numpy.zeros(FRAMES))
    received[5] = written[5] = -1
    found = delays_of(received, written, RATE)
    assert found is not None
    assert found.received_max_s == pytest.approx(0.0, abs=1e-3)
    assert delays_of(numpy.full(3, -1), numpy.full(3, -1), RATE) is None
