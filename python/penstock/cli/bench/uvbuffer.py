"""`penstock bench uvbuffer`"""

from penstock.bench.science.uvbuffer.parameters import UvbufferParameters
from penstock.cli.bench.running import How
from penstock.cli.bench.science import run_parameters, science_command


def _uvbuffer(parameters: UvbufferParameters, how: How) -> None:
    """Measure the buffer of a radio telescope: many files, read five times as fast as they are written.

    A file has ten channels of a snapshot. Writers write snapshots in order of time; readers read blocks of
    them five times, channel by channel; a file is deleted at the end of its life. Each operation has a due
    time, and late ones are counted. The result names the first limit: creates, write bandwidth, opens, read
    bandwidth, deletes, or the directory listings of the job that deletes. The default is 34 MB/s in 64 files
    per second; the full case of the Square Kilometre Array is 7 TB/s, and 10^8 files in 12 hours.
    """
    run_parameters(parameters, how)


uvbuffer_command = science_command(UvbufferParameters, _uvbuffer)
