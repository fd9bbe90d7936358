"""Commands whose modules are loaded when a command is called or asked for its own help.

The list of commands shows their short helps without loading a module: loading all takes most of a second.

A command's module imports at its top what its options need. What only its work needs, such as HDF5, NumPy,
Matplotlib, YAML, Rich and the modules of Penstock that load them, it imports inside the function that uses
it, after checks that can reject the options. tests/python/cli/test_cli.py lists what commands must not load.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.cli.streams import encodable
from penstock.cli.words import EXIT_CODES, examples
from penstock.cli.wrong_values import WrongOptions, in_our_words, require_paths
from penstock.model import panels
from penstock.model.errors import PenstockError

_UNLIMITED = 1 << 16
_HELP_COLUMNS = 110  # the widest lines of a help on a terminal


def unwrapped_width(stream: Any) -> int | None:
    """Returns a width that wraps no line if the stream is piped; None on a terminal or with COLUMNS set."""
    return None if stream.isatty() or "COLUMNS" in os.environ else _UNLIMITED


def context_settings() -> dict[str, Any]:
    """Returns what all commands have in common."""
    return {
        "help_option_names": ["-h", "--help"],
        "terminal_width": unwrapped_width(sys.stdout),
        "max_content_width": _HELP_COLUMNS,
    }


class GroupedCommand(TyperCommand):
    """A command whose help shows options in groups: `rich_help_panel` of an option names its group."""

    def get_help(self, ctx: Any) -> str:
        return encodable(super().get_help(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                names, text = record
                if parameter.param_type_name == "argument":
                    names = argument_name(parameter)
                plain = (_CHOICES.sub(r"\1", _TYPES.sub(_type_word, names)), _plain_range(text))
                sections.setdefault(_panel(parameter), []).append(plain)
        order = ["Arguments", *panels.ORDER]
        for title in sorted(sections, key=order.index):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        """Returns [OPTIONS], and arguments as "FILE", "[FILE]" or "FILE..."."""
        pieces = [self.options_metavar] if self.options_metavar else []
        return [*pieces, *usage_arguments(self)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            args = _with_laboratories(ctx, args)
            require_paths(ctx, self.make_parser(ctx).parse_args(args=list(args))[0])
            return super().parse_args(ctx, args)
        except WrongOptions as error:
            raise in_our_words(error, ctx) from error


_OF_URLS = ("analysis", "clean", "frames", "metadata", "stream")
"""commands of `penstock bench` that take a URL as well"""


def _with_laboratories(ctx: Any, args: list[str]) -> list[str]:
    """Returns paths for words such as lab:moosefs/data. `penstock lab` and `campaign` take them."""
    takes_them = ctx.info_name == "campaign" or (ctx.parent is not None and ctx.parent.info_name == "lab")
    if takes_them or not any("lab:" in word or "penstock-lab" in word for word in args):
        return args
    # Loading it takes a while, and few commands name a laboratory.
    from penstock.cli.common import fail
    from penstock.cli.lab.targets import with_mount_points

    try:
        of_bench = ctx.parent is not None and ctx.parent.info_name == "bench"
        return with_mount_points(args, takes_urls=of_bench and ctx.info_name in _OF_URLS)
    except PenstockError as error:
        fail(error)


_TYPES = re.compile(r"<(?:list\[)?(?P<type>int|float|str|path)(?: range)?\]?>", re.IGNORECASE)
_CHOICES = re.compile(r"<([^<>]*\|[^<>]*)>")
_TYPE_WORDS = {"str": "TEXT", "path": "PATH"}
_RANGE = re.compile(r"(?P<least>[-+.0-9e]+)<=x<=(?P<most>[-+.0-9e]+)")
_AT_LEAST = re.compile(r"x>=(?P<least>[-+.0-9e]+)")


def _type_word(match: re.Match[str]) -> str:
    """Returns "PATH" for typer's "<path>" and "<list[Path]>", "NUMBER" for "<int range>"."""
    return _TYPE_WORDS.get(match["type"].lower(), "NUMBER")


