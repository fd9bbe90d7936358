"""Reports values of options that typer cannot read in the words of all other errors."""

import re
from typing import Any

import typer

from penstock.model.text import harmless

_NUMBERS = {"DAYS": "number of days", "SECONDS": "number of seconds", "HZ": "rate in Hz"}
_UNIT = re.compile(r"\bin (?P<unit>seconds|pixels)\b")
_WITH_UNIT = re.compile(r"[0-9.]+ *[A-Za-z]+")


class WrongValue(typer.BadParameter):
    """The value of an option or argument cannot be used: "--retention: "30d" is not a number of days"."""

    def __init__(self, wrong: typer.BadParameter, problem: Any) -> None:
        super().__init__(wrong.message, wrong.ctx, wrong.param)
        self._problem = problem

    def format_message(self) -> str:
        from penstock.model.problems import words_of_option  # noqa: PLC0415  (it loads pydantic)

        return harmless(f"{_name_of(self.param)}: {words_of_option(self._problem, number_of(self.param))}")

    def show(self, file: Any = None) -> None:  # noqa: ARG002  (errors go to standard error)
        from penstock.cli.common import show_error  # noqa: PLC0415  (it loads rich)
        from penstock.model.errors import UsageError  # noqa: PLC0415

        command = self.ctx.command_path if self.ctx is not None else "penstock"
        remedy = f"`{command} --help` lists all options with their ranges"
        if number_of(self.param) and _WITH_UNIT.fullmatch(str(self._problem.get("input"))):
            remedy = f"write the number without a unit; {remedy}"
        show_error(UsageError(self.format_message(), remedy))


def in_our_words(wrong: typer.BadParameter) -> typer.BadParameter:
    """Returns the error with our wording if typer's is that of pydantic."""
    problems = getattr(wrong.__cause__, "errors", None)
    found = problems() if callable(problems) else []
    return WrongValue(wrong, found[0]) if found else wrong


def number_of(parameter: Any) -> str:
    """Returns what a number of the option stands for: "number of seconds"; "" without a unit."""
    metavar = getattr(parameter, "metavar", None) or ""
    named = _UNIT.search(getattr(parameter, "help", None) or "")
    return _NUMBERS.get(metavar, f"number of {named['unit']}" if named else "")


def _name_of(parameter: Any) -> str:
    if parameter is None:
        return "an argument"
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[].").upper()
    return str(max(parameter.opts, key=len))
