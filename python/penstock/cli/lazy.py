"""Commands whose modules are loaded when they are called: all of them take most of a second."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.cli.words import EXIT_CODES, examples


@dataclass(frozen=True)
class Later:
    """A command, or a group of commands, where it is found: "module:name"."""

    where: str
    short_help: str | None = None
    examples: Sequence[str] = ()
    exit_codes: str = EXIT_CODES

    def load(self, name: str) -> Any:
        """As a command of click."""
        module, _, function = self.where.partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(
            name, short_help=self.short_help, epilog=examples(*self.examples, exit_codes=self.exit_codes)
        )(found)
        return typer.main.get_command_from_info(
            alone.registered_commands[0], pretty_exceptions_short=True, rich_markup_mode=None
        )


class _Commands(Mapping[str, Any]):
    def __init__(self, later: Mapping[str, Later]) -> None:
        self._later, self._loaded = later, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._later[name].load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._later)

    def __len__(self) -> int:
        return len(self._later)


def lazy_group(later: Mapping[str, Later]) -> type[TyperGroup]:
    """A class of group with these commands, in this order."""

    class LazyGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = _Commands(later)  # type: ignore[assignment]

    return LazyGroup
