"""The workloads that a campaign can vary, by name, each with its parameters.

A new one is a class here, with the names and defaults of the options of its `penstock bench` command, and a
line in WORKLOADS. Campaigns, their documents and tables know nothing else of it.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.content import chosen_content
from penstock.bench.images import ImageRequest, PixelType, make_template, own_images
from penstock.bench.jobs import LOCAL, Job, NetworkJob, frames_job, metadata_job, stream_job
from penstock.bench.library import check_access, hdf5_access, parse_hint
from penstock.bench.metadata import metadata_workload
from penstock.bench.network import network_workload, run_local, run_network, seconds_of
from penstock.bench.run import Access, Telling, frames_request, require_possible, stream_workload
from penstock.bench.second import NONE, with_second
from penstock.bench.values import NEEDED, NETWORK_READINGS, PROCESSOR_TIME, TRANSFERS, round_trip_names
from penstock.model.campaign_files import REFERENCE
from penstock.model.campaigns import Parameter
from penstock.model.configuration import read_token
from penstock.model.errors import UsageError
from penstock.model.load import (
    CONTENT_RATIO_MAX,
    ContentKind,
    Hdf5Access,
    Layout,
    MpiioAccess,
    Order,
    Sync,
)
from penstock.model.network import NETWORK_PORT, parse_address, parse_cpus, parse_link
from penstock.model.plans import GIB
from penstock.model.problems import place_of, words_of
from penstock.model.runs import Run
from penstock.model.units import Size, format_size, parse_size
from penstock.programs.ranks import MpiIo, Ranks, mpi_of

_MIB, _PAGE = 1 << 20, 4096


def team_of(ranks: int, mpi_io: MpiIo | None, needs_mpi: bool = False) -> Ranks | None:
    """None where one process without MPI will do."""
    if ranks == 1 and not needs_mpi:
        return None
    return Ranks(ranks, "openmpi" if mpi_io is None else mpi_of(mpi_io), mpi_io)


class WorkloadParameters(BaseModel):
    """Of one workload. SCALED names those that make a run larger, and leave its pattern as it is."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)
    SCALED: ClassVar[tuple[str, ...]] = ()

    def job(self) -> Job | NetworkJob:
        """A UsageError names a value that is not possible."""
        raise NotImplementedError

    def values(self) -> list[str]:
        """What runs of it yield, as `values_of` names it: what tables and plots may show."""
        raise NotImplementedError

    def derived(self) -> list[str]:
        """What they may show beside that, as `derived_of` names it; some of it a run may lack."""
        return []

    def scaled(self, factor: float) -> Self:
        """Sizes are whole MiB, or whole pages where they are small; counts are whole, and at least one."""
        return self.model_copy(
            update={
                name: _scaled(name, getattr(self, name), factor)
                for name in self.SCALED
                if getattr(self, name) is not None and factor != 1
            }
        )

    def shown(self, name: str) -> Parameter:
        """As a description has it."""
        value: Parameter = getattr(self, name)
        return format_size(int(value)) if name in self.SCALED and _is_size(name) else value


def _is_size(name: str) -> bool:
    return name.endswith("size")


