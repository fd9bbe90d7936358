"""The workloads that a campaign can vary, by name, each with its parameters.

A new one is a class here and a line in WORKLOADS. Its fields are the keys of campaigns and, with `Cli`, the
options of its `penstock bench` command and of `--background`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from penstock.bench.data.content import chosen_content
from penstock.bench.data.frame_choice import FrameFormat, check_layout, frame_bytes_of, image_request
from penstock.bench.data.images import ImageRequest, PixelType
from penstock.bench.run.jobs import LOCAL, Job, NetworkJob, frames_job, metadata_job, stream_job
from penstock.bench.run.library import check_access, hdf5_access, parse_hint, refuse_foreign
from penstock.bench.run.metadata import metadata_workload
from penstock.bench.run.network import network_workload, run_local, run_network, seconds_of
from penstock.bench.run.parameters import WorkloadParameters, whole
from penstock.bench.run.run import (
    Access,
    FramesRequest,
    Telling,
    frames_request,
    require_possible,
    stream_workload,
)
from penstock.bench.run.second import NONE, with_second
from penstock.bench.science.acquire.parameters import AcquireParameters
from penstock.bench.science.analysis.parameters import AnalysisParameters
from penstock.bench.science.imaging.parameters import ImagingParameters
from penstock.bench.science.seismic.parameters import SeismicSortParameters
from penstock.bench.science.uvbuffer.parameters import UvbufferParameters
from penstock.bench.statistics.values import (
    NEEDED,
    NETWORK_READINGS,
    PROCESSOR_TIME,
    TRANSFERS,
    round_trip_names,
)
from penstock.model import panels
from penstock.model.bench.campaign_files import REFERENCE
from penstock.model.bench.campaigns import Parameter
from penstock.model.bench.load import (
    CONTENT_RATIO_MAX,
    ContentKind,
    Hdf5Access,
    Layout,
    MetadataWorkload,
    MpiioAccess,
    NullBackend,
    Order,
    StreamWorkload,
    Sync,
)
from penstock.model.bench.network import NETWORK_PORT, parse_address, parse_cpus, parse_link
from penstock.model.bench.runs import Run
from penstock.model.cli_option import Cli, CliField
from penstock.model.configuration import read_token
from penstock.model.errors import UsageError
from penstock.model.plans import GIB
from penstock.model.problems import did_you_mean, place_of, words_of
from penstock.model.units import Size, parse_size, with_unit_of_size
from penstock.programs.ranks import MpiIo, Ranks, mpi_of

_MIB, _PAGE = 1 << 20, 4096


def team_of(ranks: int, mpi_io: MpiIo | None, needs_mpi: bool = False) -> Ranks | None:
    """None where one process without MPI will do."""
    if ranks == 1 and not needs_mpi:
        return None
    return Ranks(ranks, "openmpi" if mpi_io is None else mpi_of(mpi_io), mpi_io)


class StoredParameters(WorkloadParameters):
    """Of a workload that writes into a folder of its own in its target."""

    beside: str = Field(
        NONE,
        description="background load on the same target, which is repeated meanwhile: stream, frames or"
        " metadata"
        " with options (`stream --threads 2 --size 1GiB`), or `read PATH… --threads 4` for existing files",
    )

    def job(self) -> Job:
        return with_second(self.alone(), self.beside, parameters_of)

    def alone(self) -> Job:
        """With nothing beside it."""
        raise NotImplementedError


# Threads of each rank, and processes of an MPI job.
Threads = Annotated[int, Cli(panel=panels.WORKLOAD)]
RanksField = Annotated[int, Field(ge=1, le=256)]


class WrittenParameters(StoredParameters):
    """What bytes a workload writes."""

    content: Annotated[ContentKind, Cli(panel=panels.WORKLOAD)] = Field(
        "random",
        description="content that is written: random, which storage can neither compress nor deduplicate;"
        " zeros; compressible by `ratio`; or file, from `content_file`",
    )
    ratio: Annotated[float | None, Cli(panel=panels.WORKLOAD)] = Field(
        None,
        ge=1,
        le=CONTENT_RATIO_MAX,
        description="compression ratio of the content compressible",
    )
    content_file: Annotated[str | None, Cli(panel=panels.WORKLOAD, metavar="FILE")] = Field(
        None,
        description="file whose first 16 MiB, or first transfer, is written repeatedly with the content file;"
        " with an image format, a file or folder of images that are written in that format",
    )
    seed: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        1, ge=0, le=2**63 - 1, description="seed of the random bytes"
    )


class FramesParameters(WrittenParameters):
    """Frames that become due at a rate, as `penstock bench frames` writes them."""

    SCALED = ("seconds", "frames")

    rate: Annotated[float, Cli(panel=panels.WORKLOAD, metavar="HZ")] = Field(
        ge=0, le=1e7, description="frame rate in Hz; 0: unpaced, at maximum rate, which requires `frames`"
    )
    frame_size: Annotated[Size | None, Cli(panel=panels.WORKLOAD)] = Field(
        None, description="size of a frame of raw bytes, instead of `shape`"
    )
    shape: Annotated[str | None, Cli(panel=panels.WORKLOAD, metavar="ROWSxCOLUMNS")] = Field(
        None, description="shape of a frame in pixels, such as 2527x2463, instead of `frame_size`"
    )
    rows: int = Field(2527, ge=1, le=1 << 20, description="rows of an image in pixels, instead of `shape`")
    columns: int = Field(
        2463, ge=1, le=1 << 20, description="columns of an image in pixels, instead of `shape`"
    )
    type: Annotated[PixelType | None, Cli(panel=panels.WORKLOAD, default="int32")] = Field(
        None, description="pixel type, with `shape`"
    )
    format: Annotated[FrameFormat, Cli(panel=panels.WORKLOAD)] = Field(
        "raw", description="format of a frame: raw bytes, or image files"
    )
    rename: Annotated[bool, Cli("--rename", panel=panels.WORKLOAD)] = Field(
        False, description="name files NAME.partial until they are complete"
    )
    seconds: Annotated[float, Cli(panel=panels.WORKLOAD)] = Field(
        30.0, ge=0.001, description="duration in seconds of the schedule of frames"
    )
    frames: Annotated[int | None, Cli(panel=panels.WORKLOAD)] = Field(
        None, ge=1, description="number of frames, instead of `seconds`; required with a rate of 0"
    )
    writers: Threads = Field(4, ge=1, le=256, description="number of writer threads per rank")
    buffer_seconds: Annotated[float, Cli(panel=panels.WORKLOAD)] = Field(
        1.0,
        ge=0,
        le=3600,
        description="size of the frame queue in seconds of frames; a frame that finds it full is dropped",
    )
    late_after: Annotated[
        float | None,
        Cli(panel=panels.WORKLOAD, metavar="SECONDS", default="the time between frames, at least 0.01"),
    ] = Field(
        None,
        ge=0,
        le=3600,
        description="deadline in seconds: a frame that is written later than this after its due time is late",
    )
    layout: Annotated[Layout, Cli(panel=panels.WORKLOAD)] = Field(
        "file_a_frame", description="layout of files: one per frame, or one per writer"
    )
    buffered: Annotated[bool, Cli("--buffered", panel=panels.ACCESS)] = Field(
        False, description="write through the page cache instead of with direct I/O"
    )
    sync: Annotated[Sync, Cli(panel=panels.ACCESS)] = Field(
        "each",
        description="when data is synced to storage: never, when a file is complete, or after each write",
    )
    ranks: RanksField = Field(1, description="number of MPI processes that start together")

    def request(self, null: NullBackend | None = None) -> FramesRequest:
        """`null`: no storage at all. A UsageError names a value that is not possible."""
        if self.rate == 0 and self.frames is None:
            raise UsageError(
                "--rate 0 requires --frames", "give the number of frames to write at maximum rate"
            )
        check_layout(self.layout, self.format, self.rename)
        image, written = self._image(), _content(self, self._image())
        request = frames_request(
            self._frame_bytes(image),
            self.rate,
            self.frames / self.rate if self.frames is not None and self.rate > 0 else self.seconds,
            self.writers,
            self.buffer_seconds,
            self.late_after,
            self.layout,
            Access(direct=not self.buffered, sync=self.sync, seed=self.seed, null=null, **written),
            self.ranks,
        )
        frames = request.frames if self.frames is None else self.frames
        request = request.model_copy(update={"frames": frames, "image": image, "rename": self.rename})
        require_possible(request)
        return request

    def alone(self) -> Job:
        return frames_job(self.request(), team_of(self.ranks, None))

    def values(self) -> list[str]:
        of_rate = ["lost", "late"] if self.rate else []
        return ["throughput", *of_rate, "latency p50", "latency p99", "stall", PROCESSOR_TIME]

    def derived(self) -> list[str]:
        return [NEEDED] if self.rate else []

    def _image(self) -> ImageRequest | None:
        source = Path(self.content_file) if self.content == "file" and self.content_file else None
        given = self.model_fields_set & {"shape", "rows", "columns", "type"}
        if source is not None and self.format != "raw" and given:
            raise UsageError(
                f"--{min(given)} {getattr(self, min(given))} excludes --content-file with images, which"
                f" set the shape and the type",
                f"leave out --{min(given)}",
            )
        return image_request(self.shape or f"{self.rows}x{self.columns}", self.type, self.format, source)

    def _frame_bytes(self, image: ImageRequest | None) -> int:
        shape = self.shape
        if image is not None and not image.source and self.frame_size is not None:
            raise UsageError(
                f"--frame-size excludes --format {self.format}: the size of an image file follows from its"
                f" shape",
                "leave out --frame-size",
            )
        return frame_bytes_of(self.frame_size, shape, self.type, image)


class StreamedParameters(WrittenParameters):
    """What streams have in common, whatever they go through."""

    SCALED: ClassVar[tuple[str, ...]] = ("size",)

    size: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        4 << 30, description="number of bytes that each thread writes"
    )
    transfer: Annotated[Size, Cli(panel=panels.WORKLOAD)] = Field(
        8 << 20, description="size of one read or write"
    )
    threads: Threads = Field(1, ge=1, le=256, description="number of threads per rank")
    shared: Annotated[bool, Cli("--shared/--own-files", panel=panels.WORKLOAD)] = Field(
        False,
        description="use one file for all threads and ranks instead of one each; with hdf5 one for all ranks",
    )
    collective: Annotated[bool, Cli("--collective", panel=panels.ACCESS)] = Field(
        False, description="use collective calls of all ranks, for a shared file of mpiio or hdf5"
    )
    chunk: Annotated[
        Size | None, Cli(panel=panels.ACCESS, default="contiguous; with --deflate a transfer")
    ] = Field(None, le=GIB, description="chunk size of the HDF5 dataset")
    deflate: Annotated[int, Cli(panel=panels.ACCESS)] = Field(
        0, ge=0, le=9, description="deflate level of HDF5 chunks; 0: no compression"
    )
    ranks: RanksField = Field(1, description="number of MPI processes that start together")
    read: Annotated[bool, Cli("--read/--no-read", panel=panels.WORKLOAD)] = Field(
        True, description="read all data afterwards, each part by another thread"
    )
    verify: Annotated[bool, Cli("--verify/--no-verify", panel=panels.WORKLOAD)] = Field(
        True, description="compare the data read with the data written"
    )
    seconds_max: Annotated[float, Cli(panel=panels.WORKLOAD, metavar="SECONDS")] = Field(
        0.0, ge=0, le=86400, description="maximum duration in seconds of each phase; 0: no limit"
    )
    sync: Annotated[Sync, Cli(panel=panels.ACCESS)] = Field(
        "end",
        description="when data is synced to storage: never, when a file is complete, or after each write",
    )

    def values(self) -> list[str]:
        return ["write", *(["read"] if self.read else []), PROCESSOR_TIME]


class StreamParameters(StreamedParameters):
    """A large file a thread, written and then read, as `penstock bench stream` does it."""

    SCALED = ("size", "segments")

    segments: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        1, ge=1, description="number of segments of a shared file; each segment has one block per thread"
    )
    order: Annotated[Order, Cli(panel=panels.WORKLOAD)] = Field(
        "sequential", description="order of the writes and reads of a thread: sequential or random"
    )
    queue_depth: Annotated[int | None, Cli(panel=panels.ACCESS, default="1; 8 with --backend store")] = Field(
        None,
        ge=1,
        le=1024,
        description="queue depth: concurrent transfers per thread; more than 1 uses io_uring",
    )
    backend: Annotated[Literal["posix", "mpiio", "hdf5", "store", "null"], Cli(panel=panels.ACCESS)] = Field(
        "posix",
        description="back end: posix (the kernel), mpiio, hdf5, store (Penstock's own writer), or null,"
        " which stores nothing",
    )
    mpi_io: Annotated[MpiIo | None, Cli(panel=panels.ACCESS, default="the MPI's own choice")] = Field(
        None, description="implementation of MPI-IO: ompio or romio of Open MPI, or that of mpich"
    )
    block: Annotated[Size | None, Cli(panel=panels.ACCESS, default="all of them")] = Field(
        None,
        le=2**50,
        description="number of consecutive bytes per rank in a shared file of mpiio",
    )
    hints: str = Field(
        "none",
        description="MPI-IO hints KEY=VALUE, separated by spaces, such as cb_nodes=2",
    )
    buffered: Annotated[bool, Cli("--buffered", panel=panels.ACCESS)] = Field(
        False, description="write through the page cache instead of with direct I/O"
    )

    def parts(self, null: NullBackend | None = None) -> tuple[StreamWorkload, Access]:
        """Who writes what, and how. A UsageError names a value that is not possible."""
        library = self._library()
        workload = stream_workload(
            self.threads,
            whole(self.size, self.block or 1),
            self.transfer,
            self.read,
            self.verify and null is None,
            self.seconds_max,
            not self.buffered and library is None and null is None,
            self.shared and library is None,
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
            library=library,
            null=null,
        )
        check_access(workload, access)
        return workload, access

    @property
    def needs_mpi(self) -> bool:
        return self.backend == "mpiio" or (self.backend == "hdf5" and self.shared)

    def alone(self) -> Job:
        workload, access = self.parts(NullBackend() if self.backend == "null" else None)
        return stream_job(workload, access, team_of(self.ranks, self.mpi_io, self.needs_mpi))

    def _library(self) -> MpiioAccess | Hdf5Access | None:
        refuse_foreign(
            self.backend,
            {"--mpi-io": self.mpi_io, "--block": self.block, "--hint": self._hints()},
            {"--chunk": self.chunk, "--deflate": self.deflate},
            self.collective,
        )
        if not self.shared and (self.collective or self.block is not None):
            name = "--collective" if self.collective else "--block"
            raise UsageError(
                f"{name} requires --shared", "add --shared; without it each rank has its own file"
            )
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


def _content(asked: WrittenParameters, image: ImageRequest | None = None) -> dict[str, Any]:
    file = Path(asked.content_file) if asked.content_file is not None else None
    return chosen_content(asked.content, asked.ratio, file, image)


class MetadataParameters(WrittenParameters):
    """Names: folders and files made, found, read and removed, as `penstock bench metadata` does it."""

    SCALED = ("items",)

    items: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        1000,
        ge=1,
        le=10**7,
        description="number of directories, and of files, that a thread creates in each directory of its"
        " tree",
    )
    threads: Threads = Field(1, ge=1, le=256, description="number of threads per rank")
    ranks: RanksField = Field(1, description="number of MPI processes that start together")
    depth: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        0, ge=0, le=20, description="depth of the directory tree below its top"
    )
    branch: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        1, ge=1, le=10_000, description="number of subdirectories in each directory of the tree"
    )
    iterations: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        3, ge=1, le=1000, description="number of repetitions within a run, each in a new tree"
    )
    shared: Annotated[bool, Cli("--shared/--unique", panel=panels.WORKLOAD)] = Field(
        False, description="use one tree for all threads and ranks instead of one each"
    )
    shift: Annotated[int, Cli(panel=panels.WORKLOAD)] = Field(
        0,
        ge=0,
        lt=65536,
        description="shift between threads: each thread looks up and removes the items of the thread this"
        " many"
        " positions further; the number of threads per rank shifts to the next rank",
    )
    only: Annotated[Literal["both", "directories", "files"], Cli(panel=panels.WORKLOAD)] = Field(
        "both", description="kind of items: directories, files, or both"
    )
    file_size: Annotated[Size, Cli("--size", panel=panels.WORKLOAD)] = Field(
        0, description="size of a file; non-empty files are also read"
    )
    rename: Annotated[bool, Cli("--rename", panel=panels.WORKLOAD)] = Field(
        False, description="also measure renaming items"
    )
    remove: Annotated[bool, Cli("--remove/--no-remove", panel=panels.WORKLOAD)] = Field(
        True, description="measure removing items and trees"
    )
    sync: Annotated[Literal["none", "each"], Cli(panel=panels.ACCESS)] = Field(
        "none", description="sync each file to storage when it is created, or none"
    )

    def parts(self) -> tuple[MetadataWorkload, Access]:
        """What is made, and how. A UsageError names a value that is not possible."""
        same = {name for name in MetadataWorkload.model_fields if name in type(self).model_fields}
        workload = metadata_workload(
            self.ranks,
            **self.model_dump(include=same),
            folders=self.only != "files",
            files=self.only != "directories",
            file_bytes=self.file_size if self.only != "directories" else 0,
        )
        return workload, Access(direct=False, sync=self.sync, seed=self.seed, **_content(self))

    def alone(self) -> Job:
        return metadata_job(*self.parts(), team_of(self.ranks, None))

    def values(self) -> list[str]:
        of_files = ["read"] if self.file_size else []
        of_all = ["create", "stat", *(["rename"] if self.rename else []), "remove"]
        folders = [f"directory {each}" for each in of_all if self.only != "files"]
        files = [f"file {each}" for each in (*of_all, *of_files) if self.only != "directories"]
        return ["tree create", *folders, *files, "tree remove"]


class NetworkParameters(WorkloadParameters):
    """The way between two machines, as `penstock bench network` measures it; targets are addresses."""

    SCALED = ("seconds", "latency_seconds")

    streams: int = Field(
        1, ge=1, le=64, description="number of connections, each with one thread per direction"
    )
    message_size: Size = Field(128 << 10, description="size of one send or receive call in a transfer")
    seconds: float = Field(
        10.0,
        ge=0.01,
        le=3600,
        description="duration in seconds of each transfer: to the other end, back, and both at once",
    )
    latency: str = Field("", description="message sizes for round-trip latency, such as 8B,1KiB; empty: none")
    latency_seconds: float = Field(
        2.0,
        ge=0.01,
        le=3600,
        description="duration in seconds of the latency measurement for each message size",
    )
    cpus: str = Field("all", description="processors to bind the threads to, such as 0,2-3; all: not bound")
    link: str = Field(
        "", description="speed of the link, such as 10Gb; empty: as reported by the interface's driver"
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
    "acquire-and-analyse": AcquireParameters,
    "analysis": AnalysisParameters,
    "frames": FramesParameters,
    "hdf5": Hdf5Parameters,
    "imaging": ImagingParameters,
    "metadata": MetadataParameters,
    "network": NetworkParameters,
    "seismic-sort": SeismicSortParameters,
    "stream": StreamParameters,
    "uvbuffer": UvbufferParameters,
}


def parameters_of(workload: str, values: Mapping[str, Parameter]) -> WorkloadParameters:
    """Returns the parameters. Raises UsageError for unknown ones and for values out of range."""
    if workload not in WORKLOADS:
        raise UsageError(
            f'unknown workload "{workload}"{did_you_mean(workload, WORKLOADS)}',
            f"use one of {', '.join(sorted(WORKLOADS))}",
        )
    for name, info in WORKLOADS[workload].model_fields.items():
        if name in values and CliField((name,), info, Cli(), {}).is_size:
            _require_unit(workload, name, values[name])
    try:
        return WORKLOADS[workload].model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        known = WORKLOADS[workload].model_fields
        what = {
            "extra_forbidden": f"this parameter is unknown{did_you_mean(place_of(first), known)}",
            "missing": "this parameter is required",
        }
        problem = what.get(first["type"], words_of(first))
        raise UsageError(
            f"`{place_of(first)}` of the workload {workload}: {problem}",
            f"use one of {', '.join(known)}"
            if first["type"] == "extra_forbidden"
            else f"{REFERENCE} lists the range of each parameter",
        ) from error


def _require_unit(workload: str, name: str, value: Parameter) -> None:
    try:
        with_unit_of_size(value)
    except ValueError as error:
        raise UsageError(
            f"`{name}` of the workload {workload}: {error}", f"{REFERENCE} lists all parameters"
        ) from error
