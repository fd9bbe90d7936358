"""Runs the pvAccess source (`penstock.pva`), alone or beside a recorder."""

import contextlib
import importlib.util
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import Event, PvaSeriesEnd
from penstock.model.pva import PvaPlan
from penstock.programs.process import LogLine, Message, Program, forwarding_signals


def require_p4p() -> None:
    """A PenstockError where it is not installed."""
    if importlib.util.find_spec("p4p") is None:
        raise PenstockError(
            "the Python package p4p is not installed, which pvAccess requires", "pip install 'penstock[pva]'"
        )


def start_source(
    plan: PvaPlan, on_log: LogLine | None = None, inbox: "queue.Queue[Message] | None" = None
) -> Program:
    """The source's process. It has as long as it needs to send what it holds."""
    return Program("penstock-pva", plan, on_log=on_log, inbox=inbox, patience_s=None, module="penstock.pva")


def run_pva(
    plan: PvaPlan, on_event: Callable[[Event], None], on_log: LogLine | None = None
) -> list[PvaSeriesEnd]:
    """Blocks until the source ends; the series that it sent. SIGINT and SIGTERM end the open one first."""
    ended = []
    with start_source(plan, on_log) as source, forwarding_signals(source):
        for event in source.events():
            if isinstance(event, PvaSeriesEnd):
                ended.append(event)
            on_event(event)
        code = source.wait()
        # Its log has the problems of series and frames.
        source.require_success(code, (ExitCode.FINE, ExitCode.FAILED) if source.last_error is None else ())
    return ended


class Beside:
    """A recorder with the sources that send to it: one stream of events, one end.

    The sources end first, so that their series are complete, and the recorder after the last of them; they
    end with it as well. Use as a context manager in the main thread: it passes signals on.
    """

    def __init__(self, recorder: Program, on_log: LogLine | None) -> None:
        self._recorder, self._on_log = recorder, on_log
        self._sources: list[Program] = []
        self._running = 0
        self._reported = False
        self._stack = contextlib.ExitStack()

    def start(self, plans: Sequence[PvaPlan]) -> None:
        """Once, when the recorder listens."""
        for plan in plans:
            source = start_source(plan, self._on_log, self._recorder.inbox)
            self._sources.append(self._stack.enter_context(source))
            self._running += 1

    def signal(self, number: int) -> None:
        """To the sources while there are any, then to the recorder; SIGUSR2 ends the series of that."""
        if number == signal.SIGUSR2:
            self._recorder.signal(number)
            return
        for source in self._sources:
            source.signal(number)
        if not self._running or self._reported:
            self._recorder.signal(number)
        self._reported = True

    def events(self) -> Iterator[Event]:
        """Of all, until the recorder has ended."""
        for message in self._recorder.messages():
            if message.event is not None:
                yield message.event
            elif message.program is self._recorder:
                break
            else:
                self._running -= 1
                if not self._running:
                    self._recorder.signal(signal.SIGTERM)
        for source in self._sources:
            source.signal(signal.SIGTERM)

    def problems(self) -> list[str]:
        """What went wrong with the sources, which end now."""
        found = []
        for source in self._sources:
            code = source.stop(None)
            # SIGTERM only kills what has not begun, or is through with all and on its way out.
            if code not in (0, -signal.SIGTERM):
                found.append(source.last_words(code))
        return found

    def __enter__(self) -> Self:
        self._stack.enter_context(forwarding_signals(self, more=(signal.SIGUSR2,)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
