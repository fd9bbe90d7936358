"""The parameters of `penstock bench acquire-and-analyse`."""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.data.images import PixelType
from penstock.bench.rehearse.request import Images, RehearsalRequest
from penstock.bench.run.jobs import Job
from penstock.bench.science.acquire.search import RUNS_OF_AN_END
from penstock.bench.science.duration import Duration, start_s
from penstock.bench.science.parameters import Jobs, ScienceParameters, Seconds
from penstock.model import panels
from penstock.model.catalogue import CUSTOM, Detector, custom_detector, detector_named
from penstock.model.cli_option import Cli
from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.text import counted
from penstock.model.units import human_hz, human_seconds
from penstock.programs.locate import detectors_folder

NAME = "acquire-and-analyse"
JOBS, ALONE, BESIDE = "jobs", "jobs alone", "jobs beside"
DELAY_ALONE, DELAY_BESIDE, KEPT = "delay alone", "delay beside", "share of the jobs' rate"
# Of the series at once: the older one that jobs read, and the one that is recorded.
_SERIES = 2
_PROCESS_BYTES = 70_000_000
"""of memory: of a job"""
_PROCESS_S, _CHECKED_BYTE_S, _SERIES_S = 0.7, 2e-9, 2.0
"""of a processor: a job's start, and a byte that is compared; and start and end of a recording"""


def names_of(jobs: int) -> tuple[str, str]:
    """Names of the values of one number of jobs: the delay of a frame, and frames that all jobs read."""
    return f"delay beside {counted(jobs, 'job')}", f"rate of {counted(jobs, 'job')}"


class AcquireParameters(ScienceParameters):
    """A recording at the detector's rate, beside a growing number of jobs."""

    SCALED = ("seconds",)
    MOUNTED = True
    LESS_MEMORY = "use a smaller --jobs-max"
    ROOM = RoomAdvice(fewer_bytes="reduce --rate or --seconds", fewer_files="remove files from the target")
    SPACE = "two recordings"

    detector: str = Field(
        description="detector: a name from `penstock detectors`, or custom with rows, columns and type"
    )
    rows: Annotated[int | None, Cli(panel=panels.DETECTOR)] = Field(
        None, ge=1, le=1 << 20, description="rows of a custom detector in pixels"
    )
    columns: Annotated[int | None, Cli(panel=panels.DETECTOR)] = Field(
        None, ge=1, le=1 << 20, description="columns of a custom detector in pixels"
    )
    type: Annotated[PixelType | None, Cli(panel=panels.DETECTOR)] = Field(
        None, description="pixel type of a custom detector"
    )
    rate: Annotated[float | None, Cli(panel=panels.WORKLOAD, metavar="HZ")] = Field(
        None, ge=1e-3, le=1e6, description="frame rate in Hz, instead of that of the detector"
    )
    seconds: Seconds = Field(10.0, description="duration of each recording in seconds")
    jobs_max: Jobs = Field(8, description="largest number of jobs to try")
    read: Annotated[Literal["older", "growing"], Cli(panel=panels.WORKLOAD)] = Field(
        "older",
        description="file that the jobs read: that of an earlier recording, or the one being recorded",
    )
    buffer_seconds: Annotated[float, Cli(panel=panels.WORKLOAD, metavar="SECONDS")] = Field(
        1.0,
        ge=0.01,
        le=3600,
        description="seconds of frames that the detector's own buffer holds; later ones are lost",
    )

    def job(self) -> Job:
        # It loads HDF5 in its jobs alone, but all of a rehearsal here.
        from penstock.bench.science.acquire.run import run_acquire  # noqa: PLC0415

        request = self.request()
        bytes_at_once = _SERIES * request.bytes_at_once
        return Job(
            workload=NAME,
            bytes=bytes_at_once,
            files=_SERIES,
            paced_s=self.duration().run_s,
            moved_bytes=0,
            run=lambda folder, telling: run_acquire(self, request, folder, telling),
            require=self.require_memory,
        )

    def memory_bytes(self) -> int:
        """Of the jobs, each with a frame as it is stored and as it is read; without the recorder."""
        return self.jobs_max * (_PROCESS_BYTES + 2 * self.chosen().frame_bytes)

    def request(self) -> RehearsalRequest:
        """The recording of each step. Raises UsageError for an unknown detector, or one without a rate."""
        detector = self.chosen()
        rate_hz = self.rate or detector.rate_hz
        if not rate_hz:
            raise UsageError(f"the frame rate of the detector {self.detector} is unknown", "add --rate")
        return RehearsalRequest(
            name=self.detector,
            images=Images(detector),
            rate_hz=rate_hz,
            seconds=self.seconds,
            step_s=self.seconds,  # there is no search
            search_s=0.0,
            times_max=1.0,
            soak_s=0.0,
            buffer_s=self.buffer_seconds,
            series_bytes=2**62,
            configuration=Configuration(folder=Path()),
        )

    def chosen(self) -> Detector:
        if self.detector == CUSTOM:
            return custom_detector(self.rows, self.columns, self.type)
        return detector_named(detectors_folder(), self.detector)

    def plan_rows(self) -> dict[str, str]:
        request = self.request()
        return {
            "detector": f"{self.detector}, {human_hz(request.rate_hz)}",
            "recordings": f"{human_seconds(self.seconds)} each, with 0 to {self.jobs_max} jobs beside",
            "jobs read": "an earlier recording" if self.read == "older" else "the file that is recorded",
        }

    def duration(self) -> Duration:
        """From a search in which all numbers of jobs are sustained, to one that also bisects."""
        request, doublings = self.request(), math.ceil(math.log2(self.jobs_max))
        checked_s = request.bytes_at_once * _CHECKED_BYTE_S
        start = start_s(self.jobs_max, _PROCESS_S) + _SERIES_S
        one_s = self.seconds + _SERIES_S + _PROCESS_S + checked_s
        fewest = 2 + doublings + (RUNS_OF_AN_END - 1)
        most = fewest + max(0, doublings - 1) + (RUNS_OF_AN_END - 1)
        alone_s = self.seconds if self.read == "older" else 0.0
        return Duration(fewest * one_s + alone_s, start, work_max_s=most * one_s + alone_s)

    def values(self) -> list[str]:
        return [JOBS, DELAY_ALONE, DELAY_BESIDE, BESIDE]

    def derived(self) -> list[str]:
        """Those of numbers of jobs that a search without a failure tries; a bisection tries others, too."""
        doubled = [1 << power for power in range(self.jobs_max.bit_length())]
        numbers = dict.fromkeys([*doubled, self.jobs_max])
        return [ALONE, KEPT, *(name for jobs in numbers for name in names_of(jobs))]
