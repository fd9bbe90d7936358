"""Commands whose options are the fields of a dataclass: several may have the same ones, or a part of them."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, get_type_hints

Table = TypeVar("Table")


def command_of(
    table: type[Table], run: Callable[[Table], None], without: Collection[str] = (), **fixed: object
) -> Callable[..., None]:
    """A command for typer that calls `run` with a `table` of its options.

    Its options are the fields of `table`, in their order, with annotations of typer; those of `without` and
    `fixed` are left out, and have their defaults, or what `fixed` says. Its help is that of `run`.
    """
    hints = get_type_hints(table, include_extras=True)
    known = fields(table)  # type: ignore[arg-type]
    shown = [field for field in known if field.name not in (*without, *fixed)]

    def command(**options: Any) -> None:
        run(table(**options, **fixed))

    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=_default_of(field),
            annotation=hints[field.name],
        )
        for field in shown
    ]
    # What typer looks at.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {field.name: hints[field.name] for field in shown}
    command.__doc__ = run.__doc__
    command.__name__ = run.__name__
    return command


def _default_of(field: "Field[Any]") -> object:
    return inspect.Parameter.empty if field.default is MISSING else field.default
