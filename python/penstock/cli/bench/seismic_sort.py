"""`penstock bench seismic-sort`"""

from penstock.bench.science.seismic.parameters import SeismicSortParameters
from penstock.cli.bench.running import How
from penstock.cli.bench.science import run_parameters, science_command


def _seismic_sort(parameters: SeismicSortParameters, how: How) -> None:
    """Measure an out-of-core merge sort of seismic traces: SEG-Y in, sorted by CDP and offset, SEG-Y out.

    The file is read in pieces that fit into --memory, which are sorted and written as runs; then the runs are
    merged. Each trace is read twice and written twice. The default is a file of 1 GiB with 256 MiB of memory;
    surveys have terabytes. The unsorted file stays in TARGET for further runs, until `penstock bench clean`.
    The sorted file is compared with it, trace by trace.
    """
    run_parameters(parameters, how)


seismic_sort_command = science_command(SeismicSortParameters, _seismic_sort)
