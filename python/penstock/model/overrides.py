"""The options of `penstock record` laid over its configuration file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from penstock.model.cli_option import cli_fields, nested
from penstock.model.configuration import Configuration, PvaSource, TcpSource, ZmqSource
from penstock.model.errors import UsageError
from penstock.model.problems import did_you_mean, location_of, words_of
from penstock.model.pva import PvaSettings
from penstock.model.yaml_file import read_yaml


@dataclass
class RecordOptions:
    """What was given on the command line. `given` has fields of the configuration by their path."""

    given: dict[tuple[str, ...], Any] = field(default_factory=dict)
    listen: list[str] = field(default_factory=list)
    token_file: Path | None = None
    zmq: list[str] = field(default_factory=list)
    pva: list[str] = field(default_factory=list)
    pva_settings: dict[str, Any] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    """FIELD=VALUE of any field; options for the same field have precedence"""

    def fields(self) -> dict[str, Any]:
        """As configuration fields, those that were given."""
        named = nested(self.given) | {"files": self._files(), "sources": self._sources()}
        return {name: value for name, value in named.items() if value not in ({}, [])}

    def _files(self) -> dict[str, Any]:
        """A number of frames means a split, and any other layout has none."""
        files: dict[str, Any] = dict(nested(self.given).get("files", {}))
        if "layout" not in files:
            return {"layout": "split", **files} if files.get("frames") else {}
        return files if files["layout"] == "split" else {"frames": 0, **files}

    def _sources(self) -> list[dict[str, Any]]:
        tcp = [{"kind": "tcp", "listen": address, "token_file": self.token_file} for address in self.listen]
        zmq = [{"kind": "zmq", "endpoint": endpoint} for endpoint in self.zmq]
        return tcp + zmq + [{"kind": "pva", "channel": each, **self.pva_settings} for each in self.pva]


def configuration_from(path: Path | None, options: RecordOptions) -> Configuration:
    """The file (or the defaults) with the options laid over it. A UsageError names the option or the line."""
    base = read_yaml(path, Configuration) if path is not None else Configuration()
    # Only what was set: the rest may follow the storage.
    values = base.model_dump(exclude_unset=True)
    for setting in options.settings:
        _put(values, *_parsed_setting(setting))
    for name, value in options.fields().items():
        values[name] = (values.get(name) or {}) | value if isinstance(value, dict) else value
    if ("codec", "encoding") in options.given:
        values["codec"] |= {"filter": None, "parameters": {}, "channels": {}}
        if ("codec", "level") not in options.given:  # that in the file is one of another encoding
            values["codec"].pop("level", None)
    if options.token_file is not None and not options.listen:
        values.setdefault("sources", base.model_dump()["sources"])
        for source in values["sources"]:
            if source["kind"] == "tcp":
                source["token_file"] = options.token_file
    try:
        return Configuration.model_validate(values)
    except ValidationError as error:
        set_ = {setting.partition("=")[0].strip() for setting in options.settings}
        problems = [f"{_option(problem, set_)}{_message(problem)}" for problem in error.errors()]
        raise UsageError("\n".join(problems), "`penstock record --help` lists all options") from error


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values[name] = dict(values.get(name) or {})
        values = values[name]
    values[path[-1]] = value


def _parsed_setting(setting: str) -> tuple[tuple[str, ...], Any]:
    """Returns the field's path and its value: of a text field the text, else YAML. Raises UsageError."""
    name, equals, text = setting.partition("=")
    if not equals:
        raise UsageError(
            f"--set {setting} is not FIELD=VALUE", "for example --set nexus.sample_name='lysozyme 3'"
        )
    path = tuple(name.strip().split("."))
    model: type[BaseModel] | None = Configuration
    kinds: set[Any] = set()
    for part in path:
        known = {} if model is None else model.model_fields
        if part not in known:
            raise UsageError(
                f"--set {setting}: {name} is not a field{did_you_mean(part, known)}",
                "docs/reference/configuration.md lists all fields",
            )
        kinds = {known[part].annotation, *get_args(known[part].annotation)}
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    if kinds & {str, Path}:
        return path, text
    try:
        return path, yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"--set {setting}: {text} is not a YAML value", "put text into quotes") from error


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


def _option(problem: Any, set_: set[str]) -> str:
    location = location_of(problem)
    if (name := ".".join(map(str, location))) in set_:
        return f"--set {name}: "
    if location[:1] == ["sources"]:
        if "pva" in problem["loc"]:
            return f"--pva, {location[-1]}: "
        return "--listen: " if "tcp" in problem["loc"] else "--zmq: "
    path = tuple(str(part) for part in location)
    options = {field.path: field.option for field in cli_fields(Configuration)}
    return f"{options.get(path, '--' + '.'.join(path).replace('_', '-'))}: " if path else ""


def _message(problem: Any) -> str:
    return words_of(problem)
