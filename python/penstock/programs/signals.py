"""What SIGINT and SIGTERM do to a command of this process. For the main thread; elsewhere nothing changes."""

import contextlib
import signal
import threading
from collections.abc import Iterator


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

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.SIGTERM.name)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
