"""The parameters of `penstock bench analysis`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.jobs import Job
from penstock.bench.science.duration import Duration, making_s, start_s
from penstock.bench.science.parameters import Jobs, ScienceParameters, Seconds, Seed
from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.units import Size, human_bytes, human_number, human_seconds

Pattern = Literal["scan", "navigate"]
Format = Literal["ttree", "rntuple"]
Compression = Literal["zstd", "zlib", "lz4", "none"]
EVENTS, THROUGHPUT, AMPLIFICATION = "events", "throughput", "read amplification"
BASKET_EVENTS = 1000
STEP_EVENTS = 10 * BASKET_EVENTS
"""of a scan, which are read and compared together"""
VERSION = 2
"""of what is generated and of the truth about it: with another one, data sets are made anew"""
_FEW, _MANY = 2, 16
_FULL_JOBS = 80
"""of the HEPiX storage working group's tests, 2010"""
EVENT_BYTES: dict[str, int] = {"zstd": 375, "zlib": 375, "lz4": 530, "none": 800}
"""of a file, about"""
_PROCESS_BYTES, _SCANNED_BYTES = 150_000_000, 16
"""of memory: of a job, and of an event of which one branch is read"""
_PROCESS_S, _EVENT_S = 1.1, 25e-6
"""of a processor: a job's start, and an event that is made"""


class AnalysisParameters(ScienceParameters):
    """Jobs that process events of ROOT files, as `penstock bench analysis` runs them."""

    DATA_STAYS = True
    SCALED: ClassVar[tuple[str, ...]] = ("file_size", "seconds")
    ROOM = RoomAdvice(
        fewer_bytes="reduce --file-size, --files or --jobs", fewer_files="reduce --files or --jobs"
    )
    SPACE = "the files, unless an earlier run made them"

    jobs: Jobs = Field(2, description="number of jobs (processes) that work at the same time")
    pattern: Annotated[Pattern, Cli(panel=panels.WORKLOAD)] = Field(
        "scan",
        description="access: scan reads a few branches of all events in order; navigate reads one branch,"
        " then jumps to selected events and reads other branches of these",
    )
    seconds: Seconds = Field(20.0, description="duration in seconds, from the common start of all jobs")
    files: Annotated[int, Cli(panel=panels.WORKLOAD), Field(ge=1, le=1000)] = Field(
        1, description="number of files of each job; it reads them again until it is stopped"
    )
    file_size: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        20_000_000, ge=1_000_000, le=100_000_000_000, description="approximate size of a file"
    )
    format: Annotated[Format, Cli(panel=panels.WORKLOAD)] = Field(
        "ttree",
        description="format of the events: ttree, or rntuple, of which uproot reads one page at a time",
    )
    compression: Annotated[Compression, Cli(panel=panels.WORKLOAD)] = Field(
        "zstd", description="compression of the files"
    )
    read_ahead: Annotated[Size, Cli(panel=panels.ACCESS)] = Field(
        0, le=1 << 30, description="fewest bytes that the client fetches at once; 0: as many as requested"
    )
    vector_reads: Annotated[bool, Cli("--vector-reads/--no-vector-reads", panel=panels.ACCESS)] = Field(
        True, description="request several parts of a file at once, and merge neighbouring ones"
    )
    seed: Seed = Field(1, description="seed of the events")

    @property
    def events(self) -> int:
        """Of a file: whole baskets."""
        wanted = self.file_size / EVENT_BYTES[self.compression]
        return BASKET_EVENTS * max(1, round(wanted / BASKET_EVENTS))

    @property
    def jobs_of_set(self) -> int:
        """Jobs whose files are one data set, so that runs with more jobs find those of fewer."""
        return _FEW if self.jobs <= _MANY else _MANY

    @property
    def files_made(self) -> int:
        """Of whole data sets."""
        return -(-self.jobs // self.jobs_of_set) * self.jobs_of_set * self.files

    def job(self) -> Job:
        from penstock.bench.science.analysis.run import run_analysis  # noqa: PLC0415

        return Job(
            workload="analysis",
            bytes=self.files_made * self.file_size,
            files=self.files_made + 3 * self.jobs,
            paced_s=self.duration().run_s,
            moved_bytes=0,
            making_s=self.duration().making_s,
            data_stays=True,
            run=lambda folder, telling: run_analysis(self, folder, telling),
            require=self.require_memory,
        )

    def memory_bytes(self) -> int:
        """Navigation has one branch of all events of a file at once."""
        return self.jobs * (
            _PROCESS_BYTES + (_SCANNED_BYTES * self.events if self.pattern == "navigate" else 0)
        )

    def values(self) -> list[str]:
        return [EVENTS, THROUGHPUT, AMPLIFICATION]

    def plan_rows(self) -> dict[str, str]:
        times = human_number(_FULL_JOBS / self.jobs)
        return {
            "jobs": f"{self.jobs}, each a process with its own files",
            "files": f"{self.files_made} of about {human_bytes(self.file_size)}, {self.events} events each,"
            f" {self.format}; they stay for further runs (`penstock bench clean` removes them)",
            "access": f"{self.pattern}, for {human_seconds(self.seconds)}",
            "full case": f"{_FULL_JOBS} jobs on 10 nodes: {times} times the jobs",
        }

    def duration(self) -> Duration:
        made = self.files_made * self.events * _EVENT_S
        making = making_s(made, self.files_made, _PROCESS_S)
        return Duration(self.seconds, start_s(self.jobs, _PROCESS_S), making)
