"""A native program that runs: its plan goes in, its events come out.

A thread reads the events into a queue, a second one the log; both end with the process. The program runs in a
process group of its own, so that Ctrl-C reaches it once, through `forwarding_signals`.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from penstock.model.errors import ExitCode, InterruptedRunError, PenstockError, UsageError
from penstock.model.events import Event, Failed, parse_event
from penstock.model.failure import Failure
from penstock.model.problems import reason_of
from penstock.model.text import one_short_line
from penstock.programs.locate import find_program
from penstock.programs.logs import LOGS
from penstock.programs.ranks import Ranks
from penstock.programs.signals import note_signal

LogLine = Callable[[str], None]


# A program's last words, which become the command's error.
_FATAL = re.compile(r"(?:\[[^\]]*\] )+?\[critical\] (?P<message>.*)")
_LOG_LINES_KEPT = 40
# Python runs what a signal asks for in its main thread, when that is awake.
_LOOKS_EVERY_S = 0.25
_FOR_EVER_S = 10 * 365 * 86400.0


def _alone() -> dict[str, str]:
    """Returns the environment without a launcher's variables: a command within a job is not a rank of it."""
    marks = ("OMPI_COMM_", "PMIX_", "PMI_")
    return {name: value for name, value in os.environ.items() if not name.startswith(marks)}


def _text_of(plan: BaseModel) -> str:
    """Returns the job as JSON. UsageError: a path in it is not UTF-8."""
    try:
        return plan.model_dump_json()
    except PydanticSerializationError as error:
        raise UsageError(
            "a name of a file or folder in this job is not UTF-8",
            "rename it, or name a symbolic link that leads to it",
        ) from error


