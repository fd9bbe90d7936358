"""The plans that the native programs run, exactly as they read them."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.units import Size

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
ELEMENTS_MAX = 32
GAP_PIXELS_MAX = 65535

Encoding = Literal["none", "bslz4", "bszstd", "lz4", "zstd", "deflate"]
# What Stream V2 has names for.
SentEncoding = Literal["none", "bslz4", "bszstd", "lz4", "zstd"]
LogLevel = Literal["debug", "info", "warning", "error"]
ElementType = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"
]


class Plan(BaseModel):
    """Base of all validated input: unknown fields are rejected."""

    model_config = ConfigDict(defer_build=True, extra="forbid", validate_default=True)


class EncodingPlan(Plan):
    """Compression of frames in the file. Frames that arrive compressed are stored unchanged."""

    encoding: Annotated[Encoding, Cli("--codec", panel=panels.COMPRESSION)] = Field(
        "bslz4",
        description="encoding of frames that arrive uncompressed; most readers expect bslz4",
    )
    level: Annotated[int, Cli(panel=panels.COMPRESSION)] = Field(
        0,
        ge=0,
        le=19,
        description="compression level: 1 to 19 for bszstd and zstd, 1 to 9 for deflate; 0: the codec's"
        " default",
    )
    block_bytes: Size = Field(
        0, ge=0, le=MIB, multiple_of=64, description="block size of bitshuffle; 0: the default of 8 KiB"
    )


class FilterPlan(Plan):
    """An HDF5 filter plug-in, with its parameters as a user gives them."""

    channel: str = Field(
        "",
        description="channel whose frames the filter compresses; empty: all channels without another filter",
    )
    id: int
    name: str = ""
    values: list[int] = []
    folders: list[str] = []
    exclusive: bool = False


class CodecPlan(EncodingPlan):
    """An encoding, or filters with the encoding `none`; the first of them names no channel."""

    filters: list[FilterPlan] | None = None


def parse_shape(text: str) -> list[int]:
    """Returns the numbers of "256x1024", and [] for "frame". Raises ValueError."""
    if text == "frame":
        return []
    if not re.fullmatch(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*", text):
        raise ValueError(f'"{text}" is not a shape; write for example 256x1024, or frame')
    return [int(extent) for extent in text.split("x")]


class ChunkPlan(Plan):
    """The chunk: the part of a frame that readers read as a unit. `penstock advise` recommends one."""

    shape: Annotated[
        list[Annotated[int, Field(ge=1, le=2**32)]],
        Cli("--chunk", panel=panels.COMPRESSION, metavar="SHAPE", default="frame", parse=parse_shape),
    ] = Field(
        [],
        max_length=3,
        description="chunk shape in pixels, such as `[256, 256]` (on the command line 256x256), at most the"
        " frame's shape. An empty list (on the command line `frame`) makes each chunk one frame. With other"
        " shapes, frames that arrive compressed are decompressed and compressed again",
    )
    frames: Annotated[int, Cli("--chunk-frames", panel=panels.COMPRESSION, metavar="K")] = Field(
        1,
        ge=1,
        le=32,
        description="number of frames per chunk; frames are acknowledged when their chunk is complete",
    )


class ScanAxisPlan(Plan):
    """An axis of a scan: its values are listed, or go from `start` in steps."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="name of the axis, whose values are in /entry/data; not `data` or `channel_…`",
    )
    points: int | None = Field(
        None, ge=1, le=2**24, description="number of points; left out if `values` are given"
    )
    values: list[float] = Field([], max_length=2**24, description="values, one per point")
    start: float = Field(0.0, allow_inf_nan=False, description="the first value")
    step: float = Field(1.0, allow_inf_nan=False, description="step between values")
    units: str = Field("", max_length=256, description="units of the values, for example `mm`")

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.name == "data" or self.name.startswith("channel_"):
            raise ValueError(f'name is "{self.name}"; this name is that of the frames')
        if self.points is None and not self.values:
            raise ValueError(f"points is missing: the number of points along {self.name}")
        if self.points is not None and self.values and self.points != len(self.values):
            raise ValueError(f"points is {self.points}, and there are {len(self.values)} values")
        return self


