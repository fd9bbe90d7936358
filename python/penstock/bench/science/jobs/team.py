"""Starts the jobs of a run, lets all begin at the same moment, and stops them together."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from penstock.bench.data.marks import UMASK
from penstock.bench.science.jobs.slope import Course
from penstock.bench.science.jobs.words import GO, STOP, Done, Ended, JobPlan, Ready, Said, Working
from penstock.lab.storage import start_at
from penstock.model.errors import PenstockError
from penstock.model.failure import Failure
from penstock.model.storage_url import Place
from penstock.model.text import one_short_line

WORKER = "penstock.bench.science.jobs.worker"
Until = Literal["all", "first"]
_READY_WITHIN_S, _STOPS_WITHIN_S, _GO_AHEAD_NS = 120.0, 60.0, 100_000_000
# More for each job: importing libraries takes seconds of a processor, and there may be more jobs than these.
_FIX = "fix the reported error, then run again"
_READY_WITHIN_S_A_JOB = 5.0
_EXITS_WITHIN_S, _LOOKS_EVERY_S = 5.0, 0.25
_LOG_LINES = 20
# What a library prints may have no end of line. A last word has the results of a job.
_LOG_BYTES_MAX, _WORD_BYTES_MAX = 4096, 256 << 20
_REPORTS_MAX = 1000
"""of a job; each takes about 1.25 kB"""
_SAID: TypeAdapter[Ready | Working | Done | Ended] = TypeAdapter(Said)
Word = Ready | Working | Done | Ended


@dataclass(frozen=True)
class JobRequest:
    """One process: a function MODULE:NAME of a workload, where it works, and with what."""

    function: str
    place: Place
    parameters: dict[str, Any]


@dataclass
class JobOutcome:
    """What one process said. Of its reports those are kept that the course of a long run requires."""

    number: int
    place: str
    reports: list[Done] = field(default_factory=list)
    ended: Ended | None = None
    _step_ns: int = 0

    def take(self, report: Done) -> None:
        """The first and the last one stay; of the others, one per step, which is 0.2 % of the time."""
        kept = self.reports
        if len(kept) > 2 and report.at_ns - kept[-2].at_ns < self._step_ns:
            kept[-1] = report
            return
        if len(kept) == _REPORTS_MAX:
            del kept[1:-1:2]
            self._step_ns = 2 * (report.at_ns - kept[0].at_ns) // _REPORTS_MAX
        kept.append(report)

    @property
    def problem(self) -> str | None:
        return self.ended.problem if self.ended is not None else "it did not end"

    @property
    def course(self) -> Course:
        return Course(
            [each.at_ns for each in self.reports],
            [each.units for each in self.reports],
            [each.received_bytes for each in self.reports],
        )


@dataclass(frozen=True)
class TeamOutcome:
    """`seconds`: from the common start until the last job had ended.

    `silence`: why all were stopped before they were through; None: they were not.
    """

    jobs: list[JobOutcome]
    go_ns: int
    seconds: float
    interrupted: bool
    silence: str | None = None

    @property
    def problem(self) -> str | None:
        """The first job's that has one."""
        of_jobs = (f"job {job.number}: {job.problem}" for job in self.jobs if job.problem)
        return next(of_jobs, self.silence)

    @property
    def failure(self) -> Failure | None:
        """That job's, if it names one."""
        return self._ended.failure if self._ended is not None else None

    def remedy(self, otherwise: str) -> str:
        """What that job says to do, if it says so."""
        return (self._ended.remedy if self._ended is not None else "") or otherwise

    @property
    def _ended(self) -> Ended | None:
        return next((job.ended for job in self.jobs if job.problem), None)


