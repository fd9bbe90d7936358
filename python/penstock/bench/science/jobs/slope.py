"""The rate of jobs that do not begin and end at the same moment: a slope with clipped ends.

Source: HEPiX storage working group, 2010: jobs start together and are stopped together after a time of smooth
running; what counts is what all did then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Course:
    """What one job had done by when. Times rise; counts do not fall."""

    at_ns: Sequence[int]
    units: Sequence[int]
    received_bytes: Sequence[int]


@dataclass(frozen=True)
class Slope:
    """`seconds` is 0 where there was no moment at which all jobs were at work."""

    begin_ns: int
    seconds: float
    units: float
    received_bytes: float

    @property
    def per_s(self) -> float:
        return self.units / self.seconds if self.seconds > 0 else 0.0

    @property
    def received_bytes_per_s(self) -> float:
        return self.received_bytes / self.seconds if self.seconds > 0 else 0.0


def clipped_slope(courses: Sequence[Course], between_ns: tuple[int, int] | None = None) -> Slope:
    """From the last job's first report to the first job's last one; counts in between are interpolated.

    With `between_ns`, only the part of it between these two times.
    """
    if not courses or any(not course.at_ns for course in courses):
        return Slope(0, 0.0, 0.0, 0.0)
    begin = max(course.at_ns[0] for course in courses)
    end = min(course.at_ns[-1] for course in courses)
    if between_ns is not None:
        begin, end = max(begin, between_ns[0]), min(end, between_ns[1])
    if end <= begin:
        return Slope(begin, 0.0, 0.0, 0.0)
    units = sum(_gained(course.at_ns, course.units, begin, end) for course in courses)
    received = sum(_gained(course.at_ns, course.received_bytes, begin, end) for course in courses)
    return Slope(begin, (end - begin) * 1e-9, units, received)


def whole_slope(courses: Sequence[Course], go_ns: int) -> Slope:
    """From the common start to the last report of all: for jobs that share a fixed amount of work."""
    ended = [course for course in courses if course.at_ns]
    if not ended:
        return Slope(go_ns, 0.0, 0.0, 0.0)
    seconds = max(0.0, (max(course.at_ns[-1] for course in ended) - go_ns) * 1e-9)
    units = sum(course.units[-1] for course in ended)
    return Slope(go_ns, seconds, units, sum(course.received_bytes[-1] for course in ended))


def _gained(at_ns: Sequence[int], counts: Sequence[int], begin_ns: int, end_ns: int) -> float:
    # Since the first report: the monotonic clock in ns exceeds what a float can hold exactly.
    since = numpy.asarray(at_ns, dtype=numpy.int64) - at_ns[0]
    edges = numpy.array([begin_ns, end_ns], dtype=numpy.int64) - at_ns[0]
    first, last = numpy.interp(edges, since, numpy.asarray(counts, dtype=float))
    return float(last - first)
