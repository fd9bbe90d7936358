"""What SIGINT and SIGTERM do to a command of this process. For the main thread; elsewhere nothing changes."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator


class _Last:
    """When the last signal came that asks this process to end."""

    at = -math.inf


def note_signal() -> None:
    """To be called by all that such a signal runs."""
    _Last.at = time.monotonic()


def came_since(began: float) -> bool:
    """Returns whether one came after that moment of the monotonic clock, though a program got it too late."""
    return _Last.at > began


def seconds_since_signal() -> float:
    """Returns a negative number if none came since the command began."""
    return time.monotonic() - _Last.at if math.isfinite(_Last.at) else -math.inf


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def signal_of(interrupt: BaseException) -> str:
    """The name of the signal that a KeyboardInterrupt stands for."""
    return str(interrupt.args[0]) if interrupt.args else signal.SIGINT.name


_held: list[signal.Signals] = []
"""signals that came before the command could handle them"""


def hold_signals() -> None:
    """Keeps a SIGINT or SIGTERM until a command, which may still be loading, starts. A second one ends it.

    A program may start with both blocked, so that neither arrives before this call; they arrive now.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hold)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """A Python program that is started meanwhile gets SIGINT and SIGTERM in hold_signals(), and none before.

    An interrupt that comes while it loads modules may be lost: importlib ignores exceptions in its callbacks.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold(number: int, _frame: object) -> None:
    note_signal()  # a write that waits for its reader gives up then
    if _held:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    _held.append(signal.Signals(number))


@contextlib.contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and a held signal raise KeyboardInterrupt, as SIGINT does, so that the command cleans up."""
    if not _is_main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        note_signal()
        raise KeyboardInterrupt(signal.Signals(number).name)

    _Last.at = -math.inf
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _hold):  # ignored in a background job
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        if _held:
            interrupt(_held.pop(), None)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """SIGINT and SIGTERM come at its end, and find what was made in a state that can be removed.

    A second one comes at once: storage that hangs shall not hold whoever asks again.
    """
    if not _is_main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        note_signal()
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)
