"""The JSON documents of runs, verdicts and campaigns, as --output wrote them."""

import functools
import stat
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from penstock.model.campaigns import Campaign
from penstock.model.errors import UsageError
from penstock.model.runs import Run, Verdict
from penstock.model.units import human_bytes

Document = Run | Verdict | Campaign
BYTES_MAX = 1 << 30
_REMEDY = "name a document that `penstock bench`, `verdict` or `campaign` wrote with --output"


@functools.cache
def _any_document() -> TypeAdapter[Document]:
    """Made when it is used: that takes a while."""
    return TypeAdapter(Annotated[Document, Field(discriminator="format")])


def read_document(path: Path) -> Document:
    """A UsageError names the file, and what in it is not understood."""
    return parse_document(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Of a regular file that may be a document; a UsageError where it cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a document", _REMEDY)
        with path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path} cannot be read: {reason}", "check the path and its permissions") from error
    if len(text) > BYTES_MAX:
        raise UsageError(f"{path} is larger than {human_bytes(BYTES_MAX)}: it is no document", _REMEDY)
    return text


def parse_document(text: bytes, name: str) -> Document:
    """A UsageError names the file and the first field that is not understood."""
    try:
        return _any_document().validate_json(text)
    except ValidationError as error:
        raise UsageError(f"{name} is not understood: {_first(error)}", _REMEDY) from error


def _first(error: ValidationError) -> str:
    """The first of its errors, without the values around it: a document may have gigabytes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:200]
    message = first["msg"][:300]
    return f"{place}: {message}" if place else message
