"""Checks a series that was recorded: every frame against what was sent, and when it came."""

from pathlib import Path

from penstock.bench.rehearse.chain import SeriesResult, Show
from penstock.bench.rehearse.outcome import Recorded
from penstock.bench.rehearse.request import Images
from penstock.programs.process import LogLine

_CHECK_THREADS = 2


def checked(result: SeriesResult, images: Images, rate_hz: float, show: Show, log: LogLine) -> Recorded:
    """`rate_hz` 0: unpaced. Raises KeyboardInterrupt if a signal ended the check."""
    # They load HDF5, for which no --help should wait.
    from penstock.bench.rehearse.delays import read_delays  # noqa: PLC0415
    from penstock.bench.rehearse.file_throughput import read_throughput  # noqa: PLC0415
    from penstock.programs.check import check_plan, check_to_the_end  # noqa: PLC0415

    path = Path(result.recorded.file)
    delays = read_delays(path, rate_hz) if rate_hz else None
    throughput = None if rate_hz else read_throughput(path)
    report = check_to_the_end(check_plan(path, images.against, _CHECK_THREADS), show, log)
    return Recorded(result, report, delays, throughput)