def whole(size: int, unit: int) -> int:
    """`size`, or the next larger one that has whole units."""
    return -(-size // unit) * unit


def _scaled(name: str, value: float, factor: float) -> float:
    if not isinstance(value, int):
        return round(value * factor, 6)
    if name == "segments":  # rounded up as sizes are: what is in each of them stays
        return max(1, math.ceil(round(value * factor, 6))) if value > 1 else value
    scaled = round(value * factor)
    unit = 1
    if _is_size(name):
        unit = _MIB if scaled >= _MIB else _PAGE if value >= _PAGE else 1
    return max(unit, whole(scaled, unit))


class StoredParameters(WorkloadParameters):
    """Of a workload that writes into a folder of its own in its target."""

    beside: str = Field(
        NONE,
        description="what is repeated beside it, on the same target: stream, frames or metadata with options"
        " (`stream --threads 2 --size 1GiB`), or `read PATH… --threads 4` for files that are there already",
    )

    def job(self) -> Job:
        return with_second(self.alone(), self.beside, parameters_of)

    def alone(self) -> Job:
        """With nothing beside it."""
        raise NotImplementedError


class FramesParameters(StoredParameters):
    """Frames that become due at a rate, as `penstock bench frames` writes them."""

    SCALED = ("seconds", "frames")

    frame_size: Size | None = Field(None, description="of plain frames")
    format: Literal["raw", "cbf", "cbf.gz", "tiff", "hdf5"] = Field(
        "raw", description="files that image readers open"
    )
    rows: int = Field(2527, ge=1, le=1 << 20, description="of an image")
    columns: int = Field(2463, ge=1, le=1 << 20)
    type: PixelType = Field("int32", description="of its pixels")
    rename: bool = Field(False, description="files have another name until they are complete")
    ranks: int = Field(1, ge=1, le=256, description="processes of an MPI job that begin together")
    rate: float = Field(ge=0, le=1e7, description="frames a second; 0: as fast as it goes, needs `frames`")
    seconds: float = Field(30.0, ge=0.001, description="how long frames become due")
    frames: int | None = Field(None, ge=1, description="so many instead")
    writers: int = Field(4, ge=1, le=256)
    buffer_seconds: float = Field(1.0, ge=0, le=3600, description="so many seconds of frames may wait")
    late_after: float | None = Field(None, ge=0, le=3600, description="seconds after a frame was due")
    layout: Layout = "file_a_frame"
    buffered: bool = False
    sync: Sync = "each"
    content: ContentKind = "random"
    ratio: float | None = Field(None, ge=1, le=CONTENT_RATIO_MAX, description="of compressible content")
    content_file: str | None = Field(
        None, description="whose bytes, or images with a `format`, are written, with `content: file`"
    )
    seed: int = Field(1, ge=0, lt=2**63, description="of the random bytes")

    def alone(self) -> Job:
        if self.rate == 0 and self.frames is None:
            raise UsageError("`rate` is 0 and there is no `frames`", "say how many frames are written")
        seconds = self.seconds if self.frames is None or self.rate == 0 else self.frames / self.rate
        image = self._image()
        request = frames_request(
            self._frame_bytes(image),
            self.rate,
            seconds,
            self.writers,
            self.buffer_seconds,
            self.late_after,
            self.layout,
            Access(direct=not self.buffered, sync=self.sync, seed=self.seed, **_content(self, image)),
            self.ranks,
        )
        frames = request.frames if self.frames is None else self.frames
        request = request.model_copy(update={"frames": frames, "image": image, "rename": self.rename})
        require_possible(request)
        return frames_job(request, team_of(self.ranks, None))

    def values(self) -> list[str]:
        of_rate = ["lost", "late"] if self.rate else []
        return ["carried", *of_rate, "latency p50", "latency p99", "stall", PROCESSOR_TIME]

    def derived(self) -> list[str]:
        return [NEEDED] if self.rate else []

    def _image(self) -> ImageRequest | None:
        if self.format == "raw":
            return None
        if self.layout == "file_a_writer" or self.frame_size is not None:
            raise UsageError(
                f"`format` is {self.format}: a file a frame, whose size follows from rows and columns",
                "leave `layout` and `frame_size` away",
            )
        if self.content == "file" and self.content_file is not None:
            if given := self.model_fields_set & {"rows", "columns", "type"}:
                raise UsageError(f"`{min(given)}` with images of your own", "leave it away: they have one")
            return own_images(self.format, Path(self.content_file))
        return ImageRequest(format=self.format, rows=self.rows, columns=self.columns, type=self.type)

    def _frame_bytes(self, image: ImageRequest | None) -> int:
        if image is not None:
            return make_template(image).frame_bytes
        if self.frame_size is None:
            raise UsageError("there is no `frame_size`", "say how large a frame is, or give a `format`")
        return self.frame_size


class StreamedParameters(StoredParameters):
    """What streams have in common, whatever they go through."""

    SCALED: ClassVar[tuple[str, ...]] = ("size",)

    size: Size = 4 << 30
    transfer: Size = 8 << 20
    threads: int = Field(1, ge=1, le=256, description="of each rank")
    shared: bool = Field(False, description="one file for all threads and ranks; of hdf5 for all ranks")
    collective: bool = Field(False, description="all ranks do each call together; with mpiio or hdf5, shared")
    chunk: Size | None = Field(
        None, le=GIB, description="of a dataset of hdf5; left out: contiguous, or with `deflate` a transfer"
    )
    deflate: int = Field(0, ge=0, le=9, description="of hdf5: level at which chunks are compressed; 0: none")
    ranks: int = Field(1, ge=1, le=256, description="processes of an MPI job that begin together")
    read: bool = True
    verify: bool = True
    seconds_max: float = Field(0.0, ge=0, le=86400, description="of each phase; 0: no limit")
    sync: Sync = "end"
    content: ContentKind = "random"
    ratio: float | None = Field(None, ge=1, le=CONTENT_RATIO_MAX, description="of compressible content")
    content_file: str | None = Field(None, description="whose bytes are written, with `content: file`")
    seed: int = Field(1, ge=0, lt=2**63, description="of the random bytes")

    def values(self) -> list[str]:
        return ["write", *(["read"] if self.read else []), PROCESSOR_TIME]


class StreamParameters(StreamedParameters):
    """A large file a thread, written and then read, as `penstock bench stream` does it."""

    SCALED = ("size", "segments")

    segments: int = Field(1, ge=1, description="of a shared file; each has a block of every thread")
    order: Order = "sequential"
    queue_depth: int | None = Field(
        None, ge=1, le=1024, description="transfers of a thread under way at once; 1, or 8 of the store"
    )
    backend: Literal["posix", "mpiio", "hdf5", "store"] = "posix"
    mpi_io: MpiIo | None = Field(None, description="implementation of MPI-IO; left out: the MPI's own choice")
    block: Size | None = Field(None, le=2**50, description="of a rank in a row, in a shared file of mpiio")
    hints: str = Field(
        "none",
        description="of mpiio: KEY=VALUE, several with spaces between, such as cb_nodes=2",
    )
    buffered: bool = False

    def alone(self) -> Job:
        workload = stream_workload(
            self.threads,
            whole(self.size, self.block or 1),
            self.transfer,
            self.read,
            self.verify,
            self.seconds_max,
            not self.buffered and self.backend == "posix",
            self.shared and self.backend in ("posix", "store"),
            self.segments,
            self.order,
        )
        access = Access(
            direct=not self.buffered,
            sync=self.sync,
            **_content(self),
            seed=self.seed,
            queue_depth=self.queue_depth,
            store=self.backend == "store",
            library=self._library(),
        )
        check_access(workload, access)
        needs_mpi = self.backend == "mpiio" or (self.backend == "hdf5" and self.shared)
        return stream_job(workload, access, team_of(self.ranks, self.mpi_io, needs_mpi))

    def _library(self) -> MpiioAccess | Hdf5Access | None:
        if self.backend != "mpiio" and (self.mpi_io is not None or self.block is not None or self._hints()):
            raise UsageError("`mpi_io`, `block` and `hints` are of the backend mpiio", "add `backend: mpiio`")
        if self.backend != "hdf5" and (self.chunk is not None or self.deflate):
            raise UsageError("`chunk` and `deflate` are of the backend hdf5", "add `backend: hdf5`")
        if self.collective and (self.backend in ("posix", "store") or not self.shared):
            raise UsageError("`collective` is of a shared file of mpiio or hdf5", "add `shared: true`")
        if self.backend == "mpiio":
            return MpiioAccess(
                shared=self.shared,
                collective=self.collective,
                block_bytes=self.block or 0,
                hints=self._hints(),
            )
        if self.backend == "hdf5":
            return hdf5_access(self.shared, self.collective, self.chunk or 0, self.deflate, self.transfer)
        return None

    def _hints(self) -> dict[str, str]:
        return {} if self.hints == "none" else dict(parse_hint(text) for text in self.hints.split())


class Hdf5Parameters(StreamedParameters):
    """A dataset in each file, written and then read through HDF5, as `penstock bench hdf5` does it."""

    def alone(self) -> Job:
        return StreamParameters(backend="hdf5", **self.model_dump()).alone()


def _content(asked: FramesParameters | StreamParameters, image: ImageRequest | None = None) -> dict[str, Any]:
    file = Path(asked.content_file) if asked.content_file is not None else None
    return chosen_content(asked.content, asked.ratio, file, image)


class MetadataParameters(StoredParameters):
    """Names: folders and files made, found, read and removed, as `penstock bench metadata` does it."""

    SCALED = ("items",)

    items: int = Field(1000, ge=1, description="folders and files of a thread in each folder of its tree")
    threads: int = Field(1, ge=1, le=256, description="of each rank")
    ranks: int = Field(1, ge=1, le=256, description="processes of an MPI job that begin together")
    depth: int = Field(0, ge=0, le=20)
    branch: int = Field(1, ge=1, le=10_000)
    shared: bool = Field(False, description="one tree for all threads and ranks")
    shift: int = Field(
        0, ge=0, description="threads look up what the thread so many further made; `threads`: the next rank"
    )
    iterations: int = Field(1, ge=1, le=1000, description="of a run, beside the blocks of the campaign")
    file_size: Size = 0
    rename: bool = False
    sync: Sync = "none"

    def alone(self) -> Job:
        workload = metadata_workload(
            **self.model_dump(exclude={"file_size", "sync", "beside"}), file_bytes=self.file_size
        )
        team = team_of(self.ranks, None)
        return metadata_job(workload, Access(direct=False, sync=self.sync), team)

    def values(self) -> list[str]:
        of_files = ["read"] if self.file_size else []
        of_all = ["create", "stat", *(["rename"] if self.rename else []), "remove"]
        folders = [f"folder {each}" for each in of_all]
        files = [f"file {each}" for each in (*of_all, *of_files)]
        return ["tree create", *folders, *files, "tree remove"]


class NetworkParameters(WorkloadParameters):
    """The way between two machines, as `penstock bench network` measures it; targets are addresses."""

    SCALED = ("seconds", "latency_seconds")

    streams: int = Field(1, ge=1, le=64, description="connections, a thread each way each")
    message_size: Size = Field(128 << 10, description="of one call, in a transfer")
    seconds: float = Field(10.0, ge=0.01, le=3600, description="of each transfer: there, back, both at once")
    latency: str = Field(
        "", description="sizes of messages that go there and back, as in 8B,1KiB; empty: none"
    )
    latency_seconds: float = Field(2.0, ge=0.01, le=3600, description="for each of these sizes")
    cpus: str = Field(
        "all", description="processors that the threads are bound to, as in 0,2-3; all: not bound"
    )
    link: str = Field(
        "", description="speed of the link, as in 10Gb; empty: what the interface's driver tells"
    )

    def job(self) -> NetworkJob:
        workload = network_workload(
            host="127.0.0.1",
            port=NETWORK_PORT,
            streams=self.streams,
            message_bytes=self.message_size,
            seconds=self.seconds,
            echo_bytes=[self._echo_bytes(size) for size in self.latency.split(",") if size.strip()],
            echo_seconds=self.latency_seconds,
            cpus=parse_cpus(self.cpus) if self.cpus != "all" else [],
        )
        link = parse_link(self.link) if self.link else None

        def run(target: str, telling: Telling) -> Run:
            if target == LOCAL:
                return run_local(workload, telling, link)
            host, port = parse_address(target)
            token = read_token(None, os.environ)
            there = workload.model_copy(update={"host": host, "port": port, "token": token})
            return run_network(there, telling, link)

        return NetworkJob(seconds_of(workload), run)

    def values(self) -> list[str]:
        sizes = [self._echo_bytes(size) for size in self.latency.split(",") if size.strip()]
        return [*TRANSFERS, *(name for size in sizes for name in round_trip_names(size)), PROCESSOR_TIME]

    def derived(self) -> list[str]:
        return list(NETWORK_READINGS)

    @staticmethod
    def _echo_bytes(text: str) -> int:
        try:
            return parse_size(text.strip())
        except ValueError as error:
            raise UsageError(f"`latency` has {text!r}: {error}", "write for example 8B,1KiB") from error


WORKLOADS: dict[str, type[WorkloadParameters]] = {
    "frames": FramesParameters,
    "hdf5": Hdf5Parameters,
    "metadata": MetadataParameters,
    "network": NetworkParameters,
    "stream": StreamParameters,
}


def parameters_of(workload: str, values: Mapping[str, Parameter]) -> WorkloadParameters:
    """A UsageError names what the workload does not know, or does not take."""
    if workload not in WORKLOADS:
        raise UsageError(f'there is no workload "{workload}"', f"one of {', '.join(sorted(WORKLOADS))}")
    try:
        return WORKLOADS[workload].model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        what = {"extra_forbidden": "there is no such parameter", "missing": "it is missing"}
        problem = what.get(first["type"], f"{words_of(first)} (given: {first['input']!r})")
        raise UsageError(
            f"`{place_of(first)}` of the workload {workload}: {problem}",
            f"one of {', '.join(WORKLOADS[workload].model_fields)}"
            if first["type"] == "extra_forbidden"
            else f"{REFERENCE} has what each parameter may be",
        ) from error
