"""`penstock bench analysis`"""

from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.analysis.run import require_possible
from penstock.cli.bench.running import How
from penstock.cli.bench.science import run_parameters, science_command


def _analysis(parameters: AnalysisParameters, how: How) -> None:
    """Measure event analysis in events per minute: jobs read ROOT files with uproot.

    The files are made once per target. All jobs start together, and stop together. Their results are
    compared with the generated truth. Exit code 4: the run is invalid, do not use its metrics; 1: it failed
    or was interrupted.
    """
    require_possible(how.place)
    run_parameters(parameters, how)


analysis_command = science_command(AnalysisParameters, _analysis)
