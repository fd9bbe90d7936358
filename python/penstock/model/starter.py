"""A new configuration with comments, made from the models that read it: names, defaults, limits, meanings."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.model.cli_option import Cli, CliField
from penstock.model.configuration import Configuration, PvaSource, TcpSource, ZmqSource
from penstock.model.text import one_short_line

_COLUMNS = 100
# What most users set; the reference has all. Inside a group the first field is set, the others are comments.
ACTIVE = ("folder", "file_name")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "codec": ("encoding", "level"),
    "store": ("durability", "sync_interval_ms"),
    "files": ("layout", "frames"),
    "nexus": ("instrument_name", "source_name", "source_type", "sample_name"),
    "metrics": ("listen",),
}
COMMENTED = (
    "threads",
    "pool_bytes",
    "when_full",
    "overwrite",
    "resume",
    "end_after_s",
    "layout",
    "log_level",
)
# Sources beside the first one, which have no defaults.
_OTHER_SOURCES: Sequence[tuple[type[BaseModel], dict[str, Any]]] = (
    (ZmqSource, {"kind": "zmq", "endpoint": "tcp://10.1.2.3:31001"}),
    (PvaSource, {"kind": "pva", "channel": "13SIM1:Pva1:Image"}),
)
_HEAD = """\
# Configuration of `penstock record`. Check it and start it with:
#   penstock record {name} --dry-run
#   penstock record {name}
# Values are the defaults, or examples if there is none. To change one, remove the # in front of it, if any.
# All fields: docs/reference/configuration.md
"""


def starter_text(name: str) -> str:
    """Returns the text of the configuration file `name`, in which every value is the default."""
    blocks = [
        *(_field(Configuration, field, active=True) for field in ACTIVE),
        _sources(),
        *(_group(field, inner) for field, inner in GROUPS.items()),
        *(_field(Configuration, field) for field in COMMENTED),
    ]
    head = _HEAD.format(name=one_short_line(shlex.quote(name)))
    return "\n".join([head, *("\n".join(block) + "\n" for block in blocks)])


def _field(model: type[BaseModel], name: str, indent: str = "", active: bool = False) -> Iterator[str]:
    """Yields the meaning of a field, and the field with its default."""
    field = _declared(model, name)
    yield from _meaning(field, indent)
    yield f"{indent}{'' if active else '#'}{name}: {_default(field)}"


def _declared(model: type[BaseModel], name: str) -> CliField:
    return CliField((name,), model.model_fields[name], Cli(), model.model_fields)


def _meaning(field: CliField, indent: str = "") -> list[str]:
    text = (field.info.description or "").rstrip(".")
    allowed = f" ({field.range_text})" if field.range_text else ""
    return textwrap.wrap(
        f"{text[:1].upper()}{text[1:]}{allowed}.",
        _COLUMNS,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _default(field: CliField) -> str:
    """Returns the default as YAML on one line."""
    value = field.info.get_default(call_default_factory=True)
    if field.is_size:
        return field.text_of(value)
    plain = value if isinstance(value, bool | int | float | list) else str(value)
    return yaml.safe_dump(plain, default_flow_style=True, width=1 << 16).removesuffix("\n...\n").rstrip("\n")


def _group(name: str, inner: Sequence[str]) -> Iterator[str]:
    """Yields fields of a model inside the configuration; in one line where the model is absent by default."""
    group = _declared(Configuration, name)
    model = _model_of(group.info)
    yield from _meaning(group)
    if group.info.get_default(call_default_factory=True) is None:
        fields = [_declared(model, field) for field in inner]
        for field in fields:
            yield from _meaning(field)
        stated = ", ".join(f"{field.path[-1]}: '{_default(field)}'" for field in fields)
        yield f"#{name}: {{{stated}}}"
        return
    yield f"{name}:"
    for number, field_name in enumerate(inner):
        yield from _field(model, field_name, "  ", active=number == 0)


def _model_of(info: FieldInfo) -> type[BaseModel]:
    kinds = [info.annotation, *get_args(info.annotation)]
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))


def _sources() -> Iterator[str]:
    listen = _declared(TcpSource, "listen")
    yield from _meaning(_declared(Configuration, "sources"))
    yield "sources:"
    yield f"  # {_doc(TcpSource)}"
    yield f"  - kind: {_default(_declared(TcpSource, 'kind'))}"
    yield from _meaning(listen, "    ")
    yield f"    listen: {_default(listen)}"
    yield from _meaning(_declared(TcpSource, "token_file"), "    ")
    yield "    #token_file: token.txt"
    for model, values in _OTHER_SOURCES:
        yield f"  # {_doc(model)}"
        for number, (field, value) in enumerate(values.items()):
            yield f"{'  #- ' if number == 0 else '    #'}{field}: {value}"


def _doc(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").partition("\n")[0]