def argument_name(parameter: Any) -> str:
    """Returns the name of an argument in helps and errors: "DETECTOR", or "FILES..." if it repeats."""
    name = str(parameter.metavar or parameter.name).strip("[].").replace("_", "-").upper()
    return f"{name}..." if parameter.nargs != 1 else name


def usage_arguments(command: Any) -> list[str]:
    """Returns the arguments of a command as its usage line shows them, optional ones in brackets."""
    arguments = [each for each in command.params if each.param_type_name == "argument" and not each.hidden]
    names = [(each, argument_name(each)) for each in arguments]
    return [name if each.required else f"[{name}]" for each, name in names]


def _plain_range(text: str) -> str:
    """Returns the help of an option with "1 to 256" for typer's "1<=x<=256", and one pair of brackets."""
    text = _RANGE.sub(r"\g<least> to \g<most>", text)
    return _AT_LEAST.sub(r"at least \g<least>", text).replace("]  [", "; ")


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or panels.OTHER


@dataclass(frozen=True)
class Later:
    """A command, where it is found: "module:function".

    `short_help` is its line in the list of commands: at most 65 characters, which 80 columns show. `panel`
    is the section of that list. `required` are options that the usage line shows because the command requires
    them, though the parser does not.
    """

    where: str
    short_help: str
    examples: Sequence[str] = ()
    exit_codes: str = EXIT_CODES
    panel: str = "Commands"
    required: str = ""

    def load(self, name: str) -> Any:
        """Returns it as a command of typer."""
        module, _, function = self.where.partition(":")
        found = getattr(import_module(module), function)
        alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        epilog = examples(*self.examples, exit_codes=self.exit_codes)
        metavar = f"{self.required} [OPTIONS]".lstrip()
        alone.command(
            name, short_help=self.short_help, epilog=epilog, cls=GroupedCommand, options_metavar=metavar
        )(found)
        return typer.main.get_command_from_info(
            alone.registered_commands[0], pretty_exceptions_short=True, rich_markup_mode=None
        )


@dataclass(frozen=True)
class LaterGroup:
    """Commands below a name of their own, such as `penstock bench`."""

    short_help: str
    commands: Mapping[str, Later]
    panel: str = "Commands"

    def load(self, name: str) -> Any:
        """Returns them as a group of typer."""
        group = typer.Typer(
            name=name,
            help=self.short_help,
            no_args_is_help=True,
            rich_markup_mode=None,  # its tables cut names where a terminal is narrow
            context_settings=context_settings(),
            cls=lazy_group(self.commands),
        )
        group.callback()(lambda: None)
        made = typer.main.get_group(group)
        made.name, made.short_help = name, self.short_help
        return made


class _Commands(Mapping[str, Any]):
    def __init__(self, later: Mapping[str, Later | LaterGroup]) -> None:
        self._later, self._loaded = later, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._later[name].load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._later)

    def __len__(self) -> int:
        return len(self._later)


def lazy_group(later: Mapping[str, Later | LaterGroup]) -> type[TyperGroup]:
    """Returns a class of group with these commands, in this order."""

    class LazyGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = _Commands(later)  # type: ignore[assignment]

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            try:
                return super().parse_args(ctx, args)
            except WrongOptions as error:
                raise in_our_words(error, ctx) from error

        def get_help(self, ctx: Any) -> str:
            return encodable(super().get_help(ctx))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            try:
                return super().resolve_command(ctx, args)
            except WrongOptions as error:
                raise in_our_words(error, ctx) from error

        def format_commands(self, _ctx: Any, formatter: Any) -> None:
            for panel in dict.fromkeys(each.panel for each in later.values()):
                with formatter.section(panel):
                    formatter.write_dl(
                        [(name, each.short_help) for name, each in later.items() if each.panel == panel]
                    )

    return LazyGroup
