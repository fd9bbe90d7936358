"""Child processes: run to the end or kept as services, with the CPU time that they took."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 600.0


class BenchmarkError(Exception):
    """Something that a user can understand; the row it happens in is reported as not measured."""


@dataclass(frozen=True)
class Finished:
    stdout: str
    seconds: float
    cpu_seconds: float


def pinned(command: Sequence[str], cores: Sequence[int] | None) -> list[str]:
    """The command, bound to `cores`; None leaves it free."""
    if cores is None:
        return list(command)
    return ["taskset", "-c", ",".join(str(core) for core in cores), *command]


def run(
    command: Sequence[str],
    *,
    cores: Sequence[int] | None = None,
    env: dict[str, str] | None = None,
    at_gate: Callable[[], None] | None = None,
) -> Finished:
    """`at_gate` is called when the child has prepared itself and prints a line; a line lets it on."""
    before = os.times()
    start = time.monotonic()
    with subprocess.Popen(
        pinned(command, cores),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    ) as child:
        try:
            if at_gate:
                assert child.stdout is not None
                child.stdout.readline()
                at_gate()
            stdout, stderr = child.communicate("\n" if at_gate else None, timeout=TIMEOUT_S)
        except BaseException:
            child.kill()
            raise
    seconds = time.monotonic() - start
    after = os.times()
    if child.returncode != 0:
        words = (stderr.strip() or stdout.strip())[-800:]
        raise BenchmarkError(f"{Path(command[0]).name} ended with {child.returncode}: {words}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Finished(stdout, seconds, cpu)


def run_json(command: Sequence[str], **options: Any) -> tuple[dict[str, Any], Finished]:
    """The last line of what the command prints is one JSON document."""
    finished = run(command, **options)
    lines = finished.stdout.strip().splitlines()
    try:
        document = json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise BenchmarkError(f"{Path(command[0]).name} printed no JSON: {finished.stdout[-400:]}") from error
    if not isinstance(document, dict):
        raise BenchmarkError(f"{Path(command[0]).name} printed no JSON object")
    return document, finished


class Service:
    """A child that prints events, one JSON document a line, and can be asked for its CPU time."""

    def __init__(
        self, command: Sequence[str], plan: dict[str, Any], *, cores: Sequence[int] | None = None
    ) -> None:
        self.name = Path(command[0]).name if "python" not in command[0] else Path(command[1]).name
        self._child = subprocess.Popen(
            pinned(command, cores),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(plan))
            self._child.stdin.close()
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._words: list[str] = []
        self.seen: list[dict[str, Any]] = []
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_words, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_events(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                event["seen"] = time.time()
                self._events.put(event)
        self._events.put(None)

    def _read_words(self) -> None:
        assert self._child.stderr is not None
        for line in self._child.stderr:
            self._words.append(line)
            del self._words[:-40]

    def wait_for(self, name: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchmarkError(
                    f"{self.name}: no {name} within {timeout_s:.0f} s; {self.words()}"
                ) from None
            if event is None:
                raise BenchmarkError(f"{self.name} ended before {name}; {self.words()}")
            self.seen.append(event)
            if event.get("event") == name:
                return event

    def words(self) -> str:
        return "".join(self._words[-6:]).strip()

    @property
    def pid(self) -> int:
        return self._child.pid

    def cpu_seconds(self) -> float:
        """Of all its threads so far, to the nanosecond; only while it lives."""
        process_clock = (~self._child.pid << 3) | 2  # Linux' clock of another process
        return time.clock_gettime(process_clock)

    def memory_peak_bytes(self) -> int:
        for line in Path(f"/proc/{self._child.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise BenchmarkError(f"{self.name}: the kernel tells no VmHWM")

    def finish(self, *, stop: bool, timeout_s: float = 60.0) -> float:
        """Waits for the end (after SIGTERM where `stop`); the CPU seconds of its whole life."""
        if stop:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(signal.SIGTERM)
        before = os.times()
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise BenchmarkError(f"{self.name} did not end within {timeout_s:.0f} s") from None
        after = os.times()
        if status != 0:
            raise BenchmarkError(f"{self.name} ended with {status}: {self.words()}")
        return after.children_user + after.children_system - before.children_user - before.children_system

    def abandon(self) -> None:
        """Ends it whatever it does; for the way out after an error."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        for reader in self._readers:
            reader.join(5)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def service(
    command: Sequence[str], plan: dict[str, Any], *, cores: Sequence[int] | None = None
) -> Iterator[Service]:
    child = Service(command, plan, cores=cores)
    try:
        yield child
    finally:
        child.abandon()
