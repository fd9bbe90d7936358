"""Words for errors of pydantic and of the operating system, whose own ones name types, tags and codes."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.model.errors import PenstockError, RemediableValueError, UsageError
from penstock.model.units import human_size

_VALUE_ERROR = "Value error, "
_VALUE_LENGTH_MAX = 60
_TEMPLATES = {
    "extra_forbidden": "this field is unknown",
    "missing": "this field is required and missing",
    "greater_than": "{value} must be greater than {gt}",
    "greater_than_equal": "{value} is below the minimum of {ge}",
    "less_than": "{value} must be less than {lt}",
    "less_than_equal": "{value} exceeds the maximum of {le}",
    "multiple_of": "{value} is not a multiple of {multiple_of}",
    "literal_error": "{value} is not allowed; expected {expected}",
    "enum": "{value} is not allowed; expected {expected}",
    "string_pattern_mismatch": "{value} does not match the pattern {pattern}",
    "union_tag_invalid": "its {discriminator} '{tag}' is unknown; expected one of {expected_tags}",
    "union_tag_not_found": "its {discriminator} is missing",
    "string_too_short": "{value} is shorter than the minimum of {min_length} characters",
    "string_too_long": "{value} is longer than the maximum of {max_length} characters",
    "too_short": "{value} has fewer items than the minimum of {min_length}",
    "too_long": "{value} has more items than the maximum of {max_length}",
    "none_required": "{value} is not allowed; leave it out",
}
_EXPECTED = {
    "a path": ("path_type",),
    "a whole number": ("int_parsing", "int_parsing_size", "int_type", "int_from_float"),
    "a number": ("float_parsing", "float_type"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_parsing", "bool_type"),
    "text": ("string_type", "string_sub_type", "string_unicode"),
    "a list": ("list_type", "tuple_type", "set_type"),
    "{fields}": ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
}
_YAML_FIELDS, _JSON_FIELDS = "a YAML mapping", "a JSON object"
_TEMPLATES |= {kind: f"{{value}} is not {what}" for what, kinds in _EXPECTED.items() for kind in kinds}
# Patterns that are clearer in words.
_PATTERNS = {
    "^[a-z][a-z0-9_]*$": "{value} must consist of lower-case letters, digits and _, and start with a letter",
    "^0?[0-7]{3}$": "{value} is not an octal mode, such as 0640",
}
_NUMBERS = (*_EXPECTED["a number"], *_EXPECTED["a whole number"])
_OF_LIMITS = ("{value} must be", "{value} is below", "{value} exceeds")
_NOT_ONE_OF = re.compile(r"'(?P<value>.*)' is not one of (?P<expected>.*?)\.?", re.DOTALL)
_WITH_UNIT = re.compile(r"\s*[0-9][0-9._]*\s*[A-Za-zµ]+\s*")
_UNITS = {"ms": "milliseconds", "s": "seconds", "hz": "hertz"}
_KINDS = ("tcp", "zmq", "pva")
_TYPE = re.compile(r"str|int|float|bool|(list|dict|tuple|union|function-[a-z]+)\[.*")
_PLACE_IN_JSON = re.compile(r"line (?P<line>[0-9]+) column (?P<column>[0-9]+)")
_CHOICE = re.compile(r"'([^']*)'")
_SYSTEM = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "permission denied",
    errno.EPERM: "the operation is not permitted",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.ENOSPC: "no space left on the storage",
    errno.EDQUOT: "the disk quota is exceeded",
    errno.EROFS: "the file system is read-only",
    errno.EBADF: "it is closed",
    errno.EIO: "the storage reports an input/output error",
    errno.ESTALE: "the file server no longer knows the file (stale handle)",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "the path has too many symbolic links",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "this machine has too many open files",
    errno.ENOMEM: "this machine is out of memory",
    errno.EBUSY: "it is in use",
    errno.ETXTBSY: "it is a running program",
    errno.ENOEXEC: "it is not a program for this machine",
    errno.EFBIG: "the file would exceed the maximum file size",
    errno.EINVAL: "the file system does not support this operation",
    errno.ENOTSUP: "the file system does not support this operation",
    errno.ENXIO: "no such device",
    errno.ECONNREFUSED: "connection refused: no program listens there",
    errno.ECONNRESET: "the other side closed the connection",
    errno.EPIPE: "the other side closed the connection",
    errno.EHOSTUNREACH: "the host is unreachable",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "the other side did not answer in time",
    errno.EADDRINUSE: "the address is in use by another program",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
}


def words_of(problem: Any, value: str | None = None, *, of_json: bool = False, is_size: bool = False) -> str:
    """Returns what is wrong, without the field's name, from one of the errors() of a ValidationError.

    The sentence starts with the user's value, or with `value`; with "it" if the error has no input. The value
    is from YAML, or from JSON. Fields of bytes have limits with units; `is_size`: also one of another name.
    """
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "json_invalid":
        return _of_json(str(context.get("error", "")))
    if kind == "json_type":
        return "it is not JSON"
    template = _PATTERNS.get(str(context.get("pattern")), _TEMPLATES.get(kind))
    if template is None:
        message: str = problem["msg"]
        # A ValueError of ours has its own wording.
        return message.removeprefix(_VALUE_ERROR) if message.startswith(_VALUE_ERROR) else "it is not valid"
    fields = _JSON_FIELDS if of_json else _YAML_FIELDS
    shown = value or (_shown(problem["input"], fields) if "input" in problem else "it")
    words = {name: _plain(each) for name, each in context.items()}
    if is_size or str(place_of(problem)).removesuffix("_max").endswith("_bytes"):
        words = {name: _as_size(each) for name, each in words.items()}
        shown = value or str(_as_size(problem.get("input"), shown))
    words["tag"] = str(words.get("tag", "")).strip("'")
    return template.format(**words, value=shown, fields=fields) + _suggestion(problem, context)


def words_of_option(problem: Any, number: str = "") -> str:
    """Returns what is wrong with an option's text: '"30d" is not a number of days'.

    `number` is what a number stands for: "number of days".
    """
    text = problem["input"]
    if number and problem["type"] in _NUMBERS:
        return f"{_shown(text)} is not a {number}"
    is_number = isinstance(text, str) and _TEMPLATES.get(problem["type"], "").startswith(_OF_LIMITS)
    words = words_of(problem, text if is_number else None)
    choice = _NOT_ONE_OF.fullmatch(words)
    if choice is None:
        return words
    suggestion = did_you_mean(choice["value"], _CHOICE.findall(choice["expected"]))
    return f"{_shown(choice['value'])} is not allowed; expected {choice['expected']}{suggestion}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns '; did you mean "frames"?', or "" if no known name is similar."""
    names = list(known)
    wanted = name.lower()
    longer = [each for each in names if wanted and each.startswith(f"{wanted}_")]
    near = longer if len(longer) == 1 else get_close_matches(wanted, names, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def unknown_field(problem: Any, model: type[BaseModel] | None) -> str:
    """Returns '; did you mean …' for an unknown field, from the names of the fields of `model` there."""
    name = str(problem["loc"][-1])
    return "" if model is None else did_you_mean(name, _fields_at(model, problem["loc"][:-1]))


def remedy_of(problem: Any, model: type[BaseModel]) -> str:
    """Returns what to do about one problem of a YAML file; "" if its text says so already."""
    kind, value, location = problem["type"], problem.get("input"), problem["loc"]
    if own := own_remedy_of(problem):
        return own
    if kind in _NUMBERS and isinstance(value, str) and _WITH_UNIT.fullmatch(value):
        unit = _UNITS.get(str(location[-1]).rpartition("_")[2])
        what = f"the number of {unit}" if unit else "the number"
        return f"give {what} without a unit{_range_of(_field_at(model, location))}"
    if kind in _EXPECTED["a list"] and isinstance(value, dict) and value:
        return f'put "- " before `{next(iter(value))}`'
    if kind in _EXPECTED["{fields}"] and not isinstance(value, dict | list):
        fields = _models_at(model, location)
        examples = [
            f"{name}: {field.default}"
            for each in fields
            for name, field in each.model_fields.items()
            if isinstance(field.default, str)
        ]
        example = f', such as "{examples[0]}"' if examples else ""
        return f"write the fields of `{place_of(problem)}` below it, one a line{example}"
    return ""


def own_remedy_of(problem: Any) -> str:
    """Returns the remedy of the validator that refused; "" if it has none."""
    error = problem.get("ctx", {}).get("error")
    return error.remedy if isinstance(error, RemediableValueError) else ""


def reason_of(error: Exception) -> str:
    """Returns why the operating system refused: "it does not exist"."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    number = getattr(error, "errno", None)
    text = getattr(error, "strerror", None)
    if number in _SYSTEM and "error message = '" in str(text):
        return _SYSTEM[number]  # HDF5's text has the number, too, and addresses of buffers
    if text and number is not None and text != os.strerror(number):
        return str(text)  # an OSError of ours
    if number in _SYSTEM:
        return _SYSTEM[number]
    if number is None and isinstance(error, OSError) and str(error):
        return str(error)  # of a library
    return f"the system reports {errno.errorcode.get(number or 0, type(error).__name__)}"


_REMEDIES = {
    errno.EACCES: "ask the owner of the directory for access, or give another path",
    errno.EPERM: "ask the owner for access, or give another path",
    errno.EROFS: "choose a directory on another file system, or mount this one as writable",
    errno.ENOSPC: "free some space, or choose another directory",
    errno.EDQUOT: "free some space, or choose another directory",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.EMFILE: "raise the limit with `ulimit -n`",
    errno.ENOMEM: "close other programs, or use a machine with more memory",
}


def unwritten_remedy(error: OSError, other: str) -> str:
    """Returns what to do if a file cannot be written: `other`, and to free space if there is none."""
    return f"free space, or {other}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else other


def in_words(error: Exception) -> PenstockError:
    """Returns an error of the system or of an encoding in words, with a remedy; a PenstockError stays."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, MemoryError):
        return PenstockError("this machine is out of memory", _REMEDIES[errno.ENOMEM])
    if not isinstance(error, OSError):
        return PenstockError(f"a text cannot be read or written: {error}", "set LC_ALL=C.UTF-8 and repeat")
    if isinstance(error, FileNotFoundError) and error.filename is None and not has_working_directory():
        return no_working_directory()
    remedy = _REMEDIES.get(error.errno or 0, "correct the cause, and repeat the command")
    if error.filename is None:
        return PenstockError(f"the system refused an operation: {reason_of(error)}", remedy)
    path = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    closed = _closed_directory(path) if error.errno == errno.EACCES else ""
    why = f"you have no permission to enter {closed}" if closed else reason_of(error)
    # What was given is not accessible; other errors are those of the system.
    kind = UsageError if error.errno in (errno.EACCES, errno.EROFS) else PenstockError
    return kind(f"{path}: {why}", remedy)


def no_working_directory() -> PenstockError:
    return PenstockError("the working directory no longer exists", "change to another one with `cd`")


def has_working_directory() -> bool:
    try:
        return bool(os.getcwd())  # noqa: PTH109  (the error is the question)
    except OSError:
        return False


def _closed_directory(path: str) -> str:
    """Returns the first directory on the way to `path` that this user may not enter; "" if there is none."""
    if not os.path.isabs(path) and not has_working_directory():  # noqa: PTH117
        return ""
    above = reversed(Path(path).absolute().parents)
    return next((str(each) for each in above if each.is_dir() and not os.access(each, os.X_OK)), "")


def place_of(problem: Any) -> str:
    """Returns the path of a field, such as "steps.3.run"; "" for the whole document."""
    return ".".join(str(part) for part in problem["loc"])


def location_of(problem: Any) -> list[Any]:
    """Returns the path of a field as users write it, without the names of alternative types."""
    return [part for part in problem["loc"] if part not in _KINDS and not _TYPE.fullmatch(str(part))]


def _as_size(value: Any, otherwise: Any = None) -> Any:
    """Returns 67108864 as "64 MiB"; what is not a size stays."""
    is_size = isinstance(value, int) and not isinstance(value, bool)
    return human_size(value) if is_size else value if otherwise is None else otherwise


def _suggestion(problem: Any, context: Any) -> str:
    text = problem.get("input")
    if "expected" not in context or not isinstance(text, str):
        return ""
    return did_you_mean(text, _CHOICE.findall(str(context["expected"])))


def _shown(value: Any, fields: str = _YAML_FIELDS) -> str:
    """Returns a value as the user wrote it, shortened; `fields` is what one with names is called."""
    if value is None or isinstance(value, bool):
        return {None: "an empty value", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        text = f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
        return text if len(text) <= _VALUE_LENGTH_MAX else text[:_VALUE_LENGTH_MAX] + "…"
    if isinstance(value, str):
        printable = "".join(
            letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in value
        )
        return f'"{printable[:_VALUE_LENGTH_MAX]}{"…" if len(printable) > _VALUE_LENGTH_MAX else ""}"'
    if isinstance(value, dict):
        return fields
    if not isinstance(value, list | tuple):
        return "it"
    text = "[" + ", ".join(_shown(each, fields) for each in value[:_VALUE_LENGTH_MAX]) + "]"
    return text if len(text) <= _VALUE_LENGTH_MAX else "a list"


def _fields_at(model: type[BaseModel], location: Iterable[Any]) -> set[str]:
    """Returns names of the fields that may stand there."""
    return {name for each in _models_at(model, location) for name in each.model_fields}


def _field_at(model: type[BaseModel], location: Sequence[Any]) -> FieldInfo | None:
    fields = [each.model_fields.get(location[-1]) for each in _models_at(model, location[:-1])]
    return next((field for field in fields if field is not None), None)


def _range_of(field: FieldInfo | None) -> str:
    """Returns ", 1 to 3600000"; "" without limits."""
    limits = [] if field is None else field.metadata
    least = next((each.ge for each in limits if hasattr(each, "ge")), None)
    most = next((each.le for each in limits if hasattr(each, "le")), None)
    return "" if least is None or most is None else f", {_plain(least)} to {_plain(most)}"


def _models_at(model: type[BaseModel], location: Iterable[Any]) -> list[type[BaseModel]]:
    """Returns the models whose fields may stand there; parts such as indices and keys are skipped."""
    models = [model]
    for part in location:
        inner = [each.model_fields[part].annotation for each in models if part in each.model_fields]
        tagged = [each for each in models if part in _tags(each)]
        models = [found for kind in inner for found in _models_in(kind)] or tagged or models
    return models


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _plain(value: Any) -> Any:
    """Returns a limit of 1.0 as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_json(error: str) -> str:
    place = _PLACE_IN_JSON.search(error)
    at = f", at line {place['line']}, column {place['column']}" if place else ""
    return f"it ends prematurely{at}" if error.startswith("EOF") else f"it is not JSON{at}"
