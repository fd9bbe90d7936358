"""Runs steps one after the other, and prepares later steps beside them.

A step has two parts. `prepare` (builds, linters) needs only the processors: it runs beside the tests of
earlier steps, and only when these leave a processor free. Once the tests wait for it, it runs at normal
priority, as other programs could keep it from ending: the command is ended and started again, because raising
its priority takes a right that few users have. Builds and linters keep what they have done. `tests` of
different steps run one after the other. A step that fails does not keep later steps from running.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import budget
from results import FAILURE_LINES, SKIPPED, Case, Outcome, indented

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"
REPEATED_MAX = 20  # failed tests that are run again
PIPE_BYTES = 1 << 16  # what a pipe holds
PATIENCE_S = 5.0  # tests wait this long for a command before it is started again at normal priority
ENDING_S = 60.0  # a command that was ended has this long to remove incomplete files
LIMIT_S = 3600  # a command that takes longer is killed; multiplied by PENSTOCK_TEST_SLOWNESS


@dataclass(frozen=True)
class Command:
    """One line of the table.

    `junit`: the file with the test cases that it counts. `again`: runs failed tests again, one at a time,
    and writes `junit` with the suffix `.again`, if the command ended with `tests_failed`: the exit code
    which says that tests failed and that nothing else did.
    """

    what: str
    arguments: tuple[str, ...]
    junit: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    tests_failed: int = 1


@dataclass(frozen=True)
class Step:
    prepare: tuple[Command, ...]
    tests: tuple[Command, ...] = ()


def limit_s() -> float:
    return LIMIT_S * budget.slowness()


# In front of a command that runs beside the tests: it gets a processor only when nothing else wants one, even
# if the kernel shares the processors between sessions first.
GIVING_WAY = ("sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 "$@"', "sh")


def heed_signals() -> None:
    """Makes commands heed signals that this process ignores, as one started with `&` or by nohup does.

    Children inherit that a signal is ignored, but not a handler that does nothing.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


