"""Commands whose modules are loaded when a command is called or asked for its own help.

The list of commands shows their short helps without loading a module: loading all takes most of a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.cli.words import EXIT_CODES, examples


@dataclass(frozen=True)
class Later:
    """A command, or a group of commands, where it is found: "module:name".

    `short_help` is its line in the list of commands: at most 65 characters, which 80 columns show.
    """

    where: str
    short_help: str
    examples: Sequence[str] = ()
    exit_codes: str = EXIT_CODES

    def load(self, name: str) -> Any:
        """As a command of click."""
        module, _, function = self.where.partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name, group.short_help = name, self.short_help
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

        def format_commands(self, _ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, each.short_help) for name, each in later.items()])

    return LazyGroup
