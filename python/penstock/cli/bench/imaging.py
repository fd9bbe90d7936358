"""`penstock bench imaging`"""

from penstock.bench.science.imaging.parameters import ImagingParameters
from penstock.cli.bench.running import How
from penstock.cli.bench.science import run_parameters, science_command


def _imaging(parameters: ImagingParameters, how: How) -> None:
    """Measure how fast parallel jobs process the frames of one HDF5 file.

    Each job reads, decompresses and processes its frames, and each result is compared with the truth. The
    frames are simulated, once per target; `penstock bench clean` removes them.

    The run is `valid`, `warned` or `invalid`; the table of checks gives the reason. Exit code 4: the run is
    invalid, do not use its metrics; 1: it failed or was interrupted.
    """
    run_parameters(parameters, how)


imaging_command = science_command(ImagingParameters, _imaging)
