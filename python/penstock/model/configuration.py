"""The configuration of `penstock record`, as its YAML file gives it."""

import os
import re
import secrets
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.model import panels
from penstock.model.cli_option import Cli
from penstock.model.errors import UsageError
from penstock.model.filters import filter_plan
from penstock.model.layout.nodes import DEFAULT, Layout
from penstock.model.plans import (
    KIB,
    CodecPlan,
    ElementPlan,
    EncodingPlan,
    MetricsPlan,
    Plan,
    RecorderFields,
    RecorderPlan,
    TcpSourcePlan,
    ZmqSourcePlan,
)
from penstock.model.problems import reason_of
from penstock.model.pva import PvaSettings
from penstock.model.storage import StorageFacts, settle_store
from penstock.model.units import Size, format_size, is_loopback, split_address

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
TCP_PORT = 9900
METRICS_PORT = 9810
_WITHOUT_LEVELS = ("none", "lz4", "bslz4")
_PLACEHOLDERS = ("series_unique_id", "series_id", "date")


class TcpSource(Plan):
    """Listens for senders of Penstock's own TCP protocol."""

    kind: Literal["tcp"] = "tcp"
    listen: str = Field(
        "127.0.0.1:9900",
        description="address HOST:PORT; HOST may be a network interface (`eth1`); with port 0,"
        " the system chooses a free port",
    )
    token_file: Path | None = Field(
        None,
        description=f"file with the token that senders must send; otherwise the variable {TOKEN_VARIABLE}",
    )

    lag_max_s: float = Field(
        30.0,
        ge=0.1,
        le=86400,
        description="a client is disconnected if a message arrives this many seconds later than at"
        " `rate_min_bytes_per_s`; time in which the recorder does not read does not count",
    )
    rate_min_bytes_per_s: Size = Field(
        64 * KIB, ge=1, le=2**40, description="lowest rate, per second, at which a message may arrive"
    )

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        split_address(value, TCP_PORT)
        if not re.search(r"[.:]", value) and value != "localhost":
            raise ValueError(f'"{value}" is not an address; write HOST:PORT, for example 127.0.0.1:9900')
        return value

    def plan(self, environment: Mapping[str, str]) -> TcpSourcePlan:
        host, port = split_address(self.listen, TCP_PORT)
        token = read_token(self.token_file, environment)
        if token is None and not is_loopback(host):
            raise UsageError(
                f"listen: {self.listen} is reachable from other machines and requires a token",
                f"write a token into a file and give --token-file FILE, set {TOKEN_VARIABLE}, or listen on"
                " 127.0.0.1",
            )
        return TcpSourcePlan(
            host=host,
            port=port,
            token=token,
            lag_max_s=self.lag_max_s,
            rate_min_bytes_per_s=self.rate_min_bytes_per_s,
        )


class ZmqSource(Plan):
    """Pulls Stream V2 from a detector."""

    kind: Literal["zmq"]
    endpoint: str = Field(description="ZeroMQ endpoint, for example tcp://127.0.0.1:31001")
    bind: bool = Field(
        False, description="bind instead of connect; only on loopback, because ZeroMQ has no token"
    )
    element: ElementPlan | None = Field(
        None,
        description="element of this stream, for a detector of several elements whose start message does not"
        " name it (docs/how-to/record/record-a-modular-detector.md)",
    )

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        scheme, separator, rest = self.endpoint.partition("://")
        if not separator or scheme not in ("tcp", "ipc") or not rest:
            raise ValueError(
                f'"{self.endpoint}" is not a ZeroMQ endpoint; write for example tcp://127.0.0.1:31001'
            )
        if scheme == "tcp" and not re.fullmatch(r"[^/]+:([0-9]{1,5}|\*)", rest):
            raise ValueError(f'"{self.endpoint}" has no port; write for example tcp://{rest}:31001')
        if self.bind and scheme == "tcp" and not is_loopback(rest.rpartition(":")[0].strip("[]")):
            raise ValueError(
                f'"{self.endpoint}" is reachable from other machines; a ZeroMQ source may bind only on'
                f" loopback:"
                " use bind: false, or a tcp source with a token"
            )
        return self

    def plan(self, _environment: Mapping[str, str]) -> ZmqSourcePlan:
        return ZmqSourcePlan(endpoint=self.endpoint, bind=self.bind, element=self.element)


class PvaSource(PvaSettings):
    """Watches an NTNDArray channel of EPICS areaDetector, over pvAccess, in a separate process."""

    kind: Literal["pva"]


