"""What an unpaced series says about the throughput of the chain."""

from dataclasses import dataclass

# The recorder's memory accepts frames at any rate, so a series must be this many times larger than it.
TIMES_HELD = 3


@dataclass(frozen=True)
class Throughput:
    """Of one series."""

    frames: int
    held: int
    """frames that were not in the file when the last one arrived"""
    average_hz: float
    """from the first arrival until the last frame was in the file"""
    steady_hz: float | None
    """while frames arrived; None: too little was written then, or memory held too large a part"""
