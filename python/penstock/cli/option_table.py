"""Makes commands from tables of options: fields of dataclasses, or of models that declare options."""

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, get_type_hints

import typer
from pydantic import BaseModel, ValidationError

from penstock.cli import completion
from penstock.model.cli_option import CliField, cli_fields
from penstock.model.errors import UsageError
from penstock.model.problems import own_remedy_of, words_of

Model = TypeVar("Model", bound=BaseModel)
_SEE_HELP = "`--help` lists all options with their ranges"
_COMPLETIONS: dict[tuple[str, ...], Any] = {("layout",): completion.layouts}


class Table(Protocol):
    """Some options of a command, and the object that is made from their values."""

    def parameters(self) -> Iterator[inspect.Parameter]: ...

    def made(self, options: dict[str, Any]) -> Any: ...


class DataclassTable:
    """The fields of a dataclass, with annotations of typer, in their order.

    Fields in `without` and `fixed` are not options; they have their defaults, or the values in `fixed`.
    """

    def __init__(self, table: type, without: Collection[str] = (), **fixed: object) -> None:
        self._table, self._without, self._fixed = table, without, fixed

    def parameters(self) -> Iterator[inspect.Parameter]:
        hints = get_type_hints(self._table, include_extras=True)
        for field in fields(self._table):
            if field.name not in (*self._without, *self._fixed):
                yield _parameter(field.name, _default_of(field), hints[field.name])

    def made(self, options: dict[str, Any]) -> Any:
        return self._table(**options, **self._fixed)


class OverlayTable:
    """The options of a model that override the values of a file: each is None unless given.

    `made` returns the given values by the paths of their fields.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._fields = list(cli_fields(model))

    def parameters(self) -> Iterator[inspect.Parameter]:
        for field in self._fields:
            yield _parameter(field.parameter, None, _overlay_annotation(field))

    def made(self, options: dict[str, Any]) -> dict[tuple[str, ...], Any]:
        given = [(field, options[field.parameter]) for field in self._fields]
        return {field.path: _parsed(field, value) for field, value in given if value is not None}


class ModelTable:
    """The options of a model, with its types, limits and defaults; `made` returns a `model`.

    Fields in `without` and `fixed` are not options; they have their defaults, or the values in `fixed`.
    """

    def __init__(self, model: type[Model], without: Collection[str] = (), **fixed: object) -> None:
        self._model, self._fixed = model, fixed
        self._fields = [field for field in cli_fields(model) if field.path[0] not in (*without, *fixed)]

    def parameters(self) -> Iterator[inspect.Parameter]:
        for field in self._fields:
            yield _parameter(field.parameter, _model_default(field), _model_annotation(field))

    def made(self, options: dict[str, Any]) -> BaseModel:
        values = {field.path[0]: _parsed(field, options[field.parameter]) for field in self._fields}
        given = {name: value for name, value in values.items() if value is not None}
        return validated(self._model, given | self._fixed)


def validated(model: type[Model], values: dict[str, Any]) -> Model:
    """Returns the model. Raises UsageError with option, value and limit of every problem."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        options = {field.path[0]: field.option for field in cli_fields(model)}
        sizes = {field.path[0] for field in cli_fields(model) if field.is_size}
        problems = []
        for each in error.errors():
            place = str(each["loc"][0]) if each["loc"] else ""
            name = options.get(place, "--" + place.replace("_", "-")) if place else ""
            problems.append(
                ": ".join(part for part in (name, words_of(each, is_size=place in sizes)) if part)
            )
        remedies = [remedy for each in error.errors() if (remedy := own_remedy_of(each))]
        raise UsageError("\n".join(problems), "; ".join(remedies) or _SEE_HELP) from error


def command_of(run: Callable[..., None], *tables: Table) -> Callable[..., None]:
    """Returns a command that calls `run` with the object of each table. Its help is that of `run`."""
    of_tables = [(table, list(table.parameters())) for table in tables]

    def command(**options: Any) -> None:
        run(*(table.made({each.name: options[each.name] for each in shown}) for table, shown in of_tables))

    shown = [parameter for _, parameters in of_tables for parameter in parameters]
    # Python requires parameters without a default first; typer passes all by name.
    shown.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in shown}
    command.__doc__ = run.__doc__
    command.__name__ = run.__name__
    return command


def _parameter(name: str, default: object, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )


def _default_of(field: "Field[Any]") -> object:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _parsed(field: CliField, value: Any) -> Any:
    if field.cli.parse is None or value is None:
        return value
    try:
        return field.cli.parse(value)
    except ValueError as error:
        raise UsageError(f"{field.option}: {error}", _SEE_HELP) from error


def _overlay_annotation(field: CliField) -> object:
    """Returns the type of the option: numbers and switches as such, everything else as text for the model."""
    kind = field.kind if field.kind in (int, float, bool, Path) and not field.is_size else str
    option = typer.Option(
        field.flag,
        metavar=field.cli.metavar or None,
        help=field.help,
        rich_help_panel=field.cli.panel or None,
        autocompletion=_COMPLETIONS.get(field.path),
    )
    return Annotated[kind | None, option]


def _model_default(field: CliField) -> object:
    if field.info.is_required():
        return inspect.Parameter.empty
    default = field.info.get_default(call_default_factory=True)
    return field.text_of(default).replace(" ", "") if field.takes_text and default is not None else default


def _model_annotation(field: CliField) -> object:
    metavar = field.cli.metavar or ("SIZE" if field.is_size else None)
    # The model checks the limits, and its errors have our wording.
    option = typer.Option(
        field.flag, metavar=metavar, help=field.plain_help, rich_help_panel=field.cli.panel or None
    )
    kind = str if field.takes_text else field.kind
    optional = not field.info.is_required() and field.info.get_default(call_default_factory=True) is None
    return Annotated[kind | None if optional else kind, option]
