"""Runs `penstock` many times, loading its libraries once: each run is a fork of a process that has them.

A start of the command costs a third of a second of processor time, nearly all of it imports. A test that is
about starting itself (signals, environments, what an installed command loads) starts a process of its own.

One process (the starter) waits for requests on a socket; for each it forks the run, and tells how it ended.
So runs can overlap. A run that stays (`popen`) is forked by a minder, which ends at once: the run then is a
child of the process that asked for it. A fork takes some ten milliseconds, as much as many a run itself.
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
    """Starts runs of the command; one a test session and process."""

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
        """As `penstock ARGUMENTS`, in this folder and environment; TimeoutExpired after the time."""
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            self._asked(arguments, out.fileno(), err.fileno(), stays=False) as answers,
        ):
            pid = _PID.unpack(_exactly(answers))[0]
            answers.settimeout(timeout_s)
            try:
                code = _PID.unpack(_exactly(answers))[0]
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["penstock", *arguments], timeout_s) from None
            said, problem = (_whole(file) for file in (out, err))
        return subprocess.CompletedProcess(["penstock", *arguments], code, said, problem)

    def popen(
        self, *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """`penstock ARGUMENTS`, in this folder and environment and a session of its own."""
        return _Staying(self, arguments, stdout, stderr)

    @property
    def asking(self) -> int:
        """The descriptor that requests go through. Other processes that have it may ask as well."""
        return self._near.fileno()

    def start_child(self, arguments: tuple[str, ...], out: int, err: int) -> int:
        """Starts a run as a child of this process; returns its process ID."""
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            with self._asked(arguments, out, err, stays=True) as answers:
                pid = int(_PID.unpack(_exactly(answers))[0])
            while True:  # until its minder has ended
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    return pid
                time.sleep(0.001)
        finally:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _asked(self, arguments: tuple[str, ...], out: int, err: int, stays: bool) -> socket.socket:
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


class _Staying(subprocess.Popen[str]):
    """Everything of Popen but how the process comes about."""

    def __init__(self, warm: WarmCommand, arguments: tuple[str, ...], stdout: int, stderr: int) -> None:
        self._warm, self._arguments = warm, arguments
        nothing, command = subprocess.DEVNULL, ["penstock", *arguments]
        super().__init__(command, stdin=nothing, stdout=stdout, stderr=stderr, text=True)

    def _execute_child(self, *given: Any) -> None:
        """The last but few arguments are both ends of the pipes: input, output, errors."""
        pipes = given[10:16]
        self.pid = self._warm.start_child(self._arguments, pipes[3], pipes[5])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


_of_this_session: list[WarmCommand] = []


def _warm() -> WarmCommand:
    if not _of_this_session:
        _of_this_session.append(WarmCommand())
    return _of_this_session[0]


def close() -> None:
    """Ends the starter of this session."""
    while _of_this_session:
        _of_this_session.pop().close()


def penstock(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does, but for the time in which it loads its libraries."""
    return _warm().run(*arguments, timeout_s=timeout_s)


def popen(
    *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Starts the command as a user does, but for the time in which it loads its libraries."""
    return _warm().popen(*arguments, stdout=stdout, stderr=stderr)


def program_in(folder: Path) -> int:
    """Makes a `penstock` for scripts; returns a descriptor that the script must inherit (`pass_fds`).

    A script may start it in the background and send it signals.
    """
    asking = _warm().asking
    asks = f"{sys.executable} -IS {Path(__file__).with_name('programs') / 'warm_program.py'} {asking}"
    program = folder / "penstock"
    program.write_text(f'#!/bin/sh\nexec {asks} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return asking


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _exactly(answers: socket.socket) -> bytes:
    data = b""
    while len(data) < _PID.size:
        piece = answers.recv(_PID.size - len(data))
        if not piece:
            raise AssertionError("the starter of warm commands ended; its error is on the terminal")
        data += piece
    return data


def _load_everything() -> None:
    """All that any command loads; nothing of it starts threads or looks at the environment."""
    import penstock

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()  # a collection in a run would write to, and so copy, the memory of all that is loaded


def _command(arguments: list[str], folder: str, environment: dict[str, str], processors: list[int]) -> int:
    """Runs the command in this process, as a new interpreter would."""
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
    """Runs the command in this process, and ends it."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in (answers, out, err):
        os.close(descriptor)
    os._exit(_ended(_command(**run)))


def _mind(run: dict[str, Any], answers: int, out: int, err: int) -> NoReturn:
    """Forks a run that stays, tells its process and ends."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _run(run, answers, out, err)
    os.write(answers, _PID.pack(pid))
    os._exit(0)


def _ended(code: int) -> int:
    """What an interpreter does at its end."""
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
        self._running: dict[int, tuple[int, int]] = {}  # by its pidfd: a process, and where its end is told

    def serve(self) -> None:
        """Until nobody can ask for a run, and all have ended."""
        is_asked = True
        while is_asked or self._running:
            for key, _ in self._selector.select():
                if key.fd != self._requests.fileno():
                    self._tell_end(key.fd)
                elif not self._start_one():
                    is_asked = False
                    self._selector.unregister(self._requests)

    def _start_one(self) -> bool:
        request, files, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES_MAX, 3)
        if not request:
            return False
        asked = json.loads(request)
        pid = os.fork()
        if pid == 0:
            self._let_go()
            (_mind if asked["stays"] else _run)(asked["run"], *files)
        answers, *others = files
        for descriptor in others:
            os.close(descriptor)
        if not asked["stays"]:
            with contextlib.suppress(BrokenPipeError):
                os.write(answers, _PID.pack(pid))
        ended = os.pidfd_open(pid)
        self._running[ended] = pid, answers
        self._selector.register(ended, selectors.EVENT_READ)
        return True

    def _let_go(self) -> None:
        """Closes what is not of a new process."""
        self._requests.close()
        self._selector.close()
        for ended, (_, answers) in self._running.items():
            os.close(ended)
            os.close(answers)

    def _tell_end(self, ended: int) -> None:
        pid, answers = self._running.pop(ended)
        self._selector.unregister(ended)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # nobody listens to a minder's
            os.write(answers, _PID.pack(code))
        os.close(answers)


if __name__ == "__main__":
    _load_everything()
    _Starter(socket.socket(fileno=int(sys.argv[1]))).serve()
