"""The simulated detector on another machine, over ssh."""

import contextlib
import json
import queue
import re
import shlex
import subprocess
import threading
import time
from collections import deque
from types import TracebackType
from typing import IO, Self

from penstock import __version__
from penstock.model.catalogue import Detector
from penstock.model.errors import PenstockError
from penstock.model.events import parse_event
from penstock.model.text import one_short_line
from penstock.programs.process import LogLine, Message
from penstock.programs.ssh import UNREACHABLE, ask, of_any_shell, shown_command, ssh_command, unreachable

_END_S = 2.0
_VERSION = re.compile(r"penstock (\S+)")
_CLOCK = re.compile(r"^clock ([0-9]+)$", re.MULTILINE)
_CLOCK_S = 1.0  # what its whole seconds leave open

_ASK = "echo clock $(date +%s); penstock --version"
# The end of the input ends the simulator, whatever became of the connection.
_SCRIPT = (
    "exec 3<&0; read -r PENSTOCK_TOKEN; export PENSTOCK_TOKEN;"
    ' [ -n "$PENSTOCK_TOKEN" ] || unset PENSTOCK_TOKEN;'
    " printf %s {detector} | penstock simulate custom --file /dev/stdin {arguments} --json 3<&- &"
    " simulator=$!;"
    " {{ cat <&3 >/dev/null 2>&1; kill $simulator; }} >/dev/null 2>&1 & watcher=$!;"
    " wait $simulator; code=$?; kill $watcher; exit $code"
)


def require_same_version(host: str) -> float:
    """Returns by how many seconds the clock of `host` is ahead of this machine's at least; negative: behind.

    Raises UsageError or PenstockError unless `penstock` of this version can be started on `host`; it names
    the command that mends it.
    """
    asked = time.time()
    done = ask(host, _ASK)
    answered = time.time()
    install = (
        f"install Penstock {__version__} there as here, and link its program:"
        f" `{shown_command()} {host} sudo ln -sf CLONE/.venv/bin/penstock /usr/local/bin/penstock`"
    )
    found = _VERSION.search(done.stdout)
    if done.returncode or found is None:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise PenstockError(
            f"--from {host}: penstock cannot be started there: {one_short_line(lines[-1])}", install
        )
    if found[1] != __version__:
        raise PenstockError(
            f"--from {host}: penstock {found[1]} is installed there, and {__version__} here", install
        )
    clock = _CLOCK.search(done.stdout)
    return 0.0 if clock is None else clock_ahead_s(float(clock[1]), asked, answered)


def clock_ahead_s(there: float, asked: float, answered: float) -> float:
    """Returns by how much a clock that showed `there` is ahead at least, in seconds; 0 if it may agree.

    `there` is in whole seconds; `asked` and `answered` are the times here before and after it was read.
    """
    if there > answered:
        return there - answered
    return min(0.0, there + _CLOCK_S - asked)


class RemoteDetector:
    """`penstock simulate` on another machine. Use as a context manager: leaving it ends the program."""

    name = "penstock-detector"

    def __init__(
        self,
        host: str,
        detector: Detector,
        arguments: list[str],
        token: str | None,
        *,
        inbox: "queue.Queue[Message]",
        on_log: LogLine | None = None,
    ) -> None:
        """`arguments` are those of `penstock simulate`, without the detector: its catalogue is not used.

        The token does not appear in a list of processes.
        """
        self._host, self._inbox, self._on_log = host, inbox, on_log
        self._log: deque[str] = deque(maxlen=20)
        text = json.dumps(detector.model_dump(mode="json", exclude_defaults=True))
        command = _SCRIPT.format(detector=shlex.quote(text), arguments=shlex.join(arguments))
        self._process = subprocess.Popen(
            [*ssh_command(), host, of_any_shell(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        for target in (self._read_events, self._read_log):
            threading.Thread(target=target, daemon=True).start()
        self._write(f"{token or ''}\n")

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()

    def _read_events(self) -> None:
        pipe: IO[bytes] | None = self._process.stdout
        assert pipe is not None
        try:
            for line in pipe:
                self._read_event(line.decode("utf-8", "replace").strip())
        finally:  # whoever waits for its end hears of it
            self._inbox.put(Message(self, None))

    def _read_event(self, text: str) -> None:
        if not text.startswith("{"):
            return
        try:
            json.loads(text)
            self._inbox.put(Message(self, parse_event(self.name, text)))
        except (ValueError, RecursionError) as error:
            self._note(one_short_line(str(error)))

    def _read_log(self) -> None:
        pipe: IO[bytes] | None = self._process.stderr
        assert pipe is not None
        for line in pipe:
            self._note(line.decode("utf-8", "replace").rstrip())

    def _note(self, line: str) -> None:
        self._log.append(line)
        if self._on_log is not None:
            self._on_log(f"{self._host}: {line}")

    def end(self) -> None:
        """Stops sending; what was sent stays."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def failure(self) -> PenstockError:
        """Returns why it ended before its series did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._process.returncode == UNREACHABLE:
            return unreachable(self._host, self._log)
        errors = [line for line in self._log if line.startswith("error:")]
        words = (errors or list(self._log) or ["no reason given"])[-1].removeprefix("error: ")
        return PenstockError(
            f"--from {self._host}: the simulated detector ended early: {words}", "see the log above"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
