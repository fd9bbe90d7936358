"""Counts the functions and data members of C++ classes, from their text.

It knows the layout that clang-format gives, not the language: a declaration with parentheses outside of
template arguments and initialisers is a function. Constants (`static constexpr`) count as neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|^\s*\#(?:[^\n]*\\\n)*[^\n]*""",
    re.DOTALL | re.MULTILINE,
)
_CLASS = re.compile(r"\b(class|struct)\s+(?:\[\[[^]]*\]\]\s*|\w+\([^)]*\)+\s+)*((?:\w+::)*\w+)[^;{}()]*$")
_LABEL = re.compile(r"^\s*(?:public|protected|private)\s*:")
_NEITHER = re.compile(r"^(?:using|friend|typedef|static_assert|enum|static constexpr|constexpr static)\b")
_ANNOTATION = re.compile(r"\b(?:PEN_[A-Z_]+|alignas)\s*\([^()]*\)|\[\[[^]]*\]\]")


@dataclass
class Class:
    name: str
    line: int
    functions: int = 0
    members: int = 0


def classes_of(text: str) -> Iterator[Class]:
    """Those with a body, inner ones too, each with what it declares itself."""
    code = _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    # What each open brace belongs to: a class, a value ("=") or anything else ("").
    scopes: list[Class | str] = [""]
    statement = ""
    for at, letter in enumerate(code):
        scope = scopes[-1]
        own = scope if isinstance(scope, Class) else None
        if letter == "{":
            found = _CLASS.search(_without_arguments(statement))
            if scope == "=" or (own is not None and not found and _is_value(statement)):
                scopes.append("=")
                continue
            if found:
                scopes.append(Class(found[2], code.count("\n", 0, at) + 1))
            else:
                if own is not None:
                    _count(own, statement)
                scopes.append("")
            statement = ""
        elif letter == "}" and len(scopes) > 1:
            closed = scopes.pop()
            if isinstance(closed, Class):
                yield closed
            statement = statement + letter if closed == "=" else ""
        elif letter == ";":
            if own is not None:
                _count(own, statement)
            statement = "" if scope != "=" else statement
        elif scope != "=":
            statement += letter
            if letter == ":" and _LABEL.match(statement):
                statement = ""


def _count(own: Class, statement: str) -> None:
    plain = _without_arguments(_ANNOTATION.sub("", statement)).strip()
    plain = re.sub(r"^template\s*", "", plain)
    if not plain or _NEITHER.match(plain) or re.match(r"^(?:class|struct)\s+\w+$", plain):
        return
    if "(" in plain.split("=", maxsplit=1)[0] or "operator" in plain:
        own.functions += 1
    else:
        own.members += 1 + re.sub(r"\([^()]*\)", "", plain).count(",")


def _is_value(statement: str) -> bool:
    """Whether a brace that follows the statement begins a value: of a member, or in a constructor's list."""
    plain = _without_arguments(_ANNOTATION.sub("", statement)).strip()
    if plain.startswith("enum"):
        return False
    if "(" not in plain or _NEITHER.match(plain):
        return bool(plain)
    return bool(re.search(r"\)[^()]*:.*\w$", plain, re.DOTALL) and not re.search(r"\)\s*\w*$", plain))


def _without_arguments(statement: str) -> str:
    """Without template arguments, which may hold anything."""
    before = ""
    while before != statement:
        before, statement = statement, re.sub(r"<[^<>;{}]*>", "", statement)
    return statement
