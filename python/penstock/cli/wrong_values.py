"""Reports errors of typer's parser in the words of all other errors, with a remedy."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import typer

from penstock.model.text import harmless

_NUMBERS = {"DAYS": "number of days", "SECONDS": "number of seconds", "HZ": "rate in Hz"}
_UNIT = re.compile(r"\bin (?P<unit>seconds|pixels)\b")
_WITH_UNIT = re.compile(r"[0-9.]+ *[A-Za-z]+")


class WrongValue(typer.BadParameter):
    """The value of an option or argument cannot be used: "--days-per-week: "5d" is not a number of days"."""

    def __init__(self, wrong: typer.BadParameter, problem: Any) -> None:
        super().__init__(wrong.message, wrong.ctx, wrong.param)
        self._problem = problem

    def format_message(self) -> str:
        from penstock.model.problems import words_of_option  # it loads pydantic

        return harmless(f"{_name_of(self.param)}: {words_of_option(self._problem, number_of(self.param))}")

    def show(self, file: Any = None) -> None:  # noqa: ARG002  (errors go to standard error)
        from penstock.cli.common import show_error  # it loads rich
        from penstock.model.errors import UsageError

        command = self.ctx.command_path if self.ctx is not None else "penstock"
        remedy = f"`{command} --help` lists all options with their ranges"
        if number_of(self.param) and _WITH_UNIT.fullmatch(str(self._problem.get("input"))):
            remedy = f"write the number without a unit; {remedy}"
        show_error(UsageError(self.format_message(), remedy))


# Base class of the errors of typer's parser, which typer does not export.
WrongOptions: Any = typer.BadParameter.__mro__[1]
_SAME_MEANING = (
    ("--jobs", "--threads", "--streams", "--processes", "--workers", "--numjobs"),
    ("--seconds", "--duration", "--time", "--runtime"),
    ("--repetitions", "--runs", "--repeat"),
    ("--transfer", "--bs", "--blocksize"),
    ("--queue-depth", "--iodepth"),
)
"""names of other commands and programs for what a command may call otherwise"""
_NO_COMMAND = re.compile(r"No such command '(?P<name>[^']*)'.*", re.DOTALL)
_NO_VALUE = re.compile(r"Option '(?P<name>[^']*)' requires (an argument|[0-9]+ arguments)\.?")
_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((?P<given>.*)\)", re.DOTALL)


class WrongUsage(WrongOptions):  # type: ignore[misc]
    """An option, argument or command is missing or unknown."""

    def __init__(self, message: str, remedy: str, ctx: Any) -> None:
        super().__init__(message, ctx)
        self._remedy = remedy

    def format_message(self) -> str:
        return harmless(str(self.message))

    def show(self, file: Any = None) -> None:  # noqa: ARG002  (errors go to standard error)
        from penstock.cli.common import show_error  # it loads rich
        from penstock.model.errors import UsageError

        show_error(UsageError(self.format_message(), self._remedy))


_OF_PATHS = re.compile("FILE|FOLDER|PATH")
"""in the metavars of parameters that take paths as text"""


def require_paths(context: Any, given: Mapping[str, Any]) -> None:
    """Raises WrongUsage if a path is empty: Path("") is the current directory. `given`: values as typed."""
    for parameter in context.command.get_params(context):
        values = given.get(parameter.name)
        is_empty = values == "" or (isinstance(values, list | tuple) and "" in values)
        if is_empty and _takes_paths(parameter):
            name = _name_of(parameter)
            remedy = "name a file or folder" + ("" if parameter.required else f", or leave out {name}")
            raise WrongUsage(f"{name}: the path is empty", remedy, context)


def _takes_paths(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None) or getattr(parameter, "type", None)
    is_path = "path" in str(getattr(described, "annotation", described)).lower()
    return is_path or _OF_PATHS.search(parameter.metavar or "") is not None


def in_our_words(wrong: Any, context: Any) -> Any:
    """Returns the parser's error with our wording and a remedy; what is only a help text stays."""
    problems = getattr(wrong.__cause__, "errors", None)
    found = problems() if callable(problems) else []
    if found:
        return WrongValue(wrong, found[0])
    if type(wrong).__name__ == "NoArgsIsHelpError" or isinstance(wrong, WrongUsage | WrongValue):
        return wrong
    see = f"`{context.command_path} --help` lists all options"
    message, remedy = (
        _unknown_name(wrong, context) or _missing_part(wrong, context) or (_plain_message(wrong), "")
    )
    return WrongUsage(message, remedy or see, context)


