"""`python -m penstock.pva --plan -`: a plan (penstock.model.pva) in, events out, as the native programs."""

import argparse
import os
import signal
import sys
import threading
import time

from pydantic import ValidationError

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import Event
from penstock.model.problems import place_of, words_of
from penstock.model.pva import PvaPlan
from penstock.pva.source import run_source

_PARENT_LOOK_S = 0.5


def _report(event: Event) -> None:
    event.time = time.time()
    sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()


def _critical(text: str) -> None:
    # As the native programs' logs: their last words.
    print(f"[penstock-pva] [critical] {' '.join(text.splitlines())}", file=sys.stderr, flush=True)


def _watch_parent(pid: int, stop: threading.Event) -> None:
    while os.getppid() == pid and not stop.is_set():
        time.sleep(_PARENT_LOOK_S)
    stop.set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, choices=["-"], help="from standard input, as JSON")
    parser.add_argument("--for", dest="parent", type=int, default=0, help="ends with this process")
    options = parser.parse_args()
    stop, stop_at_once = threading.Event(), threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        if stop.is_set():
            stop_at_once.set()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    if options.parent:
        threading.Thread(target=_watch_parent, args=(options.parent, stop), daemon=True).start()
    try:
        failures = run_source(
            PvaPlan.model_validate_json(sys.stdin.buffer.read()), _report, stop, stop_at_once
        )
    except ValidationError as error:
        first = error.errors()[0]
        _critical(f"the plan is not understood: {place_of(first)}: {words_of(first)}")
        return ExitCode.USAGE
    except PenstockError as error:
        _critical(f"{error.message}; {error.remedy}" if error.remedy else error.message)
        return error.code
    except BrokenPipeError:
        return ExitCode.FAILED  # nobody listens any more
    for failure in failures:
        print(f"[penstock-pva] [error] {failure}", file=sys.stderr, flush=True)
    if stop_at_once.is_set():
        os._exit(ExitCode.FAILED)  # threads may still wait for the recorder
    return ExitCode.FAILED if failures else ExitCode.FINE


if __name__ == "__main__":
    sys.exit(main())
