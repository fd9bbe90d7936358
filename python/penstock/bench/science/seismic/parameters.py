"""The parameters of `penstock bench seismic-sort`."""

from typing import Annotated, Self

from pydantic import Field

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.jobs import Job
from penstock.bench.science.duration import GUESSED_BYTES_PER_S, Duration, making_s, start_s
from penstock.bench.science.parameters import ScienceParameters, Seed
from penstock.bench.science.seismic.plan import SortPlan, sort_plan
from penstock.bench.science.seismic.run import SortRequest, require_scratch, run_sort
from penstock.bench.science.seismic.survey import Survey, survey_of
from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.units import Size, human_bytes, human_size

_MIB = 1 << 20
_PROCESS_S, _MADE_BYTE_S, _SORTED_BYTE_S, _CHECKED_BYTE_S = 0.7, 7e-9, 5e-9, 1.5e-9
"""of a processor: the job's start, and a byte that is made, sorted or compared"""
_PROCESS_BYTES = 60_000_000
"""of memory, without that of the sort"""
SAMPLES_MAX, MEMORY_MIN = 1 << 15, 4 * _MIB


class SeismicSortParameters(ScienceParameters):
    """Traces of a SEG-Y file, sorted out of core."""

    SCALED = ("size", "memory")
    MOUNTED = True
    ROOM = RoomAdvice(fewer_bytes="reduce --size", fewer_files="reduce --size, or use more --memory")
    SPACE = "the SEG-Y file, its sorted runs, and each sorted file"
    DATA_STAYS = True
    LESS_MEMORY = "reduce --memory"

    size: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        1 << 30, ge=1, le=1 << 50, description="approximate size of the SEG-Y file, which has whole shots"
    )
    memory: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        256 * _MIB,
        ge=MEMORY_MIN,
        le=1 << 40,
        description="memory that the sort may use, without that of the program itself",
    )
    samples: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        1500, ge=16, le=SAMPLES_MAX - 1, description="number of samples of a trace, of 4 bytes each"
    )
    scratch: Annotated[
        str | None,
        Cli(panel=panels.WORKLOAD, metavar="TARGET2", default="TARGET"),
    ] = Field(
        None,
        description="directory on a second storage, `lab:NAME`, or `$VARIABLE`: the file is sorted a second"
        " time with its sorted runs there, and the gain is reported",
    )
    seed: Seed = Field(1, description="seed of the traces")

    @property
    def survey(self) -> Survey:
        return survey_of(self.size, self.samples, self.seed)

    @property
    def plan(self) -> SortPlan:
        return sort_plan(self.survey.traces, self.samples, self.memory)

    def scaled(self, factor: float) -> Self:
        scaled = super().scaled(factor)
        return scaled.model_copy(update={"memory": max(MEMORY_MIN, scaled.memory)})

    def job(self) -> Job:
        survey, plan = self.survey, self.plan
        sorts = 1 if self.scratch is None else 2
        moved = survey.bytes * (6 * sorts)
        request = SortRequest(survey, plan, self.scratch, self.workload("seismic-sort", 1))
        return Job(
            workload="seismic-sort",
            bytes=survey.bytes * (2 + sorts),
            files=plan.runs + sorts + 1,
            paced_s=max(0.0, self.duration().run_s - moved / GUESSED_BYTES_PER_S),
            moved_bytes=moved,
            making_s=self.duration().making_s,
            data_stays=True,
            run=lambda folder, telling: run_sort(request, folder, telling),
            require=lambda: self._require(request),
        )

    def _require(self, request: SortRequest) -> None:
        self.require_memory()
        require_scratch(request)

    def memory_bytes(self) -> int:
        return self.memory + _PROCESS_BYTES

    def values(self) -> list[str]:
        of_tier = ["traces (scratch)", "throughput (scratch)", "gain"]
        own = ["traces", "throughput", "run generation", "merge", "peak memory"]
        return own if self.scratch is None else [*own, *of_tier]

    def derived(self) -> list[str]:
        return [] if self.scratch is None else ["gain with bring-up"]

    def plan_rows(self) -> dict[str, str]:
        survey, plan = self.survey, self.plan
        size = f"{survey.traces} traces of {self.samples} samples, {human_bytes(survey.bytes)}"
        runs = f"{plan.runs} of at most {plan.run_traces} traces"
        rows = {"SEG-Y file": size, "memory": human_size(self.memory), "sorted runs": runs}
        rows["size / memory"] = f"{survey.bytes / self.memory:.1f}"
        if self.scratch is not None:
            rows["scratch"] = f"{self.scratch}; one sort has its runs in the target, one there; random order"
        return rows

    def duration(self) -> Duration:
        """A sort reads and writes each trace twice; all is read before a second sort, and at the end.

        Writes do not wait for memory.
        """
        sorts, total = 1 if self.scratch is None else 2, self.survey.bytes
        work = sorts * total * max(4 / GUESSED_BYTES_PER_S, _SORTED_BYTE_S)
        checks = 2 * sorts * total * max(1 / GUESSED_BYTES_PER_S, _CHECKED_BYTE_S)
        making = making_s(total * _MADE_BYTE_S, 1, _PROCESS_S)
        return Duration(work, start_s(1, _PROCESS_S) + checks, making, is_storage_bound=True)
