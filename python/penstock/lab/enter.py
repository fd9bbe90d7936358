"""Runs a command where an ordinary user's laboratory is mounted: `python -m penstock.lab.enter PID COMMAND`.

PID: the first process of the laboratory. The network stays the caller's. A PID namespace takes only children,
so this process waits for the command, passes signals on, and exits as the command does.
Sources: setns(2), pid_namespaces(7), sigaction(2).
"""

import ctypes
import os
import select
import signal
import sys
from pathlib import Path
from typing import NoReturn

_KINDS = ("user", "mnt", "pid")
_PR_SET_PDEATHSIG = 1
# SI_KERNEL: the terminal sends it to its foreground group, so that the command has it as well. When the
# terminal closes, SIGHUP goes to the leader of the session alone.
_OF_TERMINAL = 0x80
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter(first: int, command: list[str]) -> int:
    """Returns the exit code, as shells do. This process has one thread, or the kernel refuses.

    Raises OSError.
    """
    folder = Path.cwd()
    for handle in [os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _KINDS]:
        if _LIBC.setns(handle, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the caller may have ignored it: nothing would come then
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    parent = os.pidfd_open(os.getpid())
    child = os.fork()
    if child == 0:
        _become(command, folder, before, parent)
    while True:
        came = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if came.si_signo != signal.SIGCHLD:
            if came.si_code != _OF_TERMINAL or _is_for_leader(came.si_signo):
                os.kill(child, came.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _is_for_leader(number: int) -> bool:
    return number == signal.SIGHUP and os.getsid(0) == os.getpid()


def _become(command: list[str], folder: Path, mask: set[int | signal.Signals], parent: int) -> NoReturn:
    """Ends with its parent. The folder is the caller's, in these mounts."""
    try:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if select.select([parent], [], [], 0)[0]:
            os._exit(127)  # it ended before the call above
        os.chdir(folder)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started in the laboratory: {error}", file=sys.stderr)
    os._exit(127)


if __name__ == "__main__":
    sys.exit(enter(int(sys.argv[1]), sys.argv[2:]))
