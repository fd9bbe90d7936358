"""`penstock` in scripts of tests: requests a run from the starter of warm_command.py, and exits as it does.

Arguments: the descriptor for requests, then those of the command. It imports little, because it is started
instead of the command to save the time for imports.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import sys

_PID = struct.Struct("=i")
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    """Returns the exit code of the run, negative after a signal."""
    run = {
        "arguments": sys.argv[2:],
        "folder": os.getcwd(),  # noqa: PTH109  (pathlib would take as long as the rest)
        "environment": dict(os.environ),
        "processors": list(os.sched_getaffinity(0)),
    }
    starter = socket.socket(fileno=int(sys.argv[1]))
    answers, theirs = socket.socketpair()
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    request = json.dumps({"stays": False, "run": run}).encode()
    socket.send_fds(starter, [request], [theirs.fileno(), sys.stdout.fileno(), sys.stderr.fileno()])
    theirs.close()
    pid = _PID.unpack(answers.recv(_PID.size))[0]
    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:  # a shell's background job ignores SIGINT
            signal.signal(number, lambda number, _: _signal(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    code: int = _PID.unpack(answers.recv(_PID.size))[0]
    return code


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended; its exit code is on its way
        os.kill(pid, number)


if __name__ == "__main__":
    ended = main()
    if ended < 0:
        signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    sys.exit(ended)
