"""The JSON documents of runs, verdicts and campaigns, as --output wrote them."""

import functools
import re
import stat
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from penstock.model.bench.campaigns import Campaign
from penstock.model.bench.comparisons import Comparison
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.bench.runs import Run, Verdict
from penstock.model.errors import UsageError
from penstock.model.problems import place_of, reason_of, words_of
from penstock.model.units import human_size

Document = Run | Verdict | Campaign
Indexed = Document | Rehearsal
"""what the run index lists"""
Shown = Indexed | Comparison
"""what reports show"""
_T = TypeVar("_T")
BYTES_MAX = 1 << 30
_FORMAT = re.compile(r"penstock-[a-z]{1,20} [0-9]{1,9}")
_LATER = "read it with the version of Penstock that wrote it, or a later one"
# What other commands write: what it is, and where it can be seen.
_OTHERS = {
    "penstock-comparison 1": (
        "a comparison",
        "`penstock report` shows it, `penstock compare A B` prints one",
    ),
    "penstock-rehearsal 1": (
        "a rehearsal",
        "`penstock report` shows it, `penstock compare A B` compares two rehearsals",
    ),
    "penstock-rehearsal-comparison 1": (
        "a comparison of rehearsals",
        "`penstock compare` of the two rehearsals prints it",
    ),
    "penstock-trend 1": ("a trend", "`penstock compare --trend` of the documents that it is of prints it"),
    "penstock-datasheet 1": ("a data sheet", "`penstock describe` prints one"),
    "penstock-sizing 1": ("a capacity plan", "`penstock plan` prints one"),
    "penstock-load 1": ("what the load generator measured", "`penstock bench` makes a run of that"),
}
_REMEDY = "name a document that `penstock bench`, `verdict` or `campaign` wrote with --output"


@functools.cache
def _any_document() -> TypeAdapter[Document]:
    """Made when it is used: that takes a while."""
    return TypeAdapter(Annotated[Document, Field(discriminator="format")])


@functools.cache
def _any_indexed() -> TypeAdapter[Indexed]:
    return TypeAdapter(Annotated[Indexed, Field(discriminator="format")])


@functools.cache
def _any_shown() -> TypeAdapter[Shown]:
    return TypeAdapter(Annotated[Shown, Field(discriminator="format")])


def read_document(path: Path) -> Document:
    """A UsageError names the file, and what in it cannot be read."""
    return parse_document(read_bytes(path), str(path))


def read_shown(path: Path) -> Shown:
    """As `read_document`, also of comparisons and rehearsals."""
    wanted = "runs, verdicts, rehearsals, campaigns and comparisons"
    return _parsed(_any_shown(), read_bytes(path), str(path), wanted)


def read_bytes(path: Path) -> bytes:
    """Of a regular file that may be a document; a UsageError where it cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a document", _REMEDY)
        with path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path} cannot be read: {reason}", "check the path and its permissions") from error
    if len(text) > BYTES_MAX:
        raise UsageError(f"{path} is larger than {human_size(BYTES_MAX)}: it is not a document", _REMEDY)
    return text


def parse_document(text: bytes, name: str) -> Document:
    """A UsageError names the file and the first field that cannot be read."""
    return _parsed(_any_document(), text, name, "runs, verdicts and campaigns")


def parse_indexed(text: bytes, name: str) -> Indexed:
    """As `parse_document`, also of a rehearsal."""
    return _parsed(_any_indexed(), text, name, "runs, verdicts, rehearsals and campaigns")


def _parsed(kinds: TypeAdapter[_T], text: bytes, name: str, wanted: str) -> _T:
    try:
        return kinds.validate_json(text)
    except ValidationError as error:
        format_ = _other_format(error)
        if format_ in _OTHERS:
            what, seen = _OTHERS[format_]
            raise UsageError(f"{name} is {what}; {wanted} are accepted here", seen) from error
        if format_ is not None:
            raise UsageError(
                f'{name} cannot be read: its format is "{format_}", which this version does not support',
                _LATER,
            ) from error
        remedy = f"{_LATER}; or {_REMEDY}" if _has_more(error) else _REMEDY
        raise UsageError(f"{name} cannot be read: {_first(error)}", remedy) from error


def _has_more(error: ValidationError) -> bool:
    """It has what this version does not know, and lacks nothing."""
    kinds = {each["type"] for each in error.errors(include_url=False, include_input=False)}
    return kinds == {"extra_forbidden"}


def _other_format(error: ValidationError) -> str | None:
    """Of a document that another command, or a later version, may have written."""
    first = error.errors(include_url=False, include_input=False)[0]
    tag = str(first.get("ctx", {}).get("tag", "")) if first["type"] == "union_tag_invalid" else ""
    return tag if _FORMAT.fullmatch(tag) else None


def _first(error: ValidationError) -> str:
    """The first of its errors, without the values around it: a document may have gigabytes."""
    first = error.errors(include_url=False, include_input=False)[0]
    inside = [part for part in first["loc"] if not _FORMAT.fullmatch(str(part))]
    place, message = place_of({"loc": inside})[:200], words_of(first, of_json=True)[:300]
    return f"its field `{place}`: {message}" if place else message
