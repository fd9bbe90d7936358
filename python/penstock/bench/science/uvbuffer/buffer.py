"""What becomes due when: snapshots are written in order of time, and read in order of channels.

Source: "Global Filesystem Option for the SKA UV buffer" (CRISP): 7 TB/s written, read at five times that
rate, 10^8 files with a life of 12 hours, one file per ten frequency channels and snapshot.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

CHANNELS_A_FILE = 10
PASSES = 5
FULL_WRITE_BYTES_PER_S, FULL_FILES, FULL_LIFE_S = 7e12, 1e8, 12 * 3600.0
# Files that are deleted late are there longer.
_LATE_MARGIN = 1.5
FULL_BYTES = FULL_WRITE_BYTES_PER_S * FULL_LIFE_S


@dataclass(frozen=True)
class Due:
    """A file, and seconds since the start."""

    at_s: float
    number: int


@dataclass(frozen=True)
class Buffer:
    """`files`: of a snapshot. `block`: snapshots that are read together once all are closed."""

    files: int
    file_bytes: int
    interval_s: float
    block: int
    life_s: float
    seconds: float
    writers: int
    readers: int

    @property
    def snapshots(self) -> int:
        return int(self.seconds / self.interval_s) + 1

    @property
    def block_s(self) -> float:
        return self.block * self.interval_s

    @property
    def files_per_s(self) -> float:
        return self.files / self.interval_s

    @property
    def files_at_once(self) -> int:
        """At most, with a margin: those of a lifetime and of a block, as long as deletes keep up."""
        at_once = _LATE_MARGIN * (self.life_s + self.block_s) * self.files_per_s
        return min(self.snapshots * self.files, math.ceil(at_once))

    @property
    def window(self) -> tuple[float, float]:
        """The time in which files are written, read and deleted."""
        return self.life_s, self.seconds

    def written_s(self, number: int) -> float:
        """When a file is due. They are spread over the snapshot's interval."""
        return number / self.files_per_s

    def writes(self, writer: int) -> Iterator[Due]:
        for number in range(writer, self.snapshots * self.files, self.writers):
            yield Due(self.written_s(number), number)

    def blocks(self) -> Iterator[tuple[Due, int]]:
        """The last file of each block, and the number of the block."""
        for block in range(self.snapshots // self.block):
            number = (block + 1) * self.block * self.files - 1
            yield Due(self.written_s(number), number), block

    def reads(self, reader: int, block: int) -> Iterator[Due]:
        """The files of the block that this reader has, pass for pass, by channels and then by time."""
        begin, a_read = (block + 1) * self.block_s, self.block_s / (PASSES * self.files * self.block)
        for turn in range(PASSES):
            for group in range(reader, self.files, self.readers):
                for snapshot in range(self.block):
                    order = (turn * self.files + group) * self.block + snapshot
                    number = (block * self.block + snapshot) * self.files + group
                    yield Due(begin + order * a_read, number)

    def deletes(self) -> Iterator[Due]:
        for number in range(self.snapshots * self.files):
            yield Due(self.written_s(number) + self.life_s, number)


def file_name(number: int) -> str:
    return f"uv-{number:09d}.vis"
