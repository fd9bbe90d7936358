"""Makes one run of a campaign inside of a laboratory: `python -m penstock.bench.campaign.worker`.

Its input is a CellRequest, its output are lines with a CellWord each. It is started with signals blocked.
"""

import sys

from penstock.bench.campaign.cells import Cell, CellRequest, CellWord
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import WORKLOADS
from penstock.model.errors import InterruptedRunError, PenstockError
from penstock.programs.logs import LOGS
from penstock.programs.signals import ending_like_ctrl_c, hold_signals


def _say(word: CellWord) -> None:
    sys.stdout.write(word.model_dump_json() + "\n")
    sys.stdout.flush()


def _trouble(text: str) -> None:
    _say(CellWord(trouble=text))


def cell_of(request: CellRequest) -> Cell:
    job = WORKLOADS[request.workload].model_validate_json(request.parameters).job()
    assert isinstance(job, Job)
    return Cell(job, request.path, request.laboratory, request.faults, request.profile)


def main() -> int:
    hold_signals()
    request = CellRequest.model_validate_json(sys.stdin.read())
    LOGS.verbose = request.verbose
    telling = Telling(
        progress=lambda progress: _say(CellWord(progress=progress)),
        log=lambda line: _say(CellWord(log=line)),
        begins=lambda: _say(CellWord(begins=True)),
    )
    try:
        with ending_like_ctrl_c():
            _say(CellWord(run=cell_of(request).run(telling, _trouble)))
    except (InterruptedRunError, KeyboardInterrupt):
        _say(CellWord(interrupted=True))
    except PenstockError as error:
        _say(CellWord(problem=error.message, remedy=error.remedy))
    except OSError as error:
        _say(CellWord(problem=str(error)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
