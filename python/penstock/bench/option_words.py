"""Errors about values of a workload, which name the options of the user."""

import re
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from penstock.model.errors import UsageError
from penstock.model.problems import place_of, words_of
from penstock.model.units import human_hz, human_seconds, human_size

# Options of fields of plans, if the name differs.
_OPTIONS = {
    "frame_bytes": "--frame-size",
    "rate_hz": "--rate",
    "buffer_frames": "--buffer-seconds",
    "late_after_s": "--late-after",
    "thread_bytes": "--size",
    "transfer_bytes": "--transfer",
    "file_bytes": "--size",
    "message_bytes": "--message",
    "echo_bytes": "--latency",
    "echo_seconds": "--latency-seconds",
    "seconds_max": "--seconds-max",
    "content_ratio": "--ratio",
    "token": "--token-file",
}
LIMITS = "`--help` lists the range of each option"
_LIMITS = ("gt", "ge", "lt", "le")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
_OPTION = re.compile(r"--(?P<name>[a-z][a-z-]*)")


def impossible_value(error: ValidationError) -> UsageError:
    """Returns an error with the option, value and limit of every invalid value."""
    return UsageError("\n".join(_problem_words(each) for each in error.errors()), LIMITS)


def _problem_words(problem: Any) -> str:
    field, given = place_of(problem).partition(".")[0], problem["input"]
    if field == "token":  # secrets are not shown
        return f"{option_of(field)}: {words_of(problem, 'it')}"
    if field.endswith("_bytes"):
        shown = human_size(given) if isinstance(given, int) else None
        return f"{option_of(field)}: {words_of(_in_bytes(problem), shown)}"
    return f"{_ORIGINS.get(field, option_of(field))}: {words_of(problem)}"


# Fields that follow from several options.
_ORIGINS = {
    "buffer_frames": "frames in the queue (--rate times --buffer-seconds)",
    "frames": "frames of the run (--frames, or --rate times its seconds)",
}


def option_of(field: str) -> str:
    """What a field of a plan is called where it is asked for."""
    return _OPTIONS.get(field, "--" + field.replace("_", "-"))


def value_words(field: str, text: str) -> str:
    """Returns the text that stands for the value of a field with its unit: sizes, rates and times."""
    if field.endswith("_bytes") and text.isdecimal():
        return human_size(int(text))
    if not _NUMBER.fullmatch(text):
        return text
    if field.endswith("_hz"):
        return human_hz(float(text), 6) if float(text) else "unpaced"
    return human_seconds(float(text)) if field.endswith("_s") else text


def field_words(field: str) -> str:
    """ "frame size" of frame_bytes, for people who never saw the field. What is an option already stays."""
    if field.startswith("--"):
        return field
    return "buffer frames" if field == "buffer_frames" else option_of(field)[2:].replace("-", " ")


def differing_text(field: str, base: str, other: str) -> str:
    """ "frame size: 1 MiB and 2 MiB", of the texts that stand for both values."""
    first, second = (value_words(field, text) or "not given" for text in (base, other))
    return f"{field_words(field)}: {first} and {second}"


def _in_bytes(problem: Any) -> Any:
    """Its limits are sizes, too."""
    limits = problem.get("ctx", {})
    return {
        **problem,
        "ctx": limits | {name: human_size(int(limits[name])) for name in _LIMITS if name in limits},
    }


def as_parameters(text: str, known: Collection[str]) -> str:
    """Options in `text` as a campaign's description names them: "--frame-size" is `frame_size`."""

    def named(match: re.Match[str]) -> str:
        name = match["name"].replace("-", "_")
        if name not in known:
            name = next((other for other in (f"file_{name}", f"{name}s") if other in known), name)
        return f"`{name}`" if name in known else match[0]

    return _OPTION.sub(named, text)
