"""Reads YAML files into pydantic models, with errors that name the line."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from penstock.model.errors import UsageError
from penstock.model.problems import location_of, reason_of, remedy_of, unknown_field, words_of

Model = TypeVar("Model", bound=BaseModel)
_FILE_BYTES_MAX = 1 << 20
_PAGE = "docs/reference/configuration.md"
# Reasons of the parser, by how they start.
_SYNTAX = (
    ("mapping values are not allowed", "a colon is not allowed here; put text that contains one in quotes"),
    ("expected <block end>", "the indentation does not match the lines above"),
    ("expected ',' or", "a comma or a closing bracket is missing"),
    ("found character '\\t'", "a tab is not allowed; indent with spaces"),
    ("found unexpected end of stream", "the text ends before a closing quote"),
    ("could not find expected ':'", "a colon is missing after a field name"),
    ("found unknown escape", "an escape sequence in quotes is unknown"),
    ("found undefined alias", "an alias (*name) is undefined"),
    ("found character", "a value starts with a character that needs quotes"),
    ("expected the node content", "a value is missing or not closed"),
    ("expected a single document", "it has more than one document"),
    ("found undefined tag", "a tag (!name) is undefined"),
    ("could not determine a constructor", "tags (!name) are not supported"),
)


def read_yaml(path: Path, model: type[Model], page: str = _PAGE) -> Model:
    """Returns the file as a `model`. Raises UsageError with file, line, field and value of every problem.

    `page` of the documentation lists the fields.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)  # a device has no size, and no end
        if len(content) > _FILE_BYTES_MAX:
            raise UsageError(f"{path} exceeds the maximum size of 1 MiB", "check the path")
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {reason_of(error)}", "check the path and its permissions"
        ) from error
    return parse_yaml(text, model, str(path), page)


def parse_yaml(text: str, model: type[Model], name: str, page: str = _PAGE) -> Model:
    """Does what read_yaml does for text; `name` is that of the file in errors."""
    return parse_yaml_tree(text, model, name, page)[0]


def parse_yaml_tree(
    text: str, model: type[Model], name: str, page: str = _PAGE
) -> tuple[Model, yaml.Node | None]:
    """Returns also the nodes, which have their lines: parsing a large text twice would take seconds."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is not None:
            # First of all: merge keys (<<) of aliases grow without bound where values are made of them.
            _refuse_aliases_and_duplicates(tree, name)
        values = None if tree is None else yaml.SafeLoader("").construct_document(tree)
    except (yaml.MarkedYAMLError, ReaderError) as error:
        raise UsageError(_syntax_problem(error, text, name), f"see {page} for an example") from error
    except RecursionError as error:
        raise UsageError(
            f"{name} is not YAML: fields or lists are nested too deeply",
            f"see {page} for an example",
        ) from error
    # ValueError: the 45th of March, endless numbers
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(
            f"{name} is not YAML: {_value_problem(error)}", f"see {page} for an example"
        ) from error
    if not text.strip():
        raise UsageError(f"{name} is empty", f"see {page} for an example")
    if values is None:
        values = {}  # all fields are comments
    if not isinstance(values, dict):
        raise UsageError(f"{name} must consist of `field: value` lines", f"see {page}")
    try:
        return model.model_validate(values), tree
    except ValidationError as error:
        lines = [describe_problem(problem, name, tree, model) for problem in error.errors()]
        remedies = dict.fromkeys(remedy_of(problem, model) for problem in error.errors())
        named = "; ".join(each for each in remedies if each)
        raise UsageError("\n".join(lines), named or f"{page} lists all fields") from error


def _syntax_problem(error: yaml.MarkedYAMLError | ReaderError, text: str, name: str) -> str:
    """Returns one line for one mistake, with the position at which the parser stopped."""
    if isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        found = ascii(text[error.position :][:1])
        return f"{name}:{line}:{column}: not YAML: the character {found} is not allowed"
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
    said = _syntax_words(error.problem or "")
    if error.context and error.context_mark is not None and error.problem_mark is not None:
        said += f" (the block starts in line {error.context_mark.line + 1})"
    return f"{where}: not YAML: {said}"


def _syntax_words(problem: str) -> str:
    """Returns the parser's reason in our own words."""
    for start, words in _SYNTAX:
        if problem.startswith(start):
            return words
    return "a syntax error"


def _value_problem(error: Exception) -> str:
    """Returns why a value cannot be read: a date such as the 45th of March, or an endless number."""
    text = str(error)
    if "month" in text or "day" in text or "hour" in text or "minute" in text or "second" in text:
        return f"a date or time does not exist ({text})"
    return "a number has too many digits" if "digits" in text else "a value cannot be read"


def describe_problem(
    problem: Any, name: str, tree: yaml.Node | None, model: type[BaseModel] | None = None
) -> str:
    """Returns one problem that pydantic found, as "file:line: field: what is wrong with the value"."""
    location = location_of(problem)
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    line = _line_of(tree, location)
    where = f"{name}:{line}" if line else name
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown field `{field}`{unknown_field(problem, model)}"
    if location[-1:] == ["[key]"] and isinstance(problem["input"], str):
        return f"{where}: the name `{problem['input']}`: {words_of(problem)}"
    if location[-1:] == ["[key]"]:
        return f"{where}: the name {problem['input']!r} is not text; put it in quotes"
    if problem["type"] == "missing":
        return f"{where}: the required field `{field}` is missing"
    return ": ".join(part for part in (where, field, words_of(problem)) if part)


def _line_of(tree: yaml.Node | None, location: Sequence[str | int]) -> int | None:
    """Returns the line, from 1, of the deepest node on the way to `location`."""
    node, line = tree, None
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if _is_key(key, part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _is_key(key: yaml.Node, part: str | int) -> bool:
    """Returns whether it is that key, which may not be text: a bare `on` is the truth value 1."""
    if isinstance(part, str) or not isinstance(key, yaml.ScalarNode):
        return bool(key.value == part)
    return bool(yaml.SafeLoader("").construct_object(key) == part)


def _refuse_aliases_and_duplicates(node: yaml.Node, name: str) -> None:
    """Rejects duplicate keys, of which YAML keeps the last, and aliases, which can make a small file huge."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        line = node.start_mark.line + 1
        if isinstance(node, yaml.CollectionNode):
            if id(node) in seen:
                raise UsageError(f"{name}:{line}: aliases (*name) are not supported", "write the value out")
            seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            double = next((key for key, count in keys.items() if count > 1), None)
            if double is not None:
                raise UsageError(f"{name}:{line}: duplicate field `{double}`", "remove one of the two")
            pending.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
