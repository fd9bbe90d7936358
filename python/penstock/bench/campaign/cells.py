"""One run of a campaign on a storage, in this process, or in one inside of a laboratory without root."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from penstock.bench.campaign.faults import FaultsOfRun
from penstock.bench.data.folder import require_room, require_target
from penstock.bench.data.remote_folder import make_folder
from penstock.bench.run.jobs import Job
from penstock.bench.run.parameters import WorkloadParameters
from penstock.bench.run.run import Telling
from penstock.bench.statistics.profile import profiled
from penstock.model.bench.fault_schedules import Fault
from penstock.model.bench.runs import Run
from penstock.model.errors import ExitCode, InterruptedRunError, PenstockError
from penstock.model.events import LoadProgress
from penstock.model.storage_url import Place
from penstock.programs.logs import LOGS
from penstock.programs.process import forwarding_signals
from penstock.programs.signals import signals_blocked

WORKER = "penstock.bench.campaign.worker"
Trouble = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """What is run: on which storage, with which faults of the laboratory that it belongs to."""

    job: Job
    place: Place
    laboratory: str
    faults: list[Fault]
    profile: bool

    def run(self, telling: Telling, trouble: Trouble) -> Run:
        """A folder that cannot be removed after the run costs no figures."""
        run = None
        try:
            if isinstance(self.place, Path):
                require_target(self.place)
                require_room(self.place, self.job.bytes, self.job.files)
            with make_folder(self.place, needed_bytes=self.job.bytes) as folder:
                faults = FaultsOfRun(self.laboratory, self.faults)
                run = profiled(self.profile, lambda: faults.run(self.job, folder, telling, trouble), trouble)
        except InterruptedRunError:
            raise
        except (PenstockError, OSError) as error:
            if run is None:
                raise
            trouble(str(error))
        return run


class CellRequest(BaseModel):
    """A cell for a process inside: it makes the job itself, from the parameters of the workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str
    parameters: str
    """JSON"""
    path: Path
    laboratory: str
    faults: list[Fault]
    profile: bool
    verbose: bool


class CellWord(BaseModel):
    """A line of the process inside; one field is set."""

    progress: LoadProgress | None = None
    begins: bool = False
    log: str | None = None
    trouble: str | None = None
    run: Run | None = None
    problem: str | None = None
    remedy: str = ""
    interrupted: bool = False


def run_inside(
    inside: Sequence[str],
    cell: Cell,
    workload: str,
    parameters: WorkloadParameters,
    telling: Telling,
    trouble: Trouble,
) -> Run:
    """The same as `cell.run`, by a process behind the prefix `inside`. Signals go to it."""
    request = CellRequest(
        workload=workload,
        parameters=parameters.model_dump_json(),
        path=Path(str(cell.place)),
        laboratory=cell.laboratory,
        faults=cell.faults,
        profile=cell.profile,
        verbose=LOGS.verbose,
    )
    command = [*inside, sys.executable, "-m", WORKER]
    with signals_blocked():
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
    signalled = _Signalled(worker)
    with worker, forwarding_signals(signalled):
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # its exit code says why
            worker.stdin.write(request.model_dump_json())
            worker.stdin.close()
        run = _result(worker, telling, trouble)
    if run is not None:
        return run
    if signalled.came:  # before it could say so
        raise InterruptedRunError("the run was interrupted")
    raise PenstockError(
        f"the process inside of the laboratory ended without a result (exit code {worker.returncode})",
        "the laboratory ended, or see the messages above",
        ExitCode.FAILED,
    )


@dataclass
class _Signalled:
    process: "subprocess.Popen[str]"
    came: bool = False

    def signal(self, number: int) -> None:
        self.came = True
        self.process.send_signal(number)


def _result(worker: "subprocess.Popen[str]", telling: Telling, trouble: Trouble) -> Run | None:
    """None: it ended without a result."""
    assert worker.stdout is not None
    for line in worker.stdout:
        word = CellWord.model_validate_json(line)
        if word.run is not None:
            return word.run
        if word.interrupted:
            raise InterruptedRunError("the run was interrupted")
        if word.problem is not None:
            raise PenstockError(word.problem, word.remedy)
        _tell(word, telling, trouble)
    worker.wait()
    return None


def _tell(word: CellWord, telling: Telling, trouble: Trouble) -> None:
    if word.progress is not None:
        telling.progress(word.progress)
    if word.begins:
        telling.begins()
    if word.log is not None:
        telling.log(word.log)
    if word.trouble is not None:
        trouble(word.trouble)