class Metrics(Plan):
    """Metrics for Prometheus, over HTTP. Not served by default."""

    listen: Annotated[
        str, Cli("--metrics", panel=panels.OUTPUT, metavar="HOST:PORT", default="no metrics")
    ] = Field(
        "127.0.0.1:9810",
        description="loopback address at which http://HOST:PORT/metrics is served; with port 0, the system"
        " chooses a free port; rank N uses PORT + N",
    )

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        host, _ = split_address(value, METRICS_PORT)
        if not re.search(r"[.:]", value) and value != "localhost":
            raise ValueError(f'"{value}" is not an address; write HOST:PORT, for example 127.0.0.1:9810')
        if not is_loopback(host):
            raise ValueError(
                f'"{value}" is reachable from other machines, and metrics have no access control: use'
                f" 127.0.0.1"
                " with an SSH tunnel, or a reverse proxy with a password"
            )
        return value

    def plan(self) -> MetricsPlan:
        host, port = split_address(self.listen, METRICS_PORT)
        return MetricsPlan(host=host, port=port)


Parameters = dict[str, bool | int | float | str] | list[int]


class ChannelFilter(Plan):
    """Filter of the frames of one channel."""

    filter: str | int = Field(description="HDF5 filter plug-in by name or number (`penstock filters`)")
    parameters: Parameters = Field(
        default_factory=dict,
        description="parameters of the filter: by name, with the defaults of hdf5plugin, or as a list of"
        " numbers",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        filter_plan(self.filter, self.parameters)
        return self


class Codec(EncodingPlan):
    """How frames are compressed on the way into the file. Frames that arrive compressed stay as they are."""

    filter: str | int | None = Field(
        None,
        description="HDF5 filter plug-in instead of an encoding, by name or number (`penstock filters`)",
    )
    parameters: Parameters = Field(
        default_factory=dict,
        description="parameters of the filter: by name, with the defaults of hdf5plugin, or as a list of"
        " numbers",
    )
    channels: dict[Annotated[str, Field(min_length=1)], ChannelFilter] = Field(
        default_factory=dict,
        description="filters of channels that differ from `filter`, by channel name",
    )
    plugin_folders: list[Path] = Field(
        default_factory=list,
        description="folders to search for plug-ins before those of hdf5plugin and HDF5",
    )
    exclusive: bool = Field(
        False,
        description="never run the filter concurrently with HDF5: slow, for plug-ins that call HDF5 for"
        " each chunk",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.filter is None:
            if self.parameters:
                raise ValueError("parameters require `filter`; an encoding has a level instead")
            if self.channels:
                raise ValueError("channels require `filter`, which applies to all other channels")
        else:
            if "encoding" in self.model_fields_set and self.encoding != "none":
                raise ValueError("filter and encoding exclude each other; remove one of them")
            if self.level or self.block_bytes:
                raise ValueError("level and block_bytes exclude `filter`; use its `parameters`")
            filter_plan(self.filter, self.parameters)
        if self.level and self.encoding in _WITHOUT_LEVELS:
            raise ValueError(f"level is {self.level}, but {self.encoding} has no levels; remove it")
        return self

    def plan(self) -> CodecPlan:
        if self.filter is None:
            return CodecPlan(encoding=self.encoding, level=self.level, block_bytes=self.block_bytes)
        others = ChannelFilter(filter=self.filter, parameters=self.parameters)
        filters = [
            filter_plan(chosen.filter, chosen.parameters, self.plugin_folders, self.exclusive, channel)
            for channel, chosen in {"": others, **self.channels}.items()
        ]
        return CodecPlan(encoding="none", level=0, block_bytes=0, filters=filters)


def _words(element: ElementPlan) -> str:
    """Returns the gaps as users write them."""
    rows, columns = (gaps[0] if len(set(gaps)) == 1 else gaps or 0 for gaps in element.gaps())
    return f"[{rows}, {columns}]"


def _check_apart(
    source: ZmqSource, element: ElementPlan, place: int, other: ZmqSource, its: ElementPlan, its_place: int
) -> None:
    """Raises ValueError if two sources cannot be elements of one detector."""
    if element.grid != its.grid:
        raise ValueError(
            f"sources[{place}].element.grid is {element.grid}, but sources[{its_place}] has {its.grid};"
            " all elements of a detector have the same grid"
        )
    if element.gaps() != its.gaps():
        raise ValueError(
            f"sources[{place}].element.gap is {_words(element)}, but sources[{its_place}] has"
            f" {_words(its)}; all elements of a detector have the same gaps"
        )
    if element.number == its.number:
        raise ValueError(
            f"sources[{place}].element.number {element.number} is already used by sources[{its_place}];"
            " each element has exactly one source"
        )
    if source.endpoint == other.endpoint:
        raise ValueError(
            f"sources[{place}].endpoint {source.endpoint} is already used by sources[{its_place}];"
            " each element requires a different endpoint"
        )


def _default_sources() -> list[TcpSource | ZmqSource | PvaSource]:
    return [TcpSource()]


class Configuration(RecorderFields):
    """What `penstock record` does. Sizes take units: 4096, 8 MiB, 1.5 GB."""

    file_mode: Annotated[str | None, Cli(panel=panels.FILES, metavar="OCTAL", default="from the umask")] = (
        Field(
            None,
            pattern=r"^0?[0-7]{3}$",
            description="permissions of the files, in octal, such as 0640 (in quotes in YAML)",
        )
    )
    layout: Annotated[str, Cli(panel=panels.FILES, metavar="NAME|FILE")] = Field(
        "nxmx",
        min_length=1,
        description="layout of the tree in the file: a name from `penstock layout list`, or a YAML file or"
        " areaDetector XML file; see docs/how-to/record/choose-a-layout.md",
    )
    sources: list[Annotated[TcpSource | ZmqSource | PvaSource, Field(discriminator="kind")]] = Field(
        default_factory=_default_sources, min_length=1, description="sources of frames"
    )
    codec: Codec = Field(default_factory=lambda: Codec.model_validate({}), description="compression")
    metrics: Metrics | None = Field(None, description="address of the metrics")

    @field_validator("file_name")
    @classmethod
    def _template(cls, value: str) -> str:
        bare = value
        for placeholder in _PLACEHOLDERS:
            bare = bare.replace(f"{{{placeholder}}}", "x")
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        if (unknown := re.search(r"\{[^{}]*\}", bare)) is not None:
            raise ValueError(f"unknown placeholder {unknown[0]}; use {known}")
        if "{" in bare or "}" in bare:
            raise ValueError(f"a brace is not closed or not opened; braces enclose placeholders: {known}")
        if "/" in bare or "\0" in bare or bare.startswith(".") or not bare:
            raise ValueError("it must be a plain file name without a folder (see `folder`), and not hidden")
        return value

    @field_validator("file_mode", mode="before")
    @classmethod
    def _mode_in_quotes(cls, value: object) -> object:
        """Rejects a number: YAML reads 0640 as octal, so that 416 arrives here, and 640 as decimal."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        written = str(value) if re.fullmatch("6[0-7]{2}", str(value)) else f"0{value:o}"
        raise ValueError(f'{written} must be in quotes: file_mode: "{written.zfill(4)}"')

    @field_validator("file_mode")
    @classmethod
    def _mode(cls, value: str | None) -> str | None:
        if value is not None and (int(value, 8) & ~0o666 or int(value, 8) & 0o600 != 0o600):
            raise ValueError(
                "the owner must be able to read and write, and no one to execute: 0600, 0640, 0660, 0664, …"
            )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        store, codec = self.store, self.codec
        if store.alignment_bytes & (store.alignment_bytes - 1):
            raise ValueError(f"store.alignment_bytes is {store.alignment_bytes}; it must be a power of two")
        if store.extent_bytes < store.segment_bytes:
            raise ValueError(
                f"store.extent_bytes ({format_size(store.extent_bytes)}) must be at least"
                f" store.segment_bytes ({format_size(store.segment_bytes)})"
            )
        if codec.encoding == "deflate" and codec.level > 9:
            raise ValueError(f"codec.level is {codec.level}; deflate has levels 1 to 9")
        return self

    @model_validator(mode="after")
    def _one_place_each(self) -> Self:
        """Each element has exactly one source."""
        before: list[tuple[int, ZmqSource, ElementPlan]] = []
        for place, source in enumerate(self.sources):
            if not isinstance(source, ZmqSource) or source.element is None:
                continue
            for other_place, other, its_element in before:
                _check_apart(source, source.element, place, other, its_element, other_place)
            before.append((place, source, source.element))
        return self

    @model_validator(mode="after")
    def _resumable(self) -> Self:
        if not self.resume:
            return self
        if self.overwrite:
            raise ValueError(
                "resume and overwrite (--resume and --overwrite) exclude each other: a file is either"
                " replaced or resumed"
            )
        if self.files.layout != "one":
            raise ValueError(f'files.layout is "{self.files.layout}"; resume requires "one", a single file')
        if "{date}" in self.file_name:
            raise ValueError(
                f'file_name is "{self.file_name}"; resume requires the same file name after each start:'
                " leave {date} out"
            )
        if self.store.placement != "log":
            raise ValueError(f'store.placement is "{self.store.placement}"; resume requires "log"')
        return self

    @model_validator(mode="after")
    def _placeable(self) -> Self:
        placement = self.store.placement
        if placement != "log" and self.files.layout != "one":
            raise ValueError(
                f'store.placement "{placement}" requires a single file, but files.layout is'
                f' "{self.files.layout}": leave out one of them'
            )
        return self

    @model_validator(mode="after")
    def _cuttable(self) -> Self:
        gathered = self.chunk.frames > 1
        elements = any(
            isinstance(source, ZmqSource) and source.element is not None and source.element.grid != [1, 1]
            for source in self.sources
        )
        if gathered and self.scan.axes:
            raise ValueError(
                f"chunk.frames is {self.chunk.frames} and scan has axes; a scan requires chunks of one frame:"
                " leave out one of them"
            )
        if not self.chunk.shape and not self.scan.axes and not gathered and not elements:
            return self
        what = f"chunk.frames is {self.chunk.frames}" if gathered else f"chunk.shape is {self.chunk.shape}"
        what = "a source has an element" if elements else what
        what = "scan has axes" if self.scan.axes else what
        if self.store.placement != "log":
            raise ValueError(
                f'store.placement is "{self.store.placement}" and {what}; fixed offsets require consecutive'
                " frames, one per chunk: leave out one of them"
            )
        if self.files.layout != "one":
            raise ValueError(
                f'files.layout is "{self.files.layout}" and {what}; that requires a single file: leave out'
                " one of them"
            )
        if self.resume:
            raise ValueError(
                f"resume is true and {what}; resume requires consecutive frames, one per chunk: leave out one"
                " of them"
            )
        return self

    def plan(
        self,
        environment: Mapping[str, str] = os.environ,
        storage: StorageFacts | None = None,
        layout: Layout | None = None,
    ) -> RecorderPlan:
        """Returns the recorder's job. Reads the token. Sizes that were not set follow the storage.

        `layout` is what `self.layout` names; None for the default layout, which the recorder knows.
        """
        if layout is None and self.layout != DEFAULT:
            raise ValueError(f"the layout {self.layout} was not read")
        store = self.store if storage is None else settle_store(self.store, storage)[0]
        same = {name: getattr(self, name) for name in RecorderFields.model_fields}
        own = {
            "folder": self.folder.absolute(),
            "end_timeout_s": self._end_timeout_s(),
            "store": store,
            "file_mode": self.file_mode,
            "layout": None if layout is None else layout.plan(),
            "sources": self._source_plans(environment),
            "codec": self.codec.plan(),
            "metrics": None if self.metrics is None else self.metrics.plan(),
        }
        return RecorderPlan(**same | own)

    @property
    def names_one_file(self) -> bool:
        """Returns whether all series have the same file name, so that a second one cannot be recorded."""
        return "{" not in self.file_name and not self.overwrite and not self.resume and self.series_limit != 1

    @property
    def pva_sources(self) -> list[PvaSource]:
        return [source for source in self.sources if isinstance(source, PvaSource)]

    def _end_timeout_s(self) -> float:
        """Returns the timeout; 0 for pvAccess sources, whose series have no frames after their end."""
        only_pva = len(self.pva_sources) == len(self.sources)
        return 0.0 if only_pva and "end_timeout_s" not in self.model_fields_set else self.end_timeout_s

    def _source_plans(self, environment: Mapping[str, str]) -> list[TcpSourcePlan | ZmqSourcePlan]:
        """Returns the recorder's sources; the last one is for the processes that watch pvAccess channels."""
        plans = [source.plan(environment) for source in self.sources if not isinstance(source, PvaSource)]
        if self.pva_sources:
            plans.append(TcpSourcePlan(host="127.0.0.1", port=0, token=secrets.token_hex(16)))
        return plans


def read_token(token_file: Path | None, environment: Mapping[str, str]) -> str | None:
    """Returns the token in the file or in the environment, or None. Raises UsageError."""
    if token_file is None:
        return environment.get(TOKEN_VARIABLE) or None
    try:
        with token_file.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the token file {token_file}: {reason_of(error)}", "check its path and permissions"
        ) from error
    if mode & 0o077:
        raise UsageError(
            f"the token file {token_file} has mode {mode:04o}: other users may read or write it",
            f"run `chmod 600 {shlex.quote(str(token_file))}`",
        )
    if not token:
        raise UsageError(f"the token file {token_file} is empty", "write the token into it, on one line")
    return token