class _Process:
    """One worker. What it says goes into the team's inbox; None is its end."""

    def __init__(
        self, number: int, request: JobRequest, inbox: "queue.Queue[tuple[int, Word | None]]"
    ) -> None:
        self.outcome = JobOutcome(number, str(request.place))
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self._inbox = inbox
        start = start_at(request.place)
        command = [*start.inside, sys.executable, "-m", WORKER]
        environment = {**os.environ, **start.variables}
        # Threads of libraries would compete with the other jobs.
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": _path()}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            env=environment,
            umask=UMASK,
        )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()
        plan = JobPlan(
            number=number,
            function=request.function,
            place=str(request.place),
            parameters=request.parameters,
        )
        self.say(plan.model_dump_json())

    def say(self, word: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, and its last word says why
            rest = memoryview(f"{word}\n".encode())
            while rest:
                rest = rest[pipe.write(rest) or 0 :]

    def end(self) -> None:
        """At once, whatever it does, and with it what it has started."""
        # It is not waited for before, so that the group cannot be another one of the same number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(1.0)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that the storage holds ends later
            self._process.wait(1.0)
        readers = (None, *self._threads)
        for pipe, reader in zip(
            (self._process.stdin, self._process.stdout, self._process.stderr), readers, strict=True
        ):
            # What a thread still reads belongs to a process that does not end.
            if pipe is not None and (reader is None or not reader.is_alive()):
                with contextlib.suppress(OSError):
                    pipe.close()

    def take(self, said: Word) -> None:
        if isinstance(said, Done):
            self.outcome.take(said)
        elif isinstance(said, Ended):
            self.outcome.ended = said

    def lost(self) -> None:
        """It ended without a last word."""
        if self.outcome.ended is None:
            end = _end_of(self._process.pid)
            last = f"; its last line: {one_short_line(self.log[-1])}" if self.log else ""
            self.outcome.ended = Ended(problem=f"{end}{last}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        number = self.outcome.number
        for line in _lines(self._process.stdout.fileno(), _WORD_BYTES_MAX):
            try:
                self._inbox.put((number, _SAID.validate_json(line)))
            except ValidationError:
                self.log.append(line[:_LOG_BYTES_MAX].rstrip())
        self._inbox.put((number, None))

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in _lines(self._process.stderr.fileno(), _LOG_BYTES_MAX):
            self.log.append(line.rstrip())


def _lines(descriptor: int, bytes_max: int) -> Iterator[str]:
    """Lines of a pipe, each without what is beyond `bytes_max`. Libraries print bytes that are not UTF-8."""
    kept = bytearray()
    while piece := os.read(descriptor, 1 << 16):
        *ended, last = piece.split(b"\n")
        for part in ended:
            kept += part[: bytes_max - len(kept)]
            yield kept.decode("utf-8", "replace")
            kept.clear()
        kept += last[: bytes_max - len(kept)]
    if kept:
        yield kept.decode("utf-8", "replace")


def _end_of(pid: int) -> str:
    """How a child ended that has closed its output. It can be waited for again."""
    deadline = time.monotonic() + _EXITS_WITHIN_S
    while (found := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if time.monotonic() > deadline:
            return "it closed its output, and did not end"
        time.sleep(0.01)
    kind = "exit code" if found.si_code == os.CLD_EXITED else "signal"
    return f"it ended with {kind} {found.si_status}"


def _path() -> str:
    """Workers import what this process imports, wherever that is."""
    return os.pathsep.join(each for each in sys.path if each)


class Team:
    """The processes of a run. Use as a context manager: leaving it ends all of them."""

    def __init__(
        self,
        requests: Sequence[JobRequest],
        on_units: Callable[[int, float], None],
        patience_s: float,
        stop: threading.Event,
        keeps: bool,
    ) -> None:
        """`on_units` is told units and seconds since the start.

        If no job does anything for `patience_s`, the run ends, and this is its problem. `keeps`: an
        interruption leaves the jobs time to come to an end; otherwise they are killed.
        """
        self._inbox: queue.Queue[tuple[int, Word | None]] = queue.Queue()
        self._on_units, self._patience_s = on_units, patience_s
        self._processes: list[_Process] = []
        self._requests = requests
        self._going: set[int] = set()
        self._silence: str | None = None
        self._go_ns = 0
        self._stop_asked, self._keeps = stop, keeps

    def __enter__(self) -> Self:
        try:
            for number, request in enumerate(self._requests):
                self._processes.append(_Process(number, request, self._inbox))
                self._going.add(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.end()

    def run(self, seconds: float | None, until: Until, on_go: Callable[[], None]) -> TeamOutcome:
        """Until `seconds` have passed since the start, and until all or the first one ended by itself."""
        interrupted = False
        try:
            self._wait_until_ready()
            self._go_ns = time.monotonic_ns() + _GO_AHEAD_NS
            self._say_all(f"{GO} {self._go_ns}")
            on_go()
            self._work(seconds, until)
        except KeyboardInterrupt:
            interrupted = True
        if self._keeps or not interrupted:
            self._stop()
        ended_s = max(0.0, (time.monotonic_ns() - self._go_ns) * 1e-9) if self._go_ns else 0.0
        outcomes = [each.outcome for each in self._processes]
        return TeamOutcome(outcomes, self._go_ns, ended_s, interrupted, self._silence)

    def _say_all(self, word: str) -> None:
        for process in self._processes:
            process.say(word)

    def _wait_until_ready(self) -> None:
        ready: set[int] = set()
        patience_s = _READY_WITHIN_S + _READY_WITHIN_S_A_JOB * len(self._processes)
        deadline = time.monotonic() + patience_s
        while ready < set(range(len(self._processes))) and not self._stop_asked.is_set():
            number, said = self._next(min(deadline, time.monotonic() + _LOOKS_EVERY_S))
            if number < 0 and time.monotonic() >= deadline:
                late = len(self._processes) - len(ready)
                raise PenstockError(
                    f"{late} of {len(self._processes)} jobs were not ready within {patience_s:g} s",
                    "check the storage; run fewer jobs",
                )
            if isinstance(said, Ready):
                ready.add(number)
            if isinstance(said, Working):
                deadline = max(deadline, time.monotonic() + self._patience_s)
            if isinstance(said, Ended) or (said is None and number in self._going):
                self._take(number, said)
                outcome = self._processes[number].outcome
                remedy = (outcome.ended.remedy if outcome.ended is not None else "") or _FIX
                raise PenstockError(f"job {number} did not start: {outcome.problem}", remedy)

    def _work(self, seconds: float | None, until: Until) -> None:
        end = time.monotonic() + 1e9 if seconds is None else self._go_ns * 1e-9 + seconds
        last_word = time.monotonic()
        while self._going and not self._stop_asked.is_set():
            now = time.monotonic()
            if now >= end:
                return
            number, said = self._next(min(end, last_word + self._patience_s, now + _LOOKS_EVERY_S))
            if number >= 0:
                last_word = time.monotonic()
                self._take(number, said)
                if number not in self._going and until == "first":
                    return
            elif time.monotonic() >= last_word + self._patience_s:
                # _stop names those that do not answer; those that do were not through.
                self._silence = f"no job did anything for {self._patience_s:g} s, and all were stopped"
                return
            self._tell()

    def _tell(self) -> None:
        units = sum(each.outcome.reports[-1].units for each in self._processes if each.outcome.reports)
        self._on_units(units, (time.monotonic_ns() - self._go_ns) * 1e-9)

    def _stop(self) -> None:
        """Those that do not end in time are killed, and have no last word."""
        self._say_all(STOP)
        deadline = time.monotonic() + _STOPS_WITHIN_S
        with contextlib.suppress(KeyboardInterrupt):  # a second one: at once
            while self._going:
                number, said = self._next(deadline)
                if number < 0:
                    break
                self._take(number, said)
        for number in self._going:
            silent = f"it did not stop within {_STOPS_WITHIN_S:g} s"
            self._processes[number].outcome.ended = Ended(problem=silent)

    def _take(self, number: int, said: Word | None) -> None:
        process = self._processes[number]
        if said is None:
            process.lost()
        else:
            process.take(said)
        if process.outcome.ended is not None:
            self._going.discard(number)

    def _next(self, deadline: float) -> tuple[int, Word | None]:
        """What a job said; (-1, None) if none said anything until then."""
        try:
            return self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return -1, None


def run_jobs(
    requests: Sequence[JobRequest],
    seconds: float | None = None,
    until: Until = "all",
    on_units: Callable[[int, float], None] = lambda _units, _seconds: None,
    patience_s: float = 60.0,
    stop: threading.Event | None = None,
    on_go: Callable[[], None] = lambda: None,
    keeps: bool = True,
) -> TeamOutcome:
    """Runs the jobs. Raises PenstockError if one does not start; what goes wrong later is in the outcome.

    Without `seconds`, each works until it is through, or until `stop` is set. `on_go` is called when all
    begin. KeyboardInterrupt stops all; they keep what they have, or without `keeps` are killed at once.
    """
    with Team(requests, on_units, patience_s, stop or threading.Event(), keeps) as team:
        return team.run(seconds, until, on_go)
