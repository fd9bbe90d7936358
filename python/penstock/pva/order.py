"""Which frame of a series is next: uniqueIds in order, their gaps, and where another series begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

Item = TypeVar("Item")
_SEEN_MAX = 1024


class Place(Enum):
    """What a uniqueId is to the series."""

    TAKEN = "taken"
    REPEATED = "repeated"  # it was there before
    LATE = "late"  # it was given up: the frames behind it are on their way
    ELSEWHERE = "elsewhere"  # it went back, or far ahead: of another series


class Seen:
    """The last uniqueIds with their frames' time stamps, whatever series they went to.

    A frame that comes once more has the number and the stamp of before; that of a counter that was reset has
    another stamp. Without a time stamp, or if several frames have the same one, it is unknown.
    """

    def __init__(self) -> None:
        self._stamps: dict[int, Hashable] = {}

    def note(self, unique_id: int, stamp: Hashable) -> None:
        self._stamps.pop(unique_id, None)  # so that it is the youngest
        self._stamps[unique_id] = stamp
        if len(self._stamps) > _SEEN_MAX:
            del self._stamps[next(iter(self._stamps))]

    def is_again(self, unique_id: int, stamp: Hashable) -> bool | None:
        """Returns whether this frame arrived before; None: unknown from the time stamps."""
        before = self._stamps.get(unique_id)
        if stamp is None or before is None or list(self._stamps.values()).count(stamp) > 1:
            return None
        return before == stamp

    def is_last(self, unique_id: int, stamp: Hashable) -> bool:
        """Whether the last frame that was there has both."""
        return next(reversed(self._stamps.items()), None) == (unique_id, stamp)


class Order(Generic[Item]):
    """Gives items by rising uniqueId. At most `hold_max` wait for one before them that may still come."""

    def __init__(self, first: int, hold_max: int, gap_max: int, frames: int = 0) -> None:
        """`frames` is how many uniqueIds the series has; 0: any number."""
        self._next = first
        self._first = first
        self._hold_max, self._gap_max = hold_max, gap_max
        self._held: dict[int, Item] = {}
        # Bounded, as a gap may be long: what is late comes soon.
        self._given_up: deque[int] = deque(maxlen=max(1, 2 * hold_max))
        self._end = first + frames if frames else None
        self.missed = 0

    def take(self, unique_id: int, item: Item, again: bool | None = None) -> Place:
        """`again` is the answer of Seen; if it is unknown, a frame with the last number is that frame."""
        is_old = unique_id < self._next or unique_id in self._held
        if is_old and unique_id in self._given_up:
            return Place.LATE
        is_last = unique_id in self._held or unique_id == self._next - 1 >= self._first
        if again or (again is None and is_last):
            return Place.REPEATED
        if is_old or unique_id - self._next > self._gap_max:
            return Place.ELSEWHERE
        self._held[unique_id] = item
        return Place.TAKEN

    def is_next(self, unique_id: int) -> bool:
        """Whether it lies ahead, and not too far."""
        return 0 <= unique_id - self._next <= self._gap_max and unique_id not in self._held

    def ready(self, *, all_of_them: bool = False) -> list[Item]:
        """Those whose turn it is; with `all_of_them` nothing is waited for any more."""
        found: list[Item] = []
        while self._held:
            if self._next in self._held:
                found.append(self._held.pop(self._next))
                self._next += 1
            elif all_of_them or len(self._held) > self._hold_max:
                self._give_up(min(self._held))
            else:
                break
        return found

    @property
    def is_complete(self) -> bool:
        """Each of its uniqueIds has had its turn."""
        return self._end is not None and self._next >= self._end

    @property
    def waits(self) -> bool:
        return bool(self._held)

    def _give_up(self, end: int) -> None:
        """Nobody waits any more for what is before `end`."""
        self.missed += max(0, (end if self._end is None else min(end, self._end)) - self._next)
        recent = max(self._next, end - (self._given_up.maxlen or 1))
        self._given_up.extend(range(recent, end))
        self._next = end
