"""How a job gets its frames: through HDF5, or by its own reads."""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self

import h5py
import numpy
from numpy.typing import NDArray

from penstock.bench.science.imaging.decoders import Decoder, Raw
from penstock.bench.science.imaging.files import DECOMPRESSION, READING, STORAGE, WAITING
from penstock.bench.science.imaging.image_file import Chunk, ImageFile
from penstock.bench.science.storage.storage import Storage
from penstock.model.errors import PenstockError

Pixels = NDArray[Any]
Spent = defaultdict[str, float]
_ENDS_WITHIN_S = 30.0


def _add(spent_s: Spent, to: Spent) -> None:
    for part, seconds in spent_s.items():
        to[part] += seconds


class FrameReader(ABC):
    """Leave it as a context manager. `spent_s`: time by what it was for, complete when it is left."""

    def __init__(self, decoder: str) -> None:
        """`decoder`: name of the library that decompresses."""
        self.decoder = decoder
        self.spent_s: Spent = defaultdict(float)

    @abstractmethod
    def frames(self, numbers: Iterator[int]) -> Iterator[tuple[int, Pixels]]:
        """Number and pixels of each frame. The pixels are valid until the next one is asked for."""

    def forget(self) -> None:
        """Drops what a library keeps of the frames, which come again."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Hdf5Reader(FrameReader):
    """`dataset[number]`, as most programs read."""

    def __init__(self, data: h5py.Dataset, images: ImageFile, storage: Storage) -> None:
        super().__init__("HDF5 with hdf5plugin")
        self._data, self._storage = data, storage
        self._stored_bytes = images.stored_bytes // images.frames

    def frames(self, numbers: Iterator[int]) -> Iterator[tuple[int, Pixels]]:
        for number in numbers:
            begun = time.monotonic()
            pixels = self._data[number]
            self.spent_s[READING] += time.monotonic() - begun
            self._storage.counts.moved(self._stored_bytes)
            yield number, pixels

    def forget(self) -> None:
        """Chunks that fit into HDF5's cache would be read and decompressed once only."""
        self._data.refresh()


@dataclass(frozen=True)
class Source:
    """What direct reads need to know."""

    storage: Storage
    file: str
    images: ImageFile
    chunks: list[Chunk]
    decoder: Decoder | None

    @property
    def decoder_name(self) -> str:
        return self.decoder.name if self.decoder is not None else "none"


class _Fetcher:
    """Reads and decompresses frames. For one thread."""

    def __init__(self, source: Source) -> None:
        self.spent_s: Spent = defaultdict(float)
        self._source = source
        self._reader: BinaryIO = source.storage.open(source.file)
        self._raw: Raw = numpy.empty(max(chunk.size for chunk in source.chunks), numpy.uint8)

    def fetch(self, number: int, into: Pixels) -> None:
        chunk = self._source.chunks[number]
        raw = self._raw[: chunk.size] if chunk.is_encoded else into.reshape(-1).view(numpy.uint8)
        begun = time.monotonic()
        self._read(chunk, raw.data)
        got = time.monotonic()
        self.spent_s[STORAGE] += got - begun
        if chunk.is_encoded and self._source.decoder is not None:
            self._source.decoder.decode(raw, into)
            self.spent_s[DECOMPRESSION] += time.monotonic() - got

    def _read(self, chunk: Chunk, into: "memoryview[int]") -> None:
        self._reader.seek(chunk.offset)
        while into:
            got = self._reader.readinto(into)  # type: ignore[attr-defined]
            if not got:
                raise PenstockError(f"{self._source.file} ends within a frame", "copy it again")
            into = into[got:]

    def close(self) -> None:
        self._reader.close()


class DirectReader(FrameReader):
    """One after the other, in the thread that computes."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.decoder_name)
        self._fetcher = _Fetcher(source)
        self._pixels = numpy.empty(source.images.shape, source.images.type)

    def frames(self, numbers: Iterator[int]) -> Iterator[tuple[int, Pixels]]:
        for number in numbers:
            self._fetcher.fetch(number, self._pixels)
            yield number, self._pixels

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()
        _add(self._fetcher.spent_s, self.spent_s)


@dataclass
class _Pipe:
    """Frames that are ready, memory that is free, and the numbers that come next."""

    numbers: Iterator[int]
    ready: "queue.SimpleQueue[tuple[int, Pixels] | Exception | None]" = field(
        default_factory=queue.SimpleQueue
    )
    free: "queue.SimpleQueue[Pixels | None]" = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_number(self) -> int | None:
        with self.lock:
            return next(self.numbers, None)


class AheadReader(FrameReader):
    """Threads read ahead and decompress while another frame is processed."""

    def __init__(self, source: Source, threads: int) -> None:
        super().__init__(source.decoder_name)
        self._closing = ExitStack()
        self._fetchers = [_Fetcher(source) for _ in range(threads)]
        for fetcher in self._fetchers:
            self._closing.callback(fetcher.close)
        # One that is processed, one that waits, and one for each thread.
        self._memory = [
            numpy.empty(source.images.shape, source.images.type) for _ in range(len(self._fetchers) + 2)
        ]
        self._threads: list[threading.Thread] = []
        self._pipe: _Pipe | None = None

    def frames(self, numbers: Iterator[int]) -> Iterator[tuple[int, Pixels]]:
        pipe = self._pipe = _Pipe(numbers)
        for pixels in self._memory:
            pipe.free.put(pixels)
        self._threads = [
            threading.Thread(target=_fetch_all, args=(fetcher, pipe), daemon=True)
            for fetcher in self._fetchers
        ]
        for thread in self._threads:
            thread.start()
        working = len(self._threads)
        while working:
            begun = time.monotonic()
            word = pipe.ready.get()
            self.spent_s[WAITING] += time.monotonic() - begun
            if isinstance(word, Exception):
                raise word
            if word is None:
                working -= 1
                continue
            yield word
            pipe.free.put(word[1])

    def __exit__(self, *_: object) -> None:
        if self._pipe is not None:
            self._pipe.numbers = iter(())
            for _thread in self._threads:
                self._pipe.free.put(None)
        deadline = time.monotonic() + _ENDS_WITHIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self._closing.close()
        for fetcher in self._fetchers:
            _add(fetcher.spent_s, self.spent_s)


def _fetch_all(fetcher: _Fetcher, pipe: _Pipe) -> None:
    try:
        while (pixels := pipe.free.get()) is not None:
            number = pipe.next_number()
            if number is None:
                break
            fetcher.fetch(number, pixels)
            pipe.ready.put((number, pixels))
        pipe.ready.put(None)
    except Exception as error:  # the thread that waits for the frame raises it
        pipe.ready.put(error)
