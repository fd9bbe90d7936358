"""Which value belongs to which frame. numpy alone, no I/O.

A choice is an array of positions into a channel's values, one for each frame; -1 where a frame has none.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

By = Literal["previous", "nearest", "linear"]
Ints = npt.NDArray[np.int64]
UNKNOWN = -1  # a frame's time


def by_number(frames: int, numbers: Ints) -> Ints:
    """Of several values of one frame the last one counts; those of frames beyond the series never do."""
    choice = np.full(frames, -1, np.int64)
    inside = np.flatnonzero((numbers >= 0) & (numbers < frames))
    np.maximum.at(choice, numbers[inside], inside)
    return choice


def by_time(frame_times: Ints, times: Ints, by: By, max_age_ns: int | None) -> Ints:
    """The last value at or before a frame's time, or the nearest one (of two equally near the earlier).

    `times` are sorted; of several at one time the last counts. Of `linear` this is the choice for what is not
    interpolated.
    """
    before = np.searchsorted(times, frame_times, side="right") - 1
    choice = before.astype(np.int64)
    if by == "nearest" and len(times):
        after = np.minimum(before + 1, len(times) - 1)
        to_before = np.where(before >= 0, frame_times - times[np.maximum(before, 0)], np.iinfo(np.int64).max)
        closer = np.abs(times[after] - frame_times) < to_before
        # The last one of those at the same time.
        last = np.searchsorted(times, times[after], side="right") - 1
        choice = np.where(closer, last, choice)
    if len(times):
        age = np.abs(frame_times - times[np.maximum(choice, 0)])
        if max_age_ns is not None:
            choice[age > max_age_ns] = -1
    choice[frame_times == UNKNOWN] = -1
    return choice


def linear(
    frame_times: Ints, times: Ints, values: npt.NDArray[Any], max_age_ns: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Between the values before and after; which frames have one. Nothing is extrapolated.

    With `max_age_ns` both neighbours have to be that near.
    """
    shape = (len(frame_times), *values.shape[1:])
    if not len(times):
        return np.full(shape, np.nan), np.zeros(len(frame_times), bool)
    before = np.searchsorted(times, frame_times, side="right") - 1
    exact = (before >= 0) & (times[np.maximum(before, 0)] == frame_times)
    after = np.where(exact, before, before + 1)
    valid = (before >= 0) & (after < len(times)) & (frame_times != UNKNOWN)
    first, second = np.maximum(before, 0), np.minimum(after, len(times) - 1)
    back, span = frame_times - times[first], times[second] - times[first]
    if max_age_ns is not None:
        valid &= (back <= max_age_ns) & (times[second] - frame_times <= max_age_ns)
    share = np.divide(back, span, out=np.zeros(len(back)), where=span > 0)
    share = share.reshape(-1, *([1] * (values.ndim - 1)))
    low = values[first].astype(np.float64)
    found = np.where(share == 0, low, low * (1 - share) + values[second].astype(np.float64) * share)
    found[~valid] = np.nan
    return found, valid
