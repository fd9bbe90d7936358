"""The JSON documents of runs, verdicts and campaigns: read, and written while they grow."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from penstock.model.campaigns import Campaign
from penstock.model.errors import PenstockError, UsageError
from penstock.model.runs import Run, Verdict
from penstock.model.units import human_bytes

Document = Run | Verdict | Campaign
BYTES_MAX = 1 << 30
_any_document: TypeAdapter[Document] = TypeAdapter(Annotated[Document, Field(discriminator="format")])


def read_document(path: Path) -> Document:
    """A UsageError names what in the file is not understood."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "name a document of a run") from error
    if len(text) > BYTES_MAX:
        raise UsageError(f"{path} is larger than {human_bytes(BYTES_MAX)}", "no document of a run is")
    try:
        return _any_document.validate_json(text)
    except ValidationError as error:
        raise UsageError(
            f"{path} is not understood: {_first(error)}",
            "it takes documents that `penstock bench --output` and `penstock verdict --output` wrote",
        ) from error


def _first(error: ValidationError) -> str:
    """The first of its errors, without the values around it: a document may have gigabytes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:200]
    message = first["msg"][:300]
    return f"{place}: {message}" if place else message


class GrowingDocument:
    """A new file that is written again and again; whoever reads it sees one whole version."""

    def __init__(self, path: Path) -> None:
        """Nothing is written yet. A file that is there is not touched."""
        self._path = path
        self._is_ours = False

    def write(self, document: BaseModel) -> None:
        """A PenstockError where it cannot be written, or somebody else made a file of this name."""
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            if not self._is_ours:
                self._path.open("x").close()
                self._is_ours = True
            with unfinished.open("x", encoding="utf-8") as file:
                try:
                    file.write(document.model_dump_json() + "\n")
                    file.flush()
                    unfinished.replace(self._path)
                except BaseException:
                    unfinished.unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise PenstockError(
                f"{self._path} cannot be written: {error.strerror}", "name another file"
            ) from error
