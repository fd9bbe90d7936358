"""The parameters of `penstock bench imaging`."""

import math
import os
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.data.frame_choice import rows_and_columns
from penstock.bench.run.jobs import Job
from penstock.bench.science.duration import Duration, making_s, processors, start_s
from penstock.bench.science.imaging.files import LOOKS_AGAIN_S, OWN_LIBRARY, PARTS, PROCESSOR, THRESHOLD
from penstock.bench.science.imaging.run import run_imaging
from penstock.bench.science.parameters import Jobs, ScienceParameters, Seed
from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.errors import UsageError
from penstock.model.units import human_bytes, human_number, human_seconds
from penstock.programs.locate import find_library

FileLayout = Literal["bslz4", "contiguous", "deflate"]
Reading = Literal["h5py", "direct"]
DecoderName = Literal["auto", "penstock", "hdf5plugin"]
Processing = Literal["all", "integrate", "statistics", "none"]
PixelName = Literal["uint16", "uint32"]

# Share of the pixels' bytes that the simulated frames take in a file, rounded up.
_STORED_SHARE = {
    "bslz4": {"uint16": 0.3, "uint32": 0.16},
    "contiguous": {"uint16": 1.05, "uint32": 1.05},
    "deflate": {"uint16": 0.3, "uint32": 0.2},
}
_THREADS_MAX = 64
_FULL_FRAMES, _FULL_JOBS = 170_000, 96
"""of the images that DESY processed on several nodes (PNI-HDRI, PaNdata)"""
_INTEGRATING_BYTES, _READING_BYTES = (200_000_000, 65), (80_000_000, 12)
"""of memory: of a job, and of a pixel of a frame; pyFAI keeps a table of the pixels"""
_PROCESS_S, _MADE_PIXEL_S, _READ_PIXEL_S = 2.7, 50e-9, 40e-9
"""of a processor: a job's start, a pixel that is made, and one that is processed"""
_LOOK_SHARE = 0.25
"""of the time of a frame: reading it again"""
_FILE_BYTES = 1 << 20  # of structures and truth, at least


def _require_frames(images: str, dataset: str | None) -> None:
    """Raises UsageError."""
    # HDF5 is for a file of the user only; otherwise jobs load it.
    from penstock.bench.science.imaging.image_file import described, open_images  # noqa: PLC0415

    if not Path(images).is_file():
        raise UsageError(f"--images {images} is not a file", "name an HDF5 file")
    with open_images(images) as file:
        described(file, dataset)


