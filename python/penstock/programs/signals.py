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


@contextlib.contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does: what was begun is tidied up."""
    if not _is_main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        note_signal()
        raise KeyboardInterrupt(signal.Signals(number).name)

    _Last.at = -math.inf
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # of a job in the background ignored
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
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
