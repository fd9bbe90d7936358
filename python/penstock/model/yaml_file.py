"""YAML files into pydantic models, with errors that point at the line."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from penstock.model.errors import UsageError
from penstock.model.problems import words_of

Model = TypeVar("Model", bound=BaseModel)
_FILE_BYTES_MAX = 1 << 20
_PAGE = "docs/reference/configuration.md"


def read_yaml(path: Path, model: type[Model], page: str = _PAGE) -> Model:
    """The file as a `model`. A UsageError names the file, the line, the field and the value.

    `page` of the documentation has the fields.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)  # a device has no size, and no end
        if len(content) > _FILE_BYTES_MAX:
            raise UsageError(f"{path} is larger than 1 MiB; that is no configuration", "check the path")
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "check the path and its permissions") from error
    return parse_yaml(text, model, str(path), page)


def parse_yaml(text: str, model: type[Model], name: str, page: str = _PAGE) -> Model:
    """As read_yaml, for text; `name` stands for the file in errors."""
    return parse_yaml_tree(text, model, name, page)[0]


def parse_yaml_tree(
    text: str, model: type[Model], name: str, page: str = _PAGE
) -> tuple[Model, yaml.Node | None]:
    """Also the nodes, which know their lines: to read a large text takes seconds."""
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
            f"{name} is not YAML as it is read here: fields or lists are nested over too many levels",
            f"see {page} for an example",
        ) from error
    # ValueError: the 45th of March, endless numbers
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name} is not YAML: {error}", f"see {page} for an example") from error
    if not text.strip():
        raise UsageError(f"{name} is empty", f"see {page} for an example")
    if values is None:
        values = {}  # all fields are comments
    if not isinstance(values, dict):
        raise UsageError(f"{name} must hold `field: value` lines", f"see {page}")
    try:
        return model.model_validate(values), tree
    except ValidationError as error:
        lines = [describe_problem(problem, name, tree) for problem in error.errors()]
        raise UsageError("\n".join(lines), f"see {page} for all fields") from error


def _syntax_problem(error: yaml.MarkedYAMLError | ReaderError, text: str, name: str) -> str:
    """One line for one mistake, with the place at which the reader gave up."""
    if isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return f"{name}:{line}:{column}: this is not YAML: {error.reason}: {text[error.position :][:1]!r}"
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
    said = ", ".join(part for part in (error.problem, error.context) if part)
    if error.context and error.context_mark is not None and error.problem_mark is not None:
        said += f" that begins in line {error.context_mark.line + 1}"
    return f"{where}: this is not YAML: {' '.join(said.split())}"


def describe_problem(problem: Any, name: str, tree: yaml.Node | None) -> str:
    """One problem that pydantic found, as "file:line: field: what is wrong (value)"."""
    location = [part for part in problem["loc"] if part not in ("tcp", "zmq", "pva")]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    line = _line_of(tree, location)
    where = f"{name}:{line}" if line else name
    if problem["type"] == "extra_forbidden":
        return f"{where}: there is no field `{field}`"
    if location[-1:] == ["[key]"] and isinstance(problem["input"], str):
        return f"{where}: the name `{problem['input']}`: {words_of(problem)}"
    if location[-1:] == ["[key]"]:
        return f"{where}: the name {problem['input']!r} is no text; put it in quotes"
    if problem["type"] == "missing":
        return f"{where}: the field `{field}` is missing"
    given = problem.get("input")
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) or given is None else ""
    return ": ".join(part for part in (where, field, f"{words_of(problem)}{shown}") if part)


def _line_of(tree: yaml.Node | None, location: Sequence[str | int]) -> int | None:
    """The line of the deepest node on the way to `location`, from 1."""
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
    """Whether it is that key, which may be no text: a bare `on` is the truth value, and counts as 1."""
    if isinstance(part, str) or not isinstance(key, yaml.ScalarNode):
        return bool(key.value == part)
    return bool(yaml.SafeLoader("").construct_object(key) == part)


def _refuse_aliases_and_duplicates(node: yaml.Node, name: str) -> None:
    """YAML silently keeps the last of two equal keys, and aliases can make a small file huge."""
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
                raise UsageError(f"{name}:{line}: the field `{double}` stands twice", "remove one of the two")
            pending.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
