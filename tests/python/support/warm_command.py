"""Runs `penstock` many times, loading its libraries once: each run is a fork of a process that has them.

A start of the command costs a third of a second of processor time, nearly all of it imports. A test that is
about starting itself (signals, environments, what an installed command loads) starts a process of its own.

One process (the starter) waits for requests on a socket; for each it forks a minder, which forks the run,
waits for it and tells how it ended. So runs can overlap, and the starter never waits. The minder of a run
that stays (`popen`) does not wait but ends: the run then is a child of the process that asked for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

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


def _mind(request: bytes, answers: int, out: int, err: int) -> None:
    """Forks the run, tells its process and, unless it stays, how it ended."""
    asked = json.loads(request)
    pid = os.fork()
    if pid == 0:
        if asked["stays"]:
            os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        for descriptor in (answers, out, err):
            os.close(descriptor)
        os._exit(_ended(_command(**asked["run"])))
    os.write(answers, _PID.pack(pid))
    if asked["stays"]:
        return
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(answers, _PID.pack(code))


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


def _serve(requests: socket.socket) -> None:
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # minders that have ended
                pass
        request, files, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, 3)
        if not request:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, 0)[0]:
                    pass
            return
        if os.fork() == 0:
            requests.close()
            _mind(request, *files)
            os._exit(0)
        for descriptor in files:
            os.close(descriptor)


if __name__ == "__main__":
    _load_everything()
    _serve(socket.socket(fileno=int(sys.argv[1])))
