"""Something that runs beside something else: begun again and again for as long as the other one takes."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self

from penstock.model.errors import PenstockError
from penstock.model.events import LoadResult
from penstock.model.load import LoadDocument, LoadPlan
from penstock.programs.process import Program

_BEGINS_WITHIN_S = 60.0
_ENDS_WITHIN_S = 5.0


class Stint(NamedTuple):
    """One time that it was under way, in seconds since 1970."""

    begin_s: float
    end_s: float


class Repeated(ABC):
    """Use as a context manager: it is under way inside, and has ended behind it.

    `stints` and `problem` are complete when it has ended; what goes wrong ends it early and is no exception.
    """

    def __init__(self) -> None:
        self.stints: list[Stint] = []
        self.problem: str | None = None
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
        """What comes of being told to stop is no problem."""
        if not self._stop.is_set():
            self.problem = problem

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait(_BEGINS_WITHIN_S)
        # One that ends as soon as it has begun has begun: its problem shows in the run beside it.
        if not self._was_under_way:
            self.problem = self.problem or "it did not begin"
            self.__exit__(None, None, None)
            raise PenstockError(
                f"what was to run beside it did not: {self.problem}", "try it alone, and look at what it says"
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
    """The load generator with one plan. `clear` removes what it wrote, before it writes it again."""

    def __init__(self, plan: LoadPlan, clear: Callable[[], None]) -> None:
        super().__init__()
        self._plan = plan
        self._clear = clear
        self._program: Program | None = None

    def _once(self) -> None:
        with Program("penstock-load", self._plan) as program:
            self._program = program
            document = None
            for event in program.events():
                self._is_under_way()
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
