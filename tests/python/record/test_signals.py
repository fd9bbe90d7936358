"""A signal that does not wake this process up is passed on all the same."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from penstock.client import Series
from penstock.programs.signals import signals_later

# The main thread lets no SIGTERM in, so that another thread takes it: it is noted, and wakes nobody. The
# same happens to a signal that comes in the moment before a thread goes to sleep.
PROGRAM = """
import os, signal, sys
from penstock.model.configuration import Configuration
from penstock.model.events import Listening
from penstock.programs.record import record

def tell(event):
    if isinstance(event, Listening):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print(*event.sources, flush=True)

chosen = Configuration.model_validate(
    {"folder": sys.argv[1], "pool_bytes": "64MiB", "sources": [{"kind": "tcp", "listen": "127.0.0.1:0"}]}
)
record(chosen.plan(os.environ), tell)
"""


def test_a_signal_that_wakes_nobody_is_passed_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("tcp://")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_command_that_its_user_stopped_holds_up_no_series(tmp_path: Path) -> None:
    """As with Ctrl-Z. The events and log lines of this many series do not fit into the pipes."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    image = numpy.zeros((4, 4), "uint16")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            process.send_signal(signal.SIGSTOP)
            for number in range(100):
                name = f"{number:0200d}"
                with Series(
                    address, dtype="uint16", shape=(4, 4), name=name, frames=1, close_timeout=60
                ) as series:
                    series.send(image)
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert len(list(tmp_path.glob("*.h5"))) == 100


@pytest.fixture(autouse=True)
def as_on_a_terminal() -> Iterator[None]:
    """A job in the background begins with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_is_made_is_made_before_a_signal_comes() -> None:
    made: list[str] = []

    def make() -> None:
        with signals_later():
            signal.raise_signal(signal.SIGINT)
            made.append("whole")
        made.append("never reached")

    with pytest.raises(KeyboardInterrupt):
        make()
    assert made == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_does_not_wait() -> None:
    made: list[str] = []

    def make() -> None:
        with signals_later():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            made.append("never reached")

    with pytest.raises(KeyboardInterrupt):
        make()
    assert made == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_simulate_ends_while_it_waits_for_an_answer(free_port: int) -> None:
    """The receiver accepts the connection and stays silent."""
    with socket.create_server(("127.0.0.1", free_port)) as silent:
        command = [sys.executable, "-m", "penstock", "simulate", "custom", "--rows", "16", "--columns", "16"]
        command += ["--to", f"tcp://127.0.0.1:{free_port}", "--connect-timeout", "600"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                silent.settimeout(60)
                with silent.accept()[0]:
                    process.send_signal(signal.SIGINT)
                    _, log = process.communicate(timeout=60)
            finally:
                process.kill()
    assert process.returncode == 1
    assert "stopped before the series started" in log
