"""What is not possible in a workload, in the words of the options that it was asked for with."""

import re
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from penstock.model.errors import UsageError
from penstock.model.problems import place_of, words_of
from penstock.model.units import human_size

# Fields of plans whose options are called otherwise.
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
LIMITS = "--help tells what the options may be"
_LIMITS = ("gt", "ge", "lt", "le")
_OPTION = re.compile(r"--(?P<name>[a-z][a-z-]*)")


def impossible_value(error: ValidationError) -> UsageError:
    """The first value that is not possible, by its option, with the limit."""
    first = error.errors()[0]
    field, given = place_of(first).partition(".")[0], first["input"]
    told = words_of(_in_bytes(first) if field.endswith("_bytes") else first)
    return UsageError(f"{_given_text(field, given)}: {told}", LIMITS)


def _given_text(field: str, given: Any) -> str:
    """ "--frame-size is 5 GiB"; what follows from several options names these; secrets are not shown."""
    if field == "token":
        return option_of(field)
    if field == "buffer_frames":
        return f"the buffer has {given} frames (--rate times --buffer-seconds)"
    if field == "frames":
        return f"the run has {given} frames (--frames, or --rate times its seconds)"
    shown = human_size(given) if field.endswith("_bytes") and isinstance(given, int) else repr(given)
    return f"{option_of(field)} is {shown}"


def option_of(field: str) -> str:
    """What a field of a plan is called where it is asked for."""
    return _OPTIONS.get(field, "--" + field.replace("_", "-"))


def value_words(field: str, text: str) -> str:
    """A text that stands for the value of a field: of bytes, as a size."""
    return human_size(int(text)) if field.endswith("_bytes") and text.isdecimal() else text


def field_words(field: str) -> str:
    """ "frame size" of frame_bytes, for people who never saw the field."""
    return "buffer frames" if field == "buffer_frames" else option_of(field)[2:].replace("-", " ")


def differing_text(field: str, base: str, other: str) -> str:
    """ "frame size is 1 MiB and 2 MiB", of the texts that stand for both values."""
    first, second = (value_words(field, text) or "not given" for text in (base, other))
    return f"{field_words(field)} is {first} and {second}"


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