def _plan_file(text: str) -> Path:
    """For this user's eyes only: a plan may hold a token."""
    handle, name = tempfile.mkstemp(prefix="penstock-plan-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


class Signalled(Protocol):
    """Whoever passes signals on."""

    def signal(self, number: int) -> None: ...


@dataclass(frozen=True)
class Message:
    """An event of one program, here or on another machine, or (event None) its end."""

    program: object
    event: Event | None


@dataclass(frozen=True)
class Start:
    """How a program is started, or each rank of a job."""

    inside: Sequence[str] = ()
    """command in front of it"""
    variables: Mapping[str, str] = field(default_factory=dict)
    """of its environment"""


PLAIN_START = Start()


class Program:
    """One run of a native program. Use as a context manager: leaving it ends the program."""

    def __init__(
        self,
        name: str,
        plan: BaseModel,
        *,
        on_log: LogLine | None = None,
        inbox: "queue.Queue[Message] | None" = None,
        ranks: Ranks | None = None,
        options: tuple[str, ...] = (),
        patience_s: float | None = 30.0,
        module: str | None = None,
        start: Start = PLAIN_START,
    ) -> None:
        """With `ranks` it is a job; the program must know --stop-at-eof then. `options` are its own.

        `module` is of this package: it runs in a Python of its own, in the place of a native program.

        `start` says how the program is started, or each rank of it.

        When it is stopped by SIGTERM it has `patience_s`; None is for ever: it may hold what is nowhere else.
        """
        if LOGS.verbose and getattr(plan, "log_level", "info") in ("warning", "error"):
            plan = plan.model_copy(update={"log_level": "info"})
        text = _text_of(plan)
        self.name = name
        self.inbox: queue.Queue[Message] = inbox if inbox is not None else queue.Queue()
        self.log: deque[str] = deque(maxlen=_LOG_LINES_KEPT)
        self.garbled: str | None = None
        self.last_error: str | None = None
        """its sentence, for people"""
        self.failure: Failure | None = None
        """the same for decisions; None: the program died, or its job was wrong"""
        self._on_log = on_log
        self._patience_s = patience_s
        self._is_left = False
        self._is_job = ranks is not None
        path = Path(sys.executable) if module else find_program(name)
        self._plan_file: Path | None = None
        try:
            if ranks is None:
                # It ends with this process, so that no recorder stays behind unseen.
                lifetime = ("--for", str(os.getpid()))
                program = [str(path), *(["-m", module] if module else [])]
                command = [*start.inside, *program, "--plan", "-", *lifetime, *options]
                environment = _alone() | dict(start.variables)
            else:
                launcher = ranks.command(path, start.inside)
                self._plan_file = _plan_file(text)
                # Its input ends with this process, and so does the job.
                command = [*launcher, "--plan", str(self._plan_file), "--stop-at-eof", *options]
                environment = ranks.environment() | dict(start.variables)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
                env=environment,
            )
        except OSError as error:
            self._forget_plan()
            raise PenstockError(
                f"{path} cannot be started: {reason_of(error)}", "build it again for this machine"
            ) from error
        if LOGS.verbose and on_log is not None:
            on_log(f"started {' '.join(command)} (process {self._process.pid})")
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        if not self._is_job:
            self._send(text)

    def _send(self, text: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already; its exit code and log say why
            pipe.write(text.encode())
            pipe.close()

    def _forget_plan(self) -> None:
        if self._plan_file is not None:
            self._plan_file.unlink(missing_ok=True)

    def _read_events(self) -> None:
        pipe: IO[bytes] | None = self._process.stdout
        assert pipe is not None
        for line in pipe:
            text = line.decode("utf-8", "replace").strip()
            if not text:
                continue
            if self._is_job and not text.startswith("{"):
                self._take_log(text)  # the launcher's own output: MPICH reports ranks that died here
                continue
            self._forget_plan()  # whoever says something has read it
            if not line.endswith(b"\n"):
                break  # it died while it wrote that, and its exit code says so
            try:
                self._take_event(parse_event(self.name, text))
            except ValueError as error:
                self.garbled = one_short_line(str(error))
        self.inbox.put(Message(self, None))

    def _take_event(self, event: Event) -> None:
        """The last word of a program that fails is kept; others go to whoever reads events."""
        if isinstance(event, Failed):
            self.failure = event.failure
        else:
            self.inbox.put(Message(self, event))

    def _read_log(self) -> None:
        pipe: IO[bytes] | None = self._process.stderr
        assert pipe is not None
        for line in pipe:
            text = line.decode("utf-8", "replace").rstrip()
            if fatal := _FATAL.match(text):
                self.log.append(text)
                self.last_error = fatal["message"]
            else:
                self._take_log(text)

    def _take_log(self, line: str) -> None:
        self.log.append(line)
        if self._on_log is not None:
            self._on_log(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self, code: int) -> str:
        """Why it ended with this exit code, which is not 0: short, for a sentence of somebody else."""
        if self.last_error is not None:
            return self.last_error
        if code < 0:
            return f"it was killed by {signal.Signals(-code).name}"
        return self.log[-1] if self.log else f"it ended with exit code {code}"

    def signal(self, number: int) -> None:
        """Passes a signal on; nothing happens when the program has ended.

        Launchers of jobs end their ranks on a signal, some without waiting, so a job is asked through its
        standard input.
        """
        if self._is_job and number == signal.SIGUSR2:
            assert self._process.stdin is not None
            with contextlib.suppress(OSError, ValueError):
                os.write(self._process.stdin.fileno(), b"end\n")
        elif self._is_job:
            self._end_input()
        else:
            self._process.send_signal(number)

    def _end_input(self) -> None:
        """Says so first: an input that only ends is that of a command that was killed."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            os.write(self._process.stdin.fileno(), b"stop\n")
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def messages(self) -> Iterator[Message]:
        """Events and ends of all programs that share the inbox, for ever."""
        while True:
            yield self._next()

    def events(self) -> Iterator[Event]:
        """The events until the program ends. Only for a program with an inbox of its own."""
        while (event := self._next().event) is not None:
            yield event

    def _next(self) -> Message:
        """Wakes up now and then: a signal that came before it slept, or to another thread, is seen then."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self.inbox.get(timeout=_LOOKS_EVERY_S)

    def wait(self, timeout_s: float | None = None) -> int:
        """The exit code; TimeoutError when it does not end in time."""
        try:
            # With a limit it looks now and then, and so for signals as well.
            code = self._process.wait(_FOR_EVER_S if timeout_s is None else timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{self.name} has not ended within {timeout_s} s") from error
        # What it wrote is in the pipes by now. They may stay open: a helper that it left behind has them too.
        for thread in self._threads:
            thread.join(2)
        self._forget_plan()
        return code

    def require_success(
        self, code: int, allowed: Iterable[int] = (0,), remedy_of_death: str | None = None
    ) -> None:
        """A PenstockError with the program's own words unless `code` is allowed.

        `remedy_of_death` is for a program that died; without it only a signal counts as death.
        """
        if self.garbled is not None:
            raise PenstockError(
                self.garbled, "the program and the package differ in version: build both again"
            )
        if code in allowed:
            return
        own = (ExitCode.USAGE, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
        kind = ExitCode(code) if code in own else ExitCode.FAILED
        if self.last_error is not None and code > 0:
            raise PenstockError(self.last_error, code=kind)
        log = "" if self._on_log is not None else "\n".join(self.log)  # whoever follows the log has seen it
        if code in (-signal.SIGINT, -signal.SIGTERM):
            kind = ExitCode.of_signal(signal.Signals(-code).name)
            raise InterruptedRunError(f"interrupted before {self.name} could start", code=kind)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        remedy = (
            "the machine may be out of memory: see the system's log" if code < 0 or remedy_of_death else ""
        )
        if code == -signal.SIGXFSZ:
            remedy = "a limit on the size of files applies: see ulimit -f"
        if remedy_of_death:
            remedy += f". {remedy_of_death}"
        raise PenstockError(f"{self.name} {how}" + (f"; its log:\n{log}" if log else ""), remedy, kind)

    def stop(self, patience_s: float | None = 30.0) -> int:
        """SIGTERM (a job: the end of its input), and SIGKILL when it does not end in time (None: never)."""
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self.wait()

    def leave(self) -> None:
        """Nobody waits for it any more: it has said all; the kernel ends it when the storage answers."""
        self._is_left = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_left:
            self.stop(self._patience_s)


@contextlib.contextmanager
def forwarding_signals(*programs: Signalled, more: tuple[signal.Signals, ...] = ()) -> Iterator[None]:
    """SIGINT, SIGTERM and `more` go to the programs instead of ending this one. For the main thread.

    A terminal that is closed (SIGHUP) is a SIGTERM to them, unless it is ignored, as by nohup.
    """

    def forward(number: int, _frame: object) -> None:
        if number not in more:
            note_signal()
        for program in programs:
            program.signal(signal.SIGTERM if number == signal.SIGHUP else number)

    numbers = [signal.SIGINT, signal.SIGTERM, *more]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(inbox: "queue.Queue[Message]", kind: type[Event], timeout_s: float) -> Event | None:
    """The next event of `kind`; None when the program ended before, TimeoutError when none came in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            message = inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty as error:
            raise TimeoutError(f"no {kind.__name__} event within {timeout_s} s") from error
        if message.event is None or isinstance(message.event, kind):
            return message.event