class Runner:
    """Runs the steps. Only one thread runs tests, and one other prepares later steps beside them."""

    def __init__(self, steps: Mapping[str, Step]) -> None:
        self.steps = steps
        self.outcomes = {name: Outcome() for name in steps}
        self._ready = {name: threading.Event() for name in steps}
        self._awaited: set[str] = set()  # steps that the tests wait for, or waited for
        self._exit_codes: dict[str, int] = {}
        # A process is reaped under the lock, so that a signal cannot reach another one with its number.
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._giving_way: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self) -> None:
        heed_signals()
        first, *others = self.steps
        try:
            self._commands(first, self.steps[first].prepare)
            self._ready[first].set()
            threading.Thread(target=self._prepare, args=(others,), daemon=True).start()
            for name, step in self.steps.items():
                while step.prepare and not self._ready[name].wait(PATIENCE_S):
                    self._awaited.add(name)
                    for process in list(self._giving_way):
                        self._giving_way.discard(process)
                        self._signal(process, signal.SIGTERM)
                if self.outcomes[name].ok:
                    self._commands(name, step.tests)
                if not self.outcomes[name].ok and self.outcomes[name].failed == 0:
                    self.outcomes[name].broken = 1  # a build or a linter, which has no test cases
            for name, step in self.steps.items():
                for command in step.tests:
                    self._again(name, command)
        finally:
            self._stopped = True
            for process in list(self._running):
                self._signal(process, signal.SIGKILL)

    def _again(self, name: str, command: Command) -> None:
        """Repeats failed tests once when nothing else runs. Many failures have another cause than chance."""
        outcome = self.outcomes[name]
        if not command.again or command.junit is None or not 0 < len(outcome.of("failed")) <= REPEATED_MAX:
            return
        if self._exit_codes[name] != command.tests_failed:
            return  # it did not run all tests
        first = outcome.parts.pop()  # its result follows from the tests, which may pass now
        again = replace(command, what="tests again", arguments=command.again)
        self._one(name, again, beside=False)
        second = outcome.parts.pop()
        outcome.count_again(command.junit.with_suffix(".again"))
        ok = not outcome.of("failed")
        outcome.parts += [(*first[:3], ok), (*second[:3], ok)]

    def _prepare(self, names: list[str]) -> None:
        for name in names:
            try:
                self._commands(name, self.steps[name].prepare, beside=True)
            except Exception as problem:  # the disk is full, or there are too many processes
                say(f"run_tests: {name}: {problem}")
                self.outcomes[name].parts.append(("start", 0.0, 0.0, False))
            finally:
                self._ready[name].set()

    def _commands(self, name: str, commands: tuple[Command, ...], beside: bool = False) -> None:
        for command in commands:
            if not self._stopped:
                self._one(name, command, beside)
            if command.junit is not None:
                self.outcomes[name].count(command.junit)

    def _one(self, name: str, command: Command, beside: bool) -> None:
        """Output goes into the step's log, and on to the terminal unless others' tests print there."""
        say(f"\n== {name}: {command.what}{' (beside the tests)' if beside else ''}")
        log = RESULTS / f"{name}.log"
        started = time.monotonic()
        with log.open("ab") as output:
            begun_at = log.stat().st_size
            gives_way = beside and name not in self._awaited
            code, used_s, was_ended = self._execute(command, output, beside, gives_way)
            if was_ended and code != 0 and not self._stopped:
                say(f"\n== {name}: {command.what} (again, at normal priority)")
                begun_at = log.stat().st_size
                code, more_s, _ = self._execute(command, output, beside, gives_way=False)
                used_s += more_s
        self._exit_codes[name] = code
        seconds, skipped = time.monotonic() - started, code == SKIPPED and command.junit is None
        ok = code == 0 or skipped
        self.outcomes[name].parts.append((command.what, seconds, used_s, ok))
        printed = log.read_bytes()[begun_at:].decode(errors="replace")
        last = [line for line in printed.splitlines() if line.strip()][-FAILURE_LINES:]
        if skipped:
            case = Case(f"{name}: {command.what}", "skipped", seconds, reason=last[-1] if last else "")
            self.outcomes[name].cases.append(case)
        if not ok:
            if beside:
                say(printed)
            if command.junit is None:
                self.outcomes[name].said.append(f"{name}: {command.what} failed\n{indented(last)}")
            why = f"killed after {limit_s():.0f} s" if seconds >= limit_s() else f"exit code {code}"
            say(f"run_tests: {name}: {command.what} failed ({why}): {' '.join(command.arguments)}")

    def _execute(
        self, command: Command, output: IO[bytes], beside: bool, gives_way: bool
    ) -> tuple[int, float, bool]:
        """Exit code, processor-seconds, and whether it was ended because the tests wait for it."""
        process = subprocess.Popen(
            (*(GIVING_WAY if gives_way else ()), *command.arguments),
            cwd=ROOT,
            env={**os.environ, **command.environment},
            stdout=output if beside else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that it is killed with everything that it started
        )
        self._running.add(process)
        if gives_way:
            self._giving_way.add(process)
        limit = threading.Timer(limit_s(), self._signal, (process, signal.SIGKILL))
        limit.daemon = True  # the runner may be interrupted
        limit.start()
        if process.stdout is not None:
            show(process.stdout.fileno(), process.pid, output)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            _, status, used = os.wait4(process.pid, 0)
            self._running.discard(process)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        was_ended = gives_way and process not in self._giving_way
        self._giving_way.discard(process)
        if was_ended and process.returncode != 0:
            end_session(process.pid)
        return process.returncode, used.ru_utime + used.ru_stime, was_ended

    def _signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """To a command and what it started, unless it has ended."""
        with self._lock:
            if process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


def show(pipe: int, process: int, log: IO[bytes]) -> None:
    """Copies what a process prints to its log and to the terminal, until it ends.

    What it printed last is in the pipe then. A program that it left behind may hold the pipe for ever.
    """
    ended = os.pidfd_open(process)
    with contextlib.closing(select.epoll()) as ready:
        ready.register(pipe, select.EPOLLIN)
        ready.register(ended, select.EPOLLIN)
        while True:
            files = [file for file, _ in ready.poll()]
            piece = os.read(pipe, PIPE_BYTES) if pipe in files else b""
            log.write(piece)
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            if ended in files or not piece:
                break
    os.close(ended)


def say(text: str) -> None:
    """Prints in one piece: both threads do, and `print` writes the end of the line by itself."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def end_session(leader: int) -> None:
    """Waits until all that a command started has ended, too. Kills what has not after ENDING_S."""
    deadline = time.monotonic() + ENDING_S
    while (left := in_session(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def in_session(leader: int) -> list[int]:
    """The processes of a session, without those that nobody has reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state, _, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                found.append(int(entry.name))
    return found
