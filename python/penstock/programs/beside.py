"""Something that runs beside something else: begun again and again for as long as the other one takes."""

import contextlib
import mmap
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from penstock.model.bench.load import LoadDocument, LoadPlan
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError
from penstock.model.events import LoadMade, LoadResult
from penstock.model.problems import reason_of
from penstock.model.units import human_bytes, human_rate
from penstock.programs.process import PLAIN_START, Program, Start

_BEGINS_WITHIN_S = 60.0
_ENDS_WITHIN_S = 5.0
# Of a file, by one thread: a large one is read by several.
_PIECE_BYTES = 64 << 20


class Stint(NamedTuple):
    """One time that it was under way, in seconds since 1970."""

    begin_s: float
    end_s: float


class Repeated(ABC):
    """Use as a context manager: it is under way inside, and has ended behind it.

    `stints` and `problem` are complete when it has ended; errors end it early and are not raised.
    """

    def __init__(self) -> None:
        self.stints: list[Stint] = []
        self.problem: str | None = None
        self.done_text = ""
        """what it did, where that is known"""
        self._stop = threading.Event()
        self._begun = threading.Event()  # or has come to nothing
        self._was_under_way = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _once(self) -> None:
        """Runs it once and adds its stint. Calls _is_under_way when it is, ends soon after _stop is set."""

    @abstractmethod
    def _end(self) -> None:
        """Ends what runs at the moment, if something does."""

    def _is_under_way(self) -> None:
        self._was_under_way = True
        self._begun.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self.problem is None:
                self._once()
        except (PenstockError, OSError, ValueError) as error:
            self._fail(str(error))
        finally:
            self._begun.set()

    def _fail(self, problem: str) -> None:
        """Returns whether the outcome is that of a stop by SIGTERM, which is not a problem."""
        if not self._stop.is_set():
            self.problem = problem

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait(_BEGINS_WITHIN_S)
        # One that ends as soon as it has begun has begun: its problem shows in the run beside it.
        if not self._was_under_way:
            self.problem = self.problem or "it did not start"
            self.__exit__(None, None, None)
            raise PenstockError(
                f"the background load failed: {self.problem}", "run it alone, and check its output"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        while self._thread.is_alive():
            self._end()  # again: it may just have begun once more
            self._thread.join(0.2)


class RepeatedLoad(Repeated):
    """The load generator with one plan. `clear` removes what it wrote, before it writes it again.

    `on_made` is called before, with what it created; with None while that is unknown.
    """

    def __init__(
        self,
        plan: LoadPlan,
        clear: Callable[[], None],
        start: Start = PLAIN_START,
        on_made: Callable[[Made | None], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._on_made = on_made
        self._plan = plan
        self._start = start
        self._clear = clear
        self._program: Program | None = None

    def _once(self) -> None:
        self._on_made(None)
        with Program("penstock-load", self._plan, start=self._start) as program:
            self._program = program
            document = None
            for event in program.events():
                self._is_under_way()
                if isinstance(event, LoadMade):
                    self._on_made(event.made)
                if isinstance(event, LoadResult):
                    document = LoadDocument.model_validate(event.document)
            program.require_success(program.wait(), (0, 1) if document is not None else (0,))
        self._program = None
        if document is None:
            self._fail("penstock-load ended without a result")
            return
        if document.problem is not None:
            self._fail(document.problem)
        begin_s = datetime.fromisoformat(document.started).timestamp()
        self.stints.append(Stint(begin_s, begin_s + document.active_seconds))
        self._clear()

    def _end(self) -> None:
        if (program := self._program) is not None:
            program.signal(signal.SIGTERM)


class RepeatedCommand(Repeated):
    """Somebody's own command, with all processes that it starts and that stay in its process group."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__()
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def _once(self) -> None:
        begin_s = time.time()
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self._process = process
        self._is_under_way()
        code = process.wait()
        self._process = None
        self.stints.append(Stint(begin_s, time.time()))
        if code != 0:
            self._fail(f"{self._command[0]} ended with exit code {code}")

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Piece(NamedTuple):
    """Of a file that is there."""

    path: Path
    offset: int
    size: int


class RepeatedReads(Repeated):
    """Reads somebody's files, as those who reduce data do: through the page cache, by several threads.

    Nothing is written, and files are opened for reading alone. What was read is dropped from this machine's
    memory: it comes from the storage again the next time. Files that cannot be read are passed over; it is a
    problem where none can.
    """

    def __init__(self, files: Sequence[tuple[Path, int]], threads: int, transfer_bytes: int) -> None:
        """`files` with their sizes: so far they are read."""
        super().__init__()
        self._pieces = [piece for path, size in files for piece in _pieces_of(path, size)]
        self._threads = threads
        self._transfer_bytes = transfer_bytes
        self._lock = threading.Lock()
        # guarded by _lock
        self._left: deque[Piece] = deque()
        self._reading = 0
        self._read_bytes = 0
        self._read_before_round = -1
        self._trouble = ""
        self._found_none = False

    def _once(self) -> None:
        """Reads repeatedly until it is stopped."""
        begin_s, begun_at = time.time(), time.monotonic()
        threads = [threading.Thread(target=self._read_on, daemon=True) for _ in range(self._threads)]
        for thread in threads:
            thread.start()
        self._wait_for(threads)
        seconds = time.monotonic() - begun_at  # the clock may be set meanwhile
        self.stints.append(Stint(begin_s, begin_s + seconds))
        self.done_text = f"{human_bytes(self._read_bytes)} read"
        if seconds:
            self.done_text += f", {human_rate(self._read_bytes / seconds)}"
        self._fail(f"nothing could be read: {self._trouble or 'the files are empty now'}")

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        """A thread that is stalled in the storage when it is stopped is left behind."""
        told_at: float | None = None
        for thread in threads:
            while thread.is_alive():
                thread.join(0.05)
                if self._stop.is_set():
                    told_at = told_at or time.monotonic()
                    if time.monotonic() - told_at > _ENDS_WITHIN_S:
                        return

    def _end(self) -> None:
        """Its threads look for themselves whether they are to go on."""

    def _read_on(self) -> None:
        with mmap.mmap(-1, self._transfer_bytes) as block:
            while (piece := self._next()) is not None:
                trouble = ""
                try:
                    self._read(piece, block)
                except OSError as error:
                    trouble = f"{piece.path}: {reason_of(error)}"
                with self._lock:
                    self._reading -= 1
                    self._trouble = trouble or self._trouble

    def _next(self) -> Piece | None:
        """None when it is time to end, or nothing at all was read since the round began."""
        with self._lock:
            if not self._left:
                # Somebody who reads still may read the first bytes of this round.
                if self._reading == 0 and self._read_bytes == self._read_before_round:
                    self._found_none = True
                self._read_before_round = self._read_bytes
                self._left.extend(self._pieces)
            if self._found_none or self._stop.is_set():
                return None
            self._reading += 1
            return self._left.popleft()

    def _read(self, piece: Piece, block: mmap.mmap) -> None:
        descriptor = _opened(piece.path)
        try:
            at, end = piece.offset, piece.offset + piece.size
            while at < end and not self._stop.is_set():
                count = os.preadv(descriptor, [memoryview(block)[: min(len(block), end - at)]], at)
                if count == 0:  # it has become shorter
                    return
                at += count
                with self._lock:
                    self._read_bytes += count
                self._is_under_way()
        finally:
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, piece.offset, piece.size, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _pieces_of(path: Path, size: int) -> Iterator[Piece]:
    for offset in range(0, size, _PIECE_BYTES):
        yield Piece(path, offset, min(_PIECE_BYTES, size - offset))


def _opened(path: Path) -> int:
    """Without a note of when it was read, where this user may leave that away: it would be a write."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_NOATIME)
    except PermissionError:
        return os.open(path, flags)
