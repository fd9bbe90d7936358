"""The process of one job: `python -m penstock.bench.science.jobs.worker`.

Its plan is the first line of standard input, then come the words go and stop. The end of standard input is a
stop: it does not outlive the command that started it. What it says are lines on standard output.
"""

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from penstock.bench.science.jobs.job import Job
from penstock.bench.science.jobs.words import GO, STOP, Done, Ended, JobPlan, Ready, Working
from penstock.bench.science.storage.open import storage_for
from penstock.model.errors import PenstockError
from penstock.model.failure import failure_of

# A job whose command is gone returns by itself, or not at all.
_ENDS_WITHIN_S = 10.0
_LOOKS_EVERY_S = 5.0


class _Voice:
    """Standard output, which libraries must not write to: what they print goes to standard error.

    Several threads may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, word: Ready | Working | Done | Ended) -> None:
        with self._lock:
            self._out.write(word.model_dump_json() + "\n")
            self._out.flush()


def _listen(go: threading.Event, job: Job) -> None:
    for line in sys.stdin:
        word, _, at_ns = line.strip().partition(" ")
        if word == GO:
            time.sleep(max(0.0, (int(at_ns) - time.monotonic_ns()) * 1e-9))
            go.set()
        if word == STOP:
            job.stop()
            go.set()  # one that still waits for the start returns, too
    job.stop()
    go.set()
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)


def _show_work(job: Job, voice: _Voice) -> None:
    """Says that there is work where units take long: a file of many gigabytes is copied or compared."""
    before = 0
    while True:
        time.sleep(_LOOKS_EVERY_S)
        if (now := job.storage.counts.pulse()) != before:
            voice.say(Working())
        before = now


def _function(name: str) -> Callable[[Job, dict[str, Any]], dict[str, Any]]:
    module, _, attribute = name.partition(":")
    found: Callable[[Job, dict[str, Any]], dict[str, Any]] = getattr(
        importlib.import_module(module), attribute
    )
    return found


def _ended(job: Job, plan: JobPlan) -> Ended:
    result: dict[str, Any] = {}
    problem, failure, remedy = None, None, ""
    try:
        result = _function(plan.function)(job, plan.parameters)
    except PenstockError as error:
        problem, failure, remedy = str(error), failure_of(error), error.remedy
    except Exception as error:  # whatever a library raises costs this job alone
        problem, failure = f"{type(error).__name__}: {error}", failure_of(error)
    job.close()
    latencies = job.storage.counts.latencies.histogram()
    spent_s = dict(job.spent_s)
    return Ended(
        result=result,
        spent_s=spent_s,
        latencies=latencies,
        problem=problem,
        failure=failure,
        remedy=remedy,
    )


def main() -> int:
    voice = _Voice()
    plan = JobPlan.model_validate_json(sys.stdin.readline())
    go = threading.Event()
    try:
        job = Job(plan.number, storage_for(plan.place), voice.say, go)
    except PenstockError as error:
        voice.say(Ended(problem=str(error), failure=failure_of(error), remedy=error.remedy))
        return 1
    threading.Thread(target=_listen, args=(go, job), daemon=True).start()
    threading.Thread(target=_show_work, args=(job, voice), daemon=True).start()
    ended = _ended(job, plan)
    voice.say(ended)
    return 0 if ended.problem is None else 1


if __name__ == "__main__":
    os._exit(main())  # threads of a client library must not keep it
