"""`penstock bench acquire-and-analyse`"""

from dataclasses import dataclass

from penstock.bench.science.acquire.parameters import AcquireParameters
from penstock.cli.bench.running import How
from penstock.cli.bench.science import how_table, run_parameters
from penstock.cli.common import reports_errors
from penstock.cli.detector_choice import DetectorName
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import shows_progress


@dataclass(frozen=True)
class _Recorded:
    detector: DetectorName


def _acquire(how: How, recorded: _Recorded, parameters: AcquireParameters) -> None:
    """Record at a detector's rate beside a growing number of analysis jobs, until a frame is lost or late.

    The recorder and the jobs run on this machine; each frame is checked. The result is the largest number of
    jobs that the recording sustains, and by how much each slows the other down. Exit code 4: the run is
    invalid, do not use its metrics; 1: it failed or was interrupted.
    """
    run_parameters(parameters.model_copy(update={"detector": recorded.detector}), how)


acquire_command = reports_errors(
    shows_progress(
        command_of(
            _acquire,
            how_table(AcquireParameters),
            DataclassTable(_Recorded),
            ModelTable(AcquireParameters, detector=""),
        )
    )
)
