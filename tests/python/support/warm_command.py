"""Runs `penstock` many times and loads its libraries once: each run is a fork of a process that has them.

Starting the command takes a third of a second of processor time, nearly all of it for imports. Tests of the
start itself (signals, environments, what an installed command loads) start a new process instead.

One process, the starter, receives requests through a socket. For each request it forks a run, and sends the
run's exit code when the run ends. Runs can overlap. A run that outlives its request (`popen`) is forked by a
minder, a process that exits at once, so that the run becomes a child of the process that requested it. A fork
takes about ten milliseconds, as long as many runs themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, NoReturn

_PID = struct.Struct("=i")
_REQUEST_BYTES_MAX = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36


class WarmCommand:
    """Starts runs of the command. Each process of a test session has one."""

    def __init__(self) -> None:
        self._near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self._starter = subprocess.Popen(
                [sys.executable, __file__, str(far.fileno())],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a fork would end and start its threads
            )

    def close(self) -> None:
        self._near.close()
        self._starter.wait(60)

    def run(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Runs `penstock ARGUMENTS` in this folder and environment; TimeoutExpired after `timeout_s`."""
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            self._request(arguments, out.fileno(), err.fileno(), stays=False) as answers,
        ):
            pid = _PID.unpack(_received(answers))[0]
            answers.settimeout(timeout_s)
            try:
                code = _PID.unpack(_received(answers))[0]
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["penstock", *arguments], timeout_s) from None
            output, log = (_content(file) for file in (out, err))
        return subprocess.CompletedProcess(["penstock", *arguments], code, output, log)

    def popen(
        self, *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Starts `penstock ARGUMENTS` in this folder and environment, in a new session."""
        return _WarmProcess(self, arguments, stdout, stderr)

    @property
    def request_descriptor(self) -> int:
        """The socket of the starter. Other processes that inherit it can request runs, too."""
        return self._near.fileno()

    def start_child(self, arguments: tuple[str, ...], out: int, err: int) -> int:
        """Starts a run as a child of this process, and returns its process ID."""
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            with self._request(arguments, out, err, stays=True) as answers:
                pid = int(_PID.unpack(_received(answers))[0])
            while True:  # until the minder has exited
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    return pid
                time.sleep(0.001)
        finally:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _request(self, arguments: tuple[str, ...], out: int, err: int, stays: bool) -> socket.socket:
        """Sends a request. Returns the socket that receives process IDs and the exit code."""
        here = {
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "processors": list(os.sched_getaffinity(0)),
        }
        request = json.dumps({"stays": stays, "run": {"arguments": arguments, **here}})
        answers, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._near, [request.encode()], [theirs.fileno(), out, err])
        return answers


class _WarmProcess(subprocess.Popen[str]):
    """A Popen whose process the starter forks."""

    def __init__(self, warm: WarmCommand, arguments: tuple[str, ...], stdout: int, stderr: int) -> None:
        self._warm, self._arguments = warm, arguments
        nothing, command = subprocess.DEVNULL, ["penstock", *arguments]
        super().__init__(command, stdin=nothing, stdout=stdout, stderr=stderr, text=True)

    def _execute_child(self, *given: Any) -> None:
        """Starts the run. `given[10:16]` are both ends of the pipes for input, output and errors."""
        pipes = given[10:16]
        self.pid = self._warm.start_child(self._arguments, pipes[3], pipes[5])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


_session: list[WarmCommand] = []


def _warm() -> WarmCommand:
    if not _session:
        _session.append(WarmCommand())
    return _session[0]


def close() -> None:
    """Ends the starter of this session."""
    while _session:
        _session.pop().close()


def penstock(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does, but without loading its libraries again."""
    return _warm().run(*arguments, timeout_s=timeout_s)


def popen(
    *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Starts the command as a user does, but without loading its libraries again."""
    return _warm().popen(*arguments, stdout=stdout, stderr=stderr)


def program_in(folder: Path) -> int:
    """Creates a program `penstock` for scripts. Returns a descriptor that scripts must inherit (`pass_fds`).

    Scripts can start it in the background and send signals to it.
    """
    descriptor = _warm().request_descriptor
    command = f"{sys.executable} -IS {Path(__file__).with_name('programs') / 'warm_program.py'} {descriptor}"
    program = folder / "penstock"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return descriptor


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _received(answers: socket.socket) -> bytes:
    """Waits for one number."""
    data = b""
    while len(data) < _PID.size:
        piece = answers.recv(_PID.size - len(data))
        if not piece:
            raise AssertionError("the starter of warm commands exited; the terminal shows its error")
        data += piece
    return data


def _load_everything() -> None:
    """Imports what commands need. None of it starts threads or reads the environment."""
    import penstock

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()  # a garbage collection in a run would write to shared memory, which copies it


def _command(arguments: list[str], folder: str, environment: dict[str, str], processors: list[int]) -> int:
    """Runs the command in this process as a new interpreter would. Returns its exit code."""
    from penstock.cli import main

    os.chdir(folder)
    os.sched_setaffinity(0, processors)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["penstock", *arguments]
    try:
        main()
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            return 1
        return code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _run(run: dict[str, Any], answers: int, out: int, err: int) -> NoReturn:
    """Runs the command in this process, and exits."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in (answers, out, err):
        os.close(descriptor)
    os._exit(_finish(_command(**run)))


def _mind(run: dict[str, Any], answers: int, out: int, err: int) -> NoReturn:
    """Forks a run, sends its process ID and exits."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _run(run, answers, out, err)
    os.write(answers, _PID.pack(pid))
    os._exit(0)


def _finish(code: int) -> int:
    """Does what an interpreter does before it exits. Returns the exit status."""
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code & 0xFF


class _Starter:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, int]] = {}  # by pidfd: process ID, and socket for the exit code

    def serve(self) -> None:
        """Runs until no process can send requests, and all runs have ended."""
        is_open = True
        while is_open or self._running:
            for key, _ in self._selector.select():
                if key.fd != self._requests.fileno():
                    self._send_exit_code(key.fd)
                elif not self._start_one():
                    is_open = False
                    self._selector.unregister(self._requests)

    def _start_one(self) -> bool:
        """Starts a run for the next request. Returns False if there are no more requests."""
        request, files, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES_MAX, 3)
        if not request:
            return False
        wanted = json.loads(request)
        pid = os.fork()
        if pid == 0:
            self._close_descriptors()
            (_mind if wanted["stays"] else _run)(wanted["run"], *files)
        answers, *others = files
        for descriptor in others:
            os.close(descriptor)
        if not wanted["stays"]:
            with contextlib.suppress(BrokenPipeError):
                os.write(answers, _PID.pack(pid))
        ended = os.pidfd_open(pid)
        self._running[ended] = pid, answers
        self._selector.register(ended, selectors.EVENT_READ)
        return True

    def _close_descriptors(self) -> None:
        """Closes, in a new process, the descriptors of the starter."""
        self._requests.close()
        self._selector.close()
        for ended, (_, answers) in self._running.items():
            os.close(ended)
            os.close(answers)

    def _send_exit_code(self, ended: int) -> None:
        pid, answers = self._running.pop(ended)
        self._selector.unregister(ended)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # nobody waits for a minder's
            os.write(answers, _PID.pack(code))
        os.close(answers)


if __name__ == "__main__":
    _load_everything()
    _Starter(socket.socket(fileno=int(sys.argv[1]))).serve()
