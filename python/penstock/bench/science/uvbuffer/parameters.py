"""The parameters of `penstock bench uvbuffer`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.jobs import Job
from penstock.bench.science.duration import Duration, start_s
from penstock.bench.science.parameters import ScienceParameters, Seconds, Seed
from penstock.bench.science.storage.direct import PAGE
from penstock.bench.science.uvbuffer.buffer import (
    CHANNELS_A_FILE,
    FULL_WRITE_BYTES_PER_S,
    PASSES,
    Buffer,
)
from penstock.bench.science.uvbuffer.limits import KINDS
from penstock.bench.science.uvbuffer.run import BufferRequest, run_buffer
from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.errors import RemediableValueError
from penstock.model.text import counted
from penstock.model.units import Size, human_number, human_rate, human_seconds, human_size

WORKERS_MAX = 256
_BLOCKS_MIN = 3
_PROCESS_BYTES = 60_000_000
"""of memory: of a job"""
_PROCESS_S, _REMOVED_FILE_S = 0.7, 1e-3
"""start of a process, of a processor; and what a file takes to be removed"""


class UvbufferParameters(ScienceParameters):
    """A radio telescope's buffer: writers, readers and a deleter, each with what is due when."""

    SCALED = ("file_size",)
    MOUNTED = True
    ROOM = RoomAdvice(
        fewer_bytes="reduce --file-size, --channels or --lifetime",
        fewer_files="reduce --channels or --lifetime",
    )
    LESS_MEMORY = "use fewer --writers and --readers, or a smaller --file-size"
    SPACE = "files within their lifetime, and half as many again for late deletes"

    channels: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        640, ge=CHANNELS_A_FILE, le=10**6, description="number of frequency channels; ten are a file"
    )
    file_size: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        512 << 10, ge=2 * PAGE, le=1 << 30, description="size of a file; whole pages of 4 KiB"
    )
    interval: Annotated[float, Cli(panel=panels.WORKLOAD, metavar="SECONDS")] = Field(
        1.0, ge=0.01, le=3600, description="time in seconds from one snapshot to the next"
    )
    block: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        4,
        ge=1,
        le=10_000,
        description=f"number of snapshots that are read together, {PASSES} times, channel by channel",
    )
    lifetime: Annotated[float, Cli(panel=panels.WORKLOAD, metavar="SECONDS")] = Field(
        12.0, gt=0, le=86400, description="time in seconds after which a file is deleted; 3 blocks at least"
    )
    seconds: Seconds = Field(40.0, description="duration in seconds; what follows the first lifetime counts")
    writers: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        2, ge=1, le=WORKERS_MAX, description="number of jobs that write"
    )
    readers: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        4, ge=1, le=WORKERS_MAX, description="number of jobs that read"
    )
    seed: Seed = Field(1, description="seed of the visibilities")

    @model_validator(mode="after")
    def _check(self) -> Self:
        files = self.channels // CHANNELS_A_FILE
        if self.lifetime < round(_BLOCKS_MIN * self.block * self.interval, 6):
            raise RemediableValueError(
                f"lifetime: {self.lifetime:g} s is shorter than {_BLOCKS_MIN} blocks of"
                f" {self.block * self.interval:g} s, in which a file is written and read",
                "increase --lifetime, or reduce --block or --interval",
            )
        if self.seconds <= self.lifetime:
            raise RemediableValueError(
                f"seconds: {self.seconds:g} must exceed the lifetime of {self.lifetime:g} s: measuring"
                " begins after it",
                "increase --seconds, or reduce --lifetime",
            )
        if max(self.writers, self.readers) > files:
            raise RemediableValueError(
                f"writers or readers: {max(self.writers, self.readers)} exceeds the"
                f" {counted(files, 'file')} of a snapshot",
                "reduce --writers or --readers, or increase --channels",
            )
        return self

    @property
    def buffer(self) -> Buffer:
        return Buffer(
            files=self.channels // CHANNELS_A_FILE,
            file_bytes=-(-self.file_size // PAGE) * PAGE,
            interval_s=self.interval,
            block=self.block,
            life_s=self.lifetime,
            seconds=self.seconds,
            writers=self.writers,
            readers=self.readers,
        )

    def job(self) -> Job:
        buffer = self.buffer
        workload = self.workload("uvbuffer", buffer.writers + buffer.readers + 1)
        request = BufferRequest(buffer, self.seed, workload)
        files = buffer.files_at_once
        return Job(
            workload="uvbuffer",
            bytes=files * buffer.file_bytes,
            files=files,
            paced_s=self.duration().run_s,
            moved_bytes=0,
            run=lambda folder, telling: run_buffer(request, folder, telling),
            require=self.require_memory,
        )

    def memory_bytes(self) -> int:
        """A job has one file in memory."""
        return (self.writers + self.readers + 1) * (_PROCESS_BYTES + self.buffer.file_bytes)

    def values(self) -> list[str]:
        names = [name for name, *_ in KINDS]
        shares = [f"{name} share" for name in names]
        return ["sustained", *names, *shares, "late", "headroom", "storages needed"]

    def derived(self) -> list[str]:
        needed = [f"storages for {name}" for name, *_ in KINDS]
        return [*needed, "storages for capacity", "files at once", "signal"]

    def plan_rows(self) -> dict[str, str]:
        buffer = self.buffer
        rate = buffer.files_per_s * buffer.file_bytes
        scale = FULL_WRITE_BYTES_PER_S / rate
        size = f"{buffer.files} files of {human_size(buffer.file_bytes)} every {human_seconds(self.interval)}"
        counts = buffer.seconds - buffer.life_s
        full = f"{human_rate(FULL_WRITE_BYTES_PER_S)} written, 10^8 files in 12 h"
        return {
            "snapshot": size,
            "written": f"{human_rate(rate)}, {human_number(buffer.files_per_s)} files/s",
            "read": f"{human_rate(PASSES * rate)}, in blocks of {buffer.block} snapshots, channel by channel",
            "deleted": f"{human_seconds(buffer.life_s)} after a file was due",
            "jobs": f"{buffer.writers} write, {buffer.readers} read, 1 deletes",
            "duration": f"{human_seconds(buffer.seconds)}, of which {human_seconds(counts)} count",
            "full case": f"{full}: {human_number(scale)} times the bytes per second",
        }

    def duration(self) -> Duration:
        """Files of the last lifetime are removed at the end."""
        buffer = self.buffer
        around = start_s(buffer.writers + buffer.readers + 1, _PROCESS_S)
        return Duration(buffer.seconds, around + buffer.files_at_once * _REMOVED_FILE_S)