def _name(value: str) -> str:
    if len(value.encode()) > 256 or any(ord(letter) < 0x20 or letter == "\x7f" for letter in value):
        raise ValueError("a name has up to 256 bytes and no control characters")
    return value


NexusName = Annotated[str, AfterValidator(_name)]
Place = Annotated[int, Field(ge=0, lt=2**32)]


class ScanPlan(Plan):
    """Frames belong to the points of a grid: the dataset has its axes in front of the frame's dimensions.

    The fields `user_data.penstock.scan` of a start message, if present, replace these for its series.
    """

    axes: list[ScanAxisPlan] = Field(
        [], max_length=8, description="axes from the slowest to the fastest, see below; empty: no scan"
    )
    order: Literal["raster", "snake", "given", "table"] = Field(
        "raster",
        description="order of points: raster (each row in the same direction), snake (alternating"
        " direction), given (by each frame), or table (from `table`)",
    )
    place: str = Field(
        "position",
        min_length=1,
        max_length=256,
        description="for order `given`: name of the value in a frame's user_data that holds its point,"
        " counted row by row, or a list with an index for each axis",
    )

    table: list[Place | list[Place]] = Field(
        [],
        max_length=2**24,
        description="for order `table`: point of each trigger in turn, counted row by row, or a list with"
        " an index for each axis; each point at most once",
    )
    repeats: int = Field(
        1,
        ge=1,
        le=2**24,
        description="number of consecutive frames per point; more than one add the last axis `repeat`",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [axis.name for axis in self.axes] + (["repeat"] if self.repeats > 1 else [])
        if len(set(names)) < len(names):
            raise ValueError("two axes have the same name")
        if self.axes and (self.order == "table") != bool(self.table):
            raise ValueError(f'order is "{self.order}", but table has {len(self.table)} points')
        return self


class NexusPlan(Plan):
    """Names that NeXus requires and detectors do not send; without one the file has `unknown`, or nothing.

    The fields `user_data.penstock.nexus` of a start message, if present, replace these for its series.
    """

    instrument_name: NexusName = Field("", description="name of the beamline, for example `ID30A-3`")
    source_name: NexusName = Field("", description="name of the facility, for example `ESRF`")
    source_type: NexusName = Field(
        "", description="type of source as in NXsource, for example `Synchrotron X-ray Source`"
    )
    title: NexusName = Field("", description="title of series that have none; default: `series_unique_id`")
    sample_name: NexusName = Field(
        "", description="name of the sample; preferably sent by the source with each series"
    )
    user_name: NexusName = Field("", description="name of the user or the group that measures")
    experiment_identifier: NexusName = Field(
        "", description="number of the experiment or proposal, for example `MX-2417`"
    )
    sensor_material: NexusName = Field(
        "", description="sensor material, for detectors that do not send it, for example `Si`"
    )
    sensor_thickness: float | None = Field(
        None,
        gt=0,
        description="thickness of the sensor in metres, above 0, for detectors that do not send it",
    )


class StorePlan(Plan):
    """How the file is written. Sizes that are not set follow the storage: `--dry-run` shows them."""

    placement: Annotated[Literal["log", "slots"], Cli(panel=panels.FILES)] = Field(
        "log",
        description="placement of chunks in the file: appended one after another (log), or each at a fixed"
        " offset in a sparse file (slots)",
    )
    segment_bytes: Size = Field(
        8 * MIB,
        ge=64 * KIB,
        le=GIB,
        description="size of a segment, the unit in which data is written to storage",
    )
    extent_bytes: Size = Field(
        128 * MIB, ge=MIB, le=TIB, description="file space that is allocated at a time"
    )
    alignment_bytes: Size = Field(
        4096,
        ge=4096,
        le=GIB,
        description="alignment of segments: the stripe or block size of the file system; a power of two",
    )
    write_threads: int = Field(4, ge=1, le=64, description="number of segments that are written concurrently")
    direct: bool = Field(
        True, description="use direct I/O (bypass the page cache) if the file system supports it"
    )
    swmr: bool = Field(True, description="let readers open the file while it is written (SWMR)")
    durability: Annotated[Literal["none", "interval", "segment"], Cli(panel=panels.FILES)] = Field(
        "none",
        description="when data is synced to storage: never, at an interval (`sync_interval_ms`), or with"
        " each segment",
    )
    sync_interval_ms: int = Field(
        1000,
        ge=1,
        le=3_600_000,
        description="interval in milliseconds between syncs, with durability: interval",
    )
    flush_interval_ms: int = Field(
        1000, ge=1, le=3_600_000, description="interval in milliseconds after which readers see new frames"
    )


class FilesPlan(Plan):
    """Distribution of a series over files. See docs/how-to/record/split-a-series-into-files.md."""

    layout: Annotated[
        Literal["one", "per_writer", "split"], Cli("--files", panel=panels.FILES, metavar="KIND")
    ] = Field(
        "one",
        description="files of a series: one file; one per rank, for file systems that are slow with shared"
        " files; or a new file after `frames` frames. The file with the series' name always presents all"
        " frames",
    )
    frames: Annotated[int, Cli("--frames-per-file", panel=panels.FILES, metavar="N", default="not split")] = (
        Field(
            0,
            ge=0,
            le=2**32,
            description="number of frames per file; implies the layout `split` (--files split)",
        )
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.layout == "split") != (self.frames > 0):
            raise ValueError(
                "layout split requires `frames` of at least 1 (--files split --frames-per-file N)"
                if self.layout == "split"
                else f"`frames` is {self.frames}, which requires layout split, not {self.layout}"
            )
        return self


class TcpSourcePlan(Plan):
    kind: Literal["tcp"] = "tcp"
    host: str = "127.0.0.1"
    port: int = Field(9900, ge=0, le=65535)
    token: str | None = None
    lag_max_s: float = Field(30, ge=0.1, le=86400)
    rate_min_bytes_per_s: int = Field(64 * KIB, ge=1, le=2**40)


Gap = Annotated[int, Field(ge=0, le=GAP_PIXELS_MAX)]


class GapPlan(Plan):
    """Pixels between neighbouring rows and columns of elements, where they are not all alike."""

    rows: Gap | list[Gap] = Field(0, description="one number, or a list with one value fewer than rows")
    columns: Gap | list[Gap] = Field(0, description="one number, or a list with one value fewer than columns")


class ElementPlan(Plan):
    """The part of a detector whose stream comes from a source: the elements lie row by row in a grid."""

    grid: list[Annotated[int, Field(ge=1, le=ELEMENTS_MAX)]] = Field(
        min_length=2, max_length=2, description="[rows, columns] of the grid of elements; at most 32 elements"
    )
    number: int = Field(ge=0, description="number of this element, counted row by row from 0")
    gap: list[Gap] | GapPlan | None = Field(
        None,
        description="[rows, columns] in pixels between adjacent elements, at most 65535; or {rows: …,"
        " columns: …}, each a number or a list with one value per pair of neighbours. Default: no gap",
    )

    def gaps(self) -> tuple[list[int], list[int]]:
        """Between the rows and between the columns, each one fewer than there are."""
        rows, columns = (
            (self.gap.rows, self.gap.columns) if isinstance(self.gap, GapPlan) else self.gap or (0, 0)
        )
        return _gaps_of(rows, self.grid[0]), _gaps_of(columns, self.grid[1])

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if isinstance(self.gap, list) and len(self.gap) != 2:
            raise ValueError(f"gap is {self.gap}, expected [rows, columns]")
        for what, gaps, count in zip(("rows", "columns"), self.gaps(), self.grid, strict=True):
            if len(gaps) != count - 1:
                raise ValueError(
                    f"gap.{what} is {gaps}; a list has one value per pair of neighbours,"
                    f" {count - 1} in a grid of {self.grid}"
                )
        return self

    @model_validator(mode="after")
    def _inside(self) -> Self:
        count = self.grid[0] * self.grid[1]
        if count > ELEMENTS_MAX:
            raise ValueError(f"grid is {self.grid}, {count} elements; the maximum is {ELEMENTS_MAX}")
        if self.number >= count:
            raise ValueError(
                f"number is {self.number}; in a grid of {self.grid} it must be from 0 to {count - 1}"
            )
        return self


def _gaps_of(given: int | list[int], count: int) -> list[int]:
    return list(given) if isinstance(given, list) else [given] * (count - 1)


class ZmqSourcePlan(Plan):
    kind: Literal["zmq"] = "zmq"
    endpoint: str
    bind: bool = False
    element: ElementPlan | None = None


class MachinePlan(Plan):
    """Where threads run, as processors' numbers (`0,4-7`) or all of a NUMA node (`node:1`).

    Empty: wherever the process may run. Each must be among the processors that the process was given, by
    taskset, Slurm, mpirun or a cgroup. `penstock record --show-placement` shows the machine and the resulting
    placement.
    """

    receive: str = Field("", description="processors of the threads that receive frames")
    compress: str = Field("", description="processors of the compression threads")
    write: str = Field("", description="processors of the threads that write and sync")
    index: str = Field("", description="processors of the threads that call HDF5")
    huge_pages: Literal["off", "transparent", "explicit"] = Field(
        "transparent",
        description="huge pages for buffers of at least 2 MiB; `explicit` uses those reserved by"
        " vm.nr_hugepages, then transparent ones",
    )

    @field_validator("huge_pages", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        """YAML takes a bare `off` for false."""
        return "off" if value is False else value

    @field_validator("receive", "compress", "write", "index", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        """YAML takes a single processor for a number."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("receive", "compress", "write", "index")
    @classmethod
    def _list(cls, value: str) -> str:
        if not re.fullmatch(r"(?:(?:node:)?[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?", value):
            raise ValueError(f'"{value}" is not a list of processors; write for example 0,4-7, or node:0')
        return value


class MetricsPlan(Plan):
    """Address at which metrics are served."""

    host: str = "127.0.0.1"
    port: int = Field(9810, ge=0, le=65535)


class RecorderFields(Plan):
    """Fields that the configuration and the recorder's job have in common."""

    folder: Annotated[Path, Cli(panel=panels.FILES)] = Field(
        Path(), description="existing folder in which files are created"
    )
    file_name: Annotated[str, Cli(panel=panels.FILES)] = Field(
        "{series_unique_id}.h5",
        description="template of file names; {series_unique_id}, {series_id} and {date} are replaced",
    )
    overwrite: Annotated[bool, Cli("--overwrite/--no-overwrite", panel=panels.FILES)] = Field(
        False,
        description="replace existing files; symbolic links are neither followed nor replaced",
    )
    resume: Annotated[bool, Cli("--resume/--no-resume", panel=panels.SERIES)] = Field(
        False,
        description="resume a series in the file of a killed recorder, and keep its frames",
    )
    files: FilesPlan = Field(
        default_factory=lambda: FilesPlan.model_validate({}), description="number of files per series"
    )
    chunk: ChunkPlan = Field(
        default_factory=lambda: ChunkPlan.model_validate({}), description="size of a chunk"
    )
    scan: ScanPlan = Field(
        default_factory=lambda: ScanPlan.model_validate({}),
        description="grid of points to which frames belong",
    )
    nexus: NexusPlan = Field(
        default_factory=lambda: NexusPlan.model_validate({}),
        description="names that the detector does not send",
    )
    threads: Annotated[int, Cli(panel=panels.RESOURCES)] = Field(
        2, ge=1, le=1024, description="number of compression threads"
    )
    pool_bytes: Annotated[Size, Cli("--pool", panel=panels.RESOURCES, metavar="SIZE")] = Field(
        GIB,
        ge=64 * MIB,
        le=2**44,
        description="memory for frames and segments; metadata values, tables and the index need further"
        " memory",
    )
    tables_bytes: Size = Field(
        512 * MIB,
        ge=MIB,
        le=2**40,
        description="memory for the decoded masks, flat fields and tables of each series, in addition to"
        " pool_bytes",
    )
    when_full: Annotated[Literal["hold", "drop"], Cli(panel=panels.RESOURCES)] = Field(
        "hold",
        description="policy if the pool is full: hold back the source, or drop frames and count them",
    )
    frame_bytes_max: Size = Field(
        GIB,
        ge=1,
        le=0xFFFF_0000,
        description="maximum size of an uncompressed frame; larger frames are rejected",
    )
    series_limit: Annotated[int, Cli("--series", panel=panels.SERIES)] = Field(
        0,
        ge=0,
        le=2**62,
        description="exit after this many series, including rejected ones; 0: no limit",
    )
    end_timeout_s: float = Field(
        10.0,
        ge=0,
        le=86400,
        description="time in seconds to wait for frames after the end message, if other senders may still"
        " have some",
    )
    end_after_s: Annotated[float, Cli("--end-after", panel=panels.SERIES, metavar="SECONDS")] = Field(
        0.0,
        ge=0,
        le=864_000,
        description="close a series after this many seconds without a frame, even if no end message has"
        " arrived;"
        " 0: never",
    )
    idle_timeout_s: float = Field(
        60.0,
        ge=0,
        le=86400,
        description="timeout in seconds. The recorder closes a series if no frame has arrived for this time"
        " and some of its senders have ended it. It closes such a series also if another series needs its"
        " place."
        " It closes any series if the storage has failed again and again for this time, for another reason"
        " than that it is full",
    )
    store: StorePlan = Field(
        default_factory=lambda: StorePlan.model_validate({}), description="how files are written"
    )
    stall_limit_ms: int = Field(
        1000,
        ge=0,
        le=3_600_000,
        description="time in milliseconds after which a call of the storage or of HDF5 is reported as"
        " stalled; 0: never",
    )
    machine: MachinePlan = Field(
        default_factory=lambda: MachinePlan.model_validate({}),
        description="placement of threads and memory on the machine",
    )
    log_level: Annotated[LogLevel, Cli(panel=panels.OUTPUT)] = Field(
        "warning", description="minimum severity of log messages"
    )


class RecorderPlan(RecorderFields):
    """The job of penstock-recorder."""

    file_mode: str | None = Field(None, exclude=True)  # an option of the program
    layout: dict[str, Any] | None = None
    folders: list[Annotated[str, Field(min_length=1)]] = Field(
        [],
        max_length=256,
        description="`folder` through several mounts, one for each client: rank r uses number r modulo their"
        " count, and number 0 is `folder`; empty: all ranks use `folder`",
    )
    sources: list[Annotated[TcpSourcePlan | ZmqSourcePlan, Field(discriminator="kind")]]
    codec: CodecPlan
    metrics: MetricsPlan | None = None

    def without_tokens(self) -> "RecorderPlan":
        """Returns a copy with tokens hidden, for logs and output."""
        hidden = [
            source.model_copy(update={"token": "(hidden)"})
            if isinstance(source, TcpSourcePlan) and source.token
            else source
            for source in self.sources
        ]
        return self.model_copy(update={"sources": hidden})


class TcpPeer(Plan):
    host: str
    port: int = Field(ge=1, le=65535)


class TcpTarget(Plan):
    """A recorder, or several ranks of one (`more`), which are used in turn."""

    kind: Literal["tcp"] = "tcp"
    host: str
    port: int = Field(ge=1, le=65535)
    token: str | None = None
    more: list[TcpPeer] = []

    @property
    def addresses(self) -> list[str]:
        peers = [TcpPeer(host=self.host, port=self.port), *self.more]
        return [f"{f'[{peer.host}]' if ':' in peer.host else peer.host}:{peer.port}" for peer in peers]


class ZmqTarget(Plan):
    """An endpoint, or one for each element (`more`), in their order."""

    kind: Literal["zmq"] = "zmq"
    endpoint: str
    more: list[str] = []

    @property
    def endpoints(self) -> list[str]:
        return [self.endpoint, *self.more]


class FilesTarget(Plan):
    kind: Literal["files"] = "files"
    folder: str
    format: Literal["cbf", "tiff", "hdf5"] = "cbf"
    rename: bool = True


Target = Annotated[TcpTarget | ZmqTarget | FilesTarget, Field(discriminator="kind")]


FaultKind = Literal["drop", "late", "reorder", "duplicate", "corrupt", "flip", "shape", "cut"]


class FaultRule(Plan):
    """A fault of a simulated detector, at a rate, or for given frames."""

    kind: FaultKind
    rate: float | None = Field(None, ge=0, le=1)
    frames: list[tuple[int, int]] | None = None  # the first and the last of each run
    element: int | None = Field(None, ge=0, le=ELEMENTS_MAX - 1)
    by_frames: int | None = Field(None, ge=1, le=65536)
    by_ms: int | None = Field(None, ge=0, le=600_000)


class FaultsPlan(Plan):
    """Faults to inject; equal seeds inject equal faults. `log` is a file that lists them."""

    seed: int = 1
    rules: list[FaultRule] = []
    log: str = ""


class DetectorFields(Plan):
    """Fields that `penstock simulate` and the detector's job have in common."""

    frames: Annotated[int, Cli(panel=panels.SERIES)] = Field(
        100, ge=1, le=2**40, description="number of frames to send"
    )
    rate_hz: float = Field(0.0, ge=0, le=1e7, description="frame rate in Hz; 0: unpaced, at maximum rate")
    seed: Annotated[int, Cli(panel=panels.DETECTOR)] = Field(
        1, ge=0, le=2**64 - 1, description="seed of the frames; equal seeds make equal frames"
    )
    distinct_frames: Annotated[int, Cli(panel=panels.DETECTOR)] = Field(
        16, ge=1, le=1_000_000, description="number of different images that are generated and sent in turn"
    )
    ratio: Annotated[float | None, Cli(panel=panels.DETECTOR)] = Field(
        None,
        ge=1,
        le=1e6,
        description="compression ratio that generated frames have with bslz4, approximately",
    )
    stamp: Annotated[bool, Cli("--stamp/--no-stamp", panel=panels.DETECTOR)] = Field(
        True, description="write the frame number into the first pixels of simulated frames"
    )
    encoding: Annotated[SentEncoding, Cli(panel=panels.DETECTOR)] = Field(
        "none",
        description="encoding of sent frames; zstd only to files, because Stream V2 does not define it",
    )
    elements: tuple[int, int] | None = None
    element_gap: tuple[int, int] | None = None
    elements_told: Annotated[
        bool, Cli("--announce-elements/--no-announce-elements", panel=panels.DETECTOR)
    ] = Field(
        True,
        description="name the element of each stream in its start message. Otherwise the recorder's"
        " configuration must name it, as for detectors that do not announce it (ZeroMQ only)",
    )
    faults: FaultsPlan | None = None
    series_id: Annotated[int, Cli(panel=panels.SERIES)] = Field(
        1, ge=0, le=2**64 - 1, description="number of the series (series_id)"
    )
    series_unique_id: Annotated[
        str, Cli("--series-name", panel=panels.SERIES, default="made from detector and time")
    ] = Field("", description="name of the series (series_unique_id), at most 256 bytes")
    connect_timeout_s: Annotated[float, Cli("--connect-timeout", panel=panels.SERIES, metavar="SECONDS")] = (
        Field(10.0, ge=0, le=86_400, description="time in seconds to wait for a receiver")
    )
    reconnect_timeout_s: Annotated[
        float | None,
        Cli("--reconnect-timeout", panel=panels.SERIES, metavar="SECONDS", default="as --connect-timeout"),
    ] = Field(
        None,
        ge=0,
        le=86_400,
        description="time in seconds to wait for a lost recorder; frames that it has not acknowledged are"
        " sent again (not over ZeroMQ, which has no acknowledgements)",
    )
    log_level: LogLevel = "warning"


class DetectorPlan(DetectorFields):
    """The job of penstock-detector."""

    frames: int = Field(ge=1, le=2**40)
    detector: dict[str, Any]
    replay: str | None
    to: Target

    def without_tokens(self) -> "DetectorPlan":
        """Returns a copy with tokens hidden, for logs and output."""
        if not isinstance(self.to, TcpTarget) or self.to.token is None:
            return self
        return self.model_copy(update={"to": self.to.model_copy(update={"token": "(hidden)"})})


class CheckPlan(Plan):
    """The job of penstock-check."""

    file: str
    against: dict[str, Any] | None
    threads: int = Field(ge=1, le=1024)
    plugin_folders: list[str] = []
    plugins: bool = True
    index_timeout_s: float = Field(120.0, ge=0.001, le=1e6)
    count_only: bool = False  # count only the frames in the segments of an unfinished file


class RecoverPlan(Plan):
    """The job of penstock-recover."""

    file: str
    dry_run: bool = False
    rebuild: bool = False
    salvage: bool = False  # also a finished file whose end is cut off
    not_in_use: bool = False  # no process has the file, whatever the file system says of locks
    index_timeout_s: float = Field(120.0, ge=0.001, le=1e6)
