"""How fields of a model become options of a command: the model declares them, a command is made of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from penstock.model.units import format_size

# A limit that nobody meets is not worth telling.
_MANY = 2**32
_FIELD = re.compile("`(?P<name>[a-z_]+)`")


@dataclass(frozen=True)
class Cli:
    """In the annotation of a field: it is an option. Without a `flag` its name follows from the field's.

    `default` is shown in the help where the field's own default says less. `parse` makes the field's value
    of the option's text; its ValueError says what is wrong.
    """

    flag: str = ""
    metavar: str = ""
    default: str = ""
    parse: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class CliField:
    """A field that is an option: `path` leads to it from the model."""

    path: tuple[str, ...]
    info: FieldInfo
    cli: Cli
    siblings: Mapping[str, FieldInfo]  # of the same model

    @property
    def flag(self) -> str:
        """ "--pool", or "--read/--no-read"."""
        return self.cli.flag or "--" + self.path[-1].strip("_").replace("_", "-")

    @property
    def option(self) -> str:
        """The first name: "--pool"."""
        return self.flag.partition("/")[0]

    @property
    def parameter(self) -> str:
        """The name of the function's parameter."""
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def kind(self) -> Any:
        """Its type, without None."""
        kinds = [part for part in get_args(self.info.annotation) if part is not type(None)]
        is_union = type(None) in get_args(self.info.annotation)
        return kinds[0] if is_union and len(kinds) == 1 else self.info.annotation

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def least(self) -> Any:
        return next((item.ge for item in self.info.metadata if isinstance(item, Ge)), None)

    @property
    def most(self) -> Any:
        return next((item.le for item in self.info.metadata if isinstance(item, Le)), None)

    @property
    def is_size(self) -> bool:
        """Whether text with a unit is understood."""
        kinds = [self.info, *(part for part in get_args(self.info.annotation))]
        metadata = [
            item for kind in kinds for item in getattr(kind, "metadata", getattr(kind, "__metadata__", ()))
        ]
        return any(isinstance(item, WithJsonSchema) for item in metadata)

    @property
    def takes_text(self) -> bool:
        return self.is_size or self.cli.parse is not None

    def text_of(self, value: Any) -> str:
        """As people write it."""
        if isinstance(value, bool):
            names = [name.removeprefix("--") for name in self.flag.split("/")]
            return names[0 if value else -1]
        if self.is_size and isinstance(value, int):
            return format_size(value)
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    @property
    def default_text(self) -> str:
        """Empty where there is none."""
        default = self.info.get_default(call_default_factory=False)
        return self.cli.default or ("" if default in (None, ...) else self.text_of(default))

    @property
    def range_text(self) -> str:
        """ "1 to 256", "none, interval or segment"; empty where all is allowed."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        if self.kind is bool or self.most is None or (self.most >= _MANY and not self.is_size):
            return f"at least {self.text_of(self.least)}" if self.least else ""
        return f"{self.text_of(self.least or 0)} to {self.text_of(self.most)}"

    @property
    def plain_help(self) -> str:
        """Description, the range of a number, and a default that the model lacks; typer adds the others."""
        number = self.kind is not bool and not self.choices and not self.takes_text
        allowed = f" ({self.range_text})" if number and self.range_text else ""
        default = f" [default: {self.cli.default}]" if self.cli.default else ""
        return f"{self._sentence}{allowed}.{default}"

    @property
    def _sentence(self) -> str:
        text = (self.info.description or "").strip().rstrip(".")
        return _FIELD.sub(self._as_option, text[:1].upper() + text[1:])

    def _as_option(self, field: re.Match[str]) -> str:
        """Descriptions name other fields in backticks: here these are options."""
        info = self.siblings.get(field["name"])
        cli = None if info is None else _cli_of(info)
        return field[0] if info is None or cli is None else CliField((field["name"],), info, cli, {}).option

    @property
    def help(self) -> str:
        """Description, range and default."""
        text = self._sentence
        allowed = f" ({self.range_text})" if self.range_text else ""
        default = f" [default: {self.default_text}]" if self.default_text else ""
        return f"{text}{allowed}.{default}"


def _cli_of(info: FieldInfo) -> Cli | None:
    return next((item for item in info.metadata if isinstance(item, Cli)), None)


def cli_fields(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[CliField]:
    """Those of the model and of the models in its fields, in their order."""
    for name, info in model.model_fields.items():
        cli = _cli_of(info)
        if cli is not None:
            yield CliField((*path, name), info, cli, model.model_fields)
        kinds = [info.annotation, *get_args(info.annotation)]
        inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if inner is not None:
            yield from cli_fields(inner, (*path, name))


def nested(values: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """{("codec", "level"): 3} as {"codec": {"level": 3}}."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    return tree
