"""Writes documents, and enters them into the catalogue of runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from penstock.bench.entries import entry_of
from penstock.cli.common import warn
from penstock.files.catalogue import Catalogue, default_path
from penstock.files.documents import Document, read_bytes
from penstock.files.space import write_document
from penstock.model.errors import PenstockError


def write_and_enter(path: Path, document: Document) -> None:
    """A new file. A catalogue that cannot be used is a warning: what was measured is in the document."""
    write_document(path, document.model_dump_json())
    enter(path, document)


@contextlib.contextmanager
def written_whatever_happens(path: Path | None, document: Document) -> Iterator[None]:
    """The document is written first; where that fails, what it holds is shown all the same, inside."""
    trouble: PenstockError | None = None
    if path is not None:
        try:
            write_and_enter(path, document)
        except PenstockError as error:
            trouble = error
    yield
    if trouble is not None:
        raise trouble


def enter(path: Path, document: Document) -> None:
    try:
        Catalogue(default_path()).add(entry_of(document, path, read_bytes(path)))
    except (PenstockError, OSError) as error:
        warn(f"warning: {path} is not in the catalogue of runs: {error}")
