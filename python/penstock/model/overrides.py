"""The options of `penstock record` laid over its configuration file."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.model.configuration import Configuration, PvaSource, TcpSource, ZmqSource
from penstock.model.errors import UsageError
from penstock.model.pva import PvaSettings
from penstock.model.yaml_file import describe_problem, read_yaml

_OPTION_OF = {
    "pool_bytes": "--pool",
    "series_limit": "--series",
    "end_after_s": "--end-after",
    "codec.encoding": "--codec",
    "codec.level": "--level",
    "chunk.shape": "--chunk",
    "chunk.frames": "--chunk-frames",
    "store.durability": "--durability",
    "files.layout": "--files",
    "files.frames": "--frames-per-file",
    "store.placement": "--placement",
    "metrics.listen": "--metrics",
}


@dataclass
class RecordOptions:
    """What was given on the command line; None and empty lists were not."""

    folder: Path | None = None
    file_name: str | None = None
    file_mode: str | None = None
    listen: list[str] = field(default_factory=list)
    token_file: Path | None = None
    zmq: list[str] = field(default_factory=list)
    codec: str | None = None
    level: int | None = None
    chunk: str | None = None
    chunk_frames: int | None = None
    threads: int | None = None
    pool: str | None = None
    when_full: str | None = None
    durability: str | None = None
    placement: str | None = None
    series: int | None = None
    end_after: float | None = None
    overwrite: bool | None = None
    resume: bool | None = None
    files: str | None = None
    frames_per_file: int | None = None
    layout: str | None = None
    log_level: str | None = None
    metrics: str | None = None
    pva: list[str] = field(default_factory=list)
    pva_settings: dict[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """As configuration fields, those that were given."""
        named = {
            "folder": self.folder,
            "file_name": self.file_name,
            "file_mode": self.file_mode,
            "threads": self.threads,
            "pool_bytes": self.pool,
            "when_full": self.when_full,
            "series_limit": self.series,
            "end_after_s": self.end_after,
            "overwrite": self.overwrite,
            "resume": self.resume,
            "files": self._files(),
            "layout": self.layout,
            "log_level": self.log_level,
            "codec": _given({"encoding": self.codec, "level": self.level}),
            "chunk": self._chunk(),
            "store": _given({"durability": self.durability, "placement": self.placement}),
            "metrics": _given({"listen": self.metrics}),
            "sources": self._sources(),
        }
        return {name: value for name, value in named.items() if value not in (None, {}, [])}

    def _chunk(self) -> dict[str, Any]:
        shape = None if self.chunk is None else parse_shape(self.chunk, "--chunk")
        return _given({"shape": shape, "frames": self.chunk_frames})

    def _files(self) -> dict[str, Any]:
        """A number of frames means a split, and any other layout has none."""
        if self.files is None:
            return {"layout": "split", "frames": self.frames_per_file} if self.frames_per_file else {}
        if self.files == "split":
            return _given({"layout": "split", "frames": self.frames_per_file})
        return {"layout": self.files, "frames": self.frames_per_file or 0}

    def _sources(self) -> list[dict[str, Any]]:
        tcp = [{"kind": "tcp", "listen": address, "token_file": self.token_file} for address in self.listen]
        zmq = [{"kind": "zmq", "endpoint": endpoint} for endpoint in self.zmq]
        return tcp + zmq + [{"kind": "pva", "channel": each, **self.pva_settings} for each in self.pva]


def configuration_from(path: Path | None, options: RecordOptions) -> Configuration:
    """The file (or the defaults) with the options laid over it. A UsageError names the option or the line."""
    base = read_yaml(path, Configuration) if path is not None else Configuration()
    # Only what was set: the rest may follow the storage.
    values = base.model_dump(exclude_unset=True)
    for name, value in options.fields().items():
        values[name] = (values.get(name) or {}) | value if isinstance(value, dict) else value
    if options.codec is not None:
        values["codec"] |= {"filter": None, "parameters": {}, "channels": {}}
    if options.token_file is not None and not options.listen:
        values.setdefault("sources", base.model_dump()["sources"])
        for source in values["sources"]:
            if source["kind"] == "tcp":
                source["token_file"] = options.token_file
    try:
        return Configuration.model_validate(values)
    except ValidationError as error:
        problems = [f"{_option(problem)}{_message(problem)}" for problem in error.errors()]
        raise UsageError("\n".join(problems), "`penstock record --help` lists all options") from error


def sources_left_out(path: Path | None, options: RecordOptions) -> list[str]:
    """The configuration's own sources, where options take their place."""
    if path is None or not options.fields().get("sources"):
        return []
    base = read_yaml(path, Configuration)
    if "sources" not in base.model_fields_set:
        return []
    return [_shown(source) for source in base.sources]


def _shown(source: TcpSource | ZmqSource | PvaSource) -> str:
    match source:
        case TcpSource():
            return f"tcp {source.listen}"
        case ZmqSource():
            return f"zmq {source.endpoint}"
        case PvaSource():
            return f"pva {source.channel}"


def pva_settings(channel: str, given: dict[str, Any]) -> PvaSettings:
    """Of one channel. A UsageError names the field."""
    try:
        return PvaSettings.model_validate({"channel": channel, **given})
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {_message(each)}" for each in error.errors()]
        raise UsageError("\n".join(problems), "`penstock pva --help` lists all options") from error


def parse_shape(text: str, option: str) -> list[int]:
    """The numbers of "256x1024"; none for "frame"."""
    if text == "frame":
        return []
    if not re.fullmatch(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*", text):
        raise UsageError(f'{option}: "{text}" is no shape', "write for example 256x1024, or frame")
    return [int(extent) for extent in text.split("x")]


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _option(problem: Any) -> str:
    location = [part for part in problem["loc"] if part not in ("tcp", "zmq", "pva")]
    if location[:1] == ["sources"]:
        if "pva" in problem["loc"]:
            return f"--pva, {location[-1]}: "
        return "--listen: " if "tcp" in problem["loc"] else "--zmq: "
    path = ".".join(str(part) for part in location)
    return f"{_OPTION_OF.get(path, '--' + path.replace('_', '-'))}: " if path else ""


def _message(problem: Any) -> str:
    return describe_problem({**problem, "loc": ()}, "", None)
