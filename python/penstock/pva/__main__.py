"""`python -m penstock.pva --plan -`: a plan (penstock.model.pva) in, events out, as the native programs."""

import sys
import time

from penstock.model.events import Event
from penstock.model.pva import PvaPlan
from penstock.pva.program import Stop, run_program
from penstock.pva.source import run_source


def _report(event: Event) -> None:
    event.time = time.time()
    sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()


def _work(plan: PvaPlan, stop: Stop) -> list[str]:
    return run_source(plan, _report, stop.asked, stop.at_once)


if __name__ == "__main__":
    sys.exit(run_program(__doc__, PvaPlan, _work))
