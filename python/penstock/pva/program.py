"""What the processes of pvAccess have in common: a plan comes in, signals and the parent's end end them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.plans import Plan
from penstock.model.problems import place_of, words_of

_PARENT_LOOK_S = 0.5
AnyPlan = TypeVar("AnyPlan", bound=Plan)


class Stop:
    """SIGINT, SIGTERM or the end of the parent set `asked`; a second signal `at_once` as well."""

    def __init__(self) -> None:
        self.asked, self.at_once = threading.Event(), threading.Event()

    def take_signals(self) -> None:
        """From now on. For the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self.asked.is_set():
            self.at_once.set()
        self.asked.set()

    def follow(self, pid: int) -> None:
        """Ends with the parent, so that nothing stays behind unseen."""
        threading.Thread(target=self._watch, args=(pid,), daemon=True).start()

    def _watch(self, pid: int) -> None:
        while os.getppid() == pid and not self.asked.is_set():
            time.sleep(_PARENT_LOOK_S)
        self.asked.set()


def say(level: str, text: str) -> None:
    """A line of the log, as native programs write it; `critical` are the last words."""
    print(f"[penstock-pva] [{level}] {' '.join(text.split())}", file=sys.stderr, flush=True)


def run_program(
    description: str | None, kind: type[AnyPlan], work: Callable[[AnyPlan, Stop], list[str]]
) -> int:
    """`--plan -`: `work` on the plan of standard input, until it is done; the exit code.

    What `work` returns is what went wrong, in words.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--plan", required=True, choices=["-"], help="from standard input, as JSON")
    parser.add_argument("--for", dest="parent", type=int, default=0, help="ends with this process")
    options = parser.parse_args()
    stop = Stop()
    stop.take_signals()
    if options.parent:
        stop.follow(options.parent)
    try:
        failures = work(kind.model_validate_json(sys.stdin.buffer.read()), stop)
    except ValidationError as error:
        first = error.errors()[0]
        say("critical", f"the plan cannot be read: {place_of(first)}: {words_of(first, of_json=True)}")
        return ExitCode.USAGE
    except PenstockError as error:
        say("critical", f"{error.message}; {error.remedy}" if error.remedy else error.message)
        return error.code
    except BrokenPipeError:
        return ExitCode.FAILED  # nobody listens any more
    for failure in failures:
        say("error", failure)
    if stop.at_once.is_set():
        os._exit(ExitCode.FAILED)  # threads may still wait for whoever is sent to
    return ExitCode.FAILED if failures else ExitCode.FINE
