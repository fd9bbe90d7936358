"""The frames that were handed over and are not acknowledged, in the order in which they are sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Kept:
    """One frame: its CBOR part, and its pixels where they lie."""

    number: int
    message: bytes
    message_crc: int
    pixels: list[memoryview]
    pixels_bytes: int
    addresses: tuple[int, ...]  # of pixels that the caller could change
    sequence: int = -1  # on this connection; -1: not begun
    sent_before: bool = False  # on a connection that is gone
    refused: bool = False  # before it was wholly sent
    damaged: bool = False  # it has no pixels, and the recorder is to know


class Window:
    """Bounded by its producer, with `is_full`."""

    def __init__(self, bytes_max: int, frames_max: int) -> None:
        self._bytes_max, self._frames_max = bytes_max, frames_max
        self._frames: deque[Kept] = deque()
        self._sent = 0  # number of sent ones, from the left
        self._addresses: dict[int, int] = {}
        self.pixels_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def is_full(self, more_bytes: int) -> bool:
        """The first frame always finds room."""
        if not self._frames:
            return False
        return len(self._frames) >= self._frames_max or self.pixels_bytes + more_bytes > self._bytes_max

    def number_at(self, address: int) -> int | None:
        """The frame that is kept in the memory at `address`, if there is one."""
        return self._addresses.get(address)

    def push(self, frame: Kept) -> None:
        self._frames.append(frame)
        self.pixels_bytes += frame.pixels_bytes
        for address in frame.addresses:
            self._addresses[address] = frame.number

    def next_unsent(self) -> Kept | None:
        return self._frames[self._sent] if self._sent < len(self._frames) else None

    def mark_sent(self, frame: Kept) -> None:
        """`frame` is the next unsent one."""
        if frame.refused:
            self._remove(self._sent)
        else:
            self._sent += 1

    def acknowledge(self, safe_below: int) -> int:
        """Lets go what is safe, sent on this connection or on one before; how many frames that were.

        The frame that is being sent stays.
        """
        count = 0
        while self._frames and not self._is_being_sent(0) and self._frames[0].number < safe_below:
            count += not self._frames[0].damaged
            self._release(self._frames.popleft())
            self._sent = max(self._sent - 1, 0)
        return count

    def _is_being_sent(self, place: int) -> bool:
        return place == self._sent and self._frames[place].sequence >= 0

    def refuse(self, sequence: int) -> Kept | None:
        """Lets go the frame that has this sequence number; None if there is none."""
        for place, frame in enumerate(self._frames):
            if frame.sequence != sequence:
                continue
            if place < self._sent:
                self._sent -= 1
                self._remove(place)
            else:
                frame.refused = True  # its message must not be cut short: it goes once it is sent
            return frame
        return None

    def rewind(self) -> None:
        """Everything is to be sent again, over another connection."""
        for place in reversed(range(min(self._sent + 1, len(self._frames)))):
            frame = self._frames[place]
            frame.sent_before = frame.sent_before or place < self._sent
            frame.sequence = -1
            if frame.refused:
                self._remove(place)
        self._sent = 0

    def _remove(self, place: int) -> None:
        self._release(self._frames[place])
        del self._frames[place]

    def _release(self, frame: Kept) -> None:
        self.pixels_bytes -= frame.pixels_bytes
        for address in frame.addresses:
            self._addresses.pop(address, None)
