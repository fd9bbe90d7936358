"""What pydantic finds wrong, in words of our own: its own ones name Python's types and its tags."""

import re
from typing import Any

_VALUE_ERROR = "Value error, "
_TEMPLATES = {
    "extra_forbidden": "there is no such field",
    "missing": "it is missing",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "multiple_of": "it must be a multiple of {multiple_of}",
    "literal_error": "it must be {expected}",
    "string_pattern_mismatch": "it must fit the pattern {pattern}",
    "enum": "it must be {expected}",
    "union_tag_invalid": "its {discriminator} is {tag}; it must be one of {expected_tags}",
    "union_tag_not_found": "its {discriminator} is missing",
    "string_too_short": "its length must be at least {min_length}",
    "string_too_long": "its length must be at most {max_length}",
    "too_short": "its length must be at least {min_length}",
    "too_long": "its length must be at most {max_length}",
}
_EXPECTED = {
    "a path": ("path_type",),
    "a whole number": ("int_parsing", "int_parsing_size", "int_type", "int_from_float"),
    "a number": ("float_parsing", "float_type"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_parsing", "bool_type"),
    "a text": ("string_type", "string_sub_type", "string_unicode"),
    "a list": ("list_type", "tuple_type", "set_type"),
    "a set of fields": ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
    "nothing": ("none_required",),
}
_TEMPLATES |= {kind: f"{what} is expected" for what, kinds in _EXPECTED.items() for kind in kinds}
# Patterns that are sooner said in words.
_PATTERNS = {"^[a-z][a-z0-9_]*$": "small letters, digits and _, a letter first, are expected"}
_PLACE_IN_JSON = re.compile(r"line (?P<line>[0-9]+) column (?P<column>[0-9]+)")


def words_of(problem: Any) -> str:
    """Of one of the errors() of a ValidationError: what is wrong with the value, without its name."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "json_invalid":
        return _of_json(str(context.get("error", "")))
    if kind == "json_type":
        return "it is no JSON"
    if context.get("pattern") in _PATTERNS:
        return _PATTERNS[context["pattern"]]
    if kind in _TEMPLATES:
        return _TEMPLATES[kind].format(**{name: _plain(value) for name, value in context.items()})
    message: str = problem["msg"]
    # A ValueError of ours has words of ours.
    return message.removeprefix(_VALUE_ERROR) if message.startswith(_VALUE_ERROR) else "it is not possible"


def _plain(value: Any) -> Any:
    """A limit of 1.0 is one of 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def place_of(problem: Any) -> str:
    """ "steps.3.run", as the fields are called; empty for the whole."""
    return ".".join(str(part) for part in problem["loc"])


def _of_json(error: str) -> str:
    place = _PLACE_IN_JSON.search(error)
    at = f", at line {place['line']}, column {place['column']}" if place else ""
    return f"it ends in the middle{at}" if error.startswith("EOF") else f"it is no JSON{at}"
