"""Makes options of a command from the fields of a model that declare them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from penstock.model.units import format_size

# A larger limit is not worth showing.
_MANY = 2**32
_FIELD = re.compile("`(?P<name>[a-z_]+)`")


@dataclass(frozen=True)
class Cli:
    """Declares an option in the annotation of a field. Without a `flag` its name follows from the field's.

    `panel` is its group in the help (panels.py). `default` is shown instead of the field's own default.
    `parse` converts the option's text to the field's value, or raises ValueError with the reason.
    """

    flag: str = ""
    panel: str = ""
    metavar: str = ""
    default: str = ""
    parse: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class CliField:
    """A field with an option; `path` leads from the model to the field."""

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
        """Returns the first name: "--pool"."""
        return self.flag.partition("/")[0]

    @property
    def parameter(self) -> str:
        """Returns the name of the function's parameter."""
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def kind(self) -> Any:
        """Returns its type, without None."""
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
        """Returns whether text with a unit is accepted."""
        kinds = [self.info, *(part for part in get_args(self.info.annotation))]
        metadata = [
            item for kind in kinds for item in getattr(kind, "metadata", getattr(kind, "__metadata__", ()))
        ]
        return any(isinstance(item, WithJsonSchema) for item in metadata)

    @property
    def takes_text(self) -> bool:
        return self.is_size or self.cli.parse is not None

    def text_of(self, value: Any) -> str:
        """Returns the value as users write it."""
        if isinstance(value, bool):
            names = [name.removeprefix("--") for name in self.flag.split("/")]
            return names[0 if value else -1]
        if self.is_size and isinstance(value, int):
            return format_size(value)
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    @property
    def default_text(self) -> str:
        """Returns the default as text, or ""."""
        default = self.info.get_default(call_default_factory=False)
        return self.cli.default or ("" if default in (None, ...) else self.text_of(default))

    @property
    def range_text(self) -> str:
        """Returns "1 to 256" or "none, interval or segment", or "" without a limit."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        if self.kind is bool or self.most is None or (self.most >= _MANY and not self.is_size):
            return f"at least {self.text_of(self.least)}" if self.least else ""
        return f"{self.text_of(self.least or 0)} to {self.text_of(self.most)}"

    @property
    def plain_help(self) -> str:
        """Returns description, range of a number, and a default that the model lacks; typer adds others."""
        number = self.kind is not bool and not self.choices and self.cli.parse is None
        allowed = f" ({self.range_text})" if number and self.range_text else ""
        default = f" [default: {self.cli.default}]" if self.cli.default else ""
        return f"{self._sentence}{allowed}.{default}"

    @property
    def _sentence(self) -> str:
        text = (self.info.description or "").strip().rstrip(".")
        return _FIELD.sub(self._as_option, text[:1].upper() + text[1:])

    def _as_option(self, field: re.Match[str]) -> str:
        """Replaces the name of another field in backticks by its option."""
        info = self.siblings.get(field["name"])
        cli = None if info is None else _cli_of(info)
        return field[0] if info is None or cli is None else CliField((field["name"],), info, cli, {}).option

    @property
    def help(self) -> str:
        """Returns description, range and default."""
        text = self._sentence
        allowed = f" ({self.range_text})" if self.range_text else ""
        default = f" [default: {self.default_text}]" if self.default_text else ""
        return f"{text}{allowed}.{default}"


def _cli_of(info: FieldInfo) -> Cli | None:
    return next((item for item in info.metadata if isinstance(item, Cli)), None)


def cli_fields(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[CliField]:
    """Yields the options of the model and of the models in its fields, in their order."""
    for name, info in model.model_fields.items():
        cli = _cli_of(info)
        if cli is not None:
            yield CliField((*path, name), info, cli, model.model_fields)
        kinds = [info.annotation, *get_args(info.annotation)]
        inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if inner is not None:
            yield from cli_fields(inner, (*path, name))


def nested(values: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """Returns {("codec", "level"): 3} as {"codec": {"level": 3}}."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    return tree
