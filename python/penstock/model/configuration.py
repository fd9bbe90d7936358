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

from penstock.model.cli_option import Cli
from penstock.model.errors import UsageError
from penstock.model.filters import filter_plan
from penstock.model.layout.nodes import DEFAULT, Layout
from penstock.model.plans import (
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
from penstock.model.pva import PvaSettings
from penstock.model.storage import StorageFacts, settle_store
from penstock.model.units import format_size, is_loopback, split_address

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
TCP_PORT = 9900
METRICS_PORT = 9810
_PLACEHOLDERS = ("series_unique_id", "series_id", "date")


class TcpSource(Plan):
    """Listens for senders of Penstock's own TCP protocol."""

    kind: Literal["tcp"] = "tcp"
    listen: str = Field(
        "127.0.0.1:9900",
        description="HOST:PORT; HOST may be a network interface as well (`eth1`), port 0 lets the system"
        " choose",
    )
    token_file: Path | None = Field(
        None,
        description=f"file with the token that senders must show; otherwise the variable {TOKEN_VARIABLE}",
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
                f"{self.listen} can be reached from other machines, so senders must show a token",
                f"put a token of your own into a file and give --token-file FILE, or set {TOKEN_VARIABLE};"
                " or listen on 127.0.0.1",
            )
        return TcpSourcePlan(host=host, port=port, token=token)


class ZmqSource(Plan):
    """Pulls Stream V2 from a detector."""

    kind: Literal["zmq"]
    endpoint: str = Field(description="for example tcp://127.0.0.1:31001")
    bind: bool = Field(False, description="bind instead of connect; only on loopback, ZeroMQ has no token")
    element: ElementPlan | None = Field(
        None,
        description="of a detector of several elements: the one whose stream this is, where its start message"
        " does not say so (docs/how-to/record/record-a-modular-detector.md)",
    )

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        scheme, separator, rest = self.endpoint.partition("://")
        if not separator or scheme not in ("tcp", "ipc") or not rest:
            raise ValueError(f'"{self.endpoint}" is not an endpoint; write for example tcp://127.0.0.1:31001')
        if scheme == "tcp" and not re.fullmatch(r"[^/]+:([0-9]{1,5}|\*)", rest):
            raise ValueError(f'"{self.endpoint}" has no port; write for example tcp://{rest}:31001')
        if self.bind and scheme == "tcp" and not is_loopback(rest.rpartition(":")[0].strip("[]")):
            raise ValueError(
                f'"{self.endpoint}" would accept anybody: a ZeroMQ source binds on loopback only;'
                " use bind: false, or a tcp source with a token"
            )
        return self

    def plan(self, _environment: Mapping[str, str]) -> ZmqSourcePlan:
        return ZmqSourcePlan(endpoint=self.endpoint, bind=self.bind, element=self.element)


class PvaSource(PvaSettings):
    """Watches an NTNDArray channel of EPICS areaDetector, over pvAccess, in a process of its own."""

    kind: Literal["pva"]


class Metrics(Plan):
    """Metrics for Prometheus, over HTTP. Without `metrics` none are served."""

    listen: Annotated[str, Cli("--metrics", metavar="HOST:PORT", default="no metrics")] = Field(
        "127.0.0.1:9810",
        description="address on loopback, HOST:PORT, at which http://HOST:PORT/metrics is served; port 0 lets"
        " the system choose. Rank N of a job has PORT + N",
    )

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        host, _ = split_address(value, METRICS_PORT)
        if not re.search(r"[.:]", value) and value != "localhost":
            raise ValueError(f'"{value}" is not an address; write HOST:PORT, for example 127.0.0.1:9810')
        if not is_loopback(host):
            raise ValueError(
                f'"{value}" can be reached from other machines, and metrics have no token: use 127.0.0.1,'
                " and an SSH tunnel or a reverse proxy that asks for a password"
            )
        return value

    def plan(self) -> MetricsPlan:
        host, port = split_address(self.listen, METRICS_PORT)
        return MetricsPlan(host=host, port=port)


Parameters = dict[str, bool | int | float | str] | list[int]


class ChannelFilter(Plan):
    """The filter of one channel's frames, whose dataset is its own."""

    filter: str | int = Field(description="by name or number (`penstock filters`)")
    parameters: Parameters = Field(
        default_factory=dict,
        description="of the filter: by name, the others as in hdf5plugin, or its list of numbers",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        filter_plan(self.filter, self.parameters)
        return self


class Codec(EncodingPlan):
    """How frames are compressed on the way into the file. Frames that arrive compressed stay as they are."""

    filter: str | int | None = Field(
        None,
        description="instead of an encoding: an HDF5 filter plug-in, by name or number (`penstock filters`)",
    )
    parameters: Parameters = Field(
        default_factory=dict,
        description="of the filter: by name, the others as in hdf5plugin, or its list of numbers",
    )
    channels: dict[Annotated[str, Field(min_length=1)], ChannelFilter] = Field(
        default_factory=dict,
        description="filters of the channels that have another one, by the channel's name",
    )
    plugin_folders: list[Path] = Field(
        default_factory=list,
        description="where plug-ins are looked for first; hdf5plugin's and HDF5's own follow",
    )
    exclusive: bool = Field(
        False,
        description="the filter never runs beside HDF5: slow, for a plug-in that calls HDF5 with each chunk",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.filter is None:
            if self.parameters:
                raise ValueError("parameters need a `filter` that takes them; an encoding has a level")
            if self.channels:
                raise ValueError("channels need a `filter` beside them, for all that have none of their own")
        else:
            if self.encoding not in ("bslz4", "none") or self.level or self.block_bytes:
                raise ValueError(
                    "encoding, level and block_bytes have no meaning beside `filter`; give its `parameters`"
                )
            filter_plan(self.filter, self.parameters)
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
    """Its gaps, as a user may write them."""
    rows, columns = (gaps[0] if len(set(gaps)) == 1 else gaps or 0 for gaps in element.gaps())
    return f"[{rows}, {columns}]"


def _check_apart(
    source: ZmqSource, element: ElementPlan, place: int, other: ZmqSource, its: ElementPlan, its_place: int
) -> None:
    """Two sources of elements of one detector."""
    if element.grid != its.grid:
        raise ValueError(
            f"sources[{place}].element.grid is {element.grid}, that of sources[{its_place}] is {its.grid};"
            " the elements of a detector have one grid"
        )
    if element.gaps() != its.gaps():
        raise ValueError(
            f"sources[{place}].element.gap is {_words(element)}, that of sources[{its_place}] is"
            f" {_words(its)}; the elements of a detector have the same gaps"
        )
    if element.number == its.number:
        raise ValueError(
            f"sources[{place}].element.number is {element.number}, which sources[{its_place}] has;"
            " each element comes from one source"
        )
    if source.endpoint == other.endpoint:
        raise ValueError(
            f"sources[{place}].endpoint is {source.endpoint}, which sources[{its_place}] has for another"
            " element; each element has an endpoint of its own"
        )


def _default_sources() -> list[TcpSource | ZmqSource | PvaSource]:
    return [TcpSource()]


class Configuration(RecorderFields):
    """What `penstock record` does. Sizes take units: 4096, 8 MiB, 1.5 GB."""

    file_mode: Annotated[str | None, Cli(metavar="OCTAL", default="as the umask says")] = Field(
        None,
        pattern=r"^0?[0-7]{3}$",
        description="permissions of the files, in octal and in quotes, as 0640; otherwise the umask decides",
    )
    layout: Annotated[str, Cli(metavar="NAME|FILE")] = Field(
        "nxmx",
        min_length=1,
        description="what is in a file, and where: a ready layout (`penstock layout list`) or a file in YAML"
        " or in areaDetector's XML; see docs/how-to/record/choose-a-layout.md",
    )
    sources: list[Annotated[TcpSource | ZmqSource | PvaSource, Field(discriminator="kind")]] = Field(
        default_factory=_default_sources, min_length=1, description="where frames come from"
    )
    codec: Codec = Field(default_factory=lambda: Codec.model_validate({}), description="compression")
    metrics: Metrics | None = Field(None, description="serve metrics; not unless this is given")

    @field_validator("file_name")
    @classmethod
    def _template(cls, value: str) -> str:
        bare = value
        for placeholder in _PLACEHOLDERS:
            bare = bare.replace(f"{{{placeholder}}}", "x")
        if "{" in bare or "}" in bare:
            raise ValueError("known placeholders are " + ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS))
        if "/" in bare or "\0" in bare or bare.startswith(".") or not bare:
            raise ValueError("it must be a plain name without a folder (that is `folder`) and not hidden")
        return value

    @field_validator("file_mode")
    @classmethod
    def _mode(cls, value: str | None) -> str | None:
        if value is not None and (int(value, 8) & ~0o666 or int(value, 8) & 0o600 != 0o600):
            raise ValueError(
                "the owner has to read and write, and nobody may execute: 0600, 0640, 0660, 0664, …"
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
        """Of elements."""
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
                "overwrite and resume cannot both be true: a file is either replaced or gone on in"
            )
        if self.files.layout != "one":
            raise ValueError(
                f'files.layout is "{self.files.layout}"; with resume it must be "one": a recorder goes on in'
                " a single file only"
            )
        if "{date}" in self.file_name:
            raise ValueError(
                f'file_name is "{self.file_name}"; with resume it must lead to the same file after each'
                " start: leave {date} out"
            )
        if self.store.placement != "log":
            raise ValueError(
                f'store.placement is "{self.store.placement}"; with resume it must be "log": a recorder'
                " goes on with a log only"
            )
        return self

    @model_validator(mode="after")
    def _placeable(self) -> Self:
        placement = self.store.placement
        if placement != "log" and self.files.layout != "one":
            raise ValueError(
                f'store.placement is "{placement}" and files.layout is "{self.files.layout}"; fixed places'
                " are for a single file: leave out one of them"
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
                f"chunk.frames is {self.chunk.frames} and scan has axes; chunks of several frames are for"
                " frames one behind the other: leave out one of them"
            )
        if not self.chunk.shape and not self.scan.axes and not gathered and not elements:
            return self
        what = f"chunk.frames is {self.chunk.frames}" if gathered else f"chunk.shape is {self.chunk.shape}"
        what = "a source has an element" if elements else what
        what = "scan has axes" if self.scan.axes else what
        if self.store.placement != "log":
            raise ValueError(
                f'store.placement is "{self.store.placement}" and {what}; fixed places are for whole frames'
                " one behind the other: leave out one of them"
            )
        if self.files.layout != "one":
            raise ValueError(
                f'files.layout is "{self.files.layout}" and {what}; that goes into a single file only: leave'
                " out one of them"
            )
        if self.resume:
            raise ValueError(
                f"resume is true and {what}; a recorder goes on with whole frames one behind the other only:"
                " leave out one of them"
            )
        return self

    def plan(
        self,
        environment: Mapping[str, str] = os.environ,
        storage: StorageFacts | None = None,
        layout: Layout | None = None,
    ) -> RecorderPlan:
        """The recorder's plan; reads the token. Sizes that were not set follow the storage.

        `layout` is what `self.layout` names; None where that is the default one, which the recorder knows.
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
    def pva_sources(self) -> list[PvaSource]:
        return [source for source in self.sources if isinstance(source, PvaSource)]

    def _end_timeout_s(self) -> float:
        """Behind the end of a pvAccess source's series nothing comes: what it lacks is lost."""
        only_pva = len(self.pva_sources) == len(self.sources)
        return 0.0 if only_pva and "end_timeout_s" not in self.model_fields_set else self.end_timeout_s

    def _source_plans(self, environment: Mapping[str, str]) -> list[TcpSourcePlan | ZmqSourcePlan]:
        """Those of the recorder itself. The last one is for the processes that watch pvAccess channels."""
        plans = [source.plan(environment) for source in self.sources if not isinstance(source, PvaSource)]
        if self.pva_sources:
            plans.append(TcpSourcePlan(host="127.0.0.1", port=0, token=secrets.token_hex(16)))
        return plans


def read_token(token_file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token in the file or in the environment; None where there is neither."""
    if token_file is None:
        return environment.get(TOKEN_VARIABLE) or None
    try:
        with token_file.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the token file {token_file} cannot be read: {error}", "check its path and permissions"
        ) from error
    if mode & 0o077:
        raise UsageError(
            f"others may read or write the token file {token_file}: its mode is {mode:04o}",
            f"keep it to yourself: `chmod 600 {shlex.quote(str(token_file))}`",
        )
    if not token:
        raise UsageError(f"the token file {token_file} is empty", "put the token into it, on one line")
    return token