class ImagingParameters(ScienceParameters):
    """Jobs that process the frames of one file, as `penstock bench imaging` runs them."""

    SCALED: ClassVar[tuple[str, ...]] = ("frames", "seconds")
    MOUNTED = True
    ROOM = RoomAdvice(fewer_bytes="reduce --frames or --shape", fewer_files="remove files from the target")
    SPACE = "the file, unless an earlier run made it, and the truth about its frames"
    DATA_STAYS = True
    LESS_MEMORY = "use fewer --jobs, a smaller --shape, or --process statistics"

    jobs: Jobs = Field(2, description="number of jobs (processes), each with its share of the frames")
    frames: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        200, ge=1, le=10**7, description="number of frames in the file; with `images`, at most its first ones"
    )
    shape: Annotated[str, Cli(panel=panels.WORKLOAD, metavar="ROWSxCOLUMNS")] = Field(
        "1024x1024", description="shape of a simulated frame in pixels, such as 2162x2068"
    )
    type: Annotated[PixelName, Cli(panel=panels.WORKLOAD)] = Field(
        "uint16", description="pixel type of simulated frames"
    )
    layout: Annotated[FileLayout, Cli(panel=panels.WORKLOAD)] = Field(
        "bslz4",
        description="layout of the file: bslz4 (a bitshuffle-LZ4 chunk per frame, as Penstock records),"
        " contiguous (not compressed), or deflate (a zlib chunk per frame)",
    )
    images: Annotated[str | None, Cli(panel=panels.WORKLOAD, metavar="FILE")] = Field(
        None,
        description="existing HDF5 file to read instead of simulated frames; one job processes it first,"
        " and its results are the truth",
    )
    dataset: Annotated[str | None, Cli(panel=panels.WORKLOAD, metavar="PATH", default="the largest one")] = (
        Field(None, description="dataset of frames in `images`")
    )
    process: Annotated[Processing, Cli(panel=panels.WORKLOAD)] = Field(
        "all",
        description="processing of each frame: integrate (azimuthal integration with pyFAI), statistics (sum"
        " and spots with numpy), all of it, or none",
    )
    threshold: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        THRESHOLD,
        ge=1,
        description="counts above which a local maximum is a spot; 50 to 300 with simulated frames",
    )
    order: Annotated[Literal["interleaved", "blocks"], Cli(panel=panels.WORKLOAD)] = Field(
        "interleaved",
        description="frames of a job: every N-th one with N jobs, or a block of consecutive ones",
    )
    seconds: Annotated[float, Cli(panel=panels.WORKLOAD)] = Field(
        12.0,
        ge=0,
        le=86400,
        description="duration in seconds, in which jobs repeat their frames; 0: each frame once",
    )
    read: Annotated[Reading, Cli(panel=panels.ACCESS)] = Field(
        "h5py",
        description="reader: h5py (dataset[n], decompressed by HDF5 with hdf5plugin), or direct (chunks are"
        " read and decompressed outside HDF5, ahead of the processing)",
    )
    decoder: Annotated[DecoderName, Cli(panel=panels.ACCESS)] = Field(
        "auto",
        description="library that decompresses with `read` direct: Penstock's, hdf5plugin's, or auto:"
        " Penstock's if it is installed",
    )
    threads: Annotated[int | None, Cli(panel=panels.ACCESS, default="the processors that jobs leave")] = (
        Field(
            None,
            ge=0,
            le=_THREADS_MAX,
            description="number of threads of each job that read ahead and decompress (`read` direct); 0:"
            " a job does one after the other",
        )
    )
    cached: Annotated[bool, Cli("--cached", panel=panels.ACCESS)] = Field(
        False,
        description="read the file into the page cache before the run, instead of dropping it from there",
    )
    seed: Seed = Field(1, description="seed of the simulated frames")

    @property
    def rows_columns(self) -> tuple[int, int]:
        return rows_and_columns(self.shape)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of all frames that are simulated."""
        rows, columns = self.rows_columns
        return self.frames * rows * columns * int(self.type[4:]) // 8

    @property
    def file_bytes(self) -> int:
        """That the simulated file takes, about."""
        return _FILE_BYTES + round(self.pixel_bytes * _STORED_SHARE[self.layout][self.type])

    def resolved(self) -> Self:
        """With what jobs of this machine will use, so that documents name it."""
        if self.read != "direct":
            return self.model_copy(update={"threads": 0})
        is_built = find_library(OWN_LIBRARY) is not None
        decoder = ("penstock" if is_built else "hdf5plugin") if self.decoder == "auto" else self.decoder
        left = len(os.sched_getaffinity(0)) // self.jobs - 1
        threads = max(0, min(left, _THREADS_MAX)) if self.threads is None else self.threads
        return self.model_copy(update={"decoder": decoder, "threads": threads})

    def require_possible(self) -> None:
        """Raises UsageError."""
        if self.seconds and self.jobs > self.frames:
            raise UsageError(
                f"--jobs {self.jobs} exceeds --frames {self.frames}: each job needs a frame",
                "use more --frames, or fewer --jobs",
            )
        if self.images is None and self.dataset is not None:
            raise UsageError("--dataset requires --images", "leave out --dataset")
        if self.images is not None:
            _require_frames(self.images, self.dataset)
        if self.images is None and not 50 <= self.threshold <= 300:
            raise UsageError(
                f"--threshold {self.threshold} is outside 50 to 300, where all simulated spots are found",
                "leave out --threshold, or use --images",
            )
        if min(self.rows_columns) < 64:
            raise UsageError(f"--shape {self.shape} has less than 64 rows or columns", "use larger frames")

    def job(self) -> Job:
        self.require_possible()
        bytes_of_file = self.file_bytes
        if self.images is not None:
            bytes_of_file = Path(self.images).stat().st_size
        return Job(
            workload="imaging",
            bytes=bytes_of_file if self.images is None else _FILE_BYTES,
            files=2,
            paced_s=self.duration().run_s,
            moved_bytes=0 if self.seconds else bytes_of_file,
            making_s=self.duration().making_s,
            data_stays=self.images is None,
            run=lambda folder, telling: run_imaging(self.resolved(), folder, telling),
            require=self.require_memory,
        )

    def memory_bytes(self) -> int:
        """Frames of a user are taken to have `shape`."""
        process, pixel = _INTEGRATING_BYTES if self.process in ("all", "integrate") else _READING_BYTES
        ahead = 2 * (self.resolved().threads or 0) * int(self.type[4:]) // 8
        return self.jobs * (process + (pixel + ahead) * math.prod(self.rows_columns))

    def plan_rows(self) -> dict[str, str]:
        if self.images is not None:
            file = f"{self.images}, {human_bytes(Path(self.images).stat().st_size)}, only read"
        else:
            size = f"{human_bytes(self.pixel_bytes)} of pixels, {human_bytes(self.file_bytes)} at most"
            file = f"{self.frames} frames of {self.shape} {self.type}, {size}, {self.layout}"
        again = f"for {human_seconds(self.seconds)}" if self.seconds else "each frame once"
        return {
            "file": file,
            "jobs": f"{self.jobs}, {self.order}, {again}",
            "reading": self._reading(),
            "processing": self.process,
            "full case": self._full_case(),
        }

    def duration(self) -> Duration:
        """One job finds the truth about frames of the user before; those that are simulated have it."""
        pixels = self.frames * math.prod(self.rows_columns)
        once = pixels * _READ_PIXEL_S / min(self.jobs, processors())
        around = start_s(self.jobs, _PROCESS_S) + min(LOOKS_AGAIN_S, _LOOK_SHARE * once)
        if self.images is not None:
            # The shape of its frames is in the file, which may be large: its bytes stand for pixels.
            pixels = Path(self.images).stat().st_size
            return Duration(self.seconds or once, around + _PROCESS_S + pixels * _READ_PIXEL_S)
        return Duration(self.seconds or once, around, making_s(pixels * _MADE_PIXEL_S, 1, _PROCESS_S))

    def space_row(self, job: Job) -> dict[str, str]:
        if self.images is None:
            return super().space_row(job)
        return {"space": f"{human_bytes(job.bytes)} at most: the truth about the frames"}

    def _full_case(self) -> str:
        frames, jobs = (human_number(each) for each in (_FULL_FRAMES / self.frames, _FULL_JOBS / self.jobs))
        return f"{_FULL_FRAMES} frames, {_FULL_JOBS} jobs: {frames} times the frames, {jobs} times the jobs"

    def _reading(self) -> str:
        asked = self.resolved()
        threads = "thread" if asked.threads == 1 else "threads"
        ahead = f"{asked.threads or 'no'} {threads} ahead of each job"
        how = f"direct, {ahead}, decoder {asked.decoder}" if self.read == "direct" else "h5py"
        return f"{how}; {'from' if self.cached else 'not from'} the page cache"

    def values(self) -> list[str]:
        return ["frames", "pixels", "time", PROCESSOR]

    def derived(self) -> list[str]:
        return ["from storage", *(f"{part}: share" for part in PARTS)]
