"""What the parameters of all workloads of the sciences have in common."""

from typing import Annotated, ClassVar

from pydantic import Field

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.jobs import Job
from penstock.bench.run.parameters import WorkloadParameters
from penstock.bench.science.duration import Duration
from penstock.bench.science.machine import available_memory_bytes
from penstock.model import panels
from penstock.model.bench.science import ScienceName, ScienceWorkload
from penstock.model.cli_option import Cli
from penstock.model.errors import UsageError
from penstock.model.units import human_bytes

JOBS_MAX = 1024
Jobs = Annotated[int, Cli(panel=panels.WORKLOAD), Field(ge=1, le=JOBS_MAX)]
Seconds = Annotated[float, Cli(panel=panels.WORKLOAD), Field(ge=0.1, le=86400)]
Seed = Annotated[int, Cli(panel=panels.WORKLOAD), Field(ge=0, le=2**32 - 1)]


class ScienceParameters(WorkloadParameters):
    """Of one workload. `job` returns what runs it, and what that takes.

    MOUNTED: it needs a mounted file system, and takes no URL. DATA_STAYS: it makes a data set, which stays.
    ROOM: what a user can do if the target has too little space.
    SPACE: what takes the space.
    LESS_MEMORY: what a user can do if the machine has too little memory.
    """

    MOUNTED: ClassVar[bool] = False
    ROOM: ClassVar[RoomAdvice]
    SPACE: ClassVar[str]
    LESS_MEMORY: ClassVar[str] = "use fewer --jobs"
    DATA_STAYS: ClassVar[bool] = False

    def job(self) -> Job:
        raise NotImplementedError

    def plan_rows(self) -> dict[str, str]:
        """What a run will do, for people: sizes, files, rates."""
        raise NotImplementedError

    def duration(self) -> Duration:
        raise NotImplementedError

    def memory_bytes(self) -> int:
        """What all processes of a run take, about."""
        raise NotImplementedError

    def require_memory(self) -> None:
        """Raises UsageError if this machine has less: a run that swaps measures nothing, or ends early."""
        needed, there = self.memory_bytes(), available_memory_bytes()
        if there is not None and needed > there:
            raise UsageError(
                f"the jobs need about {human_bytes(needed)} of memory, and {human_bytes(there)} is available",
                self.LESS_MEMORY,
            )

    def time_row(self) -> dict[str, str]:
        return {"time": self.duration().text()}

    def space_row(self, job: Job) -> dict[str, str]:
        return {"space": f"{human_bytes(job.bytes)} at most: {self.SPACE}"}

    def workload(self, name: ScienceName, jobs: int) -> ScienceWorkload:
        """What documents have of these parameters."""
        given = {key: value for key, value in self.model_dump(mode="json").items() if value is not None}
        given.pop("jobs", None)
        return ScienceWorkload(name=name, jobs=jobs, parameters=given)
