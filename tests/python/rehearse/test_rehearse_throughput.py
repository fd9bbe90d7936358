"""How fast frames of an unpaced series reached the file, from the times in it."""

import numpy
import pytest

from penstock.bench.rehearse.file_throughput import throughput_of

START = 1_700_000_000_000_000_000


def at(seconds: numpy.ndarray) -> numpy.ndarray:
    found: numpy.ndarray = (START + seconds * 1e9).astype(numpy.int64)
    return found


def test_rate_of_writing_is_found_not_that_of_arrivals_in_memory() -> None:
    """The pool took the first 100 frames in a moment; then 20 frames a second were written."""
    written = 0.5 + numpy.arange(1000) / 20
    received = numpy.maximum(numpy.arange(1000) * 1e-4, written - 5.0)
    found = throughput_of(at(received), at(written))
    assert found is not None
    assert found.held == 100
    assert found.steady_hz == pytest.approx(20.0, rel=0.01)


def test_series_that_memory_took_has_no_steady_rate() -> None:
    """50 frames arrived within 4 ms."""
    found = throughput_of(at(numpy.arange(50) * 8e-5), at(0.05 + numpy.arange(50) / 20))
    assert found is not None
    assert (found.held, found.steady_hz) == (50, None)
    assert found.average_hz == pytest.approx(20.0, rel=0.01)


def test_series_that_memory_took_half_of_has_no_steady_rate() -> None:
    written = 0.05 + numpy.arange(200) / 20
    received = numpy.minimum(written - 0.05, 5.0)
    found = throughput_of(at(received), at(written))
    assert found is not None
    assert found.held == 100
    assert found.steady_hz is None


def test_frames_that_are_written_together_count_from_the_first_write() -> None:
    """A segment holds 100 frames: 10 writes of 100 each, one a second."""
    received = numpy.arange(1000) / 100
    found = throughput_of(at(received), at(1.0 + numpy.arange(1000) // 100))
    assert found is not None
    assert found.steady_hz == pytest.approx(100.0, rel=0.01)


def test_unknown_times_are_left_out() -> None:
    received, written = at(numpy.arange(100) / 10.0), at(0.1 + numpy.arange(100) / 10.0)
    received[5] = written[7] = -1
    found = throughput_of(received, written)
    assert found is not None
    assert found.frames == 98
    assert throughput_of(numpy.full(3, -1), numpy.full(3, -1)) is None
