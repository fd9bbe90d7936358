"""What readers of all storages have in common."""

import io
import os
from abc import abstractmethod


class PositionedReader(io.RawIOBase):
    """A file that is read at a position. For one thread. A subclass adds `readinto`, which moves it."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0

    @abstractmethod
    def _end(self) -> int:
        """Size of the file in bytes."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}
        self._at = offset + (base[whence] if whence in base else self._end())
        return self._at
