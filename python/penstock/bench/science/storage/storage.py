"""The one interface to files of a workload."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import BinaryIO

from penstock.bench.science.storage.counts import Counts

Range = tuple[int, int]
"""offset of the first byte, and of the first one that does not belong to it"""


def read_ranges(file: BinaryIO, ranges: Sequence[Range]) -> list[bytes]:
    """Reads several parts of a file that `Storage.open` returned, as one request where the client can."""
    found: list[bytes] = file.read_ranges(ranges)  # type: ignore[attr-defined]
    return found


class Storage(ABC):
    """The files of one directory. Names contain no "/". Raises PenstockError with the name and the reason."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.counts = Counts()

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the files, in order; empty where there is no directory."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading from any position. Each read is a call to the client: nothing is kept."""

    @abstractmethod
    def create(self, name: str) -> BinaryIO:
        """Creates a file that does not exist, for writing from begin to end. Closing it makes it durable."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, if it exists."""

    @abstractmethod
    def make(self) -> None:
        """Creates the directory, if it does not exist."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Names of the directories in it, in order."""

    @abstractmethod
    def remove_folder(self) -> None:
        """Removes the directory itself, which is empty."""

    @abstractmethod
    def forget(self, name: str) -> bool:
        """Drops a file from this machine's caches; returns whether that is possible."""

    @abstractmethod
    def local_path(self, name: str) -> str | None:
        """Path of a file for libraries that open files themselves; None where it has none."""
