"""The number of each frame: its uniqueId, or its place in the order of arrival if the channel has none."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.pva.frames import stamp_of, unique_id_of

_WARNING = (
    "uniqueId {}: frames are numbered in the order in which they arrive, so frames that are lost before they"
    " arrive are not noticed; let the server count in uniqueId"
)


class FrameNumbers:
    """Numbers the updates of one channel. A PVXS group has no uniqueId, or one that is always 0.

    A second 0 in a row is the next frame, unless its time stamp is that of the frame before.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._is_warned = False
        self._last: int | None = None
        self._last_unique_id: int | None = None
        self._last_stamp: Hashable = None

    def next(self, value: Any) -> int:
        """Returns the number of a frame that arrived. Raises BadFrameError if its uniqueId is unusable."""
        unique_id, stamp = unique_id_of(value), stamp_of(value)
        if unique_id is None or unique_id == 0 == self._last_unique_id:
            number = self._next_arrival(unique_id, stamp)
        else:
            number = unique_id
        self._last, self._last_unique_id, self._last_stamp = number, unique_id, stamp
        return number

    def _next_arrival(self, unique_id: int | None, stamp: Hashable) -> int:
        if self._last is not None and stamp is not None and stamp == self._last_stamp:
            return self._last
        if not self._is_warned:
            self._is_warned = True
            self._warn(_WARNING.format("is not sent" if unique_id is None else "is always 0"))
        return 0 if self._last is None else self._last + 1