def _unknown_name(wrong: Any, context: Any) -> tuple[str, str] | None:
    """Returns error and remedy for an option or a command that does not exist."""
    if type(wrong).__name__ == "NoSuchOption":
        known = list(_options_of(context))
        if wrong.option_name == "--direct" and "--buffered" in known:  # as fio and elbencho call it
            return "unknown option --direct", "leave it out: POSIX I/O is direct without --buffered"
        near = _near(wrong.option_name, known)
        return f"unknown option {wrong.option_name}", f"did you mean {near[0]}?" if near else ""
    unknown = _NO_COMMAND.fullmatch(wrong.message)
    if unknown is None:
        return None
    near = get_close_matches(unknown["name"], list(context.command.commands), n=1)
    remedy = f"`{context.command_path} --help` lists the commands"
    if near:
        remedy = f"did you mean `{context.command_path} {near[0]}`?"
    return f'unknown command "{unknown["name"]}"', remedy


def _near(given: str, known: list[str]) -> list[str]:
    """The option that the user may have meant, if any: of the same meaning, or spelled alike."""
    same = next((names for names in _SAME_MEANING if given in names), ())
    if same:
        return [name for name in same if name in known]
    # Dashes, which all of them have, do not make two names similar.
    names = {name.lstrip("-"): name for name in known}
    wanted = given.lstrip("-")
    longer = [name for name in names if len(wanted) > 1 and name.startswith(wanted)]
    near = longer if len(longer) == 1 else get_close_matches(wanted, names, n=1)
    return [names[name] for name in near]


def _missing_part(wrong: Any, context: Any) -> tuple[str, str] | None:
    """Returns error and remedy for an option, argument or value that is missing or too many."""
    if type(wrong).__name__ == "MissingParameter" and wrong.param is not None:
        return f"{_name_of(wrong.param)} is missing", _how_to_give(wrong.param) + _usage(wrong.param, context)
    if (option := _NO_VALUE.fullmatch(wrong.message)) is not None:
        given = option["name"]
        named = (each for each in context.command.get_params(context) if given in each.opts)
        return f"{given} requires a value", next((_how_to_give(each) for each in named), "")
    if (extra := _EXTRA.fullmatch(wrong.message)) is not None:
        return f"unexpected argument: {extra['given']}", "leave it out, or put a value with spaces in quotes"
    return None


def _plain_message(wrong: Any) -> str:
    parameter = getattr(wrong, "param", None)
    name = f"{_name_of(parameter)}: " if parameter is not None else ""
    return name + _lower(wrong.message)


def _options_of(context: Any) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        if parameter.param_type_name == "option":
            yield from (*parameter.opts, *parameter.secondary_opts)


def _how_to_give(parameter: Any) -> str:
    """Returns what to add: "add --for xds or --for eiger", or with the first sentence of its help
    "add --rate HZ: frame rate in Hz".
    """
    name = _name_of(parameter)
    text = (getattr(parameter, "help", None) or "").strip()
    # "Detector: a name of ..." repeats the name of the argument.
    text = re.sub(rf"^{re.escape(name)}: ", "", text, flags=re.IGNORECASE)
    sentence = re.split(r"[.;:] |\.$", text, maxsplit=1)[0]
    meaning = f": {_lower(sentence)}" if sentence else ""
    if parameter.param_type_name == "argument":
        return f"give {name}{meaning}"
    metavar = getattr(parameter, "metavar", None)
    if choices := _choices_of(parameter):
        return "add " + " or ".join(f"{name} {choice}" for choice in choices)
    return f"add {name} {metavar or 'VALUE'}{meaning}"


def _usage(parameter: Any, context: Any) -> str:
    """Returns the order of the arguments: ", as in `penstock verdict DETECTOR TARGET`"; empty for options."""
    from penstock.cli.lazy import argument_name  # it imports this module

    arguments = [
        each for each in context.command.params if each.param_type_name == "argument" and each.required
    ]
    if parameter.param_type_name != "argument" or len(arguments) < 2:
        return ""
    return f", as in `{context.command_path} {' '.join(map(argument_name, arguments))}`"


def _choices_of(parameter: Any) -> tuple[Any, ...]:
    """Returns the values that an option of a few has; typer keeps them where its version wants them."""
    described = getattr(parameter, "type_descriptor", None) or getattr(parameter, "type", None)
    return tuple(getattr(described, "choices", None) or ())


def _lower(text: str) -> str:
    """Returns a sentence with a small first letter, unless it starts with an abbreviation."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def number_of(parameter: Any) -> str:
    """Returns what a number of the option stands for: "number of seconds"; "" without a unit."""
    metavar = getattr(parameter, "metavar", None) or ""
    named = _UNIT.search(getattr(parameter, "help", None) or "")
    return _NUMBERS.get(metavar, f"number of {named['unit']}" if named else "")


def _name_of(parameter: Any) -> str:
    if parameter is None:
        return "an argument"
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[].").replace("_", "-").upper()
    return str(max(parameter.opts, key=len))
